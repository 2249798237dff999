/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device on the stand-in of the runtime. */
#include "core/device/device.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/module.h"
#include "core/base/path.h"
#include "core/device/module.h"
#include "tests/support/check_main.h"

/* The stand-in's module, or NULL where there is no C++ compiler. */
static const struct cadre_device_module *standin(void)
{
    const char *build = getenv("CADRE_BUILD");
    char *dir = cadre_format("%s/tests/support/cuda_host/.libs", build ? build : ".");
    char *path = cadre_path_join(dir, "device_cuda.so");
    const void *table = NULL;
    struct cadre_error err = {0};
    setenv("CADRE_MODULE_PATH", dir, 1);
    if (cadre_path_exists(path))
        ck_assert_msg(cadre_module_open("device_cuda", "device",
                                        sizeof(struct cadre_device_module), &table,
                                        &err) == CADRE_OK,
                      "%s", err.text);
    free(path);
    free(dir);
    return table;
}

START_TEST(describes_itself)
{
    const struct cadre_device_module *module = standin();
    struct cadre_text text = {0};
    if (!module)
        test_skip("no stand-in (no C++ compiler)");
    ck_assert_uint_eq(module->ops_bytes, sizeof(struct cadre_device_ops));
    module->describe(&text);
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), "runtime 13.0"));
    cadre_text_fini(&text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("cuda_device");
    TCase *tc = tcase_create("cuda_device");
    tcase_add_test(tc, describes_itself);
    suite_add_tcase(s, tc);
    return s;
}
