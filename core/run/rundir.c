/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/base/rank_page.h"
#include "core/run/bench.h"
#include "core/run/outdir.h"

static cadre_status write_config(const struct cadre_spec *spec, struct cadre_error *err)
{
    char *text = NULL;
    size_t size = 0;
    char *path = cadre_path_join(spec->out, "config.ini");
    FILE *memory = open_memstream(&text, &size);
    cadre_status rc = CADRE_E_RESOURCE;
    if (path && memory)
        rc = cadre_options_write(spec->options, memory, err);
    else
        cadre_fail(err, rc, "no memory for config.ini");
    if (memory && fclose(memory) != 0 && rc == CADRE_OK)
        rc = cadre_no_memory(err, "config.ini");
    if (rc == CADRE_OK)
        rc = cadre_path_write_file(path, text, size, err);
    free(text);
    free(path);
    return rc;
}

/* An impossible folder name is a user error (INVALID); a full disk is not. */
static cadre_status make_folder(const char *path, struct cadre_error *err)
{
    errno = 0;
    cadre_status rc = cadre_path_make_dirs(path, err);
    int why = errno;
    if (rc == CADRE_OK)
        return access(path, W_OK) == 0
                   ? CADRE_OK
                   : cadre_fail_errno(err, CADRE_E_INVALID, errno,
                                      "--out: cannot write into '%s'", path);
    cadre_error_prefix(err, "--out");
    return why == ENOSPC || why == EDQUOT || why == EIO ? rc : CADRE_E_INVALID;
}

static cadre_status remove_file(const char *dir, const char *name,
                                struct cadre_error *err)
{
    char *path = cadre_path_join(dir, name);
    cadre_status rc = path ? CADRE_OK : cadre_no_memory(err, "a path");
    if (path && unlink(path) != 0 && errno != ENOENT)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot remove '%s'", path);
    free(path);
    return rc;
}

/* The files of an older benchmark; its checkpoints, if there are any, are not its. */
static cadre_status remove_benchmark(const char *dir, struct cadre_error *err)
{
    static const char *const files[] = {"metrics.jsonl",  "summary.json",
                                        "instances.json", "passes.json",
                                        "trace.json",     "setup.json"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        CADRE_TRY(remove_file(dir, files[i], err));
    return CADRE_OK;
}

/* "NAME.tmp.17.18", as cadre_path_write_file calls what it has not renamed yet? */
static bool is_temporary(const char *name)
{
    const char *at = strstr(name, ".tmp.");
    size_t n;
    for (int numbers = 0; at; numbers++) {
        at += numbers ? 1 : strlen(".tmp.");
        n = strspn(at, "0123456789");
        if (n == 0 || numbers > 1)
            return false;
        at += n;
        if (!*at)
            return numbers == 1;
        if (*at != '.')
            return false;
    }
    return false;
}

/* What a process left that was killed while it wrote; no other one writes here now. */
static cadre_status remove_temporaries(const char *dir, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    DIR *open = opendir(dir);
    for (struct dirent *entry; open && rc == CADRE_OK && (entry = readdir(open));)
        if (is_temporary(entry->d_name))
            rc = remove_file(dir, entry->d_name, err);
    if (open)
        closedir(open);
    return rc;
}

static cadre_status refuse_run(const struct cadre_spec *spec, bool benchmark,
                               struct cadre_error *err)
{
    static const char *const marks[] = {"metrics.jsonl", "summary.json", "checkpoints",
                                        "restarts.json", "instances.json"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (cadre_path_has(spec->out, marks[i]))
            return cadre_fail(err, CADRE_E_INVALID,
                              "'%s' holds a run already (%s); choose another --out%s",
                              spec->out, marks[i],
                              benchmark ? " for the benchmark"
                                        : ", remove it, or continue it by --set "
                                          "checkpoint.resume=auto");
    }
    return CADRE_OK;
}

cadre_status cadre_rundir_prepare(const struct cadre_spec *spec, bool resuming,
                                  struct cadre_run_lock *lock, struct cadre_error *err)
{
    const bool benchmark = cadre_bench_wanted(&spec->config.bench);
    CADRE_TRY(cadre_outdir_check(spec->out, CADRE_OUTDIR_RUN, err));
    CADRE_TRY(make_folder(spec->out, err));
    if (lock) {
        CADRE_TRY(cadre_run_lock_take(lock, spec->out, err));
        CADRE_TRY(remove_temporaries(spec->out, err));
    }
    if (benchmark && cadre_bench_made(spec->out))
        CADRE_TRY(remove_benchmark(spec->out, err));
    if (benchmark || !resuming)
        CADRE_TRY(refuse_run(spec, benchmark, err));
    CADRE_TRY(remove_file(spec->out, "bench.json", err));
    CADRE_TRY(cadre_rank_page_clear(spec->out, err));
    return write_config(spec, err);
}

/* 0 for a line that is no step's, such as one that a full disk cut. */
static cadre_status step_of(const char *line, size_t n, int64_t *step,
                            struct cadre_error *err)
{
    json_t *record;
    cadre_status rc = cadre_json_read(line, n, "metrics.jsonl", &record, err);
    *step = record ? json_integer_value(json_object_get(record, "step")) : 0;
    json_decref(record);
    return rc == CADRE_E_INVALID ? CADRE_OK : rc;
}

/* A pipe is opened without waiting for who writes into it, and can then be refused. */
static FILE *open_to_read(const char *path)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file && fd >= 0)
        close(fd);
    return file;
}

/* Append the lines of steps up to `step`. */
static cadre_status keep_lines(FILE *file, const char *path, int64_t step,
                               struct cadre_text *kept, struct cadre_error *err)
{
    char *line = NULL;
    size_t room = 0, n = 1;
    cadre_status rc = CADRE_OK;
    while (rc == CADRE_OK && n > 0) {
        int64_t at = 0;
        rc = cadre_path_next_line(file, path, &line, &room, &n, err);
        if (rc == CADRE_OK && n > 0)
            rc = step_of(line, n, &at, err);
        if (at > 0 && at <= step)
            cadre_text_append(kept, line, n);
    }
    free(line);
    return rc;
}

cadre_status cadre_rundir_cut_metrics(const char *dir, int64_t step,
                                      struct cadre_error *err)
{
    struct cadre_text kept = {0};
    char *path = cadre_path_join(dir, "metrics.jsonl");
    if (!path)
        return cadre_no_memory(err, "a path");
    FILE *file = open_to_read(path);
    if (!file && errno == ENOENT) {
        free(path);
        return CADRE_OK;
    }
    cadre_status rc = CADRE_OK;
    struct stat info;
    if (!file || fstat(fileno(file), &info) != 0)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read '%s'", path);
    else if (!S_ISREG(info.st_mode)) /* a pipe or a device may have no end */
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s' is no regular file; remove it to resume", path);
    if (rc == CADRE_OK)
        rc = keep_lines(file, path, step, &kept, err);
    if (file)
        fclose(file);
    if (rc == CADRE_OK && kept.failed)
        rc = cadre_no_memory(err, "'%s'", path);
    if (rc == CADRE_OK)
        rc = cadre_path_write_file(path, cadre_text_str(&kept), kept.len, err);
    free(path);
    cadre_text_fini(&kept);
    return rc;
}
