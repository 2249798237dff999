/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include <stdlib.h>
#include <string.h>

#include "core/data/tokenizer/id_map.h"
#include "core/data/tokenizer/tokenizer.h"

static const char words[] = "a the heart\n\t 12 \xc3\xa9\xe2\x82\xac <s>\xff.";

static void use(const char *spec)
{
    struct cadre_tokenizer *tok = NULL;
    struct cadre_error err = {0};
    int32_t *ids = NULL;
    size_t n = 0, bytes;
    const char *text;
    if (cadre_tokenizer_open(spec, &tok, &err) != CADRE_OK)
        return;
    if (cadre_tokenizer_encode(tok, words, strlen(words), &ids, &n, &err) == CADRE_OK)
        for (size_t i = 0; i < n; i++) {
            if (ids[i] < 0 || ids[i] >= cadre_tokenizer_vocab(tok))
                abort();
            cadre_tokenizer_decode(tok, i ? ids[i - 1] : -1, ids[i], &text, &bytes);
        }
    free(ids);
    cadre_tokenizer_close(tok);
}

void fuzz_tokenizer_json(const uint8_t *data, size_t size)
{
    use(fuzz_file("tokenizer.json", data, size));
}

void fuzz_tokenizer_model(const uint8_t *data, size_t size)
{
    use(fuzz_file("tokenizer.model", data, size));
}

void fuzz_tokenizer_bin(const uint8_t *data, size_t size)
{
    use(fuzz_file("tokenizer.bin", data, size));
}

void fuzz_tokenizer_gpt2(const uint8_t *data, size_t size)
{
    const uint8_t *rest;
    size_t n;
    const size_t first = fuzz_split(data, size, &rest, &n);
    fuzz_file("vocab.json", data, first);
    fuzz_file("merges.txt", rest, n);
    use(fuzz_file(NULL, NULL, 0));
}

void fuzz_id_map(const uint8_t *data, size_t size)
{
    struct cadre_id_map map = {0};
    struct cadre_error err = {0};
    size_t begin, end;
    char *text = malloc(size + 1); /* a reader may count on the zero */
    if (!text)
        return;
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    if (cadre_id_map_locate(text, size, "model", "vocab", &begin, &end) &&
        (begin > end || end > size))
        abort();
    cadre_id_map_read(&map, text, size, "vocab.json", &err);
    cadre_id_map_fini(&map);
    free(text);
}
