/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/inspect_files.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/json_read.h"
#include "core/base/path.h"
#include "core/config/ini.h"
#include "core/data/chat/dialogue.h"
#include "core/data/image/idx.h"
#include "core/data/tokenizer/id_map.h"
#include "core/data/tokenizer/tokenizer.h"

/* ---- JSON ---- */

enum { MOST_BYTES = 1 << 30 }; /* of a JSON file */

/* A file that Cadre or a model folder has, by keys that only it has together. */
struct kind {
    const char *keys[2];
    const char *what;
};

static const struct kind kinds[] = {
    {{"runs", "formulas"}, "report of a comparison"},
    {{"step_s_median", "peak_bytes"}, "summary of a run"},
    {{"windows", "target_step"}, "result of a benchmark"},
    {{"step", "samples"}, "state of a checkpoint"},
    {{"traceEvents", "traceEvents"}, "trace of a run: open it in Perfetto"},
    {{"architectures", "model_type"}, "configuration of a Hugging Face model"},
    {{"weight_map", "metadata"}, "index of safetensors files"},
    {{"added_tokens", "model"}, "tokenizer of Hugging Face (data.tokenizer)"},
};

static const char *kind_of(const json_t *object)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (json_object_get(object, kinds[i].keys[0]) &&
            json_object_get(object, kinds[i].keys[1]))
            return kinds[i].what;
    return "JSON object";
}

/* Numbers and short texts; of what is nested, its size. */
static void show_value(const char *key, const json_t *value)
{
    const char *text = json_string_value(value);
    if (json_is_integer(value))
        printf("  %s = %lld\n", key, (long long)json_integer_value(value));
    else if (json_is_real(value))
        printf("  %s = %.6g\n", key, json_real_value(value));
    else if (json_is_boolean(value))
        printf("  %s = %s\n", key, json_is_true(value) ? "true" : "false");
    else if (text)
        printf("  %s = %.60s%s\n", key, text, strlen(text) > 60 ? "..." : "");
    else if (json_is_array(value))
        printf("  %s: %zu entries\n", key, json_array_size(value));
    else if (json_is_object(value))
        printf("  %s: %zu keys\n", key, json_object_size(value));
    else
        printf("  %s = null\n", key);
}

static void show_keys(json_t *object)
{
    enum { SHOWN = 40 };
    size_t n = 0;
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at))
        if (n++ < SHOWN)
            show_value(json_object_iter_key(at), json_object_iter_value(at));
    if (n > SHOWN)
        printf("  and %zu keys more\n", n - SHOWN);
}

static cadre_status read_json(const char *path, json_t **object,
                              struct cadre_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    cadre_status rc = cadre_path_read_file(path, MOST_BYTES, &text, &bytes, err);
    if (rc == CADRE_OK)
        rc = cadre_json_read(text, bytes, path, object, err);
    if (rc == CADRE_E_INVALID && text)
        cadre_error_prefix(err, "damaged, or another kind of file");
    free(text);
    return rc;
}

/* Whether all entries are dialogues, or (*answers = 2) all are pairs of answers. */
static cadre_status read_records(const json_t *array, int *answers,
                                 struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    *answers = 0;
    for (size_t i = 0; rc == CADRE_OK && i < json_array_size(array); i++) {
        struct cadre_dialogue dialogue[2] = {{0}, {0}};
        int n = 0;
        rc = cadre_dialogue_read(json_array_get(array, i), dialogue, &n, err);
        cadre_dialogue_fini(&dialogue[0]);
        cadre_dialogue_fini(&dialogue[1]);
        if (rc == CADRE_OK && i > 0 && n != *answers)
            rc = cadre_fail(err, CADRE_E_INVALID,
                            "expected one answer in all records or two, found both");
        if (rc != CADRE_OK)
            cadre_error_prefix(err, "entry %zu", i + 1);
        *answers = n;
    }
    return rc;
}

static cadre_status show_array(const json_t *array, struct cadre_error *err)
{
    struct cadre_error why = {0};
    const size_t n = json_array_size(array);
    int answers;
    const cadre_status rc = read_records(array, &answers, &why);
    if (rc != CADRE_OK && rc != CADRE_E_INVALID) {
        *err = why;
        return rc;
    }
    if (rc != CADRE_OK)
        printf("JSON array of %zu entries; for data.format = instruct, %s\n", n,
               why.text);
    else if (n == 0)
        printf("JSON array of 0 entries\n");
    else
        printf("instruction data (data.format = instruct%s): %zu %s; the last:\n",
               answers == 2 ? ", tune.method = dpo" : "", n,
               answers == 2 ? "pairs of a chosen and a rejected answer" : "records");
    if (rc == CADRE_OK && n > 0)
        show_keys(json_array_get(array, n - 1));
    return CADRE_OK;
}

/* A vocab.json, of which a key may be what no other JSON of ours has. */
static bool show_vocabulary(const char *path)
{
    struct cadre_id_map map = {0};
    char *text = NULL;
    size_t bytes = 0;
    const bool is =
        strcmp(cadre_path_basename(path), "vocab.json") == 0 &&
        cadre_path_read_file(path, MOST_BYTES, &text, &bytes, NULL) == CADRE_OK &&
        cadre_id_map_read(&map, text, bytes, path, NULL) == CADRE_OK;
    if (is)
        printf("vocabulary of %zu tokens; data.tokenizer names its folder, which has "
               "merges.txt too\n",
               map.count);
    cadre_id_map_fini(&map);
    free(text);
    return is;
}

cadre_status cadre_inspect_json(const char *path, struct cadre_error *err)
{
    json_t *object = NULL;
    cadre_status rc = CADRE_OK;
    if (show_vocabulary(path))
        return CADRE_OK;
    CADRE_TRY(read_json(path, &object, err));
    if (json_is_array(object)) {
        rc = show_array(object, err);
    } else {
        printf("%s\n", kind_of(object));
        show_keys(object);
    }
    json_decref(object);
    return rc;
}

/* Of `cadre report RUN...`. */
static void show_runs(const json_t *runs, struct cadre_text *out)
{
    const size_t n = json_array_size(runs);
    cadre_text_printf(out, "report on %zu run%s, not ranked\n", n, n == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++) {
        const json_t *run = json_array_get(runs, i);
        const char *name = json_string_value(json_object_get(run, "name"));
        const char *state = json_string_value(json_object_get(run, "state"));
        cadre_text_printf(out, "  %s: %s\n", name ? name : "?", state ? state : "?");
    }
}

cadre_status cadre_inspect_comparison(const char *path, struct cadre_text *out,
                                      bool *certified, struct cadre_error *err)
{
    json_t *report = NULL;
    CADRE_TRY(read_json(path, &report, err));
    const char *kind = json_string_value(json_object_get(report, "kind"));
    const json_t *runs = json_object_get(report, "runs");
    if (kind && strcmp(kind, "runs") == 0) {
        show_runs(runs, out);
        *certified = false;
        json_decref(report);
        return CADRE_OK;
    }
    const json_t *said = json_object_get(report, "conclusion");
    const char *base = json_string_value(json_object_get(report, "baseline"));
    const size_t n = json_array_size(runs);
    size_t failed = 0;
    for (size_t i = 0; i < n; i++)
        failed += json_is_string(json_object_get(json_array_get(runs, i), "failure"));
    cadre_text_printf(out, "comparison of %zu run%s, baseline %s", n, n == 1 ? "" : "s",
                      base ? base : "unknown");
    if (failed)
        cadre_text_printf(out, "; %zu failed", failed);
    cadre_text_append(out, "\n", 1);
    for (size_t i = 0; i < json_array_size(said); i++) {
        const char *line = json_string_value(json_array_get(said, i));
        cadre_text_printf(out, "  %s\n", line ? line : "");
    }
    *certified = n == 0 || failed < n;
    json_decref(report);
    return CADRE_OK;
}

/* Lines of a run's files, by keys that only they have together. */
static const char *line_of(const json_t *object)
{
    static const struct kind lines[] = {
        {{"step", "loss"}, "metrics of a run, a line a step"},
        {{"run", "period_s"}, "timed pieces of a comparison"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (json_object_get(object, lines[i].keys[0]) &&
            json_object_get(object, lines[i].keys[1]))
            return lines[i].what;
    return "JSON objects, one a line (data.format = instruct where they are records)";
}

/* Line n of a file of JSON lines takes the place of the one in *out. */
static cadre_status read_line(const char *line, const char *path, size_t n,
                              json_t **out, struct cadre_error *err)
{
    json_error_t why;
    bool no_memory = false;
    json_decref(*out);
    *out = cadre_json_load(line, strlen(line), 0, &why, &no_memory);
    if (no_memory)
        return cadre_no_memory(err, "line %zu of '%s'", n, path);
    return *out ? CADRE_OK
                : cadre_fail(err, CADRE_E_INVALID, "'%s' is damaged at line %zu: %s",
                             path, n, why.text);
}

cadre_status cadre_inspect_lines(const char *path, struct cadre_error *err)
{
    char *text = NULL, *rest = NULL;
    size_t bytes = 0, n = 0;
    json_t *last = NULL;
    cadre_status rc = cadre_path_read_file(path, MOST_BYTES, &text, &bytes, err);
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; rc == CADRE_OK && line;
         line = strtok_r(NULL, "\n", &rest))
        rc = read_line(line, path, ++n, &last, err);
    if (rc == CADRE_OK && n == 0)
        rc = cadre_fail(err, CADRE_E_INVALID, "'%s' is an empty file", path);
    if (rc == CADRE_OK) {
        printf("%s: %zu; the last:\n", line_of(last), n);
        show_keys(last);
    }
    json_decref(last);
    free(text);
    return rc;
}

/* ---- options ---- */

cadre_status cadre_inspect_ini(const char *path, struct cadre_error *err)
{
    struct cadre_ini ini = {0};
    size_t runs = 0, keys = 0;
    CADRE_TRY(cadre_ini_load(&ini, path, err));
    for (size_t i = 0; i < ini.n; i++) {
        runs += !ini.entries[i].key && strncmp(ini.entries[i].section, "run:", 4) == 0;
        keys += ini.entries[i].key != NULL;
    }
    printf("%zu options, for %zu run%s; those that are not by default:\n", keys,
           runs ? runs : 1, runs > 1 ? "s" : "");
    for (size_t i = 0; i < ini.n; i++) {
        const struct cadre_ini_entry *e = &ini.entries[i];
        if (e->key && !e->by_default)
            printf("  %s.%s = %s\n", e->section, e->key, e->value);
    }
    cadre_ini_fini(&ini);
    return CADRE_OK;
}

/* ---- images ---- */

/* "train-images-idx3-ubyte.gz" */
static bool has_idx_name(const char *path)
{
    const char *at = strstr(cadre_path_basename(path), "idx");
    return at && at[3] >= '1' && at[3] <= '4';
}

static void show_labels(const struct cadre_idx *idx)
{
    uint8_t least = UINT8_MAX, most = 0;
    for (uint64_t i = 0; i < idx->count; i++) {
        least = idx->bytes[i] < least ? idx->bytes[i] : least;
        most = idx->bytes[i] > most ? idx->bytes[i] : most;
    }
    printf("idx file: %llu labels from %d to %d (data.labels, where data.format = "
           "idx)\n",
           (unsigned long long)idx->count, least, most);
}

cadre_status cadre_inspect_idx(const char *path, bool *is, struct cadre_error *err)
{
    struct cadre_idx idx = {0};
    struct cadre_error why = {0};
    const cadre_status rc = cadre_idx_init(path, 1, 4, &idx, &why);
    *is = rc != CADRE_E_INVALID || has_idx_name(path);
    if (rc != CADRE_OK && *is)
        *err = why;
    if (rc != CADRE_OK)
        return *is ? rc : CADRE_OK;
    const uint64_t *dim = idx.dim;
    if (idx.n_dims == 1)
        show_labels(&idx);
    else if (idx.n_dims == 2)
        printf("idx file: %llu x %llu bytes; data.format = idx takes files of 3 or 4 "
               "dimensions (images) and of 1 (labels)\n",
               (unsigned long long)dim[0], (unsigned long long)dim[1]);
    else
        printf("idx file: %llu images of %llu x %llu pixels, %llu channel%s "
               "(data.format = idx)\n",
               (unsigned long long)dim[0], (unsigned long long)dim[2],
               (unsigned long long)dim[1],
               idx.n_dims == 4 ? (unsigned long long)dim[3] : 1ULL,
               idx.n_dims == 4 && dim[3] != 1 ? "s" : "");
    cadre_idx_fini(&idx);
    return CADRE_OK;
}

/* ---- tokenizers and models of others ---- */

cadre_status cadre_inspect_tokenizer(const char *folder, struct cadre_error *err)
{
    struct cadre_tokenizer *tokenizer = NULL;
    CADRE_TRY(cadre_tokenizer_open(folder, &tokenizer, err));
    const int32_t bos = cadre_tokenizer_bos(tokenizer);
    const int32_t eos = cadre_tokenizer_eos(tokenizer);
    printf("folder of a tokenizer (data.tokenizer): %s, %lld ids",
           cadre_tokenizer_kind_name(tokenizer),
           (long long)cadre_tokenizer_vocab(tokenizer));
    if (bos >= 0)
        printf(", start %d", bos);
    if (eos >= 0)
        printf(", end %d", eos);
    printf("\n");
    cadre_tokenizer_close(tokenizer);
    return CADRE_OK;
}

cadre_status cadre_inspect_pieces(const char *path, struct cadre_error *err)
{
    struct cadre_tokenizer *tokenizer = NULL;
    CADRE_TRY(cadre_tokenizer_open(path, &tokenizer, err));
    printf("tokenizer of SentencePiece: %lld pieces (data.tokenizer)\n",
           (long long)cadre_tokenizer_vocab(tokenizer));
    cadre_tokenizer_close(tokenizer);
    return CADRE_OK;
}

/* The head of a model: dim, hidden_dim, layers, heads, kv_heads, vocabulary (negative:
 * a head of its own), longest sequence. Source: llama2.c run.c. */
enum { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, LENGTH, N_HEAD };

/* Bytes of the whole file that such a head begins; -1 for an impossible one. */
static int64_t model_bytes(const int32_t head[N_HEAD])
{
    for (int i = 0; i < N_HEAD; i++)
        if (head[i] == 0 || (i != VOCAB && head[i] < 0) || head[i] > 1 << 24)
            return -1;
    if (head[DIM] % head[HEADS] != 0)
        return -1;
    const double dim = head[DIM], layers = head[LAYERS];
    const double vocab = head[VOCAB] < 0 ? -(double)head[VOCAB] : head[VOCAB];
    const double size = dim / head[HEADS];
    const double block = 2 * dim + 2 * dim * dim + 2 * dim * size * head[KV_HEADS] +
                         3 * dim * head[HIDDEN];
    const double all = vocab * dim * (head[VOCAB] < 0 ? 2 : 1) + layers * block + dim +
                       size * head[LENGTH];
    return all > 0x1p40 ? -1 : (int64_t)(4 * (all + N_HEAD));
}

static bool show_model(const char *path)
{
    int32_t head[N_HEAD];
    struct stat status;
    FILE *file = fopen(path, "re");
    const bool is = file && fread(head, sizeof head, 1, file) == 1 &&
                    fstat(fileno(file), &status) == 0 &&
                    status.st_size == model_bytes(head);
    if (file)
        fclose(file);
    if (is)
        printf("model of llama2.c: %d layers, %d channels, %d heads (%d key/value), "
               "hidden %d, context %d, vocabulary %d; model.init reads Hugging Face "
               "folders, to which llama2.c's export.py converts\n",
               head[LAYERS], head[DIM], head[HEADS], head[KV_HEADS], head[HIDDEN],
               head[LENGTH], abs(head[VOCAB]));
    return is;
}

bool cadre_inspect_llama2c(const char *path)
{
    struct cadre_tokenizer *tokenizer = NULL;
    if (show_model(path))
        return true;
    if (cadre_tokenizer_open(path, &tokenizer, NULL) != CADRE_OK)
        return false;
    printf("tokenizer of llama2.c: %lld pieces (data.tokenizer)\n",
           (long long)cadre_tokenizer_vocab(tokenizer));
    cadre_tokenizer_close(tokenizer);
    return true;
}
