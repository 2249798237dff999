/* SPDX-License-Identifier: Apache-2.0 */
/* Power is lost at every call of a save: whatever part of what was not synced reached
 * the disk, the newest whole checkpoint is found, with the values that were saved. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/types.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/format/draft.h"
#include "core/checkpoint/format/file.h"
#include "tests/checkpoint/format/disk_record.h"
#include "tests/support/check_main.h"

enum { N = 400, RANKS = 2 }; /* each rank writes more than a sector */
static const struct cadre_safetensors_spec tensors[] = {{"w", CADRE_F32, 1, {N}}};
static char *dir, *root, *lost;

static void setup(void)
{
    dir = test_tmpdir();
    root = cadre_format("%s/checkpoints", dir);
    lost = cadre_format("%s/lost", dir);
}

static void teardown(void)
{
    disk_record_free();
    disk_refuse_exchange(false);
    test_tmpdir_destroy(dir);
    free(root);
    free(lost);
}

/* All values of the checkpoint are `value`, and so is its seed. */
static void save(uint64_t step, float value, size_t keep)
{
    struct cadre_manifest manifest = {.step = step, .seed = (uint64_t)value};
    struct cadre_error err = {0};
    float data[N / RANKS];
    cadre_status rc;
    for (int i = 0; i < N / RANKS; i++)
        data[i] = value;
    rc = cadre_draft_begin(root, step, tensors, 1, 2, &err);
    for (int rank = 0; rank < RANKS && rc == CADRE_OK; rank++) {
        struct cadre_draft *writer = NULL;
        rc = cadre_draft_open(root, step, rank, &writer, &err);
        for (int part = 0; part < 3 && rc == CADRE_OK; part++)
            rc = cadre_draft_write(writer, (enum cadre_checkpoint_part)part, "w",
                                   (uint64_t)rank * N / RANKS, N / RANKS, data, &err);
        if (rc == CADRE_OK)
            rc = cadre_draft_sync(writer, &err);
        cadre_draft_close(writer);
    }
    if (rc == CADRE_OK)
        rc = cadre_draft_commit(root, RANKS, &manifest, keep, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

/* The value of the newest whole checkpoint below `at`. */
static float newest(const char *at)
{
    struct cadre_checkpoint *checkpoint = NULL;
    struct cadre_error err = {0};
    float data[N];
    char *path = NULL;
    ck_assert_int_eq(cadre_checkpoint_find_latest(at, &path, &err), CADRE_OK);
    ck_assert_msg(path != NULL, "no whole checkpoint is left");
    ck_assert_int_eq(cadre_checkpoint_open(path, &checkpoint, &err), CADRE_OK);
    const float value = (float)cadre_checkpoint_manifest(checkpoint)->seed;
    for (int part = 0; part < 3; part++) {
        ck_assert_int_eq(cadre_checkpoint_read(checkpoint,
                                               (enum cadre_checkpoint_part)part, "w", 0,
                                               N, CADRE_F32, data, &err),
                         CADRE_OK);
        for (int i = 0; i < N; i++)
            ck_assert(data[i] == value);
    }
    cadre_checkpoint_close(checkpoint);
    free(path);
    return value;
}

static size_t states;

/* The old checkpoint or the new one is found; after the save, the new one. */
static void lose(const struct disk_state *state, size_t calls)
{
    struct cadre_error err = {0};
    disk_build(state, lost);
    const float value = newest(lost);
    ck_assert_msg(value == 2.0f || (value == 1.0f && state->before < calls),
                  "before call %zu of %zu, call %zu %s, torn %d: found the values %g",
                  state->before, calls, state->one, state->others ? "missing" : "alone",
                  state->torn, (double)value);
    ck_assert_int_eq(cadre_file_remove_tree(lost, &err), CADRE_OK);
    states++;
}

static void lose_at(size_t before, size_t calls)
{
    lose(&(struct disk_state){.before = before, .one = SIZE_MAX}, calls);
    lose(&(struct disk_state){.before = before, .one = SIZE_MAX, .others = true},
         calls);
    for (size_t one = 0; one < before; one++) {
        if (!disk_is_open(one, before))
            continue;
        for (int others = 0; others < 2; others++)
            for (int torn = 0; torn < (disk_is_data(one) ? 3 : 1); torn++)
                lose(&(struct disk_state){before, one, others, torn}, calls);
    }
}

/* Values 2 are saved as `step`, where there are values 1. */
static void lose_everywhere(uint64_t step, size_t keep)
{
    const size_t stride = test_lean() ? 7 : 1;
    states = 0;
    const size_t first = disk_record_begin(root);
    save(step, 2.0f, keep);
    const size_t calls = disk_record_end();
    for (size_t before = calls; before >= first && before >= stride; before -= stride)
        lose_at(before, calls);
    printf("%zu calls, %zu disks after a loss of power\n", calls - first, states);
    ck_assert_uint_gt(states, 50);
}

START_TEST(in_a_save)
{
    save(1, 1.0f, 1);
    lose_everywhere(2, 1);
}
END_TEST

START_TEST(in_a_replacement)
{
    save(1, 1.0f, 1);
    lose_everywhere(1, 1);
}
END_TEST

/* Without an exchange of names, as on NFS, there is a moment when neither has the name:
 * then the checkpoint before it is found, where one is kept. */
START_TEST(in_a_replacement_without_exchange)
{
    disk_refuse_exchange(true);
    save(1, 1.0f, 2);
    save(2, 1.0f, 2);
    lose_everywhere(2, 2);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("power_loss");
    TCase *tc = tcase_create("power_loss");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, in_a_save);
    tcase_add_test(tc, in_a_replacement);
    tcase_add_test(tc, in_a_replacement_without_exchange);
    suite_add_tcase(suite, tc);
    return suite;
}
