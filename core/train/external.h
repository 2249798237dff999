/* SPDX-License-Identifier: Apache-2.0 */
/* A process that an external launcher started as one rank: a script, a batch system. */
#ifndef CADRE_TRAIN_EXTERNAL_H
#define CADRE_TRAIN_EXTERNAL_H

#include "core/train/loop.h"

/* [collective: all ranks that run->outside counts] Prepare on rank 0, meet, train.
 * What is wrong with rank 0's files is told to all; what every rank finds by itself is
 * not waited with. [main] Errors: as cadre_train. */
cadre_status cadre_train_external(const struct cadre_train_run *run,
                                  struct cadre_spec *spec, struct cadre_error *err);

#endif
