/* SPDX-License-Identifier: Apache-2.0 */
/* Choices of algorithms as text: a line is a problem and cublasLt's description of the
 * algorithm, which one version of the library writes and the same version reads. */
#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/device/cuda/gemm.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t))

const struct cadre_cuda_choice *
cadre_cuda_choice_find(const struct cadre_cuda_choices *choices,
                       const struct cadre_cuda_problem *problem)
{
    for (size_t i = 0; i < choices->n; i++)
        if (memcmp(&choices->list[i].problem, problem, sizeof *problem) == 0)
            return &choices->list[i];
    return NULL;
}

bool cadre_cuda_choice_put(struct cadre_cuda_choices *choices,
                           const struct cadre_cuda_choice *choice)
{
    const struct cadre_cuda_choice *old =
        cadre_cuda_choice_find(choices, &choice->problem);
    if (old) {
        choices->list[old - choices->list] = *choice;
        return true;
    }
    struct cadre_cuda_choice *grown =
        cadre_realloc(choices->list, choices->n + 1, sizeof *grown);
    if (!grown)
        return false;
    choices->list = grown;
    grown[choices->n++] = *choice;
    return true;
}

static int by_problem(const void *a, const void *b)
{
    return memcmp(&((const struct cadre_cuda_choice *)a)->problem,
                  &((const struct cadre_cuda_choice *)b)->problem,
                  sizeof(struct cadre_cuda_problem));
}

/* Sorted: equal choices give equal texts, in whatever order they were made. */
void cadre_cuda_choices_write(struct cadre_cuda_choices *choices,
                              struct cadre_text *out)
{
    const size_t begin = out->len;
    if (choices->n > 1)
        qsort(choices->list, choices->n, sizeof *choices->list, by_problem);
    for (size_t i = 0; i < choices->n; i++) {
        const struct cadre_cuda_problem *p = &choices->list[i].problem;
        cadre_text_printf(out,
                          "gemm %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                          " %" PRId64 " %" PRId64 " %" PRIu32 " %d %d %d %d %d %d %d "
                          "%d",
                          p->m, p->n, p->k, p->lda, p->ldb, p->ldc, p->dtype, p->wide,
                          p->ta, p->tb, p->beta, p->epilogue, p->align[0], p->align[1],
                          p->align[2]);
        for (size_t w = 0; w < WORDS; w++)
            cadre_text_printf(out, " %016" PRIx64, choices->list[i].algo.data[w]);
        cadre_text_append(out, "\n", 1);
    }
    if (out->failed)
        return;
    const uint64_t sum =
        cadre_hash_of(out->data ? out->data + begin : NULL, out->len - begin, 0);
    cadre_text_printf(out, "sum %016" PRIx64 "\n", sum);
}

/* The next decimal number of a line; false where none that fits follows. */
static bool next_number(const char **at, int64_t *out)
{
    char *end;
    if (**at != ' ')
        return false;
    errno = 0;
    *out = strtoll(*at + 1, &end, 10);
    bool good = errno == 0 && end != *at + 1;
    *at = end;
    return good;
}

static bool read_line(const char *line, struct cadre_cuda_choice *choice)
{
    struct cadre_cuda_problem *p = &choice->problem;
    int64_t *const sizes[] = {&p->m, &p->n, &p->k, &p->lda, &p->ldb, &p->ldc};
    int *const rest[] = {&p->wide,     &p->ta,       &p->tb,       &p->beta,
                         &p->epilogue, &p->align[0], &p->align[1], &p->align[2]};
    int64_t number;
    memset(choice, 0, sizeof *choice);
    if (strncmp(line, "gemm", 4) != 0)
        return false;
    line += 4;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!next_number(&line, sizes[i]))
            return false;
    if (!next_number(&line, &number))
        return false;
    p->dtype = (uint32_t)number;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        if (!next_number(&line, &number))
            return false;
        *rest[i] = (int)number;
    }
    for (size_t w = 0; w < WORDS; w++) {
        char *end;
        if (*line != ' ' || !isxdigit((unsigned char)line[1]))
            return false;
        choice->algo.data[w] = strtoull(line, &end, 16);
        line = end;
    }
    return *line == '\n';
}

/* Are the lines whole: does the last one hold the sum of those before it? */
static const char *end_of_lines(const char *text)
{
    char *end;
    const char *last = strncmp(text, "sum ", 4) == 0 ? text : strstr(text, "\nsum ");
    if (!last)
        return NULL;
    last += *last == '\n';
    const uint64_t sum = strtoull(last + 4, &end, 16);
    if (end == last + 4 || cadre_hash_of(text, (size_t)(last - text), 0) != sum)
        return NULL;
    return last;
}

bool cadre_cuda_choices_read(struct cadre_cuda_choices *choices, const char *text)
{
    struct cadre_cuda_choices read = {0};
    struct cadre_cuda_choice choice;
    const char *end = end_of_lines(text);
    bool good = end != NULL;
    for (const char *line = text; good && line < end; line = strchr(line, '\n') + 1)
        good = read_line(line, &choice) && cadre_cuda_choice_put(&read, &choice);
    for (size_t i = 0; good && i < read.n; i++)
        good = cadre_cuda_choice_put(choices, &read.list[i]);
    free(read.list);
    return good;
}

/* ---- the file ---- */

#define MAX_FILE ((size_t)16 << 20)

/* Of the lines and of what they may choose: files of another one are left alone. */
enum { FORMAT = 2 };

static void name_file(char *out, size_t bytes, const char *device)
{
    char plain[128];
    size_t n = 0;
    for (; *device && n + 1 < sizeof plain; device++)
        plain[n++] = isalnum((unsigned char)*device) ? *device : '-';
    plain[n] = 0;
    snprintf(out, bytes, "gemm%d-%s-%zu.txt", FORMAT, plain, cublasLtGetVersion());
}

char *cadre_cuda_choices_path(const char *device_name)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char name[256];
    name_file(name, sizeof name, device_name);
    if (cache && cache[0] == '/')
        return cadre_format("%s/cadre/%s", cache, name);
    if (home && home[0] == '/')
        return cadre_format("%s/.cache/cadre/%s", home, name);
    return NULL;
}

static void load(const char *path, struct cadre_cuda_choices *choices, bool warn)
{
    struct cadre_error err = {0};
    char *text = NULL;
    size_t bytes;
    if (!cadre_path_exists(path))
        return;
    const enum cadre_log_level level = warn ? CADRE_LOG_WARN : CADRE_LOG_DEBUG;
    if (cadre_path_read_file(path, MAX_FILE, &text, &bytes, &err) != CADRE_OK)
        cadre_log(level, "device", "cuda: chosen algorithms: %s", err.text);
    else if (strlen(text) != bytes || !cadre_cuda_choices_read(choices, text))
        cadre_log(level, "device",
                  "cuda: the chosen algorithms in '%s' are damaged and not used; a run "
                  "without run.exact times them again",
                  path);
    free(text);
}

void cadre_cuda_choices_load(struct cadre_cuda_gemms *gemms)
{
    if (gemms->path && !gemms->loaded)
        load(gemms->path, &gemms->choices, true);
    gemms->loaded = true;
}

void cadre_cuda_choices_save(struct cadre_cuda_gemms *gemms)
{
    struct cadre_cuda_choices all = {0};
    struct cadre_text text = {0};
    struct cadre_error err = {0};
    const char *keep = getenv("CADRE_TUNING");
    char *dir = gemms->path ? cadre_path_dirname(gemms->path) : NULL;
    if (!gemms->dirty || !dir || (keep && strcmp(keep, "keep") == 0)) {
        free(dir);
        return;
    }
    gemms->dirty = false;
    if (cadre_path_exists(gemms->path))
        load(gemms->path, &all, false);
    for (size_t i = 0; i < gemms->choices.n; i++)
        cadre_cuda_choice_put(&all, &gemms->choices.list[i]);
    cadre_cuda_choices_write(&all, &text);
    if (cadre_path_make_dirs(dir, &err) != CADRE_OK || text.failed ||
        cadre_path_write_file(gemms->path, text.data, text.len, &err) != CADRE_OK)
        cadre_log(CADRE_LOG_DEBUG, "device",
                  "cuda: cannot save the chosen algorithms: %s", err.text);
    cadre_text_fini(&text);
    free(all.list);
    free(dir);
}
