/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include <stdlib.h>
#include <string.h>

#include "core/launch/nodelist.h"
#include "core/launch/rendezvous_private.h"

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

/* ---- where ranks meet ---- */

enum { RANKS = 4, SIGNED = 1, FRESH = 2, NAMED = 4 };

/* The bytes as a message of `room`; the rest is zero. Moves on by what was taken. */
static void message(const uint8_t **data, size_t *size, void *out, size_t room)
{
    const size_t n = *size < room ? *size : room;
    memset(out, 0, room);
    if (n)
        memcpy(out, *data, n);
    *data += n;
    *size -= n;
}

/* A byte that says how well its sender knows the job, and its hello. Without the secret
 * nobody is let in, nor with a hello to another challenge. */
static void greet(const struct cadre_rendezvous *job, const uint8_t **data,
                  size_t *size, struct rendezvous_list *list)
{
    const struct rendezvous_nonce zero = {{7}}, old = {{8}};
    struct rendezvous_hello hello;
    const int knows = **data;
    ++*data;
    --*size;
    message(data, size, &hello, sizeof hello);
    if (knows & NAMED) {
        hello.magic = RENDEZVOUS_MAGIC;
        hello.job = cadre_rendezvous_job(job);
        hello.size %= 2 * RANKS;
        hello.rank %= 2 * RANKS;
    }
    if (knows & SIGNED)
        cadre_rendezvous_sign(job, knows & FRESH ? &zero : &old, &hello);
    if (!cadre_rendezvous_ours(job, &zero, &hello, &list->refused))
        return;
    if ((knows & (SIGNED | FRESH)) != (SIGNED | FRESH))
        abort();
    cadre_rendezvous_note(list, job, &hello, 16);
    if (list->here > RANKS || list->failed >= (int)sizeof list->came)
        abort();
}

/* What comes to rank 0 as hellos, and the last to a rank as the answer. */
void fuzz_rendezvous(const uint8_t *data, size_t size)
{
    char bytes[16] = "rank 0's bytes";
    struct cadre_secret secret = {.given = true}; /* of zeros */
    struct cadre_error err = {0};
    struct rendezvous_list list = {.failed = -1};
    struct rendezvous_answer answer;
    const struct cadre_rendezvous job = {.where = "tcp://127.0.0.1:1",
                                         .job = "fuzz",
                                         .rank = 0,
                                         .size = RANKS,
                                         .timeout_s = 1,
                                         .secret = &secret};
    struct rendezvous_hello own = cadre_rendezvous_hello(&job, sizeof bytes, NULL);
    cadre_rendezvous_note(&list, &job, &own, sizeof bytes);
    for (int i = 0; i < 3 && size > 0; i++)
        greet(&job, &data, &size, &list);
    cadre_rendezvous_close(&list, &job, bytes, sizeof bytes, &answer);
    if (cadre_rendezvous_take(&answer, bytes, sizeof bytes, &err) == CADRE_OK &&
        list.here < RANKS)
        abort();
    message(&data, &size, &answer, sizeof answer);
    cadre_rendezvous_take(&answer, bytes, sizeof bytes, &err);
}
