/* SPDX-License-Identifier: Apache-2.0 */
#include "core/top/events.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rank_page.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_rank_page *page[2];
static struct cadre_text out;
static struct cadre_error err;

static void post(int rank, const char *label, double ended_s)
{
    struct cadre_rank_page_op op = {.posted_s = 5, .bytes = 64, .step = 3, .ranks = 2};
    snprintf(op.kind, sizeof op.kind, "all_reduce");
    snprintf(op.label, sizeof op.label, "%s", label);
    snprintf(op.comm, sizeof op.comm, "dp");
    snprintf(op.plugin, sizeof op.plugin, "ddp");
    const uint64_t posted = cadre_rank_page_posted(page[rank], &op);
    cadre_rank_page_queued(page[rank], posted, 7);
    if (ended_s > 0)
        cadre_rank_page_ended(page[rank], posted, ended_s);
}

static void setup(void)
{
    dir = test_tmpdir();
    for (int r = 0; r < 2; r++) {
        const struct cadre_rank_page_request request = {.dir = dir,
                                                        .rank = r,
                                                        .ranks = 2,
                                                        .name = "n",
                                                        .stack = "ddp:2",
                                                        .last_step = 9};
        ck_assert_int_eq(cadre_rank_page_create(&request, &page[r], &err), CADRE_OK);
        cadre_rank_page_begin_step(page[r], 3);
    }
    post(0, "bucket 1", 5.25);
    post(1, "bucket 1", 0);
}

static void teardown(void)
{
    cadre_text_fini(&out);
    for (int r = 0; r < 2; r++)
        cadre_rank_page_close(page[r]);
    test_tmpdir_destroy(dir);
}

static cadre_status events(int rank, bool json)
{
    const struct cadre_top_events_request request = {dir, rank, json};
    cadre_text_reset(&out);
    return cadre_top_events(&request, &out, &err);
}

static bool has(const char *text)
{
    return strstr(cadre_text_str(&out), text) != NULL;
}

START_TEST(a_table_of_each_rank)
{
    ck_assert_int_eq(events(-1, false), CADRE_OK);
    ck_assert(has("rank 0: 1 events, to step 3\n"));
    ck_assert(has("250.000 ms"));
    ck_assert(has("rank 1: 1 events, to step 3\n"));
    ck_assert(has("pending"));
    ck_assert(has("#7"));
    ck_assert_int_eq(events(1, false), CADRE_OK);
    ck_assert(!has("rank 0"));
    ck_assert_int_eq(events(2, false), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "has no rank 2; expected 0 to 1"));
}
END_TEST

START_TEST(as_json)
{
    ck_assert_int_eq(events(-1, true), CADRE_OK);
    json_t *root = json_loads(cadre_text_str(&out), 0, NULL);
    ck_assert_ptr_nonnull(root);
    const json_t *ranks = json_object_get(root, "ranks");
    ck_assert_uint_eq(json_array_size(ranks), 2);
    const json_t *list = json_object_get(json_array_get(ranks, 1), "events");
    const json_t *e = json_array_get(list, 0);
    ck_assert_str_eq(json_string_value(json_object_get(e, "label")), "bucket 1");
    ck_assert_str_eq(json_string_value(json_object_get(e, "plugin")), "ddp");
    ck_assert_str_eq(json_string_value(json_object_get(e, "state")), "pending");
    ck_assert_int_eq(json_integer_value(json_object_get(e, "sequence")), 7);
    ck_assert(json_is_null(json_object_get(e, "ended")));
    json_decref(root);
}
END_TEST

/* A rank whose page cannot be read is said so, and the others are shown. */
START_TEST(a_rank_without_a_page)
{
    char *path = cadre_rank_page_path(dir, 0);
    ck_assert_int_eq(remove(path), 0);
    ck_assert_int_eq(events(-1, false), CADRE_OK);
    ck_assert(has("rank 0: cannot read '"));
    ck_assert(has("rank 1: 1 events"));
    free(path);
}
END_TEST

START_TEST(what_is_no_run)
{
    const struct cadre_top_events_request request = {"/nonexistent", -1, false};
    ck_assert_int_eq(cadre_top_events(&request, &out, &err), CADRE_E_INVALID);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("top/events");
    TCase *t = tcase_create("events");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_table_of_each_rank);
    tcase_add_test(t, as_json);
    tcase_add_test(t, a_rank_without_a_page);
    tcase_add_test(t, what_is_no_run);
    suite_add_tcase(s, t);
    return s;
}
