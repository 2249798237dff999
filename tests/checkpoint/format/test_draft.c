/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cadre/types.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/format/folder.h"
#include "tests/checkpoint/format/save.h"

static struct cadre_error err;
static char *dir;
static char *root;

static void setup(void)
{
    dir = test_tmpdir();
    root = cadre_format("%s/checkpoints", dir);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
    free(root);
}

static bool exists(uint64_t step, const char *ending)
{
    char *path = cadre_folder_path(root, step, ending);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static void compare(uint64_t step, uint64_t run)
{
    char *path = cadre_folder_path(root, step, "");
    save_compare(path, step, run);
    free(path);
}

/* The newest whole checkpoint is that of `step`. */
static void expect_latest(uint64_t step)
{
    char *want = cadre_folder_path(root, step, "");
    char *path = NULL;
    ck_assert_int_eq(cadre_checkpoint_find_latest(root, &path, &err), CADRE_OK);
    ck_assert_ptr_nonnull(path);
    ck_assert_str_eq(path, want);
    save_compare(path, step, 100000);
    free(path);
    free(want);
}

#define OK(call) ck_assert_msg((call) == CADRE_OK, "%s", err.text)

START_TEST(what_is_saved_is_read_in_any_cut)
{
    OK(save_checkpoint(root, 100, 3, 997, 0, &err));
    compare(100, 1000000);
    compare(100, 4099);
    ck_assert(!exists(100, ".partial"));
    ck_assert(exists(100, "/model.safetensors"));
    ck_assert(!exists(100, "/sums-000000"));
}
END_TEST

/* Files have the same bytes, including state.json, whichever rank wrote which part. */
START_TEST(ranks_leave_no_trace)
{
    static const char *const names[] = {"/model.safetensors", "/optimizer.safetensors",
                                        "/state.json"};
    char *other = cadre_format("%s/other", dir);
    OK(save_checkpoint(root, 7, 1, 1000000, 0, &err));
    OK(save_checkpoint(other, 7, 5, 333, 0, &err));
    for (size_t i = 0; i < 3; i++) {
        char *a = cadre_folder_path(root, 7, names[i]);
        char *b = cadre_folder_path(other, 7, names[i]);
        char *x = NULL;
        char *y = NULL;
        size_t n = 0;
        size_t m = 0;
        OK(cadre_file_read_whole(a, SIZE_MAX, &x, &n, &err));
        OK(cadre_file_read_whole(b, SIZE_MAX, &y, &m, &err));
        ck_assert_uint_eq(n, m);
        ck_assert(memcmp(x, y, n) == 0);
        free(a);
        free(b);
        free(x);
        free(y);
    }
    free(other);
}
END_TEST

enum { THREADS = 4 };

static void *thread_share(void *arg)
{
    int rank = *(const int *)arg;
    return save_share(root, 1, rank, THREADS, 501, NULL) == CADRE_OK ? NULL : arg;
}

START_TEST(ranks_write_at_the_same_time)
{
    struct cadre_manifest manifest = save_manifest(1);
    pthread_t threads[THREADS];
    int ranks[THREADS];
    void *failed = NULL;
    OK(cadre_draft_begin(root, 1, save_tensors, SAVE_TENSORS, 2, &err));
    for (int i = 0; i < THREADS; i++) {
        ranks[i] = i;
        pthread_create(&threads[i], NULL, thread_share, &ranks[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    OK(cadre_draft_commit(root, THREADS, &manifest, 0, &err));
    compare(1, 777);
}
END_TEST

START_TEST(old_ones_go_and_the_last_stays)
{
    for (uint64_t step = 1; step <= 4; step++)
        OK(save_checkpoint(root, step, 1, 1000000, 2, &err));
    ck_assert(!exists(1, "") && !exists(2, "") && exists(3, "") && exists(4, ""));
    /* An earlier step, saved again after a resume: later ones are left alone. */
    OK(save_checkpoint(root, 2, 1, 1000000, 1, &err));
    ck_assert(exists(2, "") && exists(3, "") && exists(4, ""));
    OK(save_checkpoint(root, 9, 1, 1000000, 0, &err));
    ck_assert(exists(2, "") && exists(4, "") && exists(9, ""));
    OK(save_checkpoint(root, 10, 1, 1000000, 1, &err));
    ck_assert(!exists(9, "") && exists(10, ""));
    expect_latest(10);
}
END_TEST

START_TEST(a_step_is_saved_again)
{
    OK(save_checkpoint(root, 5, 1, 1000000, 2, &err));
    char *mark = cadre_folder_path(root, 5, "/mark");
    OK(cadre_file_write_whole(mark, "x", 1, &err));
    OK(save_checkpoint(root, 5, 2, 4000, 2, &err));
    ck_assert_int_ne(access(mark, F_OK), 0);
    ck_assert(!exists(5, ".partial") && !exists(5, ".removing"));
    expect_latest(5);
    free(mark);
}
END_TEST

START_TEST(leftovers_of_a_crash_are_removed)
{
    char *away = cadre_folder_path(root, 2, ".removing");
    OK(save_checkpoint(root, 1, 1, 1000000, 0, &err));
    OK(cadre_draft_begin(root, 3, save_tensors, SAVE_TENSORS, 2, &err));
    ck_assert_int_eq(mkdir(away, 0700), 0);
    OK(cadre_draft_begin(root, 4, save_tensors, SAVE_TENSORS, 2, &err));
    ck_assert(!exists(3, ".partial") && !exists(2, ".removing"));
    OK(cadre_draft_abandon(root, 4, &err));
    ck_assert(!exists(4, ".partial"));
    expect_latest(1);
    free(away);
}
END_TEST

/* Open, write some, sync and close as rank 0 of step 2. */
static void write_some(uint64_t begin, uint64_t count)
{
    struct cadre_draft *writer = NULL;
    float *data = cadre_calloc(count, sizeof *data);
    OK(cadre_draft_open(root, 2, 0, &writer, &err));
    OK(cadre_draft_write(writer, CADRE_CHECKPOINT_PARAM, "model.embed.weight", begin,
                         count, data, &err));
    OK(cadre_draft_sync(writer, &err));
    cadre_draft_close(writer);
    free(data);
}

START_TEST(a_part_not_written_is_named)
{
    struct cadre_manifest manifest = save_manifest(2);
    OK(save_checkpoint(root, 1, 1, 1000000, 0, &err));
    OK(cadre_draft_begin(root, 2, save_tensors, 1, 0, &err));
    write_some(0, 299999);
    ck_assert_int_eq(cadre_draft_commit(root, 2, &manifest, 1, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 1"));
    write_some(0, 299999);
    ck_assert_int_eq(cadre_draft_commit(root, 1, &manifest, 1, &err), CADRE_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(err.text, "model.embed.weight"));
    ck_assert_ptr_nonnull(strstr(err.text, "[1048576, 1200000)"));
    OK(cadre_draft_abandon(root, 2, &err));
    expect_latest(1);
}
END_TEST

START_TEST(a_part_written_twice_is_named)
{
    struct cadre_manifest manifest = save_manifest(2);
    struct cadre_draft *writer = NULL;
    float *data = cadre_calloc(300000, sizeof *data);
    OK(cadre_draft_begin(root, 2, save_tensors, 1, 0, &err));
    OK(cadre_draft_open(root, 2, 0, &writer, &err));
    OK(cadre_draft_write(writer, CADRE_CHECKPOINT_PARAM, "model.embed.weight", 0,
                         300000, data, &err));
    OK(cadre_draft_write(writer, CADRE_CHECKPOINT_PARAM, "model.embed.weight", 10, 1,
                         data, &err));
    OK(cadre_draft_sync(writer, &err));
    cadre_draft_close(writer);
    ck_assert_int_eq(cadre_draft_commit(root, 1, &manifest, 1, &err), CADRE_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(err.text, "[0, 1048576)"));
    ck_assert(!exists(2, ""));
    free(data);
}
END_TEST

START_TEST(a_writer_refuses_what_does_not_fit)
{
    struct cadre_draft *writer = NULL;
    struct cadre_safetensors_spec half = {"x", CADRE_BF16, 1, {4}};
    char name[400];
    float value = 0.0f;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ck_assert_int_eq(cadre_draft_begin(root, 2, &half, 1, 2, &err), CADRE_E_INVALID);
    ck_assert(!exists(2, ".partial"));
    half = (struct cadre_safetensors_spec){name, CADRE_F32, 1, {4}};
    ck_assert_int_eq(cadre_draft_begin(root, 2, &half, 1, 2, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_draft_open(root, 2, 0, &writer, &err), CADRE_E_INVALID);
    OK(cadre_draft_begin(root, 2, save_tensors, SAVE_TENSORS, 1, &err));
    OK(cadre_draft_open(root, 2, 0, &writer, &err));
    ck_assert_int_eq(
        cadre_draft_write(writer, CADRE_CHECKPOINT_PARAM, "none", 0, 1, &value, &err),
        CADRE_E_INVALID);
    ck_assert_int_eq(cadre_draft_write(writer, CADRE_CHECKPOINT_EXP_AVG_SQ,
                                       "model.norm.weight", 0, 1, &value, &err),
                     CADRE_E_INVALID);
    ck_assert_int_eq(cadre_draft_write(writer, CADRE_CHECKPOINT_EXP_AVG,
                                       "model.norm.weight", 64, 1, &value, &err),
                     CADRE_E_INVALID);
    OK(cadre_draft_write(writer, CADRE_CHECKPOINT_EXP_AVG, "model.norm.weight", 63, 1,
                         &value, &err));
    cadre_draft_close(writer);
}
END_TEST

/* A root whose parent is missing, or that is a file. */
START_TEST(a_root_that_cannot_be_is_one_line)
{
    char *below = cadre_format("%s/none/checkpoints", dir);
    OK(cadre_file_write_whole(root, "x", 1, &err));
    ck_assert_int_eq(cadre_draft_begin(below, 1, save_tensors, 1, 0, &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, below));
    ck_assert_int_eq(cadre_draft_begin(root, 1, save_tensors, 1, 0, &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, root));
    free(below);
}
END_TEST

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(a_full_disk_leaves_the_one_before)
{
    struct cadre_manifest manifest = save_manifest(2);
    struct rlimit old;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    OK(save_checkpoint(root, 1, 1, 1000000, 1, &err));
    limit_files(1 << 20);
    ck_assert_int_eq(cadre_draft_begin(root, 2, save_tensors, 4, 2, &err),
                     CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(strstr(err.text, "model.safetensors"));
    ck_assert(!exists(2, ".partial"));
    limit_files(old.rlim_cur);
    OK(cadre_draft_begin(root, 2, save_tensors, 4, 2, &err));
    limit_files(1 << 20);
    ck_assert_int_eq(save_share(root, 2, 0, 1, 1000000, &err), CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(strstr(err.text, "model.embed.weight"));
    limit_files(old.rlim_cur);
    OK(save_share(root, 2, 0, 1, 1000000, &err));
    limit_files(100);
    ck_assert_int_eq(cadre_draft_commit(root, 1, &manifest, 1, &err), CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(strstr(err.text, "state.json"));
    limit_files(old.rlim_cur);
    OK(cadre_draft_abandon(root, 2, &err));
    expect_latest(1);
}
END_TEST

START_TEST(a_full_file_system_leaves_the_one_before)
{
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=6m") != 0)
        test_skip("no right to mount a small file system");
    OK(save_checkpoint(root, 1, 2, 5000, 1, &err));
    ck_assert_int_eq(save_checkpoint(root, 2, 2, 5000, 1, &err), CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(strstr(err.text, "No space left"));
    ck_assert(!exists(2, "") && !exists(2, ".partial"));
    expect_latest(1);
    umount(dir);
}
END_TEST

static long now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (long)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void sleep_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

/* Saves for ever; a child to be killed. */
static void save_for_ever(uint64_t step)
{
    for (;; step++)
        if (save_checkpoint(root, step, 2, 50000, 2, NULL) != CADRE_OK)
            _exit(1);
}

static uint64_t latest_step(void)
{
    char *path = NULL;
    OK(cadre_checkpoint_find_latest(root, &path, &err));
    ck_assert_ptr_nonnull(path);
    uint64_t step = strtoull(strrchr(path, '-') + 1, NULL, 10);
    save_compare(path, step, 1000000);
    free(path);
    return step;
}

START_TEST(a_kill_at_any_instant_leaves_a_whole_one)
{
    enum { KILLS = 60 };
    const char *seed = getenv("CADRE_TEST_SEED");
    unsigned int random = seed ? (unsigned int)atoi(seed) : 1;
    uint64_t newest = 1;
    int in_the_midst = 0;
    long span = -now_us();
    OK(save_checkpoint(root, 1, 2, 50000, 2, &err));
    span = 2 * (span + now_us()); /* about one save is done before a kill */
    int kills = 0;
    /* a busy machine may start the child late: then more of them */
    for (; kills < KILLS || (in_the_midst <= KILLS / 4 && kills < 20 * KILLS);
         kills++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            save_for_ever(newest + 1);
        sleep_us(rand_r(&random) % span);
        kill(child, SIGKILL);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status));
        uint64_t now = latest_step();
        ck_assert_uint_ge(now, newest);
        in_the_midst += exists(now + 1, ".partial");
        newest = now;
    }
    printf("%d kills, %d in the midst of a save, %llu saves\n", kills, in_the_midst,
           (unsigned long long)newest);
    ck_assert_int_gt(in_the_midst, KILLS / 4);
    OK(save_checkpoint(root, newest + 1, 1, 1000000, 1, &err));
    ck_assert_uint_eq(latest_step(), newest + 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("draft");
    TCase *tc = tcase_create("draft");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, what_is_saved_is_read_in_any_cut);
    tcase_add_test(tc, ranks_leave_no_trace);
    tcase_add_test(tc, ranks_write_at_the_same_time);
    tcase_add_test(tc, old_ones_go_and_the_last_stays);
    tcase_add_test(tc, a_step_is_saved_again);
    tcase_add_test(tc, leftovers_of_a_crash_are_removed);
    tcase_add_test(tc, a_part_not_written_is_named);
    tcase_add_test(tc, a_part_written_twice_is_named);
    tcase_add_test(tc, a_writer_refuses_what_does_not_fit);
    tcase_add_test(tc, a_root_that_cannot_be_is_one_line);
    tcase_add_test(tc, a_full_disk_leaves_the_one_before);
    tcase_add_test(tc, a_full_file_system_leaves_the_one_before);
    tcase_add_test(tc, a_kill_at_any_instant_leaves_a_whole_one);
    suite_add_tcase(suite, tc);
    return suite;
}
