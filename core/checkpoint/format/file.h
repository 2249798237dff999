/* SPDX-License-Identifier: Apache-2.0 */
/* Whole reads and writes at an offset, and syncing to disk. Every error names the file.
 * `path` is used for error texts where a descriptor is given. [any thread] */
#ifndef CADRE_CHECKPOINT_FORMAT_FILE_H
#define CADRE_CHECKPOINT_FORMAT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* Fill `data` with `bytes` bytes from `offset`. Errors: CADRE_E_INVALID where the file
 * ends before, CADRE_E_IO. data is then undefined. */
cadre_status cadre_file_read_at(int fd, const char *path, void *data, size_t bytes,
                                uint64_t offset, struct cadre_error *err);

/* Write all of `data` at `offset`. Errors: CADRE_E_RESOURCE where the disk is full or a
 * quota or file-size limit is reached, CADRE_E_IO. */
cadre_status cadre_file_write_at(int fd, const char *path, const void *data,
                                 size_t bytes, uint64_t offset,
                                 struct cadre_error *err);

/* Set the file's full size, with blocks reserved where the file system supports it, so
 * that a full disk is an error before writing begins, not during it. Errors: as
 * cadre_file_write_at. */
cadre_status cadre_file_reserve(int fd, const char *path, uint64_t bytes,
                                struct cadre_error *err);

/* The error of a failed write, with what to do: CADRE_E_RESOURCE or CADRE_E_IO. */
cadre_status cadre_file_write_failed(const char *path, int errnum,
                                     struct cadre_error *err);

/* The error of a failed open for reading: CADRE_E_INVALID where there is no such file,
 * CADRE_E_RESOURCE short of descriptors or memory, else CADRE_E_IO. */
cadre_status cadre_file_open_failed(const char *path, int errnum,
                                    struct cadre_error *err);

/* A whole file of at most `limit` bytes, ended by a zero that is not counted in *bytes.
 * The caller frees *data. Errors: CADRE_E_INVALID where it is missing or too large,
 * CADRE_E_IO, CADRE_E_RESOURCE (memory, descriptors). */
cadre_status cadre_file_read_whole(const char *path, size_t limit, char **data,
                                   size_t *bytes, struct cadre_error *err);

/* Create or truncate the file, write it whole and fsync it. */
cadre_status cadre_file_write_whole(const char *path, const void *data, size_t bytes,
                                    struct cadre_error *err);

/* fsync a folder, so that the names in it are on disk. */
cadre_status cadre_file_sync_folder(const char *path, struct cadre_error *err);

/* Remove a folder and everything in it; links are removed, not followed. A missing
 * folder is no error. */
cadre_status cadre_file_remove_tree(const char *path, struct cadre_error *err);

#endif
