/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/usage.h"

#include <stdlib.h>
#include <string.h>

#include "core/launch/launch.h"
#include "tests/support/check_main.h"

#define RANKS 3

/* What rank 0 makes of the ledgers of all. */
static struct cadre_usage usage;

static void fill(struct cadre_rank *rank, int index, int ranks)
{
    memset(rank, 0, sizeof *rank);
    rank->index = index;
    rank->mesh.ranks = ranks;
    cadre_ledger_note(&rank->ledger, CADRE_SPACE_DEVICE, 100 + (uint64_t)index,
                      "parameters");
    cadre_ledger_note(&rank->ledger, CADRE_SPACE_HOST, 7, "parameters");
    if (index == 1)
        cadre_ledger_note(&rank->ledger, CADRE_SPACE_DEVICE, 50, "other stage");
    rank->ledger.entry[0].bytes = 1; /* the most counts, not what is left */
}

static cadre_status one_rank(void *arg, int index, struct cadre_local_segment *segment)
{
    struct cadre_rank *rank = calloc(1, sizeof *rank);
    struct cadre_usage mine = {0};
    struct cadre_error err = {0};
    fill(rank, index, RANKS);
    cadre_status rc = cadre_local_open(segment, index, &rank->world, &err);
    if (rc == CADRE_OK) {
        rc = cadre_usage_gather(rank, &mine, &err);
        cadre_comm_destroy(rank->world);
    }
    if (index == 0)
        usage = mine;
    else
        cadre_usage_fini(&mine);
    free(rank);
    return rc;
}

static uint64_t bytes_of(const char *tag, int rank)
{
    for (int i = 0; i < usage.n; i++)
        if (strcmp(usage.row[i].tag, tag) == 0)
            return usage.row[i].bytes[rank];
    ck_abort_msg("no row '%s'", tag);
    return 0;
}

START_TEST(all_ranks_and_all_tags)
{
    const struct cadre_local_config config = {.size = RANKS, .timeout_s = 30};
    struct cadre_error err = {0};
    cadre_status rc = cadre_launch_threads(&config, NULL, one_rank, NULL, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_int_eq(usage.n, 3);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_uint_eq(bytes_of("parameters", r), 100 + (uint64_t)r);
        ck_assert_uint_eq(bytes_of("parameters (host)", r), 7);
        ck_assert_uint_eq(bytes_of("other stage", r), r == 1 ? 50 : 0);
    }
    /* threads of one process: its memory is one number */
    ck_assert_int_eq(usage.processes, 1);
    ck_assert_uint_gt(usage.resident[0], 1 << 20);
    cadre_usage_fini(&usage);
}
END_TEST

START_TEST(one_rank_asks_nobody)
{
    struct cadre_rank *rank = calloc(1, sizeof *rank);
    struct cadre_text text = {0};
    struct cadre_json json;
    fill(rank, 0, 1);
    ck_assert_int_eq(cadre_usage_gather(rank, &usage, NULL), CADRE_OK);
    cadre_json_init_text(&json, &text, false);
    cadre_usage_write(&usage, &json);
    ck_assert_int_eq(cadre_json_finish(&json), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), "\"parameters (host)\""));
    cadre_text_fini(&text);
    cadre_usage_fini(&usage);
    free(rank);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("usage");
    TCase *tc = tcase_create("usage");
    tcase_add_test(tc, all_ranks_and_all_tags);
    tcase_add_test(tc, one_rank_asks_nobody);
    suite_add_tcase(s, tc);
    return s;
}
