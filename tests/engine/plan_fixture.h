/* SPDX-License-Identifier: Apache-2.0 */
/* A plan being made for one rank, by plugins that are the test itself. Failures end the
 * test. */
#ifndef CADRE_TESTS_PLAN_FIXTURE_H
#define CADRE_TESTS_PLAN_FIXTURE_H

#include "core/engine/layout/plan_session.h"

struct plan_fixture {
    struct cadre_error err, said;
    struct cadre_model *model;
    struct cadre_mesh mesh;
    struct cadre_plan_request request;
    struct cadre_rank_plan plan;
    int n;
    struct cadre_plan_session session[CADRE_MAX_INSTANCES];
};

/* GPT-2 form, two blocks of 8 channels, a tied head, f32; eight micro-batches of two
 * samples of eight tokens; rank `rank` of the mesh of n axes. */
void plan_fixture_open(struct plan_fixture *f, const struct cadre_axis_request *axes,
                       int n, int rank);
void plan_fixture_close(struct plan_fixture *f);

/* Begin the plan again, without plugins. */
void plan_fixture_again(struct plan_fixture *f);

/* What a plugin's plan function is called with. */
const struct cadre_plan *plan_fixture_plugin(struct plan_fixture *f, const char *name,
                                             const char *axis, uint32_t role);

/* The call was refused with this text; forgets it. */
void plan_fixture_refused(struct plan_fixture *f, cadre_status rc, const char *text);

/* Finish the plan; it must go well. */
void plan_fixture_finish(struct plan_fixture *f);
/* Finish the plan; it must be refused with this text. */
void plan_fixture_cannot(struct plan_fixture *f, const char *text);

#endif
