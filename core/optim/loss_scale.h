/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic loss scaling: a factor on the loss keeps gradients of fp16 activations from
 * vanishing; the update divides by it again (Micikevicius et al. 2018, section 3.2).
 * The factor is a power of two, so it rounds nothing. */
#ifndef CADRE_OPTIM_LOSS_SCALE_H
#define CADRE_OPTIM_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#define CADRE_LOSS_SCALE_FIRST 65536.0
#define CADRE_LOSS_SCALE_MIN 1.0
#define CADRE_LOSS_SCALE_MAX 4294967296.0 /* 2^32 */
#define CADRE_LOSS_SCALE_GROWS 2000 /* good steps until the scale is doubled */

struct cadre_loss_scale {
    double scale; /* of the next step; 1 where losses are not scaled */
    uint64_t good; /* steps since the scale last changed */
    uint64_t skipped; /* steps of the whole run that updated nothing */
};

/* After a step with finite gradients: doubles the scale when there were enough in a
 * row, up to CADRE_LOSS_SCALE_MAX. */
void cadre_loss_scale_good(struct cadre_loss_scale *at);

/* After a step that overflowed and was skipped: halves the scale. false if it is then
 * below CADRE_LOSS_SCALE_MIN: the cause is not an overflow of fp16. */
bool cadre_loss_scale_bad(struct cadre_loss_scale *at);

/* Is it a power of two from CADRE_LOSS_SCALE_MIN to CADRE_LOSS_SCALE_MAX? */
bool cadre_loss_scale_valid(double scale);

#endif
