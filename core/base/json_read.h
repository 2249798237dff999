/* SPDX-License-Identifier: Apache-2.0 */
/* JSON texts read by jansson, where a file that is damaged is another matter than a
 * machine without memory, on which the file may be good. */
#ifndef CADRE_BASE_JSON_READ_H
#define CADRE_BASE_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

/* Parse `bytes` bytes of the file `path`, without keys that come twice. The caller ends
 * *root with json_decref; it is NULL on failure. [any thread] Errors: CADRE_E_INVALID
 * with the line, CADRE_E_RESOURCE. */
cadre_status cadre_json_read(const char *text, size_t bytes, const char *path,
                             json_t **root, struct cadre_error *err);

/* As json_loadb, but NULL wherever there was no memory for any part, which *no_memory
 * says. [any thread] */
json_t *cadre_json_load(const char *text, size_t bytes, size_t flags, json_error_t *why,
                        bool *no_memory);

/* As cadre_json_read, of a text whose reader says itself what is wrong with it: *root
 * is then NULL with CADRE_OK. `flags` are jansson's; `what` names the text. Errors:
 * CADRE_E_RESOURCE alone. */
cadre_status cadre_json_try(const char *text, size_t bytes, size_t flags,
                            const char *what, json_t **root, struct cadre_error *err);

/* The same of the file dir/name: *root is NULL with CADRE_OK where there is none, or
 * none that can be read. Errors: CADRE_E_RESOURCE alone. */
cadre_status cadre_json_try_file(const char *dir, const char *name, json_t **root,
                                 struct cadre_error *err);

#endif
