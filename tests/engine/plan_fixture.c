/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/plan_fixture.h"

#include <string.h>

#include "tests/support/check_main.h"

void plan_fixture_open(struct plan_fixture *f, const struct cadre_axis_request *axes,
                       int n, int rank)
{
    const struct cadre_model_config config = {.arch = CADRE_ARCH_GPT2,
                                              .layers = 2,
                                              .channels = 8,
                                              .heads = 2,
                                              .kv_heads = 2,
                                              .hidden = 32,
                                              .context = 8,
                                              .vocab = 16,
                                              .tied = true,
                                              .norm_eps = 1e-5,
                                              .dtype = CADRE_F32};
    memset(f, 0, sizeof *f);
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &f->model, &f->err), CADRE_OK);
    ck_assert_int_eq(cadre_mesh_init(&f->mesh, axes, n, rank, &f->err), CADRE_OK);
    f->request = (struct cadre_plan_request){
        .model = f->model, .mesh = &f->mesh, .microbatches = 8, .batch = 2, .time = 8};
    plan_fixture_again(f);
}

void plan_fixture_close(struct plan_fixture *f)
{
    cadre_rank_plan_fini(&f->plan);
    cadre_model_destroy(f->model);
}

void plan_fixture_again(struct plan_fixture *f)
{
    cadre_rank_plan_fini(&f->plan);
    ck_assert_int_eq(cadre_rank_plan_init(&f->plan, &f->request, &f->err), CADRE_OK);
    f->n = 0;
}

const struct cadre_plan *plan_fixture_plugin(struct plan_fixture *f, const char *name,
                                             const char *axis, uint32_t role)
{
    const struct cadre_plan_member member = {name, axis, role};
    struct cadre_plan_session *session = &f->session[f->n++];
    cadre_plan_session_init(session, &f->plan, &f->request, &member, &f->said);
    return &session->abi;
}

void plan_fixture_refused(struct plan_fixture *f, cadre_status rc, const char *text)
{
    ck_assert_int_ne(rc, CADRE_OK);
    ck_assert_int_ne(f->said.code, CADRE_OK);
    ck_assert_msg(strstr(f->said.text, text) != NULL, "'%s' lacks '%s'", f->said.text,
                  text);
    memset(&f->said, 0, sizeof f->said);
}

void plan_fixture_finish(struct plan_fixture *f)
{
    cadre_status rc = cadre_rank_plan_finish(&f->plan, &f->request, &f->err);
    ck_assert_msg(rc == CADRE_OK, "%s", f->err.text);
}

void plan_fixture_cannot(struct plan_fixture *f, const char *text)
{
    memset(&f->err, 0, sizeof f->err);
    ck_assert_int_ne(cadre_rank_plan_finish(&f->plan, &f->request, &f->err), CADRE_OK);
    ck_assert_msg(strstr(f->err.text, text) != NULL, "'%s' lacks '%s'", f->err.text,
                  text);
}
