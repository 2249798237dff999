/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/tokenizer/tokenizer_files.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"

enum { FILE_BYTES_MAX = 1 << 28, N_MAX = 16 };

struct file {
    char *name;
    char *bytes;
    size_t size;
};

struct cadre_tokenizer_files {
    struct file file[N_MAX];
    size_t n;
};

/* A folder's tokenizer, and what a file's folder has beside it. */
static const char *const names[] = {
    "tokenizer.json", "tokenizer.model", "vocab.json",    "merges.txt",
    "encoder.json",   "vocab.bpe",       "tokenizer.bin", NULL,
};
static const char *const beside[] = {
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    NULL,
};

static cadre_status take(struct cadre_tokenizer_files *files, const char *path,
                         const char *name, struct cadre_error *err)
{
    struct file *file = &files->file[files->n];
    file->name = cadre_strdup(name);
    if (!file->name)
        return cadre_no_memory(err, "a name");
    files->n++;
    return cadre_path_read_file(path, FILE_BYTES_MAX, &file->bytes, &file->size, err);
}

static cadre_status take_all(struct cadre_tokenizer_files *files, const char *folder,
                             const char *const list[], struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; list[i] && rc == CADRE_OK; i++) {
        char *path = cadre_path_join(folder, list[i]);
        if (!path)
            return cadre_no_memory(err, "a path");
        if (cadre_path_exists(path))
            rc = take(files, path, list[i], err);
        free(path);
    }
    return rc;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static cadre_status take_file(struct cadre_tokenizer_files *files, const char *path,
                              struct cadre_error *err)
{
    const char *name = ends_with(path, ".json")    ? "tokenizer.json"
                       : ends_with(path, ".model") ? "tokenizer.model"
                                                   : "tokenizer.bin";
    CADRE_TRY(take(files, path, name, err));
    if (strcmp(name, "tokenizer.bin") == 0)
        return CADRE_OK;
    char *folder = cadre_path_dirname(path);
    cadre_status rc =
        folder ? take_all(files, folder, beside, err) : cadre_no_memory(err, "a path");
    free(folder);
    return rc;
}

cadre_status cadre_tokenizer_files_open(const char *spec,
                                        struct cadre_tokenizer_files **out,
                                        struct cadre_error *err)
{
    struct cadre_tokenizer_files *files = cadre_calloc(1, sizeof *files);
    cadre_status rc = files ? CADRE_OK : cadre_no_memory(err, "the tokenizer's files");
    const bool is_byte = !spec || !*spec || strcmp(spec, "byte") == 0;
    if (rc == CADRE_OK && !is_byte && cadre_path_is_dir(spec)) {
        rc = take_all(files, spec, names, err);
        if (rc == CADRE_OK)
            rc = take_all(files, spec, beside, err);
    } else if (rc == CADRE_OK && !is_byte) {
        rc = take_file(files, spec, err);
    }
    if (rc == CADRE_OK)
        *out = files;
    else
        cadre_tokenizer_files_close(files);
    return rc;
}

void cadre_tokenizer_files_close(struct cadre_tokenizer_files *files)
{
    for (size_t i = 0; files && i < files->n; i++) {
        free(files->file[i].name);
        free(files->file[i].bytes);
    }
    free(files);
}

cadre_status cadre_tokenizer_files_write(const struct cadre_tokenizer_files *files,
                                         const char *folder, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; files && i < files->n && rc == CADRE_OK; i++) {
        const struct file *file = &files->file[i];
        char *path = cadre_path_join(folder, file->name);
        rc = path ? cadre_path_write_file(path, file->bytes, file->size, err)
                  : cadre_no_memory(err, "a path");
        free(path);
    }
    return rc;
}
