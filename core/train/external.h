/* SPDX-License-Identifier: Apache-2.0 */
/* A process that an external launcher (a script, a batch system) started as one rank.
 */
#ifndef CADRE_TRAIN_EXTERNAL_H
#define CADRE_TRAIN_EXTERNAL_H

#include "core/train/loop.h"

/* [collective: all ranks of run->external] Prepare on rank 0, connect, train. Errors
 * that only rank 0 finds are sent to all; errors that every rank finds end it at once.
 * [main] Errors: as cadre_train. */
cadre_status cadre_train_external(const struct cadre_train_run *run,
                                  struct cadre_spec *spec, struct cadre_error *err);

#endif
