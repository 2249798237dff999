/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/rendezvous.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/log.h"
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

bool cadre_rendezvous_draw(struct rendezvous_nonce *nonce)
{
    return getrandom(nonce, sizeof *nonce, 0) == (ssize_t)sizeof *nonce;
}

static void hello_code(const struct cadre_rendezvous *job,
                       const struct rendezvous_hello *hello,
                       unsigned char code[CADRE_SHA256_BYTES])
{
    const struct cadre_sha256_part parts[] = {
        {"hello", 5},
        {job->job, strlen(job->job)},
        {hello, offsetof(struct rendezvous_hello, code)},
    };
    cadre_sha256_hmac(job->secret->key, sizeof job->secret->key, parts, 3, code);
}

void cadre_rendezvous_sign(const struct cadre_rendezvous *job,
                           const struct rendezvous_nonce *zero,
                           struct rendezvous_hello *hello)
{
    hello->zero = *zero;
    hello_code(job, hello, hello->code);
}

void cadre_rendezvous_answer_code(const struct cadre_rendezvous *job,
                                  const struct rendezvous_nonce *zero,
                                  const struct rendezvous_nonce *own,
                                  const struct rendezvous_answer *answer,
                                  unsigned char code[CADRE_SHA256_BYTES])
{
    const struct cadre_sha256_part parts[] = {
        {"answer", 6},      {job->job, strlen(job->job)}, {zero, sizeof *zero},
        {own, sizeof *own}, {answer, sizeof *answer},
    };
    cadre_sha256_hmac(job->secret->key, sizeof job->secret->key, parts, 5, code);
}

bool cadre_rendezvous_ours(const struct cadre_rendezvous *job,
                           const struct rendezvous_nonce *zero,
                           const struct rendezvous_hello *hello,
                           struct rendezvous_refused *refused)
{
    unsigned char code[CADRE_SHA256_BYTES];
    int *why = NULL;
    hello_code(job, hello, code);
    if (hello->magic != RENDEZVOUS_MAGIC || hello->job != cadre_rendezvous_job(job))
        why = &refused->foreign;
    else if (!cadre_sha256_equal(code, hello->code))
        why = &refused->wrong;
    else if (memcmp(zero, &hello->zero, sizeof *zero) != 0)
        why = &refused->replayed;
    if (why)
        ++*why;
    return why == NULL;
}

/* What is wrong with it; "" for nothing. */
static void judge(const struct rendezvous_list *list,
                  const struct cadre_rendezvous *job,
                  const struct rendezvous_hello *hello, size_t n, char *why,
                  size_t size)
{
    const uint32_t rank = hello->rank;
    why[0] = '\0';
    if ((int)hello->size != job->size)
        snprintf(why, size, "it counts %u ranks, rank 0 counts %d", hello->size,
                 job->size);
    else if (rank >= (uint32_t)job->size || (rank == 0 && list->here > 0))
        snprintf(why, size,
                 "a rank of this number came; expected 1 to %d besides rank 0",
                 job->size - 1);
    else if (list->came[rank] &&
             memcmp(&list->nonce[rank], &hello->own, sizeof hello->own) != 0)
        snprintf(why, size, "two processes say that they are this rank");
    else if (hello->bytes != n)
        snprintf(why, size, "its version is not that of rank 0");
    else if (hello->failed)
        snprintf(why, size, "%.*s", (int)sizeof hello->why - 1, hello->why);
}

void cadre_rendezvous_note(struct rendezvous_list *list,
                           const struct cadre_rendezvous *job,
                           const struct rendezvous_hello *hello, size_t n)
{
    const int rank = hello->rank <= INT32_MAX ? (int)hello->rank : INT32_MAX;
    char why[512];
    judge(list, job, hello, n, why, sizeof why);
    if (rank < job->size && !list->came[rank]) {
        list->came[rank] = true;
        list->nonce[rank] = hello->own;
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

/* "; refused: 2 with another secret, 1 replayed" */
static void refused_text(const struct rendezvous_refused *refused, char *text,
                         size_t size)
{
    const struct {
        int n;
        const char *what;
    } kinds[] = {{refused->wrong, "with another secret"},
                 {refused->replayed, "replayed"},
                 {refused->slow, "too slow"},
                 {refused->foreign, "of other jobs or programs"}};
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < 4; i++)
        if (kinds[i].n > 0 && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%d %s",
                                     used ? ", " : "; refused: ", kinds[i].n,
                                     kinds[i].what);
}

void cadre_rendezvous_explain(const struct cadre_rendezvous *job, char *text,
                              size_t size)
{
    const char *why = NULL;
    text[0] = '\0';
    if (!cadre_secret_look(job->secret, &why))
        snprintf(
            text, size,
            ": '%.600s', by which the ranks know each other, %s: expected a folder "
            "that all machines share, or CADRE_SECRET set to the same text on all "
            "ranks",
            job->secret->path, why);
}

void cadre_rendezvous_close(const struct rendezvous_list *list,
                            const struct cadre_rendezvous *job, const void *bytes,
                            size_t n, struct rendezvous_answer *answer)
{
    char missing[256], refused[128];
    refused_text(&list->refused, refused, sizeof refused);
    if (refused[0])
        cadre_log(CADRE_LOG_WARN, "comm", "the ranks met at %s%s", job->where, refused);
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
                 "%d of %d ranks came to %.200s within %g s; missing: %s%s", list->here,
                 job->size, job->where, job->timeout_s, missing, refused);
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
    if (job->size < 1 || job->size > CADRE_RENDEZVOUS_RANKS ||
        n > CADRE_RENDEZVOUS_MOST)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%d ranks cannot meet; expected at most %d", job->size,
                          CADRE_RENDEZVOUS_RANKS);
    if (job->rank < 0 || job->rank >= job->size)
        return cadre_fail(err, CADRE_E_INVALID,
                          "rank %d cannot meet the others; expected 0 to %d", job->rank,
                          job->size - 1);
    if (!job->secret)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the ranks have no secret to know each other by; set "
                          "CADRE_SECRET to the same text on all ranks");
    if (!(job->timeout_s > 0))
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.timeout is %g s; expected more than 0", job->timeout_s);
    if (job->rank == 0 && (strncmp(job->where, "tcp://", 6) == 0 ||
                           strncmp(job->where, "file:///", 8) == 0))
        CADRE_TRY(cadre_secret_make(job->secret, err));
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
