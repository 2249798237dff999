/* SPDX-License-Identifier: Apache-2.0 */
/* NVML as the mig plugin declares and reads it, over a stand-in of the driver's
 * library. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/mig/instances.h"
#include "plugins/mig/nvml.h"
#include "tests/support/check_main.h"

/* as in NVIDIA's header on a 64-bit machine */
_Static_assert(sizeof(struct nvml_attributes) == 40, "nvmlDeviceAttributes_t");
_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");
_Static_assert(sizeof(struct nvml_placement) == 8, "nvmlGpuInstancePlacement_t");
_Static_assert(sizeof(struct nvml_gi_profile) == 48, "nvmlGpuInstanceProfileInfo_t");
_Static_assert(sizeof(struct nvml_gi_profile_named) == 152,
               "nvmlGpuInstanceProfileInfo_v2_t");
_Static_assert(offsetof(struct nvml_gi_profile_named, name) == 56, "its name");
_Static_assert(sizeof(struct nvml_ci_profile) == 36,
               "nvmlComputeInstanceProfileInfo_t");
_Static_assert(sizeof(struct nvml_gi_info) == 24, "nvmlGpuInstanceInfo_t");
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_t");

/* Open the stand-in that shows `words`. */
static void open_fake(struct mig_library *library, const char *file, const char *words)
{
    char path[1024];
    const char *build = getenv("CADRE_BUILD");
    snprintf(path, sizeof path, "%s/tests/support/fake_nvml/.libs/%s.so",
             build ? build : ".", file);
    setenv("CADRE_NVML", path, 1);
    setenv("CADRE_FAKE_NVML", words, 1);
    unsetenv("CADRE_FAKE_NVML_STATE");
    mig_library_open(library);
    ck_assert_msg(library->handle != NULL, "%s", library->reason);
}

static void look(const char *file, const char *words, struct mig_list *out)
{
    struct mig_library library;
    open_fake(&library, file, words);
    mig_instances(&library, out);
    mig_library_close(&library);
    ck_assert_ptr_null(library.handle);
}

START_TEST(the_instances_of_an_h200)
{
    struct mig_list list;
    look("fake_nvml", "h200 2@0 1@4 0@6", &list);
    ck_assert_uint_eq(list.n, 3);
    ck_assert_str_eq(list.reason, "");
    ck_assert_str_eq(list.item[0].profile, "3g.71gb");
    ck_assert_uint_eq(list.item[0].memory, 71168ull << 20);
    ck_assert_uint_eq(list.item[0].sms, 60);
    ck_assert_uint_eq(list.item[0].slices, 3);
    ck_assert_str_eq(list.item[1].profile, "2g.35gb");
    ck_assert_str_eq(list.item[2].profile, "1g.18gb");
    ck_assert_uint_eq(list.item[2].memory, 16384ull << 20);
    for (uint32_t i = 0; i < list.n; i++) {
        ck_assert_uint_eq(list.item[i].index, i);
        ck_assert_int_eq(strncmp(list.item[i].uuid, "MIG-", 4), 0);
        ck_assert_str_ne(list.item[i].uuid, list.item[(i + 1) % 3].uuid);
    }
}
END_TEST

/* Numbers that are not consecutive, on two boards; a third without MIG instances. */
START_TEST(holes_are_passed_over)
{
    struct mig_list list;
    look("fake_nvml",
         "a100-40 holes 0@0 0@1 0@2 0@3 0@4 0@5 0@6; h100-80 holes 2@4;"
         "h200 off",
         &list);
    ck_assert_uint_eq(list.n, 8);
    for (uint32_t i = 0; i < 7; i++) {
        ck_assert_str_eq(list.item[i].profile, "1g.5gb");
        ck_assert_uint_eq(list.item[i].gpu, 0);
        ck_assert_uint_eq(list.item[i].index, i);
    }
    ck_assert_str_eq(list.item[7].profile, "3g.40gb");
    ck_assert_uint_eq(list.item[7].gpu, 1);
    ck_assert_uint_eq(list.item[7].index, 0);
    ck_assert_uint_eq(list.item[7].sms, 60);
    ck_assert_uint_eq(list.item[7].gi, 5);
}
END_TEST

static const struct {
    const char *words, *reason;
} nothing[] = {
    {"", "the driver shows no GPU"},
    {"h200 off", "GPU 0 (NVIDIA H200): MIG is off"},
    {"h200 off pending", "GPU 0 (NVIDIA H200): MIG is off until the GPU is reset"},
    {"a100-40 nomig", "GPU 0 (NVIDIA A100-SXM4-40GB): this GPU has no MIG"},
    {"h200 sealed 0@0", "GPU 0 (NVIDIA H200): no permission to see its MIG instances"},
    {"h200", "GPU 0 (NVIDIA H200): MIG is on, but there are no instances yet"},
    {"h200 0@6-", "GPU 0 (NVIDIA H200): MIG is on, but there are no instances yet"},
    {"h200 off; h100-80 nomig",
     "GPU 0 (NVIDIA H200): MIG is off; GPU 1 (NVIDIA H100 80GB HBM3): this GPU has no "
     "MIG"},
};

START_TEST(none_and_why)
{
    struct mig_list list;
    look("fake_nvml", nothing[_i].words, &list);
    ck_assert_uint_eq(list.n, 0);
    ck_assert_str_eq(list.reason, nothing[_i].reason);
}
END_TEST

START_TEST(users_may_list)
{
    struct mig_list list;
    look("fake_nvml", "h200 noperm 0@6", &list);
    ck_assert_uint_eq(list.n, 1);
}
END_TEST

START_TEST(an_old_driver_lists_too)
{
    struct mig_list list;
    struct mig_library library;
    look("fake_nvml_old", "a100-40 3@0 0@5", &list);
    ck_assert_uint_eq(list.n, 2);
    ck_assert_str_eq(list.item[0].profile, "4g.20gb");
    open_fake(&library, "fake_nvml_old", "a100-40");
    unsigned n = 0;
    ck_assert_int_eq(NVML_CALL(&library.nvml, gi_placements, NULL, 0, NULL, &n),
                     NVML_FUNCTION_NOT_FOUND);
    mig_library_close(&library);
}
END_TEST

START_TEST(no_driver)
{
    struct mig_library library;
    struct mig_list list;
    setenv("CADRE_NVML", "/nonexistent/libnvidia-ml.so.1", 1);
    mig_library_open(&library);
    ck_assert_ptr_null(library.handle);
    ck_assert(strstr(library.reason, "no NVIDIA driver: /nonexistent"));
    mig_instances(&library, &list);
    ck_assert_uint_eq(list.n, 0);
    ck_assert_str_eq(list.reason, library.reason);
    mig_library_close(&library);
    setenv("CADRE_NVML", "libm.so.6", 1);
    mig_library_open(&library);
    ck_assert_ptr_null(library.handle);
    ck_assert_str_eq(library.reason, "'libm.so.6' has no function nvmlInit_v2");
}
END_TEST

START_TEST(a_driver_that_is_not_loaded)
{
    struct mig_library library;
    char path[1024];
    const char *build = getenv("CADRE_BUILD");
    snprintf(path, sizeof path, "%s/tests/support/fake_nvml/.libs/fake_nvml.so",
             build ? build : ".");
    setenv("CADRE_NVML", path, 1);
    setenv("CADRE_FAKE_NVML_FAULT", "init=9", 1);
    mig_library_open(&library);
    unsetenv("CADRE_FAKE_NVML_FAULT");
    ck_assert_ptr_null(library.handle);
    ck_assert_str_eq(library.reason,
                     "no NVIDIA driver: nvmlInit_v2: the driver is not loaded");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("mig_nvml");
    TCase *tc = tcase_create("mig_nvml");
    tcase_add_test(tc, the_instances_of_an_h200);
    tcase_add_test(tc, holes_are_passed_over);
    tcase_add_loop_test(tc, none_and_why, 0, (int)(sizeof nothing / sizeof *nothing));
    tcase_add_test(tc, users_may_list);
    tcase_add_test(tc, an_old_driver_lists_too);
    tcase_add_test(tc, no_driver);
    tcase_add_test(tc, a_driver_that_is_not_loaded);
    suite_add_tcase(s, tc);
    return s;
}
