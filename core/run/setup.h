/* SPDX-License-Identifier: Apache-2.0 */
/* What a run is, said at its start: lines of the log, and `setup` of summary.json. */
#ifndef CADRE_RUN_SETUP_H
#define CADRE_RUN_SETUP_H

#include "core/base/json.h"
#include "core/run/spec.h"

/* What is known besides the spec when a run starts. */
struct cadre_setup {
    uint64_t params; /* of the whole model */
    uint64_t params_trained; /* of them, those that the model does not freeze */
    int64_t first_step, last_step; /* steps done before, and the last one */
    int ranks_here; /* ranks of this machine */
    int cores; /* that this process may use */
    bool launched; /* an external launcher divides machines and cores */
    bool placed; /* a strategy says on which cores each rank runs */
    /* predicted for this machine, and what is free: of a GPU where the run uses one.
     * Bytes; free is 0 where that is not known */
    uint64_t needed_bytes, free_bytes;
};

/* Log what the run is, in four lines and one where ranks are slowed, and a warning for
 * each of: more threads than cores; most cores idle by the default of device.threads.
 * [rank 0 or the launching process, before ranks start] */
void cadre_setup_tell(const struct cadre_spec *spec, const struct cadre_setup *setup);

/* Write DIR/setup.json, DIR being the run's folder. Errors: CADRE_E_IO,
 * CADRE_E_RESOURCE. */
cadre_status cadre_setup_write(const struct cadre_spec *spec,
                               const struct cadre_setup *setup,
                               struct cadre_error *err);

/* Append "setup", the object of DIR/setup.json; null where there is none. */
void cadre_setup_put(const char *dir, struct cadre_json *json);

#endif
