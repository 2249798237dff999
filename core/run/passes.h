/* SPDX-License-Identifier: Apache-2.0 */
/* passes.json: the measured schedule of a run. For each rank its chunks with the median
 * seconds of their passes, and the passes of the fastest step after warm-up, in order,
 * with their begin and end:
 *
 *     {"step": 9, "span_s": 0.1, "ranks": [
 *      {"rank": 0, "group": 0, "index": 0,
 *       "chunks": [{"begin": 0, "end": 2, "forward_s": 0.01, "backward_s": 0.02,
 *                   "input_s": 0, "weight_s": 0}],
 *       "passes": [["F", 0, 0, 0.000, 0.010], ["B", 0, 0, 0.011, 0.031]]}]}
 *
 * A pass is its kind (F forward, B backward, I input and W weight backward), the rank's
 * chunk, the micro-batch, begin and end in seconds from the first pass of its group.
 * Ranks of one group run one replica of the model; index is the position along the
 * schedule's axis. 0 seconds: no such pass. */
#ifndef CADRE_RUN_PASSES_H
#define CADRE_RUN_PASSES_H

#include "core/run/spec.h"

/* [collective: world] Write DIR/passes.json if a schedule distributes the model over
 * ranks, else remove it. Errors: those of cadre_gather_file, CADRE_E_IO. */
cadre_status cadre_passes_write(struct cadre_rank *rank, const struct cadre_spec *spec,
                                struct cadre_error *err);

#endif
