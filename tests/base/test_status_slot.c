/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/status_slot.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_status_slot *slot;

static void setup(void)
{
    slot = calloc(1, sizeof *slot);
    ck_assert_ptr_nonnull(slot);
}

static void teardown(void)
{
    free(slot);
}

/* The texts that `place` stands for. */
static const char *instance(void)
{
    return slot->text[atomic_load(&slot->place) & (CADRE_STATUS_CORE - 1)];
}

static const char *callback(void)
{
    return slot->text[atomic_load(&slot->place) >> 8 & 0xff];
}

static uint64_t step(void)
{
    return atomic_load(&slot->place) >> 16;
}

START_TEST(callbacks_nest)
{
    uint64_t outer = cadre_status_enter(slot, "ddp", "step", 7);
    uint64_t core = cadre_status_core(slot);
    ck_assert(atomic_load(&slot->place) & CADRE_STATUS_CORE);
    ck_assert_str_eq(instance(), "ddp");
    uint64_t inner = cadre_status_enter(slot, "zero@site", "on_grad", 7);
    ck_assert_str_eq(instance(), "zero@site");
    ck_assert_str_eq(callback(), "on_grad");
    ck_assert(!(atomic_load(&slot->place) & CADRE_STATUS_CORE));
    cadre_status_leave(slot, inner);
    ck_assert(atomic_load(&slot->place) & CADRE_STATUS_CORE);
    cadre_status_leave(slot, core);
    ck_assert_str_eq(instance(), "ddp");
    ck_assert_str_eq(callback(), "step");
    ck_assert_uint_eq(step(), 7);
    cadre_status_leave(slot, outer);
    ck_assert_uint_eq(atomic_load(&slot->place), 0);
}
END_TEST

START_TEST(everything_is_a_sign_of_progress)
{
    uint32_t last = atomic_load(&slot->beat);
    cadre_status_begin(slot, 3);
    ck_assert_int_eq(atomic_load(&slot->rank), 3);
    for (int i = 0; i < 5; i++) {
        uint64_t former = 0;
        if (i == 0)
            former = cadre_status_enter(slot, "x", "bind", 0);
        else if (i == 1)
            cadre_status_leave(slot, former);
        else if (i == 2)
            former = cadre_status_core(slot);
        else if (i == 3)
            cadre_status_beat(slot);
        else
            cadre_status_finished(slot);
        ck_assert_uint_ne(atomic_load(&slot->beat), last);
        last = atomic_load(&slot->beat);
    }
    ck_assert_uint_eq(atomic_load(&slot->state), CADRE_STATUS_FINISHED);
}
END_TEST

/* A name at the address of another, and one that differs beyond the length. */
START_TEST(names_are_compared_by_their_text)
{
    char name[2 * CADRE_STATUS_CHARS] = "first";
    cadre_status_enter(slot, name, "create", 0);
    ck_assert_str_eq(instance(), "first");
    strcpy(name, "second");
    cadre_status_enter(slot, name, "create", 0);
    ck_assert_str_eq(instance(), "second");
    uint32_t known = atomic_load(&slot->n_texts);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    cadre_status_enter(slot, name, "create", 0);
    cadre_status_enter(slot, name, "create", 0);
    ck_assert_uint_eq(atomic_load(&slot->n_texts), known + 1);
    ck_assert_uint_eq(strlen(instance()), CADRE_STATUS_CHARS - 1);
    strcpy(name, "first");
    cadre_status_enter(slot, name, "create", 0);
    ck_assert_uint_eq(atomic_load(&slot->n_texts), known + 1);
}
END_TEST

START_TEST(more_names_than_there_is_room_for)
{
    char name[32];
    for (int i = 0; i < 3 * CADRE_STATUS_TEXTS; i++) {
        snprintf(name, sizeof name, "plugin-%d", i);
        cadre_status_enter(slot, name, "step", 1);
        ck_assert_str_eq(callback(), "step");
        ck_assert_str_eq(instance(),
                         i < CADRE_STATUS_TEXTS - 2 ? name : "(one of many)");
    }
    ck_assert_uint_eq(atomic_load(&slot->n_texts), CADRE_STATUS_TEXTS);
}
END_TEST

static void *other_thread(void *arg)
{
    ck_assert_ptr_null(cadre_status_current());
    cadre_status_use(arg);
    return cadre_status_current();
}

START_TEST(each_thread_has_its_own)
{
    pthread_t thread;
    void *seen;
    struct cadre_status_slot other;
    cadre_status_use(slot);
    ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, &other), 0);
    ck_assert_int_eq(pthread_join(thread, &seen), 0);
    ck_assert_ptr_eq(seen, &other);
    ck_assert_ptr_eq(cadre_status_current(), slot);
    cadre_status_use(NULL);
}
END_TEST

START_TEST(rank_threads_have_the_slots_behind)
{
    struct cadre_status_slot *all = calloc(3, sizeof *all);
    ck_assert_ptr_nonnull(all);
    all->behind = 2;
    ck_assert_ptr_eq(cadre_status_of_rank(all, 1), &all[2]);
    ck_assert_uint_eq(atomic_load(&all->used), 2);
    ck_assert_ptr_eq(cadre_status_of_rank(all, 0), &all[1]);
    ck_assert_uint_eq(atomic_load(&all->used), 2);
    ck_assert_ptr_null(cadre_status_of_rank(all, 2));
    ck_assert_ptr_null(cadre_status_of_rank(all, -1));
    free(all);
}
END_TEST

START_TEST(limits_in_seconds)
{
    static const struct {
        double seconds;
        uint32_t ms;
    } limits[] = {
        {0, 0}, {0.5, 500}, {1e-9, 1}, {60, 60000}, {1e30, UINT32_MAX / 1000 * 1000}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        cadre_status_limit(slot, limits[i].seconds);
        ck_assert_uint_eq(atomic_load(&slot->limit_ms), limits[i].ms);
    }
}
END_TEST

START_TEST(nobody_watches)
{
    cadre_status_begin(NULL, 0);
    cadre_status_limit(NULL, 1);
    uint64_t former = cadre_status_enter(NULL, "x", "step", 1);
    cadre_status_leave(NULL, cadre_status_core(NULL));
    cadre_status_beat(NULL);
    cadre_status_leave(NULL, former);
    cadre_status_finished(NULL);
    ck_assert_ptr_null(cadre_status_of_rank(NULL, 0));
    ck_assert_ptr_null(cadre_status_current());
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("base/status_slot");
    TCase *t = tcase_create("slot");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, callbacks_nest);
    tcase_add_test(t, everything_is_a_sign_of_progress);
    tcase_add_test(t, names_are_compared_by_their_text);
    tcase_add_test(t, more_names_than_there_is_room_for);
    tcase_add_test(t, each_thread_has_its_own);
    tcase_add_test(t, rank_threads_have_the_slots_behind);
    tcase_add_test(t, limits_in_seconds);
    tcase_add_test(t, nobody_watches);
    suite_add_tcase(s, t);
    return s;
}
