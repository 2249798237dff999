/* SPDX-License-Identifier: Apache-2.0 */
/* Splitting before encoding keeps validation text out of the training tokens' merges,
 * as nanoGPT's prepare.py does. */
#include "core/data/text/text.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"

enum { PIECE_BYTES = 1 << 20 };

uint64_t cadre_text_split(const uint8_t *text, uint64_t size, double valid_fraction)
{
    uint64_t at = (uint64_t)((double)size * (1 - valid_fraction));
    while (at < size && (text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

cadre_status cadre_text_check(const struct cadre_mapping *text, const char *path,
                              struct cadre_error *err)
{
    static const struct {
        const char *name, *unpack, *magic;
    } packed[] = {
        {"gzip", "gzip -d", "\x1f\x8b\x08"}, {"zstd", "zstd -d", "\x28\xb5\x2f\xfd"},
        {"xz", "xz -d", "\xfd\x37zXZ"},      {"bzip2", "bzip2 -d", "BZh91AY&SY"},
        {"zip", "unzip", "PK\x03\x04"},
    };
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++) {
        const size_t n = strlen(packed[i].magic);
        if (text->size >= n && memcmp(text->bytes, packed[i].magic, n) == 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "data.path: \"%s\" is compressed (%s), expected a text; "
                              "unpack it (%s) and name the text",
                              path, packed[i].name, packed[i].unpack);
    }
    return CADRE_OK;
}

struct build {
    const struct cadre_mapping *text;
    const char *path;
    const struct cadre_tokenizer *tok;
    uint64_t split;
};

/* Tokens have 2 bytes each where all ids of the vocabulary fit, else 4. */
static cadre_status write_ids(const struct build *build,
                              struct cadre_cache_writer *writer, const int32_t *ids,
                              size_t count)
{
    uint16_t tokens[4096];
    cadre_status rc = CADRE_OK;
    if (cadre_tokenizer_vocab(build->tok) > 65536)
        return cadre_cache_write_wide(writer, (const uint32_t *)ids, count);
    for (size_t at = 0; at < count && rc == CADRE_OK;) {
        size_t n = count - at < 4096 ? count - at : 4096;
        for (size_t i = 0; i < n; i++)
            tokens[i] = (uint16_t)ids[at + i];
        rc = cadre_cache_write_tokens(writer, tokens, n);
        at += n;
    }
    return rc;
}

/* The end of the chunk that starts at `at`: a position where the tokenizer can divide
 * the text, or its end. */
static uint64_t piece_end(const struct build *build, uint64_t at, uint64_t end)
{
    for (uint64_t size = PIECE_BYTES; size < end - at; size *= 2) {
        size_t cut = cadre_tokenizer_cut(build->tok,
                                         (const char *)build->text->bytes + at, size);
        if (cut > 0)
            return at + cut;
    }
    return end;
}

static cadre_status encode_part(const struct build *build, uint64_t begin, uint64_t end,
                                struct cadre_cache_writer *writer,
                                struct cadre_error *err)
{
    const char *text = (const char *)build->text->bytes;
    cadre_status rc = CADRE_OK;
    for (uint64_t at = begin; at < end && rc == CADRE_OK;) {
        uint64_t stop = piece_end(build, at, end);
        int32_t *ids = NULL;
        size_t count = 0;
        rc =
            cadre_tokenizer_encode(build->tok, text + at, stop - at, &ids, &count, err);
        if (rc != CADRE_OK)
            cadre_error_prefix(err, "\"%s\": from byte %llu on", build->path,
                               (unsigned long long)at);
        else
            rc = write_ids(build, writer, ids, count);
        free(ids);
        at = stop;
    }
    return rc;
}

static cadre_status build_cache(void *context, struct cadre_cache_writer *writer,
                                struct cadre_error *err)
{
    const struct build *build = context;
    CADRE_TRY(cadre_cache_write_record(writer, "train"));
    CADRE_TRY(encode_part(build, 0, build->split, writer, err));
    CADRE_TRY(cadre_cache_write_record(writer, "valid"));
    return encode_part(build, build->split, build->text->size, writer, err);
}

cadre_status cadre_text_open(const struct cadre_mapping *text, const char *path,
                             const struct cadre_tokenizer *tok, double valid_fraction,
                             const char *cache_dir, struct cadre_cache *cache,
                             struct cadre_error *err)
{
    struct build build = {text, path, tok,
                          cadre_text_split(text->bytes, text->size, valid_fraction)};
    struct cadre_hash hash;
    uint64_t facts[] = {cadre_tokenizer_fingerprint(tok), text->size,
                        (uint64_t)text->mtime_ns, build.split};
    cadre_hash_init(&hash, 1);
    cadre_hash_update_string(&hash, path);
    cadre_hash_update(&hash, facts, sizeof facts);
    return cadre_cache_init(cache_dir, cadre_hash_final(&hash), build_cache, &build,
                            cache, err);
}
