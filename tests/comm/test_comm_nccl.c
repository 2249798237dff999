/* SPDX-License-Identifier: Apache-2.0 */
/* The communicator over NCCL, on the stand-in of it: ranks are threads of this process,
 * each with a device of its own. */
#include "core/comm/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/module.h"
#include "tests/support/check_main.h"

/* The stand-in's module, NULL where it was not built. */
static const struct cadre_comm_module *open_module(void)
{
    const char *build = getenv("CADRE_BUILD");
    char *folder =
        cadre_format("%s/tests/support/cuda_host/.libs", build ? build : ".");
    char *path = cadre_format("%s/comm_nccl.so", folder);
    const void *module = NULL;
    struct cadre_error err = {0};
    setenv("CADRE_MODULE_PATH", folder, 1);
    if (access(path, R_OK) == 0)
        ck_assert_msg(cadre_module_open("comm_nccl", "comm",
                                        sizeof(struct cadre_comm_module), &module,
                                        &err) == CADRE_OK,
                      "%s", err.text);
    free(path);
    free(folder);
    return module;
}

#define MODULE(name)                                                                   \
    const struct cadre_comm_module *name = open_module();                              \
    if (!name)                                                                         \
    test_skip("the stand-in was not built (no C++ compiler)")

START_TEST(library)
{
    MODULE(module);
    struct cadre_text text = {0};
    struct cadre_error err = {0};
    ck_assert_uint_eq(module->ops_bytes, sizeof(struct cadre_comm_ops));
    ck_assert_int_eq(module->version(&text, &err), CADRE_OK);
    ck_assert_str_eq(cadre_text_str(&text), "NCCL 2.28.9");
    cadre_text_reset(&text);
    module->describe(&text);
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), "NCCL 2.28.9, built with "));
    cadre_text_fini(&text);
}
END_TEST

/* A library older than the header is one clear line. */
START_TEST(old_library)
{
    MODULE(module);
    unsigned char id[CADRE_COMM_ID_BYTES];
    struct cadre_text text = {0};
    struct cadre_error err = {0};
    setenv("CADRE_HOST_NCCL_VERSION", "22005", 1);
    module->describe(&text);
    ck_assert_ptr_eq(strstr(cadre_text_str(&text), "no: "), text.data);
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), "NCCL 2.20.5"));
    ck_assert_int_eq(module->make_id(id, &err), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "NCCL 2.28.9 or newer"));
    cadre_text_fini(&text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/nccl");
    TCase *t = tcase_create("library");
    tcase_add_test(t, library);
    tcase_add_test(t, old_library);
    suite_add_tcase(s, t);
    return s;
}
