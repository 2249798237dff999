/* SPDX-License-Identifier: Apache-2.0 */
/* Which items of a data set are held back for validation: bytes of a text, tokens,
 * images, instruction records. Two of the same contents tell how much of what one
 * validates on the other trained on. ECG records have names instead
 * (cadre_dataset_record). */
#ifndef CADRE_DATA_HOLDOUT_H
#define CADRE_DATA_HOLDOUT_H

#include <stdbool.h>
#include <stdint.h>

struct cadre_holdout {
    uint64_t content; /* hash of the contents, however they are divided; 0: none */
    uint64_t count, held; /* items; of these for validation */
    uint64_t key; /* item i is held where cadre_rng_permute(key, i, count) < held; 0:
                     the last ones are */
};

enum { CADRE_HOLDOUT_CHARS = 80 };

/* How many of n items are held: the nearest to the fraction, at least one where it is
 * above 0 and another is left. */
uint64_t cadre_holdout_share(uint64_t n, double fraction);

bool cadre_holdout_has(const struct cadre_holdout *holdout, uint64_t item);

/* The share of what `now` holds that `then` did not hold, 0 to 1; 0 where the contents
 * differ. */
double cadre_holdout_seen(const struct cadre_holdout *then,
                          const struct cadre_holdout *now);

/* One line for a checkpoint, and back; false, *holdout then all zero: not of write. */
void cadre_holdout_write(const struct cadre_holdout *holdout,
                         char out[CADRE_HOLDOUT_CHARS]);
bool cadre_holdout_parse(const char *text, struct cadre_holdout *holdout);

#endif
