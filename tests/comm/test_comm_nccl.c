/* SPDX-License-Identifier: Apache-2.0 */
/* The communicator over NCCL's stand-in: ranks are threads of this process, each with a
 * GPU of its own. With CADRE_TEST_DEVICE=cuda, what one rank on one GPU can test of the
 * real one. */
#include "core/comm/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/comm/backend.h"
#include "tests/comm/nccl_world.h"
#include "tests/support/check_main.h"

#define MODULE(name)                                                                   \
    const struct cadre_comm_module *name = nccl_module();                              \
    if (!name)                                                                         \
    test_skip("the stand-in was not built (no C++ compiler)")

START_TEST(library)
{
    MODULE(module);
    struct cadre_text text = {0};
    struct cadre_error err = {0};
    ck_assert_uint_eq(module->backend_bytes, sizeof(struct cadre_comm_backend));
    ck_assert_int_eq(module->version(&text, &err), CADRE_OK);
    const char *version = nccl_is_real() ? "NCCL 2." : "NCCL 2.28.9";
    ck_assert_ptr_eq(strstr(cadre_text_str(&text), version), text.data);
    cadre_text_reset(&text);
    module->describe(&text);
    ck_assert_ptr_eq(strstr(cadre_text_str(&text), version), text.data);
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), ", built with "));
    cadre_text_fini(&text);
}
END_TEST

/* A library older than the header is a one-line error. */
START_TEST(old_library)
{
    MODULE(module);
    if (nccl_is_real())
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

START_TEST(other_devices)
{
    MODULE(module);
    const struct cadre_device_config cpu = {.kind = "cpu", .threads = 1};
    struct cadre_comm_world world = {.size = 1, .timeout_s = 60};
    unsigned char id[CADRE_COMM_ID_BYTES] = {0};
    struct cadre_comm *comm = NULL;
    struct cadre_error err = {0};
    ck_assert_int_eq(module->open(&world, id, &comm, &err), CADRE_E_UNSUPPORTED);
    ck_assert_int_eq(cadre_device_open(&cpu, &world.device, &err), CADRE_OK);
    ck_assert_int_eq(module->open(&world, id, &comm, &err), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "found cpu"));
    ck_assert_ptr_null(comm);
    cadre_device_close(world.device);
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
    if (split) {
        group = NULL;
        ck_assert_int_eq(cadre_comm_split(comm, 3, 0, &group, NULL), CADRE_OK);
        ck_assert_ptr_nonnull(group);
    }
    float *in = device->ops->alloc(device, sizeof values);
    float *out = device->ops->alloc(device, sizeof values);
    ck_assert_int_eq(device->ops->to_device(device, in, values, sizeof values),
                     CADRE_OK);
    ck_assert_int_eq(device->ops->zero(device, out, sizeof values), CADRE_OK);
    ck_assert_int_eq(device->ops->synchronize(device), CADRE_OK);
    ck_assert_int_eq(
        cadre_comm_all_reduce(group, "sum", in, out, N, CADRE_F32, CADRE_SUM, 0, &done),
        CADRE_OK);
    ck_assert_int_eq(cadre_comm_stream_wait(group, device, done), CADRE_OK);
    ck_assert_int_eq(device->ops->to_host(device, back, out, sizeof back), CADRE_OK);
    ck_assert_mem_eq(back, values, sizeof back);
    ck_assert_int_eq(cadre_comm_barrier(group, "end", 0, &done), CADRE_OK);
    ck_assert_int_eq(cadre_comm_wait(group, done), CADRE_OK);
    device->ops->free(device, in);
    device->ops->free(device, out);
    if (split)
        cadre_comm_destroy(group);
}

/* A GPU is rarely at hand: say how far it had come. */
static void stage(const char *what, int exact)
{
    if (nccl_is_real())
        fprintf(stderr, "one_rank: %s, %sin exact mode\n", what, exact ? "" : "not ");
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
        const struct cadre_comm_world world = {0, 1, 30 * test_patience(), exact,
                                               device};
        ck_assert_msg(module->make_id(id, &err) == CADRE_OK, "%s", err.text);
        stage("opening", exact);
        ck_assert_msg(module->open(&world, id, &comm, &err) == CADRE_OK, "%s",
                      err.text);
        ck_assert_int_eq(cadre_comm_use_device(comm, device, &err), CADRE_OK);
        stage("the sum", exact);
        check_sum(comm, device, false);
        stage("a split", exact);
        check_sum(comm, device, true);
        stage("closing", exact);
        cadre_comm_destroy(comm);
    }
    stage("all is closed", true);
    cadre_device_close(device);
}
END_TEST

static const struct {
    comm_body body; /* or */
    const char *name;
    int size;
    bool exact, host;
} right[] = {
    {nccl_nothing, "", 1, false, false},   {nccl_sums, "", 1, false, false},
    {nccl_sums, "", 2, false, false},      {nccl_sums, "", 3, false, false},
    {nccl_sums_exact, "", 2, true, false}, {nccl_sums_exact, "", 5, true, false},
    {nccl_ring, "", 2, false, false},      {nccl_ring, "", 3, false, false},
    {nccl_ring, "", 4, false, false},      {nccl_host, "", 2, false, false},
    {nccl_apart, "", 2, false, false},     {nccl_apart, "", 3, false, false},
    {nccl_refusals, "", 4, false, false},  {NULL, "collectives", 3, true, true},
    {NULL, "device", 1, false, false},     {NULL, "device", 2, false, false},
    {NULL, "device", 3, true, false},      {NULL, "independence", 2, false, false},
    {NULL, "messages", 3, false, false},   {NULL, "groups", 5, false, false},
    {NULL, "refusals", 2, false, false},   {NULL, "counts", 3, false, false},
};

START_TEST(what_is_right)
{
    MODULE(module);
    if (nccl_is_real() && right[_i].size > 1)
        test_skip("one GPU is one rank");
    const struct nccl_world_config config = {.timeout_s = 120,
                                             .exact = right[_i].exact,
                                             .host = right[_i].host,
                                             .absent = -1};
    char why[1024];
    cadre_status rc =
        right[_i].body
            ? nccl_run(&config, right[_i].size, right[_i].body, why)
            : nccl_run_case(&config, right[_i].size, right[_i].name, "few", why);
    ck_assert_msg(rc == CADRE_OK, "%d %s at %d ranks: %d %s", _i, right[_i].name,
                  right[_i].size, rc, why);
    ck_assert_str_eq(why, "");
    ck_assert_ptr_nonnull(module);
}
END_TEST

static const struct wrong {
    comm_body body;
    cadre_status expected;
    int size;
    const char *says[2];
    const char *variable; /* "NAME=value" of the stand-in */
    double timeout_s; /* plenty where it is 0 */
    bool absent, one_gpu;
} wrong[] = {
    {.body = nccl_late,
     .timeout_s = 2,
     .expected = CADRE_E_COMM,
     .size = 2,
     .says = {"rank 0: all_reduce #2 'bucket 3' (f32, 8 elements, step 41)",
              "comm.timeout"}},
    {.body = nccl_late_alone,
     .timeout_s = 2,
     .expected = CADRE_E_COMM,
     .size = 2,
     .says = {"rank 0: all_reduce #1 'bucket 7'"}},
    {.body = nccl_remote_error,
     .expected = CADRE_E_COMM,
     .size = 2,
     .says = {"all_reduce #", "remote process exited"},
     .variable = "CADRE_HOST_NCCL_FAIL=async"},
    {.body = nccl_aborted,
     .expected = CADRE_OK,
     .size = 2,
     .says = {"loss is not finite at step 5"}},
    {.body = nccl_aborted,
     .expected = CADRE_OK,
     .size = 3,
     .says = {"loss is not finite at step 5"}},
    {.body = nccl_left,
     .expected = CADRE_OK,
     .size = 2,
     .says = {"recv from member 1 #1 'a'", "was pending when its communicator ended"}},
    {.body = nccl_nothing,
     .expected = CADRE_E_COMM,
     .size = 2,
     .says = {"rank 0 of 2 waited ", "not all ranks came"},
     .timeout_s = 1,
     .absent = true},
    {.body = nccl_nothing,
     .expected = CADRE_E_COMM,
     .size = 2,
     .says = {"NCCL failed to connect the ranks", "unhandled system error"},
     .variable = "CADRE_HOST_NCCL_FAIL=init"},
    {.body = nccl_nothing,
     .expected = CADRE_E_COMM,
     .size = 2,
     .says = {"start one rank per GPU", "comm.backend = local"},
     .one_gpu = true},
    {.body = nccl_nothing,
     .expected = CADRE_E_COMM,
     .size = 2,
     .says = {"start one rank per GPU", "NCCL_MULTI_RANK_GPU_ENABLE=1"},
     .variable = "CADRE_HOST_NCCL_VERSION=23007",
     .one_gpu = true},
};

START_TEST(what_is_wrong)
{
    MODULE(module);
    if (nccl_is_real())
        test_skip("faults are the stand-in's");
    const struct wrong *c = &wrong[_i];
    const struct nccl_world_config config = {
        .timeout_s = (c->timeout_s > 0 ? c->timeout_s : 120) * test_patience(),
        .absent = c->absent ? 1 : -1,
        .one_gpu = c->one_gpu};
    char why[1024];
    setenv("CADRE_HOST_NCCL_FAIL_AT", "2", 1); /* after the one of `open` */
    if (c->variable) {
        char *name = cadre_strdup(c->variable), *value = strchr(name, '=');
        *value = 0;
        setenv(name, value + 1, 1);
        free(name);
    }
    cadre_status rc = nccl_run(&config, c->size, c->body, why);
    ck_assert_msg(rc == c->expected, "%d: %d '%s'", _i, rc, why);
    for (int k = 0; k < 2 && c->says[k]; k++)
        ck_assert_msg(strstr(why, c->says[k]), "%d: %s", _i, why);
    ck_assert_ptr_nonnull(module);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/nccl");
    TCase *t = tcase_create("library");
    tcase_add_test(t, library);
    tcase_add_test(t, old_library);
    tcase_add_test(t, other_devices);
    tcase_add_test(t, one_rank);
    suite_add_tcase(s, t);
    t = tcase_create("right");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, what_is_right, 0, (int)(sizeof right / sizeof *right));
    suite_add_tcase(s, t);
    t = tcase_create("wrong");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, what_is_wrong, 0, (int)(sizeof wrong / sizeof *wrong));
    suite_add_tcase(s, t);
    return s;
}
