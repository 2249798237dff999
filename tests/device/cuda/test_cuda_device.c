/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device on the stand-in of the runtime, whose streams run as late as allowed:
 * opening, memory, streams, events, worker streams, graphs. With
 * CADRE_TEST_DEVICE=cuda, on a GPU the tests that do not depend on that. */
#include "core/device/device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/device/module.h"
#include "tests/device/cuda/standin.h"
#include "tests/support/check_main.h"

static void refused(const char *says)
{
    const struct cadre_device_config config = {
        .kind = "cuda", .threads = 1, .exact = true};
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_device_open(&config, &device, &err), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_null(device);
    ck_assert_msg(strstr(err.text, says) != NULL, "'%s' not in: %s", says, err.text);
    ck_assert_ptr_nonnull(strstr(err.text, "device.kind = cuda"));
}

START_TEST(says_why_not)
{
    const struct cadre_device_config any = {
        .kind = "auto", .threads = 1, .exact = true};
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    if (!standin_prepare(NULL))
        return;
    setenv("CADRE_STANDIN_DRIVER", "0", 1);
    refused("no NVIDIA driver");
    setenv("CADRE_STANDIN_DRIVER", "12040", 1);
    refused("for CUDA 12.4, this build needs 13.0");
    ck_assert_int_eq(cadre_device_open(&any, &device, &err), CADRE_OK);
    ck_assert_str_eq(device->ops->name, "cpu");
    cadre_device_close(device);
    unsetenv("CADRE_STANDIN_DRIVER");
    setenv("CADRE_STANDIN_DEVICES", "0", 1);
    refused("no GPU is visible");
    unsetenv("CADRE_STANDIN_DEVICES");
    setenv("CADRE_STANDIN_MAJOR", "7", 1);
    refused("compute capability 7.0");
    unsetenv("CADRE_STANDIN_MAJOR");
    setenv("CADRE_MODULE_PATH", "/nowhere", 1);
}
END_TEST

START_TEST(names_its_gpu)
{
    struct cadre_device_identity gpu;
    if (!standin_prepare(NULL))
        return;
    setenv("CADRE_STANDIN_DEVICES", "2", 1);
    for (int index = 0; index < 4; index++) { /* modulo their number, as it is opened */
        ck_assert(cadre_device_identify_cuda(index, &gpu));
        ck_assert_str_eq(gpu.name, "stand-in on the host");
        ck_assert_str_eq(gpu.pci, index % 2 ? "0000:02:00.0" : "0000:01:00.0");
    }
    setenv("CADRE_STANDIN_DEVICES", "0", 1);
    ck_assert(!cadre_device_identify_cuda(0, &gpu));
    ck_assert(!*gpu.name && !*gpu.pci);
    unsetenv("CADRE_STANDIN_DEVICES");
}
END_TEST

START_TEST(describes_itself)
{
    struct cadre_text text = {0};
    if (!standin_prepare(NULL))
        return;
    cadre_device_describe_cuda(&text);
    ck_assert_ptr_nonnull(
        strstr(cadre_text_str(&text), "driver for CUDA 13.0, runtime 13.0"));
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), "GPU 0: stand-in"));
    cadre_text_fini(&text);
    /* without a driver nothing is said of one but that it is missing */
    setenv("CADRE_STANDIN_DRIVER", "0", 1);
    cadre_device_describe_cuda(&text);
    ck_assert_msg(strncmp(cadre_text_str(&text), "runtime 13.0, cublasLt ", 23) == 0,
                  "%s", cadre_text_str(&text));
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), "\nno: "));
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), "there is no NVIDIA driver"));
    ck_assert_ptr_null(strstr(cadre_text_str(&text), "CUDA 0.0"));
    unsetenv("CADRE_STANDIN_DRIVER");
    cadre_text_fini(&text);
}
END_TEST

START_TEST(table_is_full)
{
    if (!standin_or_cuda())
        return;
    struct cadre_device *device = standin_open(true);
    void *const *entry = (void *const *)(const void *)device->ops;
    for (size_t i = 0; i < sizeof *device->ops / sizeof *entry; i++)
        ck_assert_msg(entry[i] != NULL, "entry %zu is empty", i);
    ck_assert(device->ops->async);
    cadre_device_close(device);
}
END_TEST

START_TEST(memory)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 100000};
    if (!standin_or_cuda())
        return;
    struct cadre_device *device = standin_open(true);
    const struct cadre_device_ops *ops = device->ops;
    unsigned char *host = calloc(100000, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t n = sizes[i];
        void *a = ops->alloc(device, n), *b = ops->alloc(device, n);
        ck_assert_ptr_nonnull(a);
        ck_assert_uint_eq((uintptr_t)a % 64, 0);
        ck_assert(!ops->host_reaches(device, a));
        memset(host, 7, n);
        ck_assert_int_eq(ops->to_device(device, a, host, n), CADRE_OK);
        ck_assert_int_eq(ops->copy(device, b, a, n), CADRE_OK);
        ck_assert_int_eq(ops->zero(device, a, n), CADRE_OK);
        memset(host, 1, n);
        ck_assert_int_eq(ops->to_host(device, host, b, n), CADRE_OK);
        ck_assert(n == 0 || (host[0] == 7 && host[n - 1] == 7));
        ck_assert_int_eq(ops->to_host(device, host, a, n), CADRE_OK);
        ck_assert(n == 0 || (host[0] == 0 && host[n - 1] == 0));
        ops->free(device, a);
        ops->free(device, b);
    }
    ck_assert(ops->host_reaches(device, host));
    ck_assert_ptr_null(ops->alloc(device, SIZE_MAX));
    ck_assert_ptr_null(ops->alloc(device, (size_t)1 << 40));
    if (!standin_is_real()) { /* some drivers let a GPU reach the host's memory */
        /* a pointer of the wrong kind is an error, not a crash */
        ck_assert_int_eq(ops->zero(device, host, 8), CADRE_E_DEVICE);
        ck_assert_int_eq(ops->copy(device, host, host + 8, 8), CADRE_E_DEVICE);
    }
    ops->free(device, NULL);
    free(host);
    cadre_device_close(device);
}
END_TEST

static bool happened(struct cadre_device *device, cadre_device_event event)
{
    bool yes = false;
    ck_assert_int_eq(device->ops->event_query(device, event, &yes), CADRE_OK);
    return yes;
}

/* Uploads read host memory when the stream reaches them, so the memory stays unchanged
 * until an event; a stream that does not wait for another does not see its data. */
START_TEST(streams_and_events)
{
    if (!standin_prepare(NULL))
        return;
    struct cadre_device *device = standin_open(true);
    const struct cadre_device_ops *ops = device->ops;
    int *pinned = ops->alloc_pinned(device, 2 * sizeof *pinned);
    uint64_t before, after, total;
    ck_assert(ops->memory(device, &before, &total));
    int *data = ops->alloc(device, sizeof *data);
    cadre_stream_id other;
    cadre_device_event uploaded, read;
    ck_assert(ops->memory(device, &after, &total));
    ck_assert(after < before && before <= total);
    ck_assert(ops->host_reaches(device, pinned));
    ck_assert_int_eq(ops->stream_create(device, &other), CADRE_OK);
    ck_assert_int_eq(ops->zero(device, data, sizeof *data), CADRE_OK);
    ck_assert_int_eq(ops->synchronize(device), CADRE_OK);
    pinned[0] = 42;
    ck_assert_int_eq(ops->upload(device, data, &pinned[0], sizeof *data), CADRE_OK);
    ck_assert_int_eq(ops->event_record(device, &uploaded), CADRE_OK);
    ck_assert_uint_ne(uploaded & CADRE_DEVICE_EVENT, 0);
    ck_assert_int_eq(ops->set_stream(device, other), CADRE_OK);
    ck_assert_int_eq(ops->download(device, &pinned[1], data, sizeof *data), CADRE_OK);
    ck_assert_int_eq(ops->event_record(device, &read), CADRE_OK);
    ck_assert_int_eq(ops->event_sync(device, read), CADRE_OK);
    ck_assert_int_eq(pinned[1], 0); /* no wait: too early */
    ck_assert_int_eq(ops->event_wait(device, uploaded), CADRE_OK);
    ck_assert_int_eq(ops->download(device, &pinned[1], data, sizeof *data), CADRE_OK);
    ck_assert_int_eq(ops->event_record(device, &read), CADRE_OK);
    ck_assert_int_eq(ops->event_sync(device, read), CADRE_OK);
    ck_assert_int_eq(pinned[1], 42);
    ck_assert_int_eq(ops->event_wait(device, 0), CADRE_OK);
    ck_assert_int_eq(ops->event_sync(device, 0), CADRE_OK);
    ck_assert_ptr_nonnull(ops->native_stream(device));
    ck_assert(happened(device, read) && happened(device, 0));
    ck_assert_int_eq(ops->event_record(device, &read), CADRE_OK);
    ck_assert(!happened(device, read)); /* the stand-in's work runs late */
    ck_assert_int_eq(ops->event_sync(device, read), CADRE_OK);
    ck_assert(happened(device, read));
    ops->stream_destroy(device, other);
    ck_assert_int_eq(ops->set_stream(device, other), CADRE_E_INVALID);
    ops->free(device, data);
    ops->free_pinned(device, pinned);
    ops->free_pinned(device, NULL);
    cadre_device_close(device);
}
END_TEST

/* An id that is no longer in the ring has happened. */
START_TEST(old_events)
{
    if (!standin_prepare(NULL))
        return;
    struct cadre_device *device = standin_open(true);
    const struct cadre_device_ops *ops = device->ops;
    int *pinned = ops->alloc_pinned(device, sizeof *pinned);
    int *data = ops->alloc(device, sizeof *data);
    cadre_device_event first, event, last = 0;
    ck_assert_int_eq(ops->zero(device, data, sizeof *data), CADRE_OK);
    ck_assert_int_eq(ops->download(device, pinned, data, sizeof *data), CADRE_OK);
    *pinned = 5;
    ck_assert_int_eq(ops->event_record(device, &first), CADRE_OK);
    for (int i = 0; i < 5000; i++) {
        ck_assert_int_eq(ops->event_record(device, &event), CADRE_OK);
        ck_assert_uint_gt(event, last);
        last = event;
    }
    ck_assert_int_eq(*pinned, 0);
    ck_assert_int_eq(ops->event_sync(device, first), CADRE_OK);
    ck_assert_int_eq(ops->event_wait(device, first), CADRE_OK);
    ops->free(device, data);
    ops->free_pinned(device, pinned);
    cadre_device_close(device);
}
END_TEST

struct side_job {
    struct cadre_device *worker;
    float *data;
    cadre_device_event before, after;
};

static void *on_the_side(void *at)
{
    struct side_job *job = at;
    const struct cadre_device_ops *ops = job->worker->ops;
    for (int i = 0; i < 3; i++) {
        ops->event_wait(job->worker, job->before);
        ops->tree_add(job->worker, CADRE_F32, job->data, job->data, job->data, 4);
        ops->event_record(job->worker, &job->after);
    }
    return NULL;
}

START_TEST(worker_streams)
{
    float values[4] = {1, -2, 0.5f, 3};
    struct side_job job = {0};
    pthread_t thread;
    if (!standin_or_cuda())
        return;
    struct cadre_device *device = standin_open(true);
    const struct cadre_device_ops *ops = device->ops;
    job.data = ops->alloc(device, sizeof values);
    float *pinned = ops->alloc_pinned(device, sizeof values);
    memcpy(pinned, values, sizeof values);
    ck_assert_int_eq(ops->worker_stream_open(device, &job.worker), CADRE_OK);
    ck_assert_int_eq(ops->upload(device, job.data, pinned, sizeof values), CADRE_OK);
    ck_assert_int_eq(ops->event_record(device, &job.before), CADRE_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, on_the_side, &job), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(ops->event_wait(device, job.after), CADRE_OK);
    ck_assert_int_eq(ops->to_host(device, values, job.data, sizeof values), CADRE_OK);
    ck_assert(values[0] == 8 && values[1] == -16 && values[3] == 24);
    ops->worker_stream_close(job.worker);
    ops->worker_stream_close(NULL);
    ops->free(device, job.data);
    ops->free_pinned(device, pinned);
    cadre_device_close(device);
}
END_TEST

/* A recording runs nothing; each launch runs it with the current memory contents. */
START_TEST(graphs)
{
    float values[4] = {1, 2, 3, 4};
    if (!standin_or_cuda())
        return;
    struct cadre_device *device = standin_open(true);
    const struct cadre_device_ops *ops = device->ops;
    float *x = ops->alloc(device, sizeof values);
    ck_assert_int_eq(ops->to_device(device, x, values, sizeof values), CADRE_OK);
    ck_assert_int_eq(ops->graph_launch(device, 7), CADRE_E_UNSUPPORTED);
    for (int factor = 2; factor <= 3; factor++) { /* the second replaces the first */
        ck_assert_int_eq(ops->graph_begin(device, 7), CADRE_OK);
        ck_assert_int_eq(ops->scale(device, CADRE_F32, x, 4, factor), CADRE_OK);
        ck_assert_int_eq(ops->graph_end(device, 7), CADRE_OK);
    }
    ck_assert_int_eq(ops->to_host(device, values, x, sizeof values), CADRE_OK);
    ck_assert(values[0] == 1 && values[3] == 4);
    ck_assert_int_eq(ops->graph_launch(device, 7), CADRE_OK);
    ck_assert_int_eq(ops->graph_launch(device, 7), CADRE_OK);
    ck_assert_int_eq(ops->to_host(device, values, x, sizeof values), CADRE_OK);
    ck_assert(values[0] == 9 && values[3] == 36);
    ops->range_begin(device, "step");
    ops->range_end(device);
    ops->free(device, x);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("cuda_device");
    TCase *tc = tcase_create("cuda_device");
    tcase_add_test(tc, says_why_not);
    tcase_add_test(tc, describes_itself);
    tcase_add_test(tc, names_its_gpu);
    tcase_add_test(tc, table_is_full);
    tcase_add_test(tc, memory);
    tcase_add_test(tc, streams_and_events);
    tcase_add_test(tc, old_events);
    tcase_add_test(tc, worker_streams);
    tcase_add_test(tc, graphs);
    suite_add_tcase(s, tc);
    return s;
}
