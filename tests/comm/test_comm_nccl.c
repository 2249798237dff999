/* SPDX-License-Identifier: Apache-2.0 */
/* The communicator over NCCL, on the stand-in of it: ranks are threads of this process,
 * each with a device of its own. With CADRE_TEST_DEVICE=cuda, what one rank and one GPU
 * can show of the real one. */
#include "core/comm/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/module.h"
#include "tests/support/check_main.h"

static bool is_real(void)
{
    const char *device = getenv("CADRE_TEST_DEVICE");
    return device && strcmp(device, "cuda") == 0;
}

/* The stand-in's module, NULL where it was not built; or the real one. */
static const struct cadre_comm_module *open_module(void)
{
    const char *build = getenv("CADRE_BUILD");
    char *folder =
        cadre_format("%s/tests/support/cuda_host/.libs", build ? build : ".");
    char *path = cadre_format("%s/comm_nccl.so", folder);
    const void *module = NULL;
    struct cadre_error err = {0};
    if (!is_real())
        setenv("CADRE_MODULE_PATH", folder, 1);
    if (is_real() || access(path, R_OK) == 0)
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
    const char *version = is_real() ? "NCCL 2." : "NCCL 2.28.9";
    ck_assert_int_eq(strncmp(cadre_text_str(&text), version, strlen(version)), 0);
    cadre_text_reset(&text);
    module->describe(&text);
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), version));
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), ", built with "));
    cadre_text_fini(&text);
}
END_TEST

/* A library older than the header is one clear line. */
START_TEST(old_library)
{
    MODULE(module);
    if (is_real())
        test_skip("only the stand-in can be old");
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

static void check_sum(struct cadre_comm *comm, struct cadre_device *device, bool split)
{
    enum { N = 1000 };
    float values[N], back[N];
    struct cadre_comm *group = comm;
    cadre_event done;
    for (int i = 0; i < N; i++)
        values[i] = (float)i;
    if (split)
        ck_assert_int_eq(comm->ops->split(comm, 3, 0, &group, NULL), CADRE_OK);
    float *in = device->ops->alloc(device, sizeof values);
    float *out = device->ops->alloc(device, sizeof values);
    ck_assert_int_eq(device->ops->to_device(device, in, values, sizeof values),
                     CADRE_OK);
    ck_assert_int_eq(device->ops->zero(device, out, sizeof values), CADRE_OK);
    ck_assert_int_eq(group->ops->all_reduce(group, "sum", in, out, N, CADRE_F32,
                                            CADRE_SUM, 0, &done),
                     CADRE_OK);
    ck_assert_int_eq(group->ops->join(group, device, done), CADRE_OK);
    ck_assert_int_eq(device->ops->to_host(device, back, out, sizeof back), CADRE_OK);
    ck_assert_mem_eq(back, values, sizeof back);
    ck_assert_int_eq(group->ops->barrier(group, "end", 0, &done), CADRE_OK);
    ck_assert_int_eq(group->ops->wait(group, done), CADRE_OK);
    device->ops->free(device, in);
    device->ops->free(device, out);
    if (split)
        group->ops->destroy(group);
}

/* A world of one: opened, used on device memory, split, closed; twice in a process. */
START_TEST(one_rank)
{
    MODULE(module);
    const struct cadre_device_config config = {
        .kind = "cuda", .threads = 1, .exact = true};
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_device_open(&config, &device, &err) == CADRE_OK, "%s",
                  err.text);
    for (int exact = 0; exact < 2; exact++) {
        unsigned char id[CADRE_COMM_ID_BYTES];
        struct cadre_comm *comm = NULL;
        const struct cadre_comm_world world = {.rank = 0,
                                               .size = 1,
                                               .timeout_s = 30 * test_patience(),
                                               .exact = exact,
                                               .device = device};
        ck_assert_msg(module->make_id(id, &err) == CADRE_OK, "%s", err.text);
        ck_assert_msg(module->open(&world, id, &comm, &err) == CADRE_OK, "%s",
                      err.text);
        ck_assert_int_eq(comm->ops->use_device(comm, device, &err), CADRE_OK);
        check_sum(comm, device, false);
        check_sum(comm, device, true);
        comm->ops->destroy(comm);
    }
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/nccl");
    TCase *t = tcase_create("library");
    tcase_add_test(t, library);
    tcase_add_test(t, old_library);
    tcase_add_test(t, one_rank);
    suite_add_tcase(s, t);
    return s;
}
