/* SPDX-License-Identifier: Apache-2.0 */
/* passes.json of a run (core/run/passes.h) read back. */
#ifndef CADRE_COMPARE_VERDICT_PASSES_FILE_H
#define CADRE_COMPARE_VERDICT_PASSES_FILE_H

#include "core/compare/verdict/replay.h"

/* The first pipeline of DIR/passes.json, ranks in the order of stages, into *out, which
 * the caller ends with cadre_replay_fini. Without the file, n is 0. Errors:
 * CADRE_E_INVALID for what train does not write, CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_passes_read(const char *dir, struct cadre_replay *out,
                               struct cadre_error *err);

#endif
