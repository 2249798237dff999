/* SPDX-License-Identifier: Apache-2.0 */
/* A small run on text, in one process, with plugins that are functions of the test.
 * Failures end the test. */
#ifndef CADRE_TESTS_RANK_FIXTURE_H
#define CADRE_TESTS_RANK_FIXTURE_H

#include "core/engine/rank.h"

struct rank_fixture {
    char *dir; /* of the data */
    struct cadre_options *options; /* all defaults */
    struct cadre_config config; /* of these */
    struct cadre_dataset *data;
    struct cadre_run_spec spec;
    struct cadre_rank rank; /* zero until planned */
    struct cadre_error err;
    int n_handles;
    struct cadre_plugin_handle handle[4];
};

/* GPT-2 form, two blocks, fp32, tied head; 8 sequences of 16 tokens a step in
 * micro-batches of 2; AdamW. spec may be changed until the rank is planned. */
void rank_fixture_open(struct rank_fixture *f);
void rank_fixture_close(struct rank_fixture *f);

/* Put a plugin into the stack, on an axis of its name and size. ops may leave out plan,
 * bind, sync, create and destroy: they then do nothing. */
void rank_fixture_plug(struct rank_fixture *f, const char *name, uint32_t role,
                       int size, const struct cadre_strategy_ops *ops);

/* A data strategy on an axis of its own name: plan splits the batch and reduces,
 * on_grad sums each final gradient at once. */
cadre_status rank_fixture_split(struct cadre_self *self, const struct cadre_plan *plan);
cadre_status rank_fixture_reduce(struct cadre_self *self, struct cadre_grad_ev *ev);

/* The host of an instance that rank_fixture_plug has made. */
const struct cadre_host *rank_fixture_host(struct cadre_self *self);

/* The host of the plugin at a position of the chain, as if its callback ran: what the
 * test calls next are its services. */
const struct cadre_host *rank_fixture_inside(struct rank_fixture *f, int link,
                                             enum cadre_callback callback);

/* Plan and bind rank 0, without a world. */
void rank_fixture_start(struct rank_fixture *f);
/* Run a step that must go well. */
struct cadre_step_report rank_fixture_step(struct rank_fixture *f, uint64_t step);
/* End the rank, keep the spec: the next start is a new run. */
void rank_fixture_stop(struct rank_fixture *f);

/* XXH64 of all parameters. */
uint64_t rank_fixture_params(const struct rank_fixture *f);

#endif
