/* SPDX-License-Identifier: Apache-2.0 */
/* run.recheck: every so many steps a rank computes one of its micro-batches twice, unit
 * by unit, and compares the bits of each unit's output, of the gradient of its input
 * and of its parameters' gradients. What comes out different shows a core, memory or a
 * driver that fails now and then; where bits are the same, so are those of the
 * training.
 *
 * Forward: once more from the same input, to a buffer of its own; what is saved for
 * backward is then that of the second time. Backward: the first time goes to buffers of
 * its own, with the sum so far as it is; then, since it may overwrite what was saved,
 * forward is run again, and backward is what the training gets. Where WEIGHT comes
 * later than INPUT, what it reads is hashed after both INPUTs and again before it.
 * Redistributions are made each time, by all ranks alike: which micro-batch it is
 * follows from the step. So ranks that share them see each other's faults. */
#ifndef CADRE_ENGINE_EXECUTE_RECHECK_H
#define CADRE_ENGINE_EXECUTE_RECHECK_H

#include "core/device/memory_hash.h"

struct cadre_executor;
struct cadre_executor_config;

struct cadre_recheck {
    struct cadre_memory_hash hash;
    bool on; /* the unit that runs is of the micro-batch */
    char *y, *dy; /* device, of a unit's output and its gradient */
    char *grads; /* device, of a unit's parameters */
    size_t *offset; /* (params) in grads */
    void **dst; /* (params) where the gradient of this pass is written */
    uint64_t *sum; /* (params) hash of the first one */
    uint64_t dx; /* of the first one */
    uint64_t *weight_reads; /* (units) hash of what INPUT alone leaves for WEIGHT */
    struct cadre_error *why; /* of the pass that runs */
};

/* Bytes of device memory that create takes, 0 where recheck is off. `activation` is
 * that of a unit's output. */
size_t cadre_recheck_bytes(const struct cadre_executor_config *config,
                           size_t activation);
/* `memory` has cadre_recheck_bytes. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_recheck_create(struct cadre_executor *exec, char *memory);
void cadre_recheck_destroy(struct cadre_recheck *recheck);

/* Is this micro-batch of the step computed twice? */
bool cadre_recheck_due(const struct cadre_executor *exec, uint32_t microbatch);

/* Around the passes of exec->unit on a micro-batch that is due. after_forward: y is
 * written from x. before_backward: `what` (CADRE_PASS_*) comes next; after_backward: it
 * is done.
 * Errors: CADRE_E_INTERNAL, recorded in *why: the bits differ; those of the unit. */
cadre_status cadre_recheck_after_forward(struct cadre_executor *exec, const void *x,
                                         const void *y);
cadre_status cadre_recheck_before_backward(struct cadre_executor *exec, uint32_t what,
                                           const void *x, void *dy, void *dx);
cadre_status cadre_recheck_after_backward(struct cadre_executor *exec, uint32_t what,
                                          const void *dx);

/* A gradient is written to dst from now on, and is there now. Errors: as above. */
void cadre_recheck_open(struct cadre_executor *exec, uint32_t param, void *dst);
cadre_status cadre_recheck_close(struct cadre_executor *exec, uint32_t param);

#endif
