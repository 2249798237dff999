/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/launch/nodelist.h"
#include "core/launch/rendezvous.h"

/* Of SLURM_JOB_NODELIST and the like, and SLURM_TASKS_PER_NODE. */
void fuzz_nodelist(const uint8_t *data, size_t size)
{
    char name[128], *text = malloc(size + 1);
    if (!text)
        return;
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    const int64_t n = cadre_nodelist_count(text);
    for (int64_t i = 0; i < n && i < 8; i++)
        cadre_nodelist_host(text, i, name, sizeof name);
    if (n > 0)
        cadre_nodelist_host(text, n - 1, name, sizeof name);
    cadre_nodelist_tasks(text, 0);
    cadre_nodelist_tasks(text, n > 0 ? n - 1 : 3);
    free(text);
}

/* What lies beside a meeting's file as rank 1's message. */
void fuzz_rendezvous(const uint8_t *data, size_t size)
{
    char where[256], given[16] = "rank 0's bytes";
    struct cadre_secret secret = {.given = true}; /* of zeros */
    struct cadre_error err = {0};
    fuzz_file("meeting.1", data, size);
    snprintf(where, sizeof where, "file://%s/meeting", fuzz_file(NULL, NULL, 0));
    const struct cadre_rendezvous job = {.where = where,
                                         .job = "fuzz",
                                         .rank = 0,
                                         .size = 2,
                                         .timeout_s = 0.001,
                                         .secret = &secret};
    cadre_rendezvous_meet(&job, given, sizeof given, NULL, &err);
    cadre_rendezvous_forget(&job);
    unlink(where + strlen("file://"));
    fuzz_remove("meeting.1");
}
