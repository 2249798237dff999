/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/rendezvous.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/launch/rendezvous_private.h"

uint64_t cadre_rendezvous_job(const struct cadre_rendezvous *job)
{
    return cadre_hash_of(job->job, strlen(job->job), RENDEZVOUS_MAGIC);
}

void cadre_rendezvous_tick(void)
{
    nanosleep(&(struct timespec){.tv_nsec = RENDEZVOUS_TICK_MS * 1000000L}, NULL);
}

struct rendezvous_hello cadre_rendezvous_hello(const struct cadre_rendezvous *job,
                                               size_t n, const char *failed)
{
    struct rendezvous_hello hello = {.magic = RENDEZVOUS_MAGIC,
                                     .job = cadre_rendezvous_job(job),
                                     .rank = (uint32_t)job->rank,
                                     .size = (uint32_t)job->size,
                                     .bytes = (uint32_t)n,
                                     .failed = failed != NULL};
    snprintf(hello.why, sizeof hello.why, "%s", failed ? failed : "");
    return hello;
}

bool cadre_rendezvous_ours(const struct cadre_rendezvous *job,
                           const struct rendezvous_hello *hello)
{
    return hello->magic == RENDEZVOUS_MAGIC &&
           hello->job == cadre_rendezvous_job(job) && hello->rank > 0 &&
           hello->rank < CADRE_RENDEZVOUS_RANKS;
}

void cadre_rendezvous_note(struct rendezvous_list *list,
                           const struct cadre_rendezvous *job,
                           const struct rendezvous_hello *hello, size_t n)
{
    int rank = (int)hello->rank;
    char why[512] = "";
    if (rank >= job->size || (int)hello->size != job->size)
        snprintf(why, sizeof why, "it counts %u ranks, rank 0 counts %d", hello->size,
                 job->size);
    else if (hello->bytes != n)
        snprintf(why, sizeof why, "its version is not that of rank 0");
    else if (hello->failed)
        snprintf(why, sizeof why, "%.*s", (int)sizeof hello->why - 1, hello->why);
    if (rank < job->size && !list->came[rank]) {
        list->came[rank] = true;
        list->here++;
    }
    if (why[0] && (list->failed < 0 || rank < list->failed)) {
        list->failed = rank;
        snprintf(list->why, sizeof list->why, "%s", why);
    }
}

/* "2, 5 and 7 more" of those that have not come. */
static void missing_text(const struct rendezvous_list *list, int size, char *text,
                         size_t capacity)
{
    size_t used = 0;
    int left = size - list->here;
    text[0] = '\0';
    for (int r = 0; r < size; r++) {
        if (list->came[r])
            continue;
        if (used + 32 > capacity) {
            snprintf(text + used, capacity - used, " and %d more", left);
            return;
        }
        used +=
            (size_t)snprintf(text + used, capacity - used, "%s%d", used ? ", " : "", r);
        left--;
    }
}

void cadre_rendezvous_close(const struct rendezvous_list *list,
                            const struct cadre_rendezvous *job, const void *bytes,
                            size_t n, struct rendezvous_answer *answer)
{
    char missing[256];
    memset(answer, 0, sizeof *answer);
    answer->magic = RENDEZVOUS_MAGIC;
    answer->job = cadre_rendezvous_job(job);
    answer->bytes = (uint32_t)n;
    memcpy(answer->data, bytes, n);
    missing_text(list, job->size, missing, sizeof missing);
    answer->failed = list->failed >= 0 || missing[0];
    if (list->failed >= 0)
        snprintf(answer->why, sizeof answer->why, "rank %d: %s", list->failed,
                 list->why);
    else if (missing[0])
        snprintf(answer->why, sizeof answer->why,
                 "%d of %d ranks came to %.200s within %g s; missing: %s", list->here,
                 job->size, job->where, job->timeout_s, missing);
}

cadre_status cadre_rendezvous_take(const struct rendezvous_answer *answer, void *bytes,
                                   size_t n, struct cadre_error *err)
{
    if (answer->failed)
        return cadre_fail(err, CADRE_E_COMM, "%.*s", (int)sizeof answer->why - 1,
                          answer->why);
    if (answer->bytes != n)
        return cadre_fail(err, CADRE_E_COMM, "rank 0 has another version");
    memcpy(bytes, answer->data, n);
    return CADRE_OK;
}

cadre_status cadre_rendezvous_meet(const struct cadre_rendezvous *job, void *bytes,
                                   size_t n, const char *failed,
                                   struct cadre_error *err)
{
    if (job->size < 1 || job->size > CADRE_RENDEZVOUS_RANKS || job->rank < 0 ||
        job->rank >= job->size || n > CADRE_RENDEZVOUS_MOST)
        return cadre_fail(err, CADRE_E_INVALID,
                          "rank %d of %d cannot meet the others; expected at most %d "
                          "ranks",
                          job->rank, job->size, CADRE_RENDEZVOUS_RANKS);
    if (!(job->timeout_s > 0))
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.timeout is %g s; expected more than 0", job->timeout_s);
    if (strncmp(job->where, "tcp://", 6) == 0)
        return cadre_rendezvous_tcp(job, job->where + 6, bytes, n, failed, err);
    if (strncmp(job->where, "file:///", 8) == 0 && job->where[8])
        return cadre_rendezvous_file(job, job->where + 7, bytes, n, failed, err);
    return cadre_fail(err, CADRE_E_INVALID,
                      "the ranks cannot meet at \"%s\"; expected tcp://host:port or "
                      "file:///path",
                      job->where);
}

void cadre_rendezvous_forget(const struct cadre_rendezvous *job)
{
    if (job->rank == 0 && strncmp(job->where, "file:///", 8) == 0 && job->where[8])
        unlink(job->where + 7);
}
