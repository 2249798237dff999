/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of a whole model against finite differences in fp64. */
#ifndef CADRE_TESTS_FINITE_H
#define CADRE_TESTS_FINITE_H

#include "core/model/model.h"

/* A small model of either form, fp64, with sizes that are not powers of two. */
struct cadre_model_config test_small_model(enum cadre_arch arch);

/* Along random directions over all parameters, and along single elements of every
 * parameter: five-point differences of the loss on (B, T) random tokens against the
 * gradient. Prints the largest error and ends the test above 1e-9 of the gradient. */
void test_finite_differences(const struct cadre_model_config *config, int64_t B,
                             int64_t T);

#endif
