/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated steps as Chakra execution traces, which ASTRA-sim reads: step.RANK.et, a
 * file of each rank, and comm_groups.json, the ranks of each group. A file is a stream
 * of protobuf messages, each behind its length: GlobalMetadata, then a Node for each
 * node of the rank's graph. Source: schema/protobuf/et_def.proto of mlcommons/chakra;
 * attributes have the types by which its feeders take them. */
#ifndef CADRE_EXPORT_CHAKRA_H
#define CADRE_EXPORT_CHAKRA_H

#include "core/export/step_graph.h"

struct cadre_chakra_step {
    int ranks;
    const struct cadre_step_graph *graph; /* (ranks) */
    const struct cadre_step_group *group; /* (n_groups) by number; 0 is the world */
    int n_groups;
    const char *stack, *hardware; /* what the files say that they are of */
};

/* Write them into the folder, which is made, in the place of those of another step that
 * are there. Where one cannot be written none is left. Errors: CADRE_E_IO,
 * CADRE_E_RESOURCE. [main] */
cadre_status cadre_chakra_write(const struct cadre_chakra_step *step, const char *dir,
                                struct cadre_error *err);

#endif
