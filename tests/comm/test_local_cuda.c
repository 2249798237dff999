/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads that share one GPU: buffers in the memory of the CUDA device, on the
 * stand-in of its runtime, which denies the host access to that memory. The cases that
 * fill their buffers in place run on the late device instead, in test_local_late. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "tests/comm/comm_cases.h"
#include "tests/support/check_main.h"

/* Makes cadre_module_open find the stand-in; false where it was not built. */
static bool prepare(void)
{
    const char *build = getenv("CADRE_BUILD");
    char *folder =
        cadre_format("%s/tests/support/cuda_host/.libs", build ? build : ".");
    char *path = cadre_format("%s/device_cuda.so", folder);
    bool there = access(path, R_OK) == 0;
    setenv("CADRE_MODULE_PATH", folder, 1);
    free(path);
    free(folder);
    return there;
}

static const struct {
    const char *name;
    int size;
    cadre_status expected;
    const char *text; /* in the failure */
} cases[] = {
    {"device", 1, CADRE_OK, NULL},
    {"device", 2, CADRE_OK, NULL},
    {"device", 5, CADRE_OK, NULL},
    {"independence", 2, CADRE_OK, NULL},
    {"messages", 3, CADRE_OK, NULL},
    {"groups", 5, CADRE_OK, NULL},
    {"refusals", 2, CADRE_OK, NULL},
    {"counts", 3, CADRE_OK, NULL},
    {"aborted", 3, CADRE_E_ABORTED, "loss is not finite at step 5"},
    {"leaver", 3, CADRE_E_COMM, "rank 2 "},
    {"unequal", 2, CADRE_E_COMM, "8 elements"},
    {"orphaned", 2, CADRE_E_COMM, "rank 0 "},
};

START_TEST(cases_of_threads)
{
    struct cadre_local_config config = {.size = cases[_i].size, .timeout_s = 120};
    struct cadre_error err = {.code = CADRE_OK};
    char seed[] = "20250101";
    if (!prepare())
        test_skip("the stand-in was not built (no C++ compiler)");
    struct cadre_device *device = comm_device();
    if (!device) /* no case runs in host memory by mistake */
        test_skip("the CUDA device does not open (tests/device/cuda says why)");
    device->ops->destroy(device);
    cadre_status rc =
        cadre_launch_threads(&config, NULL, comm_case(cases[_i].name), seed, &err);
    ck_assert_msg(rc == cases[_i].expected, "%s at %d ranks: %d %s", cases[_i].name,
                  cases[_i].size, rc, err.text);
    if (cases[_i].text)
        ck_assert_msg(strstr(err.text, cases[_i].text), "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/local on cuda");
    TCase *t = tcase_create("threads");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, cases_of_threads, 0, (int)(sizeof cases / sizeof cases[0]));
    suite_add_tcase(s, t);
    return s;
}
