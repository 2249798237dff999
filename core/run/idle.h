/* SPDX-License-Identifier: Apache-2.0 */
/* The power of a machine before its ranks start, measured once by the process that
 * starts them and kept for the summary in DIR/idle.json. It is whatever the machine did
 * then: nobody's share of anything. */
#ifndef CADRE_RUN_IDLE_H
#define CADRE_RUN_IDLE_H

#include "core/run/spec.h"

/* Remove an earlier start's idle.json; then, where the packages' counters can be read,
 * wait for energy.idle seconds and write a new one. A benchmark measures nothing, nor
 * does a rank of an external launcher (`external`), whose machine is at work already.
 * [main, before any rank starts] Errors: CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_idle_measure(const struct cadre_spec *spec, bool external,
                                struct cadre_error *err);

/* Watts that DIR/idle.json has, NaN where there is none. [any thread] */
double cadre_idle_read(const char *dir);

#endif
