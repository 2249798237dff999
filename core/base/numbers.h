/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of numbers in the value of an option. */
#ifndef CADRE_BASE_NUMBERS_H
#define CADRE_BASE_NUMBERS_H

/* "1, 0.5 2": decimal numbers without a sign, between them commas or white space, up to
 * a byte of `stop`, which is not taken, or the end of the text. At most `room` of them
 * are stored. *end is where it stopped. Returns how many there are; -1 where anything
 * else is found. [any thread] */
int cadre_numbers_parse(const char *text, const char *stop, double *out, int room,
                        const char **end);

#endif
