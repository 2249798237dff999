/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/comm/nccl_world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/module.h"

/* Shared by the ranks of one run; the test runs in a separate process. */
static struct {
    pthread_mutex_t lock;
    struct nccl_world_config config;
    int size;
    bool made;
    unsigned char id[CADRE_COMM_ID_BYTES];
    comm_body body;
    char why[1024];
} run = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool nccl_is_real(void)
{
    const char *device = getenv("CADRE_TEST_DEVICE");
    return device && strcmp(device, "cuda") == 0;
}

const struct cadre_comm_module *nccl_module(void)
{
    const char *build = getenv("CADRE_BUILD");
    char *folder =
        cadre_format("%s/tests/support/cuda_host/.libs", build ? build : ".");
    char *path = cadre_format("%s/comm_nccl.so", folder);
    const void *module = NULL;
    struct cadre_error err = {0};
    if (!nccl_is_real())
        setenv("CADRE_MODULE_PATH", folder, 1);
    if ((nccl_is_real() || access(path, R_OK) == 0) &&
        cadre_module_open("comm_nccl", "comm", sizeof(struct cadre_comm_module),
                          &module, &err) != CADRE_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    free(path);
    free(folder);
    return module;
}

struct cadre_device *comm_device(void)
{
    return NULL;
}

static void note_failure(const struct cadre_error *err)
{
    pthread_mutex_lock(&run.lock);
    if (run.why[0] == 0)
        snprintf(run.why, sizeof run.why, "%s", err->text);
    pthread_mutex_unlock(&run.lock);
}

static cadre_status open_device(int rank, struct cadre_device **out,
                                struct cadre_error *err)
{
    const struct cadre_device_config config = {.kind = "cuda",
                                               .threads = 1,
                                               .index = run.config.one_gpu ? 0 : rank,
                                               .exact = true};
    return cadre_device_open(&config, out, err);
}

static cadre_status open_world(struct world *w, struct cadre_device *device,
                               struct cadre_error *err)
{
    const struct cadre_comm_module *module = nccl_module();
    const struct cadre_comm_world config = {.rank = w->rank,
                                            .size = w->size,
                                            .timeout_s = run.config.timeout_s,
                                            .exact = run.config.exact,
                                            .device = device};
    cadre_status rc = CADRE_OK;
    pthread_mutex_lock(&run.lock);
    if (!run.made)
        rc = module->make_id(run.id, err);
    run.made = rc == CADRE_OK;
    pthread_mutex_unlock(&run.lock);
    if (rc == CADRE_OK)
        rc = module->open(&config, run.id, &w->comm, err);
    w->native = true;
    return rc;
}

cadre_status comm_with_world(comm_body body, void *arg, int rank,
                             struct cadre_local_segment *segment)
{
    struct world w = {.rank = rank, .size = run.size};
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    (void)segment;
    if (rank == run.config.absent)
        return CADRE_OK;
    cadre_status rc = open_device(rank, &device, &err);
    if (rc == CADRE_OK)
        rc = open_world(&w, device, &err);
    if (rc == CADRE_OK) {
        w.device = run.config.host ? NULL : device;
        rc = cadre_comm_use_device(w.comm, w.device, &err);
    }
    if (rc == CADRE_OK)
        rc = body(&w, arg);
    if (w.comm)
        cadre_comm_failure(w.comm, &err);
    if (err.code != CADRE_OK)
        note_failure(&err);
    if (w.comm)
        cadre_comm_destroy(w.comm);
    cadre_device_close(device);
    return rc;
}

static cadre_status run_body(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run.body, arg, rank, segment);
}

static cadre_status launch(const struct nccl_world_config *config, int size,
                           cadre_rank_main entry, const char *arg, char why[1024])
{
    const struct cadre_local_config local = {.size = size, .timeout_s = 120};
    struct cadre_error err = {0};
    char gpus[16], *text = cadre_strdup(arg);
    snprintf(gpus, sizeof gpus, "%d", config->one_gpu ? 1 : size);
    setenv("CADRE_STANDIN_DEVICES", gpus, 1);
    run.config = *config;
    run.size = size;
    run.made = false;
    run.why[0] = 0;
    cadre_status rc = cadre_launch_threads(&local, NULL, entry, text, &err);
    snprintf(why, sizeof run.why, "%s", run.why);
    free(text);
    return rc;
}

cadre_status nccl_run(const struct nccl_world_config *config, int size, comm_body body,
                      char why[1024])
{
    run.body = body;
    return launch(config, size, run_body, "", why);
}

cadre_status nccl_run_case(const struct nccl_world_config *config, int size,
                           const char *name, const char *arg, char why[1024])
{
    return launch(config, size, comm_case(name), arg, why);
}
