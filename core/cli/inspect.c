/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre inspect PATH`: what a plugin, checkpoint, model folder, run folder, data set
 * or file is. Folders are recognised by their files. */
#include "core/cli/cli.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/format/hf.h"
#include "core/cli/inspect_files.h"
#include "core/compare/settings.h"
#include "core/compare/verdict/certificate.h"
#include "core/data/cache/cache_format.h"
#include "core/data/text/token_file.h"
#include "core/data/tokenizer/tokenizer.h"
#include "core/data/wfdb/record_list.h"
#include "core/data/wfdb/wfdb_annotation.h"
#include "core/data/wfdb/wfdb_header.h"
#include "core/plugin/plugin.h"
#include "core/report/archive_folder.h"
#include "core/tensor/dtype.h"

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static cadre_status show_plugin(const char *name, struct cadre_error *err)
{
    static const char *const roles[] = {"?",    "placement", "schedule", "intra",
                                        "data", "observer",  "optimizer"};
    const struct cadre_plugin_handle *plugin;
    CADRE_TRY(cadre_plugin_load(name, "", &plugin, err));
    const struct cadre_plugin *d = &plugin->desc;
    printf("strategy plugin %s %s: %s\n", d->id, d->version, d->summary);
    printf("  ABI %u.%u, role %s, axis %s\n", d->abi_major, d->abi_minor,
           d->role < sizeof roles / sizeof *roles ? roles[d->role] : "?",
           d->axis ? d->axis : "none");
    for (const struct cadre_service *s = d->services; s && s->id; s++)
        printf("  needs %s\n", s->id);
    for (uint32_t i = 0; i < d->n_options; i++) {
        const struct cadre_option *o =
            (const void *)((const char *)d->options + (size_t)i * d->option_stride);
        printf("  %s.%s = %s   %s\n", plugin->name, o->key, o->def, o->help);
    }
    return CADRE_OK;
}

static cadre_status show_plugin_file(const char *path, struct cadre_error *err)
{
    char *full = strchr(path, '/') ? cadre_strdup(path) : cadre_format("./%s", path);
    cadre_status rc = full ? show_plugin(full, err) : cadre_no_memory(err, "a path");
    free(full);
    return rc;
}

static void show_tensors(const struct cadre_safetensors *file)
{
    uint64_t elements = 0;
    for (size_t i = 0; i < cadre_safetensors_count(file); i++) {
        const struct cadre_safetensors_tensor *t = cadre_safetensors_at(file, i);
        uint64_t count = 1;
        printf("  %-48s (", t->name);
        for (uint32_t d = 0; d < t->ndim; d++) {
            count *= t->dim[d];
            printf("%s%llu", d ? ", " : "", (unsigned long long)t->dim[d]);
        }
        printf(")\n");
        elements += count;
    }
    printf("  %zu tensors, %llu elements\n", cadre_safetensors_count(file),
           (unsigned long long)elements);
}

static cadre_status show_checkpoint(const char *path, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    cadre_status rc = cadre_checkpoint_open(path, &checkpoint, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_verify(checkpoint, err);
    if (rc == CADRE_OK) {
        const struct cadre_manifest *state = cadre_checkpoint_manifest(checkpoint);
        printf("checkpoint: %llu steps, %llu samples, seed %llu; "
               "every checksum is right\n",
               (unsigned long long)state->step, (unsigned long long)state->samples,
               (unsigned long long)state->seed);
        for (size_t i = 0; i < state->n_values; i++)
            printf("  %s = %s\n", state->values[i].key, state->values[i].value);
        show_tensors(cadre_checkpoint_model(checkpoint));
    }
    cadre_checkpoint_close(checkpoint);
    return rc;
}

static cadre_status show_model_folder(const char *path, struct cadre_error *err)
{
    struct cadre_hf_config c;
    CADRE_TRY(cadre_hf_config_read(path, &c, err));
    printf(
        "Hugging Face model folder: %s, %lld layers, %lld channels, %lld heads (%lld "
        "key/value), hidden %lld, context %lld, vocabulary %lld, %s\n",
        cadre_hf_family_type(c.family), (long long)c.layers, (long long)c.channels,
        (long long)c.heads, (long long)c.kv_heads, (long long)c.hidden,
        (long long)c.context, (long long)c.vocab,
        c.tied ? "tied head" : "head of its own");
    return CADRE_OK;
}

static cadre_status show_safetensors(const char *path, struct cadre_error *err)
{
    struct cadre_safetensors *file = NULL;
    CADRE_TRY(cadre_safetensors_open(path, false, &file, err));
    printf("safetensors file\n");
    show_tensors(file);
    cadre_safetensors_close(file);
    return CADRE_OK;
}

static cadre_status show_run(const char *path, struct cadre_error *err)
{
    char *summary = cadre_path_join(path, "summary.json"), *text = NULL, *latest = NULL;
    char *root = cadre_path_join(path, "checkpoints");
    size_t bytes;
    cadre_status rc = summary && root ? CADRE_OK : cadre_no_memory(err, "a path");
    printf("run folder\n");
    if (rc == CADRE_OK && cadre_path_exists(summary)) {
        rc = cadre_path_read_file(summary, 1u << 20, &text, &bytes, err);
        if (rc == CADRE_OK)
            fputs(text, stdout);
    } else if (rc == CADRE_OK) {
        printf("  no summary.json: the run did not end\n");
    }
    if (rc == CADRE_OK && cadre_path_is_dir(root))
        rc = cadre_checkpoint_find_latest(root, &latest, err);
    if (rc == CADRE_OK)
        printf("  latest checkpoint: %s\n", latest ? latest : "none");
    free(summary);
    free(text);
    free(latest);
    free(root);
    return rc;
}

static cadre_status show_annotations(const char *header, struct cadre_error *err)
{
    struct cadre_wfdb_annotations list = {0};
    char *path = cadre_format("%.*s.atr", (int)(strlen(header) - 4), header);
    cadre_status rc = path ? CADRE_OK : cadre_no_memory(err, "a path");
    unsigned beats = 0;
    if (rc == CADRE_OK && cadre_path_exists(path))
        rc = cadre_wfdb_annotations_read(path, &list, err);
    for (size_t i = 0; i < list.count; i++)
        beats += cadre_wfdb_aami_class(list.items[i].code) >= 0;
    if (rc == CADRE_OK)
        printf("  %zu annotations, %u beats\n", list.count, beats);
    cadre_wfdb_annotations_fini(&list);
    free(path);
    return rc;
}

static cadre_status show_record(const char *path, struct cadre_error *err)
{
    struct cadre_wfdb_header header = {0};
    CADRE_TRY(cadre_wfdb_header_read(path, &header, err));
    printf("WFDB record %s: %d signals, %lld samples at %g Hz (data.format = wfdb)\n",
           header.name, header.signals, (long long)header.samples, header.frequency);
    for (int32_t i = 0; i < header.signals; i++) {
        const struct cadre_wfdb_signal *s = &header.signal[i];
        printf("  %-12s %s, format %d, gain %g per %s\n", s->description, s->file,
               s->format, s->gain, s->units);
    }
    cadre_wfdb_header_fini(&header);
    return show_annotations(path, err);
}

static cadre_status show_tokens(const char *path, struct cadre_error *err)
{
    struct cadre_token_file file = {0};
    if (cadre_inspect_llama2c(path))
        return CADRE_OK;
    CADRE_TRY(cadre_token_file_init(path, &file, err));
    unsigned largest = 0;
    for (uint64_t i = 0; i < file.count; i++)
        largest = file.tokens[i] > largest ? file.tokens[i] : largest;
    printf("token file: %llu tokens of 16 bits, largest %u\n",
           (unsigned long long)file.count, largest);
    cadre_token_file_fini(&file);
    return CADRE_OK;
}

/* "100: 30:05, MLII V5, 2273 beats" */
static cadre_status show_record_line(const char *path, const char *name,
                                     struct cadre_error *err)
{
    struct cadre_wfdb_header header = {0};
    CADRE_TRY(cadre_wfdb_header_read(path, &header, err));
    double seconds = (double)header.samples / header.frequency;
    printf("  %-16s %7.1f s at %g Hz,", name, seconds, header.frequency);
    for (int32_t i = 0; i < header.signals; i++)
        printf(" %s", header.signal[i].description);
    printf("\n");
    cadre_wfdb_header_fini(&header);
    return CADRE_OK;
}

static cadre_status show_records(const struct cadre_record_list *list,
                                 struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    printf("data set: %zu ECG records (data.format = wfdb)\n", list->count);
    for (size_t i = 0; rc == CADRE_OK && i < list->count; i++) {
        char *path = cadre_format("%s/%s.hea", list->folder, list->names[i]);
        rc = path ? show_record_line(path, list->names[i], err)
                  : cadre_no_memory(err, "a path");
        free(path);
    }
    return rc;
}

/* Files recognised by their bytes: a token cache, or something to train on as text. */
static cadre_status show_bytes(const char *path, struct cadre_error *err)
{
    struct cadre_cache_header header = {0};
    unsigned char part[65536] = {0};
    FILE *file = fopen(path, "rbe");
    struct stat status;
    if (!file || fstat(fileno(file), &status) != 0) {
        cadre_fail_errno(err, CADRE_E_INVALID, errno, "cannot read '%s'", path);
        if (file)
            fclose(file);
        return CADRE_E_INVALID;
    }
    size_t n = fread(part, 1, sizeof part, file);
    fclose(file);
    memcpy(&header, part, sizeof header);
    if (n >= sizeof header &&
        memcmp(header.magic, cadre_cache_magic, sizeof header.magic) == 0)
        printf(
            "cache of a tokenised data set: %llu records, %lld bytes; it is made again "
            "where it is missing\n",
            (unsigned long long)header.record_count, (long long)status.st_size);
    else if (n > 0 && !memchr(part, 0, n))
        printf("text of %lld bytes (data.format = text)\n", (long long)status.st_size);
    else
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is %s; expected a plugin (.so), .safetensors, a record "
                          "(.hea), tokens (.bin), images or labels (idx), a token "
                          "cache or a text",
                          path, n > 0 ? "no file that Cadre knows" : "an empty file");
    return CADRE_OK;
}

static cadre_status show_certificate(const char *path, struct cadre_error *err)
{
    struct cadre_text text = {0};
    if (!cadre_certificate_is(path))
        return cadre_inspect_json(path, err);
    cadre_status rc = cadre_certificate_check(path, &text, err);
    fputs(cadre_text_str(&text), stdout);
    cadre_text_fini(&text);
    return rc;
}

/* Every certificate of the comparison in the folder. The first that does not hold is
 * the error. */
static cadre_status show_certificates(const char *path, struct cadre_error *err)
{
    glob_t found = {0};
    cadre_status rc = CADRE_OK;
    char *pattern = cadre_path_join(path, "certificate-*.json");
    if (!pattern)
        return cadre_no_memory(err, "the path '%s'", path);
    int failed = glob(pattern, 0, NULL, &found);
    free(pattern);
    if (failed)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "'%s' has a report.json, but no certificate-NAME.json next to "
            "it",
            path);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct cadre_error one = {0};
        cadre_status seen =
            cadre_certificate_is(found.gl_pathv[i])
                ? show_certificate(found.gl_pathv[i], &one)
                : cadre_fail(&one, CADRE_E_INVALID,
                             "'%s' is no certificate: it is damaged or incomplete",
                             found.gl_pathv[i]);
        if (seen != CADRE_OK && rc == CADRE_OK)
            rc = cadre_fail(err, seen, "%s", one.text);
    }
    globfree(&found);
    return rc;
}

/* Of a comparison or of runs. What was concluded is told where all certificates hold.
 */
static cadre_status show_comparison(const char *path, struct cadre_error *err)
{
    bool certified = false;
    struct cadre_text text = {0};
    char *report = cadre_path_join(path, "report.json");
    cadre_status rc = report ? cadre_inspect_comparison(report, &text, &certified, err)
                             : cadre_no_memory(err, "the path '%s'", path);
    if (rc == CADRE_OK && certified)
        rc = show_certificates(path, err);
    if (rc == CADRE_OK && text.failed)
        rc = cadre_no_memory(err, "the conclusion");
    if (rc == CADRE_OK)
        fputs(cadre_text_str(&text), stdout);
    cadre_text_fini(&text);
    free(report);
    return rc;
}

/* What `--archive` packed, unpacked or not. */
static cadre_status show_archive(const char *path, struct cadre_error *err)
{
    struct cadre_text text = {0};
    cadre_status rc = CADRE_OK;
    if (cadre_path_is_dir(path))
        rc = cadre_archive_folder_describe(path, &text, err);
    else
        cadre_archive_file_describe(path, &text);
    if (rc == CADRE_OK && text.failed)
        rc = cadre_no_memory(err, "what the archive holds");
    if (rc == CADRE_OK)
        fputs(cadre_text_str(&text), stdout);
    cadre_text_fini(&text);
    return rc;
}

static cadre_status show_folder(const char *path, struct cadre_error *err)
{
    if (cadre_path_has(path, "state.json"))
        return show_checkpoint(path, err);
    if (cadre_path_has(path, "report.json"))
        return show_comparison(path, err);
    if (cadre_path_has(path, CADRE_COMPARISON_INI)) {
        printf("comparison without a report: it was stopped, or is at work; `cadre "
               "compare %s` continues it\n",
               path);
        return CADRE_OK;
    }
    if (cadre_archive_folder_is(path))
        return show_archive(path, err);
    if (cadre_path_has(path, "config.ini"))
        return show_run(path, err);
    if (cadre_path_has(path, "config.json"))
        return show_model_folder(path, err);
    if (cadre_tokenizer_in_folder(path))
        return cadre_inspect_tokenizer(path, err);
    struct cadre_record_list list = {0};
    cadre_status rc = cadre_record_list_init(path, &list, err);
    if (rc == CADRE_OK)
        rc = show_records(&list, err);
    else
        cadre_fail(err, rc,
                   "'%s' is a folder without state.json (checkpoint), report.json "
                   "(comparison), config.ini (run), config.json (model), a tokenizer's "
                   "files, an archive's README.txt or .hea files (ECG records)",
                   path);
    cadre_record_list_fini(&list);
    return rc;
}

/* Is it the name of a plugin that can be found? */
static bool is_plugin(const char *name)
{
    bool found = false;
    char **names = cadre_plugin_list("");
    for (char **n = names; n && *n; n++) {
        found |= strcmp(*n, name) == 0;
        free(*n);
    }
    free(names);
    return found;
}

/* What is called so where there is no such path: a plugin, or a record by its name. */
static cadre_status show_name(const char *name, struct cadre_error *err)
{
    if (is_plugin(name))
        return show_plugin(name, err);
    char *header = cadre_format("%s.hea", name);
    cadre_status rc = header ? CADRE_OK : cadre_no_memory(err, "a path");
    if (header && cadre_path_exists(header))
        rc = show_record(header, err);
    else if (header)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s' does not exist, nor is it a plugin or, with .hea, an ECG "
                        "record",
                        name);
    free(header);
    return rc;
}

static cadre_status show_path(const char *path, struct cadre_error *err)
{
    static const struct {
        const char *end;
        cadre_status (*show)(const char *, struct cadre_error *);
    } files[] = {
        {".so", show_plugin_file},   {".safetensors", show_safetensors},
        {".hea", show_record},       {".bin", show_tokens},
        {".json", show_certificate}, {".jsonl", cadre_inspect_lines},
        {".ini", cadre_inspect_ini}, {".model", cadre_inspect_pieces},
    };
    struct stat status;
    bool is_idx = false;
    if (stat(path, &status) != 0)
        return show_name(path, err);
    if (S_ISDIR(status.st_mode))
        return show_folder(path, err);
    if (!S_ISREG(status.st_mode))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is neither a folder nor a regular file", path);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (ends_with(path, files[i].end))
            return files[i].show(path, err);
    if (cadre_archive_file_is(path))
        return show_archive(path, err);
    CADRE_TRY(cadre_inspect_idx(path, &is_idx, err));
    return is_idx ? CADRE_OK : show_bytes(path, err);
}

static cadre_status inspect(const struct cadre_cli_args *args, struct cadre_error *err)
{
    cadre_status rc = show_path(args->conf, err);
    return cadre_error_of_input(rc, err);
}

const struct cadre_cli_command cadre_command_inspect = {
    .name = "inspect",
    .synopsis = "PATH",
    .summary = "say what a plugin, checkpoint, data set, run or archive is",
    .argument = "PATH",
    .kind = CADRE_CLI_PATH,
    .least = 1,
    .most = 1,
    .run = inspect,
};
