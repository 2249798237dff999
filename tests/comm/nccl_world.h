/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over NCCL's stand-in, for the cases of comm_cases.h and some of their own. */
#ifndef CADRE_TESTS_NCCL_WORLD_H
#define CADRE_TESTS_NCCL_WORLD_H

#include "core/comm/module.h"
#include "tests/comm/comm_cases.h"

/* How the next worlds of this process are opened. */
struct nccl_world_config {
    double timeout_s;
    bool exact;
    bool host; /* buffers are in host memory only */
    bool one_gpu; /* all ranks on it */
    int absent; /* this rank does not come; -1: none */
};

/* CADRE_TEST_DEVICE=cuda requests the real module and a GPU. */
bool nccl_is_real(void);

/* The stand-in's module, NULL where it was not built; or the real one. */
const struct cadre_comm_module *nccl_module(void);

/* Run `body` on `size` threads, each with a GPU. `why` is the first failure of a world,
 * or of opening one; "" for none. */
cadre_status nccl_run(const struct nccl_world_config *config, int size, comm_body body,
                      char why[1024]);
/* The same with a case of comm_cases.h. */
cadre_status nccl_run_case(const struct nccl_world_config *config, int size,
                           const char *name, const char *arg, char why[1024]);

/* nccl_cases.c: every collective on the device's buffers, with the bits of `local`
 * where the world is exact. */
cadre_status nccl_sums(struct world *w, const char *arg);
cadre_status nccl_sums_exact(struct world *w, const char *arg);
cadre_status nccl_ring(struct world *w, const char *arg);
cadre_status nccl_host(struct world *w, const char *arg);
cadre_status nccl_apart(struct world *w, const char *arg);
cadre_status nccl_refusals(struct world *w, const char *arg);

/* nccl_faults.c */
cadre_status nccl_late(struct world *w, const char *arg);
cadre_status nccl_late_alone(struct world *w, const char *arg);
cadre_status nccl_remote_error(struct world *w, const char *arg);
cadre_status nccl_aborted(struct world *w, const char *arg);
cadre_status nccl_left(struct world *w, const char *arg);
cadre_status nccl_nothing(struct world *w, const char *arg);

#endif
