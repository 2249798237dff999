/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/engine/layout/mesh.h"
#include "tests/support/check_main.h"

static struct cadre_error err;

static int resolves(struct cadre_axis_request *requests, int n, int given)
{
    int ranks = -1;
    cadre_status rc = cadre_mesh_resolve(requests, n, given, &ranks, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return ranks;
}

START_TEST(sizes_as_asked)
{
    struct cadre_axis_request two[] = {{"pp", 2, "pipeline", NULL},
                                       {"dp", 3, "ddp", NULL}};
    ck_assert_int_eq(resolves(two, 2, 0), 6);
    ck_assert_int_eq(resolves(two, 2, 6), 6);
    ck_assert_int_eq(resolves(NULL, 0, 0), 1);
    ck_assert_int_eq(resolves(NULL, 0, 1), 1);
}
END_TEST

START_TEST(an_open_size_takes_the_rest)
{
    struct cadre_axis_request two[] = {{"pp", 2, "pipeline", NULL},
                                       {"dp", 0, "ddp", NULL}};
    ck_assert_int_eq(resolves(two, 2, 8), 8);
    ck_assert_int_eq(two[1].size, 4);
    struct cadre_axis_request alone[] = {{"dp", 0, "ddp", NULL}};
    ck_assert_int_eq(resolves(alone, 1, 0), 1);
    ck_assert_int_eq(alone[0].size, 1);
}
END_TEST

START_TEST(an_axis_named_twice_is_one)
{
    struct cadre_axis_request both[] = {{"dp", 4, "ddp", NULL},
                                        {"dp", 0, "zero", NULL}};
    ck_assert_int_eq(resolves(both, 2, 0), 4);
    ck_assert_int_eq(both[1].size, 4);
    struct cadre_axis_request late[] = {{"dp", 0, "ddp", NULL},
                                        {"dp", 4, "zero", NULL}};
    ck_assert_int_eq(resolves(late, 2, 4), 4);
    ck_assert_int_eq(late[0].size, 4);
    struct cadre_mesh mesh;
    ck_assert_int_eq(cadre_mesh_init(&mesh, both, 2, 3, &err), CADRE_OK);
    ck_assert_int_eq(mesh.n, 1);
    ck_assert_int_eq(mesh.ranks, 4);
}
END_TEST

static const struct {
    struct cadre_axis_request request[2];
    int n, given;
    const char *why;
} wrong[] = {
    {{{"dp", 2, "ddp", NULL}, {"dp", 4, "zero", NULL}},
     2,
     0,
     "'ddp:2' and 'zero:4' share the axis"},
    {{{"pp", 0, "pipeline", NULL}, {"dp", 0, "ddp", NULL}},
     2,
     0,
     "'pipeline' and 'ddp' both leave"},
    {{{"dp", 3, "ddp", NULL}}, 1, 4, "makes 3 ranks, but the launcher started 4"},
    {{{"dp", 2, "ddp", NULL}}, 1, 4, "makes 2 ranks, but the launcher started 4"},
    {{{"dp", 4, "ddp", NULL}}, 1, 2, "makes 4 ranks, but the launcher started 2"},
    {{{"dp", 0, "ddp", NULL}, {"pp", 3, "pipeline", NULL}}, 2, 4, "makes 3 ranks"},
    {{{"dp", 65536, "ddp", NULL}, {"pp", 65536, "pipeline", NULL}},
     2,
     0,
     "ranks, expected at most"},
    {{{"dp", 1, "none", NULL}}, 0, 2, "makes 1 ranks, but the launcher started 2"},
};

START_TEST(refuses)
{
    struct cadre_axis_request request[2];
    int ranks = -1;
    memcpy(request, wrong[_i].request, sizeof request);
    memset(&err, 0, sizeof err);
    cadre_status rc =
        cadre_mesh_resolve(request, wrong[_i].n, wrong[_i].given, &ranks, &err);
    ck_assert_int_eq(rc, CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, wrong[_i].why) != NULL, "%s", err.text);
    ck_assert_ptr_nonnull(strstr(err.text, "strategy.stack"));
    ck_assert_int_eq(ranks, -1);
}
END_TEST

/* Every rank has its own coordinates, the last axis varies fastest. */
START_TEST(coordinates)
{
    const struct cadre_axis_request requests[] = {
        {"pp", 2, "pipeline", NULL}, {"dp", 3, "ddp", NULL}, {"tp", 4, "tensor", NULL}};
    for (int rank = 0; rank < 24; rank++) {
        struct cadre_mesh mesh;
        ck_assert_int_eq(cadre_mesh_init(&mesh, requests, 3, rank, &err), CADRE_OK);
        ck_assert_int_eq(mesh.ranks, 24);
        int pp = cadre_mesh_axis(&mesh, "pp")->index;
        int dp = cadre_mesh_axis(&mesh, "dp")->index;
        int tp = cadre_mesh_axis(&mesh, "tp")->index;
        ck_assert_int_eq((pp * 3 + dp) * 4 + tp, rank);
        ck_assert_ptr_null(cadre_mesh_axis(&mesh, "mig"));
        cadre_mesh_fini(&mesh);
    }
}
END_TEST

START_TEST(data_ranks_are_those_that_split_the_batch)
{
    const struct cadre_axis_request requests[] = {
        {"dp", 2, "ddp", NULL}, {"pp", 3, "pipeline", NULL}, {"mig", 2, "mig", NULL}};
    struct cadre_mesh mesh;
    for (int rank = 0; rank < 12; rank++) {
        ck_assert_int_eq(cadre_mesh_init(&mesh, requests, 3, rank, &err), CADRE_OK);
        ck_assert_int_eq(cadre_mesh_data_size(&mesh), 1);
        ck_assert_int_eq(cadre_mesh_data_index(&mesh), 0);
        cadre_mesh_axis(&mesh, "dp")->split_batch = true;
        cadre_mesh_axis(&mesh, "mig")->split_batch = true;
        ck_assert_int_eq(cadre_mesh_data_size(&mesh), 4);
        ck_assert_int_eq(cadre_mesh_data_index(&mesh), rank / 6 * 2 + rank % 2);
        ck_assert_int_eq(cadre_mesh_data_rank(&mesh, cadre_mesh_data_index(&mesh)),
                         rank);
        ck_assert_int_eq(cadre_mesh_data_rank(&mesh, 3), rank % 6 / 2 * 2 + 7);
    }
}
END_TEST

START_TEST(one_axis_may_be_of_runs_of_their_own)
{
    const struct cadre_axis_request requests[] = {{"mig", 2, "mig", NULL},
                                                  {"dp", 2, "ddp", NULL}};
    struct cadre_mesh mesh;
    ck_assert_int_eq(cadre_mesh_init(&mesh, requests, 2, 3, &err), CADRE_OK);
    ck_assert_ptr_null(cadre_mesh_own_runs(&mesh));
    cadre_mesh_axis(&mesh, "mig")->own_runs = true;
    cadre_mesh_axis(&mesh, "dp")->split_batch = true;
    ck_assert_ptr_eq(cadre_mesh_own_runs(&mesh), cadre_mesh_axis(&mesh, "mig"));
    ck_assert_int_eq(cadre_mesh_data_size(&mesh), 2);
}
END_TEST

/* A plugin that shares another's axis asks for it by its own name. */
START_TEST(an_axis_answers_to_its_alias)
{
    const struct cadre_axis_request requests[] = {
        {"pp", 3, "pipeline", NULL}, {"mig", 2, "mig", "dp"}, {"mig", 2, "ddp", NULL}};
    struct cadre_mesh mesh;
    ck_assert_int_eq(cadre_mesh_init(&mesh, requests, 3, 3, &err), CADRE_OK);
    ck_assert_int_eq(mesh.n, 2);
    ck_assert_int_eq(mesh.ranks, 6);
    struct cadre_axis *mig = cadre_mesh_axis(&mesh, "mig");
    ck_assert_str_eq(mig->name, "mig");
    ck_assert_int_eq(mig->index, 1);
    ck_assert_ptr_eq(cadre_mesh_axis(&mesh, "dp"), mig);
    ck_assert_ptr_ne(cadre_mesh_axis(&mesh, "pp"), mig);
    ck_assert_ptr_null(cadre_mesh_axis(&mesh, ""));
}
END_TEST

START_TEST(more_axes_than_there_is_room_for)
{
    struct cadre_axis_request many[CADRE_MAX_AXES + 1];
    char names[CADRE_MAX_AXES + 1][2];
    for (int i = 0; i <= CADRE_MAX_AXES; i++) {
        names[i][0] = (char)('a' + i);
        names[i][1] = 0;
        many[i] = (struct cadre_axis_request){names[i], 1, "x", NULL};
    }
    struct cadre_mesh mesh;
    ck_assert_int_eq(cadre_mesh_init(&mesh, many, CADRE_MAX_AXES, 0, &err), CADRE_OK);
    ck_assert_int_eq(cadre_mesh_init(&mesh, many, CADRE_MAX_AXES + 1, 0, &err),
                     CADRE_E_INVALID);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("mesh");
    TCase *tc = tcase_create("mesh");
    tcase_add_test(tc, sizes_as_asked);
    tcase_add_test(tc, an_open_size_takes_the_rest);
    tcase_add_test(tc, an_axis_named_twice_is_one);
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(tc, coordinates);
    tcase_add_test(tc, data_ranks_are_those_that_split_the_batch);
    tcase_add_test(tc, one_axis_may_be_of_runs_of_their_own);
    tcase_add_test(tc, an_axis_answers_to_its_alias);
    tcase_add_test(tc, more_axes_than_there_is_room_for);
    suite_add_tcase(s, tc);
    return s;
}
