/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin against a fake host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/zero_host.h"
#include "tests/support/check_main.h"

static struct cadre_self *self;

static void start(void)
{
    cadre_status rc = zero_host_start(&self);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, f.failure);
}

static void end(void)
{
    zero_host_plugin()->ops.destroy(self);
}

static void run_step(void)
{
    cadre_status rc = zero_host_step(self);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, f.failure);
}

static cadre_status quiesce(void)
{
    return zero_host_plugin()->ops.sync(self, CADRE_SYNC_QUIESCE);
}

/* ---- the file ---- */

static void output_is(const char *command, const char *want)
{
    char text[256] = "";
    setenv("PLUGIN", zero_host_plugin()->path, 1);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    size_t n = fread(text, 1, sizeof text - 1, pipe);
    text[n] = 0;
    ck_assert_int_eq(pclose(pipe), 0);
    ck_assert_str_eq(text, want);
}

START_TEST(exports_one_symbol)
{
    if (system("nm --version > /dev/null 2>&1"))
        test_skip("no nm");
    output_is("nm -D --defined-only \"$PLUGIN\" | sed 's/.* //'",
              "cadre_plugin_entry_1\n");
}
END_TEST

START_TEST(describes_itself)
{
    const struct cadre_plugin_handle *zero = zero_host_plugin();
    ck_assert_str_eq(zero->desc.id, "org.cadre.zero");
    ck_assert_str_eq(zero->desc.axis, "dp");
    ck_assert_uint_eq(zero->desc.role, CADRE_ROLE_DATA);
}
END_TEST

/* ---- plan ---- */

START_TEST(claims_by_stage)
{
    static const char *const claims[] = {
        "grad.reduce@dp opt.shard@dp ",
        "grad.reduce@dp opt.shard@dp ",
        "grad.reduce@dp opt.shard@dp param.place@dp ",
    };
    f.stage = _i + 1;
    f.each = f.stage > 1;
    start();
    ck_assert_str_eq(f.claims, claims[_i]);
    ck_assert_int_eq(f.cyclic, f.each);
    for (int i = 0; i < ENTRIES; i++) {
        const struct range *range = f.entry[i].range;
        ck_assert_int_eq(range[CADRE_KIND_OPT].placed, i != TIED);
        ck_assert_int_eq(range[CADRE_KIND_GRAD].placed, f.stage >= 2);
        ck_assert_int_eq(range[CADRE_KIND_PARAM].placed, f.stage == 3 && i != TIED);
    }
    end();
}
END_TEST

/* Every element has one owner, and every rank as much as the others, within a unit. */
START_TEST(the_cut_is_whole_and_even)
{
    f.ranks = _i + 1;
    f.stage = 2;
    uint64_t end_of[ENTRIES] = {0}, all = 0, least = UINT64_MAX, most = 0;
    for (f.me = 0; f.me < f.ranks; f.me++) {
        uint64_t sum = 0;
        start();
        for (int i = 0; i < ENTRIES; i++) {
            const struct range *own = &f.entry[i].range[CADRE_KIND_OPT];
            if (i == TIED)
                continue;
            ck_assert(own->count == 0 || own->begin == end_of[i]);
            end_of[i] += own->count;
            sum += own->count;
        }
        least = sum < least ? sum : least;
        most = sum > most ? sum : most;
        end();
    }
    for (int i = 0; i < ENTRIES; i++) {
        all += i == TIED ? 0 : f.entry[i].count;
        ck_assert(i == TIED || end_of[i] == f.entry[i].count);
    }
    ck_assert_msg(most - least <= 2 * UNIT, "%d ranks own %u to %u of %u", f.ranks,
                  (unsigned)least, (unsigned)most, (unsigned)all);
}
END_TEST

/* The stage with the embedding and the one with the tied head cut both alike. */
START_TEST(tied_entries_are_cut_alike_on_two_stages)
{
    struct range embed[4], head[4];
    f.stage = 3;
    f.owner = _i;
    f.entry[_i].count = f.entry[TIED].count;
    for (uint32_t u = 3; u < UNITS; u++)
        f.absent[u] = true;
    start();
    memcpy(embed, f.entry[_i].range, sizeof embed);
    memcpy(head, f.entry[TIED].range, sizeof head);
    end();
    for (uint32_t u = 0; u < UNITS; u++)
        f.absent[u] = u < 4;
    start();
    ck_assert_mem_eq(embed, f.entry[_i].range, sizeof embed);
    ck_assert_mem_eq(head, f.entry[TIED].range, sizeof head);
    ck_assert_uint_eq(head[CADRE_KIND_GRAD].begin, embed[CADRE_KIND_OPT].begin);
    ck_assert_uint_eq(head[CADRE_KIND_GRAD].count, embed[CADRE_KIND_OPT].count);
    run_step();
    run_step();
    ck_assert_int_eq(quiesce(), CADRE_OK);
    end();
}
END_TEST

START_TEST(states_go_where_they_are_told)
{
    f.ranks = 1 + _i;
    f.me = 0;
    f.offload = "optimizer";
    start();
    ck_assert_uint_eq(f.entry[1].range[CADRE_KIND_OPT].space, CADRE_SPACE_HOST);
    end();
}
END_TEST

START_TEST(what_saves_nothing_is_refused)
{
    f.each = true;
    ck_assert_int_eq(zero_host_start(&self), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.failure, "zero.reduce = microbatch"));
}
END_TEST

START_TEST(a_missing_service_is_refused)
{
    for (f.fail_service = 1; f.fail_service <= 5; f.fail_service++) {
        ck_assert_int_eq(zero_host_start(&self), CADRE_E_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(f.failure, "the host has no service cadre."));
    }
}
END_TEST

START_TEST(storage_that_is_torn_is_refused)
{
    f.torn = true;
    f.ranks = 2;
    f.bucket_mb = 1;
    f.stage = _i + 1;
    ck_assert_int_eq(zero_host_start(&self), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(f.failure, "do not follow those of the entry before"));
}
END_TEST

/* ---- steps ---- */

/* Settings number i of those that change what travels when. */
#define SETTINGS 60
/* So many of them, spread over all, where they are a sample. */
#define SAMPLE 10
static void set(int i)
{
    if (test_lean())
        i = i * 17 % SETTINGS;
    f.stage = 1 + i % 3;
    f.each = i / 3 % 2 && f.stage > 1;
    f.micro_batches = i / 6 % 2 ? 3 : 1;
    f.overlap = i / 12 % 2;
    f.prefetch = i / 12 % 5;
    f.bucket_mb = i / 30 ? 1 : 0.001;
}

/* Whatever the settings, the owned part of each gradient is the sum over ranks and
 * micro-batches, values come from their owners, and no more memory is taken than the
 * plan said. */
START_TEST(gradients_are_summed_and_values_arrive)
{
    set(_i);
    start();
    for (int step = 0; step < 3; step++) {
        run_step();
        for (int i = 0; i < ENTRIES; i++) {
            const struct entry *entry = &f.entry[i];
            const struct range *own =
                &f.entry[i == TIED ? f.owner : (uint32_t)i].range[CADRE_KIND_OPT];
            const float *sum =
                f.stage == 1 ? entry->grad + own->begin : entry->shard[CADRE_KIND_GRAD];
            for (uint64_t k = 0; k < own->count; k++)
                ck_assert(sum[k] == (float)(f.ranks * (int)f.micro_batches));
        }
    }
    ck_assert_int_eq(quiesce(), CADRE_OK);
    for (int p = 0; p < f.posts; p++)
        ck_assert(f.post[p].done);
    for (int i = 0; i < ENTRIES; i++) {
        ck_assert(f.stage < 3 || !f.entry[i].data);
        ck_assert(f.stage < 2 || !f.entry[i].grad);
        ck_assert_uint_eq(f.entry[i].leaves, f.each ? 3 * f.micro_batches : 0);
    }
    ck_assert_uint_le(f.most, f.told);
    end();
}
END_TEST

/* What a rank posts depends on nothing that differs between ranks. */
START_TEST(all_ranks_post_the_same)
{
    static struct post first[POSTS];
    int posts = 0;
    set(_i);
    for (f.me = 0; f.me < f.ranks; f.me++) {
        start();
        run_step();
        run_step();
        ck_assert_int_eq(quiesce(), CADRE_OK);
        if (f.me == 0) {
            memcpy(first, f.post, sizeof first);
            posts = f.posts;
        }
        ck_assert_int_eq(f.posts, posts);
        for (int p = 0; p < posts; p++) {
            ck_assert_ptr_eq(f.post[p].label, first[p].label);
            ck_assert_mem_eq(f.post[p].off, first[p].off, sizeof first[p].off);
        }
        end();
    }
}
END_TEST

START_TEST(one_rank_does_nothing)
{
    f.ranks = 1;
    f.me = 0;
    f.stage = _i + 1;
    start();
    ck_assert_int_eq(f.cyclic, 0);
    run_step();
    ck_assert_int_eq(f.posts + f.allocs, 0);
    end();
}
END_TEST

START_TEST(sync_may_come_twice_or_for_nothing)
{
    f.stage = _i + 1;
    start();
    ck_assert_int_eq(zero_host_plugin()->ops.sync(self, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(quiesce(), CADRE_OK);
    ck_assert_int_eq(f.posts, 0);
    run_step();
    int posts = f.posts;
    ck_assert_int_eq(zero_host_plugin()->ops.sync(self, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(quiesce(), CADRE_OK);
    ck_assert_int_eq(f.posts, posts);
    end();
}
END_TEST

/* The n-th allocation, post or join fails, whichever n: the step says so. */
START_TEST(every_failure_is_passed_on)
{
    int *const which[] = {&f.fail_alloc, &f.fail_post, &f.fail_join};
    static const cadre_status codes[] = {CADRE_E_RESOURCE, CADRE_E_COMM,
                                         CADRE_E_ABORTED};
    set(_i / 3);
    bool ended = false;
    for (int n = 1; !ended; n++) {
        *which[_i % 3] = n;
        start();
        cadre_status rc = zero_host_step(self);
        ended = rc == CADRE_OK;
        ck_assert(ended || rc == codes[_i % 3]);
        end();
    }
}
END_TEST

START_TEST(a_stray_gradient_is_refused)
{
    struct cadre_buf none = {.struct_size = sizeof none};
    struct cadre_grad_ev ev = {.struct_size = sizeof ev,
                               .flags = CADRE_GRAD_FINAL,
                               .param = _i ? ENTRIES : 1,
                               .grad = &none};
    start();
    ck_assert_int_eq(zero_host_plugin()->ops.on_grad(self, &ev), CADRE_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(f.failure, "came"));
    end();
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("zero");
    TCase *tc = tcase_create("zero");
    int settings = test_lean() ? SAMPLE : SETTINGS;
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, zero_host_open, zero_host_close);
    tcase_add_test(tc, exports_one_symbol);
    tcase_add_test(tc, describes_itself);
    tcase_add_loop_test(tc, claims_by_stage, 0, 3);
    tcase_add_loop_test(tc, the_cut_is_whole_and_even, 0, 8);
    tcase_add_loop_test(tc, tied_entries_are_cut_alike_on_two_stages, 0, 8);
    tcase_add_loop_test(tc, states_go_where_they_are_told, 0, 2);
    tcase_add_test(tc, what_saves_nothing_is_refused);
    tcase_add_test(tc, a_missing_service_is_refused);
    tcase_add_loop_test(tc, storage_that_is_torn_is_refused, 0, 3);
    tcase_add_loop_test(tc, gradients_are_summed_and_values_arrive, 0, settings);
    tcase_add_loop_test(tc, all_ranks_post_the_same, 0, settings);
    tcase_add_loop_test(tc, one_rank_does_nothing, 0, 3);
    tcase_add_loop_test(tc, sync_may_come_twice_or_for_nothing, 0, 3);
    tcase_add_loop_test(tc, every_failure_is_passed_on, 0, settings / 5 * 3);
    tcase_add_loop_test(tc, a_stray_gradient_is_refused, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}
