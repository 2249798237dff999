/* SPDX-License-Identifier: Apache-2.0 */
/* Measured costs of the model's units, for plugins whose plan asks for them. The
 * launching process measures them once, before any rank starts; every rank has the
 * same. Threads share the spec; processes read DIR/unit_seconds.json. */
#ifndef CADRE_TRAIN_COSTS_H
#define CADRE_TRAIN_COSTS_H

#include "core/run/spec.h"

/* Make a plan. If a plugin asked for seconds, measure them into the spec, whose
 * fingerprint then covers them. Nothing is written. [main] Errors: the plan's, those of
 * cadre_unit_seconds_measure. */
cadre_status cadre_costs_find(struct cadre_spec *spec, struct cadre_error *err);

/* Plan with `cut` (n) in place of what was measured, which `measured` (n) keeps, so
 * that run.recut can weigh it again. Both are taken, and may be NULL for the former
 * alone. The fingerprint covers what is planned with. */
void cadre_costs_set(struct cadre_spec *spec, double *measured_take, double *cut_take,
                     uint32_t n);

/* Write DIR/unit_seconds.json if costs were measured. */
cadre_status cadre_costs_write(const struct cadre_spec *spec, struct cadre_error *err);

/* In a rank that is a process: if the plan of `rank` asks for seconds, read those that
 * the launcher wrote. Errors: CADRE_E_INVALID for another file, CADRE_E_IO. */
cadre_status cadre_costs_read(struct cadre_spec *spec, int rank,
                              struct cadre_error *err);

#endif
