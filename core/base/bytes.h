/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of memory for people. */
#ifndef CADRE_BASE_BYTES_H
#define CADRE_BASE_BYTES_H

#include <stdint.h>

#define CADRE_BYTES_CHARS 32

/* "12.345 MiB" with so many decimals: in MiB below 10 GiB, in GiB below 10 TiB, else in
 * TiB, so that the rows of a table stay comparable. Returns out. */
const char *cadre_bytes_text(double bytes, int decimals, char out[CADRE_BYTES_CHARS]);

#endif
