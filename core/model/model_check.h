/* SPDX-License-Identifier: Apache-2.0 */
/* Which models there can be: sizes, forms and their choices, tensor ranks, parts. */
#ifndef CADRE_MODEL_MODEL_CHECK_H
#define CADRE_MODEL_MODEL_CHECK_H

#include "core/model/model.h"

/* As cadre_model_create refuses them. Errors: CADRE_E_INVALID, CADRE_E_UNSUPPORTED
 * naming the key. [any thread] */
cadre_status cadre_model_check(const struct cadre_model_config *config, int tp_rank,
                               int tp_size, struct cadre_error *err);

#endif
