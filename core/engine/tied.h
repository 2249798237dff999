/* SPDX-License-Identifier: Apache-2.0 */
/* Tied weights (two uses). Each use has its own gradient, which is reduced separately;
 * the two are added once, before the norm. Where the uses run on different stages, the
 * owner's stage receives the other gradient and sends the new values back; the other
 * stage keeps a copy of the values under the owner's entry (struct cadre_plan_param,
 * copied). */
#ifndef CADRE_ENGINE_TIED_H
#define CADRE_ENGINE_TIED_H

#include "core/engine/layout/stages.h"
#include "core/engine/layout/store.h"

/* [collective: the schedule's axis] After sync(GRADS): owners' gradients become the
 * sums over uses. Errors: those of the device and the communicator; CADRE_E_INTERNAL,
 * with a text, uses placed differently. */
cadre_status cadre_tied_add(const struct cadre_store *store,
                            const struct cadre_stages *stages, struct cadre_error *why);

/* [collective: the schedule's axis] After the update: copy the owners' values to the
 * copies. */
cadre_status cadre_tied_copy(const struct cadre_store *store,
                             const struct cadre_stages *stages);

#endif
