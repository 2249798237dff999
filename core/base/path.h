/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and small files. Returned texts belong to the caller (free), NULL where there
 * is no memory. [any thread] */
#ifndef CADRE_BASE_PATH_H
#define CADRE_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/error.h"

/* dir/name; only name where it is absolute or dir is empty. */
char *cadre_path_join(const char *dir, const char *name);

/* The folder part: "a/b" -> "a", "/a" -> "/", "a" -> ".". */
char *cadre_path_dirname(const char *path);

/* What follows the last slash; points into path. */
const char *cadre_path_basename(const char *path);

/* The same file whatever the working directory: a relative path after it, without a
 * leading "./"; `path` itself where it is absolute, empty, or the directory is gone. */
char *cadre_path_absolute(const char *path);

bool cadre_path_exists(const char *path);
bool cadre_path_is_dir(const char *path);

/* The same of dir/name, joined as by cadre_path_join but without taking memory: what
 * asks whether a file is there has no way to say that memory lacks, and would take one
 * kind of folder for another. */
bool cadre_path_has(const char *dir, const char *name);
bool cadre_path_has_dir(const char *dir, const char *name);

/* mkdir -p. Errors: CADRE_E_IO naming the part that failed. */
cadre_status cadre_path_make_dirs(const char *path, struct cadre_error *err);

/* Replace the file `path` by `bytes` bytes: written under another name, fsynced,
 * renamed, folder fsynced, so a crash leaves the old file or the new one. Errors:
 * CADRE_E_IO; the old file is then unchanged. */
cadre_status cadre_path_write_file(const char *path, const void *data, size_t bytes,
                                   struct cadre_error *err);

/* Read a regular file of at most max_bytes, followed by a zero byte that *bytes does
 * not count. *data belongs to the caller (free). Errors: CADRE_E_IO (cannot be read),
 * CADRE_E_INVALID (a folder, not a regular file, too large), CADRE_E_RESOURCE. */
cadre_status cadre_path_read_file(const char *path, size_t max_bytes, char **data,
                                  size_t *bytes, struct cadre_error *err);

/* The next line of `file`, with its newline, in *line, which getline makes longer and
 * the caller frees; *n is 0 at the end. `path` names the file. Errors: CADRE_E_IO,
 * CADRE_E_RESOURCE: getline alone takes a lack of memory for the end. */
cadre_status cadre_path_next_line(FILE *file, const char *path, char **line,
                                  size_t *room, size_t *n, struct cadre_error *err);

/* Make renames inside the folder durable. Errors: CADRE_E_IO. */
cadre_status cadre_path_sync_dir(const char *dir, struct cadre_error *err);

/* The folder of the running program's own file, "" where it is not known. */
void cadre_path_program_dir(char *out, size_t bytes);

/* The path of `to` relative to `from`, both absolute: ("/usr/bin", "/usr/lib/x") yields
 * "../lib/x". out is truncated to `bytes`. */
void cadre_path_relative(const char *from, const char *to, char *out, size_t bytes);

#endif
