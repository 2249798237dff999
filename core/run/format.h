/* SPDX-License-Identifier: Apache-2.0 */
/* Human-readable figures. "-" for a value that is not finite. Each returns out. */
#ifndef CADRE_RUN_FORMAT_H
#define CADRE_RUN_FORMAT_H

#include <stddef.h>

/* 1.23 s, 45.6 ms, -7.8 us: three digits. */
const char *cadre_format_seconds(double seconds, char *out, size_t size);

/* 12 345, digits in threes. */
const char *cadre_format_count(double count, char *out, size_t size);

/* 12.3 MiB. */
const char *cadre_format_bytes(double bytes, char *out, size_t size);

#endif
