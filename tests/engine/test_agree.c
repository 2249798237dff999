/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks take over the algorithms of rank 0's device. The devices are the CPU's and
 * report another library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/engine/layout/agree.h"
#include "core/launch/launch.h"
#include "tests/support/check_main.h"

#define RANKS 3

/* What a rank's device reports and is given. */
struct fake {
    struct cadre_device *device;
    struct cadre_device_ops ops;
    const char *library, *text;
    char taken[64]; /* "-": nothing was imported */
    struct cadre_tuning tuning;
    struct cadre_error err;
    uint64_t fingerprint; /* of the rank's run */
    bool exact;
    cadre_status rc;
};

static struct fake fakes[RANKS];

static struct fake *fake_of(const struct cadre_device *device)
{
    int r = 0;
    while (r < RANKS && fakes[r].device != device)
        r++;
    ck_assert_int_lt(r, RANKS);
    return &fakes[r];
}

static void tell_library(struct cadre_device *device, struct cadre_text *out)
{
    cadre_text_printf(out, "%s", fake_of(device)->library);
}

static cadre_status export(struct cadre_device *device, struct cadre_text *out)
{
    const struct fake *fake = fake_of(device);
    const char *text = strcmp(fake->taken, "-") == 0 ? fake->text : fake->taken;
    cadre_text_append(out, text, strlen(text));
    return CADRE_OK;
}

static cadre_status import(struct cadre_device *device, const char *text)
{
    struct fake *fake = fake_of(device);
    snprintf(fake->taken, sizeof fake->taken, "%s", text);
    return strcmp(text, "damaged") == 0 ? CADRE_E_INVALID : CADRE_OK;
}

static void setup(void)
{
    const struct cadre_device_config config = {.kind = "cpu", .threads = 1};
    for (int r = 0; r < RANKS; r++) {
        struct fake *fake = &fakes[r];
        *fake = (struct fake){.library = "lib 1", .text = "", .taken = "-"};
        ck_assert_int_eq(cadre_device_open(&config, &fake->device, &fake->err),
                         CADRE_OK);
        fake->ops = *fake->device->ops;
        fake->ops.tuning_library = tell_library;
        fake->ops.tuning_export = export;
        fake->ops.tuning_import = import;
        fake->device->ops = &fake->ops;
        fake->exact = true;
        fake->fingerprint = 7;
    }
}

static void teardown(void)
{
    for (int r = 0; r < RANKS; r++)
        cadre_device_close(fakes[r].device);
}

static cadre_status agree(int index, struct cadre_comm *world)
{
    struct fake *fake = &fakes[index];
    fake->rc = cadre_agree_run(world, fake->fingerprint, &fake->err);
    if (fake->rc == CADRE_OK)
        fake->rc = cadre_agree_tuning(world, fake->device, index, fake->exact,
                                      &fake->tuning, &fake->err);
    return fake->rc;
}

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    struct cadre_comm *world = NULL;
    struct cadre_error err = {0};
    cadre_event done;
    (void)arg;
    CADRE_TRY(cadre_local_open(segment, index, &world, &err));
    agree(index, world);
    /* a refused rank leaves only when all have what they wait for */
    cadre_status rc = cadre_comm_barrier(world, "end", 0, &done);
    if (rc == CADRE_OK)
        rc = cadre_comm_wait(world, done);
    cadre_comm_destroy(world);
    return rc;
}

static void run_all(void)
{
    const struct cadre_local_config config = {.size = RANKS, .timeout_s = 60};
    struct cadre_error err = {0};
    cadre_status rc = cadre_launch_threads(&config, NULL, rank_main, NULL, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void check_taken(int rank, const char *text, const char *library)
{
    char hex[17] = "";
    if (*text)
        cadre_hash_hex(cadre_hash_of(text, strlen(text), 0), hex);
    ck_assert_msg(fakes[rank].rc == CADRE_OK, "%s", fakes[rank].err.text);
    ck_assert_str_eq(fakes[rank].taken, text);
    ck_assert_str_eq(fakes[rank].tuning.algorithms, hex);
    ck_assert_str_eq(fakes[rank].tuning.library, library);
}

/* Whatever algorithms the others have, and also where rank 0 has none. */
START_TEST(all_take_over_what_rank_0_has)
{
    static const char *const texts[] = {"", "gemm a\ngemm b\nsum 1\n"};
    fakes[0].text = texts[_i & 1];
    fakes[1].text = "gemm mine\n";
    for (int r = 0; r < RANKS; r++)
        fakes[r].exact = _i & 2;
    run_all();
    for (int r = 0; r < RANKS; r++)
        check_taken(r, texts[_i & 1], "lib 1");
}
END_TEST

START_TEST(one_rank_takes_its_own)
{
    fakes[0].text = "gemm a\n";
    ck_assert_int_eq(agree(0, NULL), CADRE_OK);
    check_taken(0, "gemm a\n", "lib 1");
}
END_TEST

START_TEST(another_library_is_refused_in_exact_mode)
{
    fakes[0].text = "gemm a\n";
    fakes[2].library = "lib 2";
    run_all();
    check_taken(1, "gemm a\n", "lib 1");
    ck_assert_int_eq(fakes[2].rc, CADRE_E_INVALID);
    ck_assert_str_eq(fakes[2].taken, "-");
    const char *const parts[] = {"run.exact", "rank 2", "lib 2", "lib 1"};
    for (size_t i = 0; i < 4; i++)
        ck_assert_msg(strstr(fakes[2].err.text, parts[i]), "%s", fakes[2].err.text);
}
END_TEST

START_TEST(another_library_chooses_for_itself_otherwise)
{
    fakes[0].text = "gemm a\n";
    fakes[2].library = "lib 2";
    for (int r = 0; r < RANKS; r++)
        fakes[r].exact = false;
    run_all();
    check_taken(1, "gemm a\n", "lib 1");
    ck_assert_int_eq(fakes[2].rc, CADRE_OK);
    ck_assert_str_eq(fakes[2].taken, "-");
    ck_assert_str_eq(fakes[2].tuning.library, "lib 2");
}
END_TEST

START_TEST(what_cannot_be_used_is_refused)
{
    fakes[0].text = "damaged";
    ck_assert_int_eq(agree(0, NULL), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(fakes[0].err.text, "rank 0"));
}
END_TEST

START_TEST(another_run_is_refused_by_all)
{
    fakes[1].fingerprint = 8;
    run_all();
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(fakes[r].rc, CADRE_E_INVALID);
        ck_assert_ptr_nonnull(strstr(fakes[r].err.text, "rank 1 does not run"));
    }
}
END_TEST

/* The CPU chooses nothing by timing, and names its libraries. */
START_TEST(the_cpu_has_a_library_and_no_choices)
{
    const struct cadre_device_config config = {.kind = "cpu", .threads = 1};
    struct cadre_device *device;
    struct cadre_tuning tuning;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_device_open(&config, &device, &err), CADRE_OK);
    ck_assert_int_eq(cadre_agree_tuning(NULL, device, 0, false, &tuning, &err),
                     CADRE_OK);
    ck_assert_str_eq(tuning.algorithms, "");
    ck_assert_ptr_nonnull(strstr(tuning.library, "oneDNN"));
    ck_assert_ptr_nonnull(strstr(tuning.library, "OpenBLAS"));
    ck_assert_ptr_null(strchr(tuning.library, '\n'));
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("agree");
    TCase *tc = tcase_create("agree");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, all_take_over_what_rank_0_has, 0, 4);
    tcase_add_test(tc, one_rank_takes_its_own);
    tcase_add_test(tc, another_library_is_refused_in_exact_mode);
    tcase_add_test(tc, another_library_chooses_for_itself_otherwise);
    tcase_add_test(tc, what_cannot_be_used_is_refused);
    tcase_add_test(tc, another_run_is_refused_by_all);
    tcase_add_test(tc, the_cpu_has_a_library_and_no_choices);
    suite_add_tcase(suite, tc);
    return suite;
}
