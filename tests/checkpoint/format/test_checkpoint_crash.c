/* SPDX-License-Identifier: Apache-2.0 */
/* Crashes at exact points: a child that saves is traced and killed at its first system
 * call, at its second, and so on to its last. */
#include "tests/support/check_main.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cadre/types.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/format/draft.h"

enum { N = 6 };
static const struct cadre_safetensors_spec tensors[] = {{"w", CADRE_F32, 1, {N}}};
static char *dir;
static char *root;

/* In memory if possible: thousands of fsyncs follow. */
static void setup(void)
{
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    dir = test_tmpdir();
    root = cadre_format("%s/checkpoints", dir);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
    free(root);
}

/* All values of the checkpoint are `value`, and so is its seed. */
static cadre_status save(uint64_t step, float value, size_t keep)
{
    struct cadre_manifest manifest = {.step = step, .seed = (uint64_t)value};
    struct cadre_draft *writer = NULL;
    float data[N];
    cadre_status rc;
    for (int i = 0; i < N; i++)
        data[i] = value;
    CADRE_TRY_OR(cadre_draft_begin(root, step, tensors, 1, 2, NULL), fail);
    CADRE_TRY_OR(cadre_draft_open(root, step, 0, &writer, NULL), fail);
    for (int part = 0; part < 3; part++)
        CADRE_TRY_OR(cadre_draft_write(writer, (enum cadre_checkpoint_part)part, "w", 0,
                                       N, data, NULL),
                     fail);
    CADRE_TRY_OR(cadre_draft_sync(writer, NULL), fail);
    CADRE_TRY_OR(cadre_draft_commit(root, 1, &manifest, keep, NULL), fail);
fail:
    cadre_draft_close(writer);
    return rc;
}

/* The step of the newest whole checkpoint; *value is what it holds. */
static uint64_t newest(float *value)
{
    struct cadre_checkpoint *checkpoint = NULL;
    struct cadre_error err = {0};
    float data[N];
    char *path = NULL;
    ck_assert_int_eq(cadre_checkpoint_find_latest(root, &path, &err), CADRE_OK);
    ck_assert_ptr_nonnull(path);
    ck_assert_int_eq(cadre_checkpoint_open(path, &checkpoint, &err), CADRE_OK);
    const struct cadre_manifest *manifest = cadre_checkpoint_manifest(checkpoint);
    uint64_t step = manifest->step;
    *value = (float)manifest->seed;
    for (int part = 0; part < 3; part++) {
        ck_assert_int_eq(cadre_checkpoint_read(checkpoint,
                                               (enum cadre_checkpoint_part)part, "w", 0,
                                               N, CADRE_F32, data, &err),
                         CADRE_OK);
        for (int i = 0; i < N; i++)
            ck_assert(data[i] == *value);
    }
    cadre_checkpoint_close(checkpoint);
    free(path);
    return step;
}

/* Run the save in a child and kill it at system call number `calls` (entries and exits
 * are counted alike). 1: killed, 0: it ended before, -1: tracing is not allowed. */
static int killed_at(long calls, uint64_t step, float value)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        raise(SIGSTOP);
        _exit(save(step, value, 1) == CADRE_OK ? 0 : 1);
    }
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return -1;
    for (long i = 0; i < calls; i++) {
        ptrace(PTRACE_SYSCALL, child, NULL, NULL);
        waitpid(child, &status, 0);
        if (WIFEXITED(status)) {
            ck_assert_int_eq(WEXITSTATUS(status), 0);
            return 0;
        }
        ck_assert(WIFSTOPPED(status));
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    ck_assert(WIFSIGNALED(status));
    return 1;
}

/* Saving step 2 over step 1 with keep = 1: there is always one of the two, whole. */
START_TEST(a_crash_at_every_call_of_a_save)
{
    uint64_t last = 1;
    float value = 0.0f;
    long calls = 1;
    int killed = 1;
    for (; killed == 1; calls++) {
        ck_assert_int_eq(save(1, 1.0f, 1), CADRE_OK);
        if (newest(&value) == 2) {
            char *path = cadre_format("rm -r '%s/step-00000002'", root);
            ck_assert_int_eq(system(path), 0);
            free(path);
        }
        killed = killed_at(calls, 2, 2.0f);
        last = newest(&value);
        ck_assert(value == (float)last && (last == 1 || last == 2));
    }
    if (killed < 0)
        test_skip("no right to trace a child");
    printf("killed at each of %ld entries and exits of system calls\n", calls - 2);
    ck_assert_uint_eq(last, 2);
    ck_assert_int_gt(calls, 100);
}
END_TEST

/* Saving step 2 again: the old or the new one is always there, whole. */
START_TEST(a_crash_at_every_call_of_a_replacement)
{
    float value = 0.0f;
    long calls = 1;
    int killed = 1;
    for (; killed == 1; calls++) {
        ck_assert_int_eq(save(2, 2.0f, 1), CADRE_OK);
        killed = killed_at(calls, 2, 3.0f);
        ck_assert_uint_eq(newest(&value), 2);
        ck_assert(value == 2.0f || value == 3.0f);
    }
    if (killed < 0)
        test_skip("no right to trace a child");
    ck_assert(value == 3.0f);
    ck_assert_int_gt(calls, 100);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("checkpoint_crash");
    TCase *tc = tcase_create("checkpoint_crash");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_crash_at_every_call_of_a_save);
    tcase_add_test(tc, a_crash_at_every_call_of_a_replacement);
    suite_add_tcase(suite, tc);
    return suite;
}
