/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/vigil.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/comm/backend.h"

/* Messages: BEAT and END are one byte; WHY is followed by the bytes of a text in two,
 * and the text. */
enum { BEAT = 'b', END = 'e', WHY = 'w', WHY_HEAD = 3 };
enum {
    BEAT_MS = 250,
    UNHEARD = 40, /* beats to a rank that sends none */
    TEXT_BYTES = 1024,
    READ_BYTES = 256,
    STACK_BYTES = 1 << 18,
};

/* The connection to a rank. */
struct link {
    int rank;
    char place[80]; /* " at 10.0.0.7", or "" where it is not known */
    int failure; /* errno of a send: a socket tells it once */
    int unheard; /* beats since the last message from there */
    size_t have; /* bytes of a WHY that has begun to come */
    char why[WHY_HEAD + TEXT_BYTES];
};

struct cadre_vigil {
    struct cadre_vigil_job job; /* fd: not after open */
    int n;
    struct link *link; /* (n) */
    struct pollfd *ready; /* (n) by link, fd -1: it has ended; then `wake` */
    pthread_mutex_t lock; /* sends, over */
    bool over; /* a loss or a failure was told */
    int wake; /* eventfd: look at `over`, or end */
    bool stop;
    pthread_t thread;
};

/* ---- what is said; with the lock ---- */

/* Where it fails, the next look at the connection finds it ended. */
static void say(struct cadre_vigil *v, int i, const void *message, size_t bytes)
{
    struct link *link = &v->link[i];
    if (v->ready[i].fd >= 0 && send(v->ready[i].fd, message, bytes, MSG_NOSIGNAL) < 0 &&
        errno != EAGAIN && errno != EINTR && link->failure == 0)
        link->failure = errno;
}

static void say_beats(struct cadre_vigil *v)
{
    const char beat = BEAT;
    pthread_mutex_lock(&v->lock);
    for (int i = 0; i < v->n; i++)
        if (v->link[i].unheard < UNHEARD) {
            v->link[i].unheard++;
            say(v, i, &beat, 1);
        }
    pthread_mutex_unlock(&v->lock);
}

/* Once: to all, or on rank 0 to all but the one that it comes from. */
static bool say_why(struct cadre_vigil *v, int except, const char *text)
{
    char message[WHY_HEAD + TEXT_BYTES];
    const size_t n = strnlen(text, TEXT_BYTES - 1);
    message[0] = WHY;
    message[1] = (char)(n >> 8);
    message[2] = (char)(n & 255);
    memcpy(message + WHY_HEAD, text, n);
    pthread_mutex_lock(&v->lock);
    const bool first = !v->over;
    v->over = true;
    for (int i = 0; first && i < v->n; i++)
        if (i != except)
            say(v, i, message, WHY_HEAD + n);
    pthread_mutex_unlock(&v->lock);
    return first;
}

/* ---- who is lost ---- */

static void lose(struct cadre_vigil *v, int link, const char *text)
{
    if (say_why(v, link, text))
        v->job.lost(v->job.arg, text);
}

/* The connection has ended by `failure`, 0: closed there. */
static void lose_connection(struct cadre_vigil *v, int i, int failure)
{
    const bool silent = failure == ETIMEDOUT || failure == EHOSTUNREACH ||
                        failure == ENETUNREACH || failure == ENETDOWN;
    char text[320];
    snprintf(text, sizeof text,
             silent ? "rank %d%s does not answer: its host is down or cut off from "
                      "rank %d; look at that host and the network"
                    : "rank %d%s has ended without a word to rank %d: its process was "
                      "killed or has crashed; look at that rank's log",
             v->link[i].rank, v->link[i].place, v->job.rank);
    lose(v, i, text);
}

/* ---- what is heard ---- */

static size_t why_bytes(const struct link *link)
{
    return WHY_HEAD +
           ((size_t)(unsigned char)link->why[1] << 8 | (unsigned char)link->why[2]);
}

/* One byte of a WHY; true where it is whole, which a longer one than ours never is. */
static bool add_why(struct link *link, char byte)
{
    if (link->have < sizeof link->why)
        link->why[link->have++] = byte;
    return link->have >= WHY_HEAD && link->have == why_bytes(link);
}

/* false: the rank has said that it ends. */
static bool take(struct cadre_vigil *v, int i, const char *bytes, ssize_t n)
{
    struct link *link = &v->link[i];
    link->unheard = 0;
    for (ssize_t k = 0; k < n; k++) {
        if (link->have == 0 && bytes[k] == END)
            return false;
        if (link->have == 0 && bytes[k] != WHY)
            continue;
        if (add_why(link, bytes[k])) {
            char text[TEXT_BYTES];
            const size_t length = link->have - WHY_HEAD;
            link->have = 0;
            snprintf(text, sizeof text, "%.*s", (int)length, link->why + WHY_HEAD);
            lose(v, i, text);
        }
    }
    return true;
}

static void leave(struct cadre_vigil *v, int i)
{
    pthread_mutex_lock(&v->lock);
    close(v->ready[i].fd);
    v->ready[i].fd = -1;
    pthread_mutex_unlock(&v->lock);
}

static void hear(struct cadre_vigil *v, int i)
{
    char bytes[READ_BYTES];
    const ssize_t n = recv(v->ready[i].fd, bytes, sizeof bytes, 0);
    const int failure = v->link[i].failure ? v->link[i].failure : n < 0 ? errno : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && take(v, i, bytes, n))
        return;
    if (n <= 0)
        lose_connection(v, i, failure);
    leave(v, i);
}

static bool goes_on(struct cadre_vigil *v)
{
    pthread_mutex_lock(&v->lock);
    const bool on = !v->over && !v->stop;
    pthread_mutex_unlock(&v->lock);
    return on;
}

static void *vigil_main(void *arg)
{
    struct cadre_vigil *v = arg;
    double next_s = 0;
    while (goes_on(v)) {
        const double now_s = cadre_now_s();
        if (now_s >= next_s) {
            say_beats(v);
            next_s = now_s + 1e-3 * BEAT_MS;
        }
        const int n = poll(v->ready, (nfds_t)v->n + 1, BEAT_MS);
        if (n < 0 && errno != EINTR)
            break;
        for (int i = 0; n > 0 && i < v->n; i++)
            if (v->ready[i].fd >= 0 && v->ready[i].revents)
                hear(v, i);
    }
    return NULL;
}

/* ---- from open to close ---- */

/* While there is a peer: a socket that has ended knows none. */
static void find_place(int fd, char *text, size_t size)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    char host[NI_MAXHOST];
    if (getpeername(fd, (struct sockaddr *)&at, &bytes) == 0 &&
        getnameinfo((struct sockaddr *)&at, bytes, host, sizeof host, NULL, 0,
                    NI_NUMERICHOST) == 0)
        snprintf(text, size, " at %.64s", host);
}

/* The kernel looks when it sends again, which it does ever less often. */
static void set_up(int fd, double lost_s)
{
    const unsigned most = (unsigned)(600 * lost_s);
    const int on = 1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof most);
}

static void destroy(struct cadre_vigil *v)
{
    for (int i = 0; i < v->n; i++)
        if (v->ready[i].fd >= 0)
            close(v->ready[i].fd);
    if (v->wake >= 0)
        close(v->wake);
    pthread_mutex_destroy(&v->lock);
    free(v->ready);
    free(v->link);
    free(v);
}

/* The connections are its own; NULL without memory. */
static struct cadre_vigil *create(const struct cadre_vigil_job *job, int n)
{
    struct cadre_vigil *v = cadre_calloc(1, sizeof *v);
    struct link *link = cadre_calloc((size_t)n, sizeof *link);
    struct pollfd *ready = cadre_calloc((size_t)n + 1, sizeof *ready);
    if (!v || !link || !ready) {
        free(v);
        free(link);
        free(ready);
        return NULL;
    }
    *v = (struct cadre_vigil){
        .job = *job, .link = link, .ready = ready, .wake = eventfd(0, EFD_CLOEXEC)};
    pthread_mutex_init(&v->lock, NULL);
    for (int r = 0; r < job->size; r++) {
        if (job->fd[r] < 0)
            continue;
        set_up(job->fd[r], job->lost_s);
        find_place(job->fd[r], link[v->n].place, sizeof link[v->n].place);
        link[v->n].rank = r;
        ready[v->n++] = (struct pollfd){.fd = job->fd[r], .events = POLLIN};
    }
    ready[n] = (struct pollfd){.fd = v->wake, .events = POLLIN};
    return v;
}

cadre_status cadre_vigil_open(const struct cadre_vigil_job *job,
                              struct cadre_vigil **out, struct cadre_error *err)
{
    int n = 0;
    *out = NULL;
    for (int r = 0; r < job->size; r++)
        n += job->fd[r] >= 0;
    if (n == 0)
        return CADRE_OK;
    struct cadre_vigil *v = create(job, n);
    for (int r = 0; !v && r < job->size; r++)
        if (job->fd[r] >= 0)
            close(job->fd[r]);
    if (!v)
        return cadre_no_memory(err, "the heartbeats of ranks");
    if (v->wake < 0 ||
        !cadre_comm_thread_start(&v->thread, STACK_BYTES, vigil_main, v)) {
        destroy(v);
        return cadre_fail(err, CADRE_E_RESOURCE,
                          "cannot start a thread for the heartbeats of ranks");
    }
    *out = v;
    return CADRE_OK;
}

static void wake(struct cadre_vigil *v)
{
    const uint64_t one = 1;
    if (write(v->wake, &one, sizeof one) < 0)
        return; /* the thread looks at the end of its beat */
}

void cadre_vigil_tell(struct cadre_vigil *v, const char *text)
{
    if (v)
        say_why(v, -1, text);
}

/* What was said arrives: a close with unread bytes would drop it. */
static void say_end(struct cadre_vigil *v, int i)
{
    const char end = END;
    char bytes[READ_BYTES];
    if (v->ready[i].fd < 0)
        return;
    say(v, i, &end, 1);
    shutdown(v->ready[i].fd, SHUT_WR);
    while (recv(v->ready[i].fd, bytes, sizeof bytes, 0) > 0)
        continue;
}

void cadre_vigil_close(struct cadre_vigil *v)
{
    if (!v)
        return;
    pthread_mutex_lock(&v->lock);
    v->stop = true;
    pthread_mutex_unlock(&v->lock);
    wake(v);
    pthread_join(v->thread, NULL);
    for (int i = 0; i < v->n; i++)
        say_end(v, i);
    destroy(v);
}
