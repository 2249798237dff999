/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous saving, on one rank. More ranks: tests/cli/test_checkpoint_async.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/save.h"
#include "core/checkpoint/writer.h"
#include "core/run/rundir.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static struct cadre_spec *spec;
static struct cadre_rank rank;
static struct cadre_writer *writer;

static void begin(const char *sets)
{
    spec = spec_fixture_make(&f, sets);
    ck_assert_int_eq(cadre_rundir_prepare(spec, true, NULL, &f.err), CADRE_OK);
    spec_fixture_rank(&f, spec, &rank);
    ck_assert_int_eq(cadre_writer_create(&rank, spec->out, &writer, &f.err), CADRE_OK);
}

static void end(void)
{
    cadre_writer_destroy(writer);
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
}

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

static struct cadre_step_report step(int64_t number)
{
    struct cadre_step_report report = {0};
    cadre_writer_vote(writer);
    cadre_status rc = cadre_rank_step(&rank, (uint64_t)number, &report);
    ck_assert_msg(rc == CADRE_OK, "%s", rank.failure.text);
    return report;
}

static void save(int64_t number, bool now)
{
    cadre_status rc = cadre_writer_save(writer, number, now, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
}

static const char *path_of(int64_t number, const char *name)
{
    static char paths[2][1500];
    static int next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/checkpoints/step-%08lld%s%s", f.out,
             (long long)number, name[0] == '.' ? "" : "/", name);
    return path;
}

static bool published(int64_t number)
{
    return access(path_of(number, "state.json"), F_OK) == 0;
}

/* Steps continue before a byte is written: the file must hold the earlier values. */
START_TEST(the_file_holds_the_state_of_its_step)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    void *wanted[2];
    size_t bytes[2], again;
    begin("checkpoint.async=yes");
    for (int64_t i = 1; i <= 3; i++)
        step(i);
    save(3, true);
    ck_assert(published(3));
    for (int i = 0; i < 2; i++) {
        wanted[i] = test_file_read(path_of(3, files[i]), &bytes[i]);
        ck_assert_int_eq(unlink(path_of(3, files[i])), 0);
    }
    save(3, false);
    for (int64_t i = 4; i <= 6; i++)
        step(i);
    ck_assert_int_eq(cadre_writer_finish(writer, &f.err), CADRE_OK);
    for (int i = 0; i < 2; i++) {
        void *found = test_file_read(path_of(3, files[i]), &again);
        ck_assert_uint_eq(again, bytes[i]);
        ck_assert_mem_eq(found, wanted[i], again);
        free(found);
        free(wanted[i]);
    }
    end();
}
END_TEST

START_TEST(turns_lead_to_a_checkpoint)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int64_t i = 4;
    begin("checkpoint.async=yes");
    for (int64_t k = 1; k <= 3; k++)
        step(k);
    save(3, false);
    for (; !published(3); i++) {
        struct cadre_step_report report = step(i);
        ck_assert_int_eq(cadre_writer_turn(writer, &report, &f.err), CADRE_OK);
        nanosleep(&pause, NULL);
    }
    ck_assert_int_ge(i, 6); /* three phases, one step boundary each */
    end();
}
END_TEST

START_TEST(a_second_save_waits_for_the_first)
{
    begin("checkpoint.async=yes");
    step(1);
    save(1, false);
    step(2);
    save(2, false);
    ck_assert(published(1));
    step(3);
    save(3, true);
    ck_assert(published(2) && published(3));
    end();
}
END_TEST

/* The copy is this rank's own bytes, accounted, used again, and given back. */
START_TEST(staging_is_in_the_ledger)
{
    begin("checkpoint.async=yes optim.name=sgd optim.momentum=0.9");
    uint64_t before = rank.ledger.now_bytes;
    uint64_t model = cadre_model_count(rank.model) * 4;
    step(1);
    save(1, false);
    ck_assert_uint_eq(rank.ledger.now_bytes - before, 2 * model);
    ck_assert_uint_eq(cadre_writer_bytes(&rank), 2 * model);
    ck_assert_int_eq(cadre_writer_finish(writer, &f.err), CADRE_OK);
    step(2);
    save(2, false);
    ck_assert_uint_eq(rank.ledger.now_bytes - before, 2 * model);
    cadre_writer_destroy(writer);
    writer = NULL;
    ck_assert_uint_eq(rank.ledger.now_bytes, before);
    end();
    begin("");
    step(1);
    before = rank.ledger.peak_bytes;
    save(1, false);
    ck_assert(published(1));
    ck_assert_uint_eq(rank.ledger.peak_bytes, before);
    end();
}
END_TEST

/* An error in the thread is returned once, at the next turn or at the end. */
START_TEST(errors_come_out)
{
    char root[1400];
    begin("checkpoint.async=yes");
    spec_fixture_write(&f, "run/checkpoints", "a file");
    snprintf(root, sizeof root, "%s/checkpoints", f.out);
    step(1);
    save(1, false);
    if (_i == 0) {
        ck_assert_int_eq(cadre_writer_finish(writer, &f.err), CADRE_E_IO);
    } else {
        struct cadre_step_report report = {0};
        for (int64_t k = 2; !report.save_failed && k < 2000; k++)
            report = step(k);
        ck_assert_int_eq(cadre_writer_turn(writer, &report, &f.err), CADRE_E_IO);
    }
    ck_assert_msg(strstr(f.err.text, "checkpoints") != NULL, "%s", f.err.text);
    ck_assert_int_eq(unlink(root), 0);
    ck_assert_int_eq(cadre_writer_finish(writer, &f.err), CADRE_OK);
    save(2, false);
    ck_assert_int_eq(cadre_writer_finish(writer, &f.err), CADRE_OK);
    ck_assert(published(2));
    end();
}
END_TEST

/* A run that fails abandons the current save; the next save removes it. */
START_TEST(destroyed_in_the_midst)
{
    begin("checkpoint.async=yes");
    step(1);
    save(1, false);
    end();
    ck_assert(!published(1));
    begin("checkpoint.async=yes");
    step(1);
    save(1, true);
    ck_assert(published(1));
    ck_assert_int_ne(access(path_of(1, ".partial"), F_OK), 0);
    end();
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("writer");
    TCase *tc = tcase_create("writer");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, the_file_holds_the_state_of_its_step);
    tcase_add_test(tc, turns_lead_to_a_checkpoint);
    tcase_add_test(tc, a_second_save_waits_for_the_first);
    tcase_add_test(tc, staging_is_in_the_ledger);
    tcase_add_loop_test(tc, errors_come_out, 0, 2);
    tcase_add_test(tc, destroyed_in_the_midst);
    suite_add_tcase(s, tc);
    return s;
}
