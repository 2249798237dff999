/* SPDX-License-Identifier: Apache-2.0 */
/* Included by tools/lint.d/tidy ahead of every file of core/: the analyzer reads one
 * file at a time and would not know that cadre_fail returns the code it is given, never
 * CADRE_OK. */
#include "core/base/error.h"

#define cadre_fail(err, code, ...) (cadre_fail((err), (code), __VA_ARGS__), (code))
#define cadre_fail_errno(err, code, number, ...)                                       \
    (cadre_fail_errno((err), (code), (number), __VA_ARGS__), (code))
#define cadre_no_memory(err, ...)                                                      \
    (cadre_no_memory((err), __VA_ARGS__), CADRE_E_RESOURCE)
