/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/engine/layout/mesh.h"
#include "tests/support/check_main.h"

enum { MOST = 1024 };

static struct cadre_error err;

static int resolves(struct cadre_axis_request *requests, int n, int given)
{
    int ranks = -1;
    cadre_status rc = cadre_mesh_resolve(requests, n, given, MOST, &ranks, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return ranks;
}

START_TEST(sizes_as_asked)
{
    struct cadre_axis_request two[] = {{"pp", 2, "pipeline"}, {"dp", 3, "ddp"}};
    ck_assert_int_eq(resolves(two, 2, 0), 6);
    ck_assert_int_eq(resolves(two, 2, 6), 6);
    ck_assert_int_eq(resolves(NULL, 0, 0), 1);
    ck_assert_int_eq(resolves(NULL, 0, 1), 1);
}
END_TEST

START_TEST(an_open_size_takes_the_rest)
{
    struct cadre_axis_request two[] = {{"pp", 2, "pipeline"}, {"dp", 0, "ddp"}};
    ck_assert_int_eq(resolves(two, 2, 8), 8);
    ck_assert_int_eq(two[1].size, 4);
    struct cadre_axis_request alone[] = {{"dp", 0, "ddp"}};
    ck_assert_int_eq(resolves(alone, 1, 0), 1);
    ck_assert_int_eq(alone[0].size, 1);
}
END_TEST

START_TEST(an_axis_named_twice_is_one)
{
    struct cadre_axis_request both[] = {{"dp", 4, "ddp"}, {"dp", 0, "zero"}};
    ck_assert_int_eq(resolves(both, 2, 0), 4);
    ck_assert_int_eq(both[1].size, 4);
    struct cadre_axis_request late[] = {{"dp", 0, "ddp"}, {"dp", 4, "zero"}};
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
    {{{"dp", 2, "ddp"}, {"dp", 4, "zero"}},
     2,
     0,
     "'ddp:2' and 'zero:4' share the axis"},
    {{{"pp", 0, "pipeline"}, {"dp", 0, "ddp"}},
     2,
     0,
     "'pipeline' and 'ddp' both leave"},
    {{{"dp", 3, "ddp"}}, 1, 4, "makes 3 ranks, but the launcher started 4"},
    {{{"dp", 2, "ddp"}}, 1, 4, "makes 2 ranks, but the launcher started 4"},
    {{{"dp", 4, "ddp"}}, 1, 2, "makes 4 ranks, but the launcher started 2"},
    {{{"dp", 0, "ddp"}, {"pp", 3, "pipeline"}}, 2, 4, "makes 3 ranks"},
    {{{"dp", 65536, "ddp"}, {"pp", 65536, "pipeline"}},
     2,
     0,
     "ranks, expected at most"},
    {{{"dp", 1, "none"}}, 0, 2, "makes 1 ranks, but the launcher started 2"},
};

START_TEST(refuses)
{
    struct cadre_axis_request request[2];
    int ranks = -1;
    memcpy(request, wrong[_i].request, sizeof request);
    memset(&err, 0, sizeof err);
    cadre_status rc =
        cadre_mesh_resolve(request, wrong[_i].n, wrong[_i].given, MOST, &ranks, &err);
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
        {"pp", 2, "pipeline"}, {"dp", 3, "ddp"}, {"tp", 4, "tensor"}};
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
        {"dp", 2, "ddp"}, {"pp", 3, "pipeline"}, {"mig", 2, "mig"}};
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
    const struct cadre_axis_request requests[] = {{"mig", 2, "mig"}, {"dp", 2, "ddp"}};
    struct cadre_mesh mesh;
    ck_assert_int_eq(cadre_mesh_init(&mesh, requests, 2, 3, &err), CADRE_OK);
    ck_assert_ptr_null(cadre_mesh_own_runs(&mesh));
    cadre_mesh_axis(&mesh, "mig")->own_runs = true;
    cadre_mesh_axis(&mesh, "dp")->split_batch = true;
    ck_assert_ptr_eq(cadre_mesh_own_runs(&mesh), cadre_mesh_axis(&mesh, "mig"));
    ck_assert_int_eq(cadre_mesh_data_size(&mesh), 2);
}
END_TEST

/* ---- axes made of axes ---- */

static struct cadre_mesh mesh;

/* Mesh rep:2 x dp:4 x tp:3, seen by a rank. */
static void open_rank(int rank)
{
    const struct cadre_axis_request requests[] = {
        {"rep", 2, "hsdp"}, {"dp", 4, "zero"}, {"tp", 3, "tensor"}};
    ck_assert_int_eq(cadre_mesh_init(&mesh, requests, 3, rank, &err), CADRE_OK);
}

static int index_along(const char *name)
{
    const struct cadre_axis *axis = cadre_mesh_axis(&mesh, name);
    ck_assert_msg(axis != NULL, "no axis %s", name);
    return axis->index;
}

/* The first varies slowest, whatever the order of the mesh. */
START_TEST(products)
{
    for (int rank = 0; rank < 24; rank++) {
        open_rank(rank);
        int rep = rank / 12, dp = rank / 3 % 4, tp = rank % 3;
        ck_assert_int_eq(cadre_mesh_product(&mesh, "rep*dp", "x", &err), CADRE_OK);
        ck_assert_int_eq(cadre_mesh_product(&mesh, "dp*rep", "x", &err), CADRE_OK);
        ck_assert_int_eq(cadre_mesh_product(&mesh, "tp*rep*dp", "x", &err), CADRE_OK);
        ck_assert_int_eq(cadre_mesh_product(&mesh, "rep*dp", "y", &err), CADRE_OK);
        ck_assert_int_eq(mesh.n_derived, 3);
        ck_assert_int_eq(cadre_mesh_axis(&mesh, "rep*dp")->size, 8);
        ck_assert_int_eq(index_along("rep*dp"), 4 * rep + dp);
        ck_assert_int_eq(index_along("dp*rep"), 2 * dp + rep);
        ck_assert_int_eq(index_along("tp*rep*dp"), 8 * tp + 4 * rep + dp);
    }
}
END_TEST

/* Adjacent ranks are one rank of the outer axis; parts can be multiplied too. */
START_TEST(splits)
{
    for (int rank = 0; rank < 24; rank++) {
        open_rank(rank);
        int rep = rank / 12, dp = rank / 3 % 4;
        ck_assert_int_eq(cadre_mesh_split(&mesh, "dp", 2, "x", &err), CADRE_OK);
        ck_assert_int_eq(cadre_mesh_split(&mesh, "dp", 2, "y", &err), CADRE_OK);
        ck_assert_int_eq(cadre_mesh_axis(&mesh, "dp.outer")->size, 2);
        ck_assert_int_eq(index_along("dp.outer"), dp / 2);
        ck_assert_int_eq(index_along("dp.inner"), dp % 2);
        ck_assert_int_eq(cadre_mesh_product(&mesh, "rep*dp.outer", "x", &err),
                         CADRE_OK);
        ck_assert_int_eq(index_along("rep*dp.outer"), 2 * rep + dp / 2);
        ck_assert_int_eq(cadre_mesh_product(&mesh, "dp.outer*dp.inner", "x", &err),
                         CADRE_OK);
        ck_assert_int_eq(index_along("dp.outer*dp.inner"), dp);
        ck_assert_int_eq(mesh.n_derived, 4);
        cadre_mesh_reset(&mesh);
        ck_assert_ptr_null(cadre_mesh_axis(&mesh, "dp.inner"));
        ck_assert_int_eq(cadre_mesh_split(&mesh, "dp", 4, "x", &err), CADRE_OK);
    }
}
END_TEST

static const struct {
    const char *product, *split;
    uint32_t inner;
    const char *why;
} no_axes[] = {
    {"dp", NULL, 0, "'dp' is no product of axes"},
    {"dp*", NULL, 0, "the axis '', which this run does not have"},
    {"*dp", NULL, 0, "the axis ''"},
    {"dp*pp", NULL, 0, "'dp*pp' is to be made of the axis 'pp'"},
    {"dp*dp", NULL, 0, "'dp*dp' has ranks of the axis 'dp' twice"},
    {"rep*dp*a23456789012345678901234567", NULL, 0, "at most 31 characters"},
    {NULL, "pp", 2, "'pp' is to be split, expected an axis of strategy.stack"},
    {NULL, "dp", 0, "into groups of 0, which do not divide it"},
    {NULL, "dp", 3, "the axis 'dp' of 4 ranks is to be split into groups of 3"},
    {NULL, "dp", 8, "into groups of 8"},
};

START_TEST(wrong_axes_are_refused)
{
    open_rank(0);
    memset(&err, 0, sizeof err);
    cadre_status rc =
        no_axes[_i].product
            ? cadre_mesh_product(&mesh, no_axes[_i].product, "x", &err)
            : cadre_mesh_split(&mesh, no_axes[_i].split, no_axes[_i].inner, "x", &err);
    ck_assert_int_eq(rc, CADRE_E_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, no_axes[_i].why) != NULL, "%s", err.text);
    ck_assert_int_eq(mesh.n_derived, 0);
}
END_TEST

START_TEST(an_axis_is_split_in_one_way)
{
    open_rank(0);
    ck_assert_int_eq(cadre_mesh_split(&mesh, "dp", 2, "x", &err), CADRE_OK);
    ck_assert_int_eq(cadre_mesh_split(&mesh, "dp", 4, "x", &err), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "must split it alike"));
    ck_assert_int_eq(cadre_mesh_split(&mesh, "dp.inner", 2, "x", &err),
                     CADRE_E_UNSUPPORTED);
    ck_assert_int_eq(cadre_mesh_product(&mesh, "dp*dp.inner", "x", &err),
                     CADRE_E_UNSUPPORTED);
}
END_TEST

START_TEST(more_derived_axes_than_there_is_room_for)
{
    static const char *const names[] = {"rep", "dp", "tp"};
    char product[32];
    int n = 0;
    open_rank(0);
    for (int i = 0; i < 27; i++) {
        int a = i / 9, b = i / 3 % 3, c = i % 3;
        if (a == b || b == c || a == c)
            continue;
        snprintf(product, sizeof product, "%s*%s*%s", names[a], names[b], names[c]);
        ck_assert_int_eq(cadre_mesh_product(&mesh, product, "x", &err), CADRE_OK);
        snprintf(product, sizeof product, "%s*%s", names[a], names[b]);
        ck_assert_int_eq(cadre_mesh_product(&mesh, product, "x", &err), CADRE_OK);
        n += 2;
    }
    ck_assert_int_eq(mesh.n_derived, n);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(cadre_mesh_split(&mesh, names[i], 2, "x", &err), CADRE_OK);
    ck_assert_int_eq(mesh.n_derived, CADRE_MAX_DERIVED);
    ck_assert_int_eq(cadre_mesh_split(&mesh, "tp", 3, "x", &err), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "'tp.outer' is one axis too many"));
}
END_TEST

/* ---- parts ---- */

START_TEST(parts_are_what_axes_are_made_of)
{
    struct cadre_axis_part part[CADRE_MAX_PARTS];
    open_rank(0);
    ck_assert_int_eq(cadre_mesh_parts(&mesh, part), 3);
    ck_assert_int_eq(cadre_mesh_split(&mesh, "dp", 2, "x", &err), CADRE_OK);
    ck_assert_int_eq(cadre_mesh_product(&mesh, "rep*dp.outer", "x", &err), CADRE_OK);
    ck_assert_int_eq(cadre_mesh_parts(&mesh, part), 4);
    static const bool has[][4] = {
        {true, false, false, false}, /* rep */
        {false, true, true, false}, /* dp */
        {false, true, false, false}, /* dp.outer */
        {true, true, false, false}, /* rep*dp.outer */
    };
    static const char *const names[] = {"rep", "dp", "dp.outer", "rep*dp.outer"};
    for (int i = 0; i < 4; i++)
        for (int p = 0; p < 4; p++)
            ck_assert_int_eq(cadre_axis_has(cadre_mesh_axis(&mesh, names[i]), &part[p]),
                             has[i][p]);
    ck_assert_ptr_eq(part[2].axis, cadre_mesh_axis(&mesh, "dp"));
    ck_assert_int_eq(part[2].factor.size, 2);
    ck_assert_int_eq(part[2].factor.stride, 3);
}
END_TEST

START_TEST(the_first_of_a_group)
{
    for (int rank = 0; rank < 24; rank++) {
        open_rank(rank);
        ck_assert_int_eq(cadre_mesh_split(&mesh, "dp", 2, "x", &err), CADRE_OK);
        const struct cadre_axis *axes[] = {cadre_mesh_axis(&mesh, "dp.inner"),
                                           cadre_mesh_axis(&mesh, "tp")};
        int dp = rank / 3 % 4;
        ck_assert_int_eq(cadre_mesh_is_first(&mesh, axes, 0), rank == 0);
        ck_assert_int_eq(cadre_mesh_is_first(&mesh, axes, 1),
                         rank / 12 == 0 && dp / 2 == 0 && rank % 3 == 0);
        ck_assert_int_eq(cadre_mesh_is_first(&mesh, axes, 2),
                         rank / 12 == 0 && dp / 2 == 0);
    }
}
END_TEST

/* ---- data ranks ---- */

START_TEST(data_ranks_are_numbered_as_asked)
{
    for (int rank = 0; rank < 24; rank++) {
        open_rank(rank);
        int rep = rank / 12, dp = rank / 3 % 4, first, last;
        cadre_mesh_axis(&mesh, "rep")->split_batch = true;
        cadre_mesh_axis(&mesh, "dp")->split_batch = true;
        ck_assert_int_eq(cadre_mesh_data_index(&mesh), 4 * rep + dp);
        const struct cadre_axis *axes[] = {cadre_mesh_axis(&mesh, "dp"),
                                           cadre_mesh_axis(&mesh, "tp"),
                                           cadre_mesh_axis(&mesh, "rep")};
        cadre_mesh_number(&mesh, axes, 3);
        ck_assert_int_eq(cadre_mesh_data_size(&mesh), 8);
        ck_assert_int_eq(cadre_mesh_data_index(&mesh), 2 * dp + rep);
        for (int d = 0; d < 8; d++)
            ck_assert_int_eq(cadre_mesh_data_rank(&mesh, d),
                             d % 2 * 12 + d / 2 * 3 + rank % 3);
        cadre_mesh_data_group(&mesh, axes[0], 3, &first, &last);
        ck_assert_int_eq(first, 6); /* both replicas of dp 3 */
        ck_assert_int_eq(last, 7);
        cadre_mesh_data_group(&mesh, axes[2], 1, &first, &last);
        ck_assert_int_eq(first, 2 * dp + 1);
        ck_assert_int_eq(last, first);
        cadre_mesh_data_group(&mesh, axes[1], 2, &first, &last);
        ck_assert_int_eq(first, 2 * dp + rep); /* no data axis: its own */
        ck_assert_int_eq(last, first);
    }
}
END_TEST

/* ---- no axis ---- */

/* A plugin without an axis is one rank and no part of the mesh. */
START_TEST(plugins_without_an_axis)
{
    struct cadre_axis_request requests[] = {
        {"", 0, "watch"}, {"dp", 2, "ddp"}, {"", 1, "muon"}};
    ck_assert_int_eq(resolves(requests, 3, 0), 2);
    ck_assert_int_eq(requests[0].size, 1);
    ck_assert_int_eq(cadre_mesh_init(&mesh, requests, 3, 1, &err), CADRE_OK);
    ck_assert_int_eq(mesh.n, 1);
    ck_assert_ptr_null(cadre_mesh_axis(&mesh, ""));
    int ranks;
    requests[0].size = 2;
    ck_assert_int_eq(cadre_mesh_resolve(requests, 3, 0, MOST, &ranks, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "'watch:2' has no axis") != NULL, "%s", err.text);
}
END_TEST

START_TEST(more_axes_than_there_is_room_for)
{
    struct cadre_axis_request many[CADRE_MAX_AXES + 1];
    char names[CADRE_MAX_AXES + 1][2];
    for (int i = 0; i <= CADRE_MAX_AXES; i++) {
        names[i][0] = (char)('a' + i);
        names[i][1] = 0;
        many[i] = (struct cadre_axis_request){names[i], 1, "x"};
    }
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
    tcase_add_test(tc, products);
    tcase_add_test(tc, splits);
    tcase_add_loop_test(tc, wrong_axes_are_refused, 0,
                        (int)(sizeof no_axes / sizeof *no_axes));
    tcase_add_test(tc, an_axis_is_split_in_one_way);
    tcase_add_test(tc, more_derived_axes_than_there_is_room_for);
    tcase_add_test(tc, parts_are_what_axes_are_made_of);
    tcase_add_test(tc, the_first_of_a_group);
    tcase_add_test(tc, data_ranks_are_numbered_as_asked);
    tcase_add_test(tc, plugins_without_an_axis);
    tcase_add_test(tc, more_axes_than_there_is_room_for);
    suite_add_tcase(s, tc);
    return s;
}
