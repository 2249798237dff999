/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous over TCP: rank 0 listens and serves all connections concurrently, so a
 * silent third-party connection blocks no rank, nor do thousands: what has said nothing
 * whole in HELLO_WAIT_S is dropped, and the oldest of these where there are too many. A
 * rank that connects too early, or loses its connection, retries. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/launch/rendezvous_private.h"

#define LISTENERS 8 /* addresses of one name */
#define GUESTS (CADRE_RENDEZVOUS_RANKS + 64)
#define NAME_WAIT_S 5 /* retries of a slow name server */
#define HELLO_WAIT_S 5 /* from a connection to its whole hello, or to a challenge */
#define ACCEPTS 4096 /* in one turn: then those that have said something */

struct guest {
    int fd;
    double since_s;
    struct rendezvous_nonce zero; /* its challenge */
    size_t have; /* bytes of hello */
    struct rendezvous_hello hello;
};

struct host {
    int listener[LISTENERS];
    int n_listeners, n_guests;
    struct guest *guest; /* GUESTS, the oldest first */
    struct pollfd *ready; /* LISTENERS + GUESTS */
};

/* "host:port" or "[host]:port" to addresses; to be freed. */
static cadre_status resolve(const char *place, bool listens, struct addrinfo **out,
                            struct cadre_error *err)
{
    char host[256];
    const char *colon = strrchr(place, ':');
    size_t length = colon ? (size_t)(colon - place) : 0;
    const char *begin = place;
    if (length > 2 && place[0] == '[' && place[length - 1] == ']') {
        begin++;
        length -= 2;
    }
    if (length == 0 || length >= sizeof host || !colon[1])
        return cadre_fail(err, CADRE_E_INVALID,
                          "the ranks cannot meet at \"tcp://%s\"; expected "
                          "tcp://host:port or tcp://[address]:port",
                          place);
    memcpy(host, begin, length);
    host[length] = '\0';
    struct addrinfo want = {.ai_family = AF_UNSPEC,
                            .ai_socktype = SOCK_STREAM,
                            .ai_flags = AI_NUMERICSERV | (listens ? AI_PASSIVE : 0)};
    double deadline = cadre_now_s() + NAME_WAIT_S;
    int code = getaddrinfo(host, colon + 1, &want, out);
    while (code == EAI_AGAIN && cadre_now_s() < deadline) {
        cadre_rendezvous_tick();
        code = getaddrinfo(host, colon + 1, &want, out);
    }
    if (code == EAI_MEMORY || code == EAI_SYSTEM)
        return cadre_fail_errno(err, CADRE_E_RESOURCE,
                                code == EAI_MEMORY ? ENOMEM : errno,
                                "the ranks cannot meet at \"tcp://%s\"", place);
    if (code)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the ranks cannot meet at \"tcp://%s\": %s", place,
                          gai_strerror(code));
    return CADRE_OK;
}

static void set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static int listen_at(const struct addrinfo *at)
{
    int on = 1;
    int fd = socket(at->ai_family, SOCK_STREAM, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, 512)) {
        int failure = errno;
        close(fd);
        errno = failure;
        return -1;
    }
    set_nonblocking(fd);
    return fd;
}

static bool is_loopback(const struct addrinfo *at)
{
    if (at->ai_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)at->ai_addr;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *v6 = (const void *)at->ai_addr;
    return at->ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* A machine often resolves its own name to loopback (127.0.1.1), other machines to
 * another address: then rank 0 listens at every address it has, unless all ranks are
 * near. */
static void widen(const struct cadre_rendezvous *job, const char *place,
                  struct addrinfo **all)
{
    struct addrinfo *wide = NULL;
    struct addrinfo want = {.ai_family = AF_UNSPEC,
                            .ai_socktype = SOCK_STREAM,
                            .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    bool loops = true; /* all of its addresses */
    for (struct addrinfo *at = *all; at; at = at->ai_next)
        loops &= is_loopback(at);
    bool meant = job->near || strncmp(place, "localhost", 9) == 0 ||
                 strncmp(place, "ip6-", 4) == 0 || strncmp(place, "127.", 4) == 0 ||
                 place[0] == '[';
    if (!loops || meant || getaddrinfo(NULL, strrchr(place, ':') + 1, &want, &wide))
        return;
    cadre_log(CADRE_LOG_WARN, "comm",
              "tcp://%s is a loopback address here, and ranks are on other machines: "
              "rank 0 listens at every address of this machine; to choose one, set "
              "CADRE_INIT to tcp://ADDRESS:PORT",
              place);
    freeaddrinfo(*all);
    *all = wide;
}

/* Where rank 0 listens. */
static void tell_address(const struct addrinfo *at)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        cadre_log(CADRE_LOG_INFO, "comm", "rank 0 waits for the others at %s port %s",
                  host, port);
}

static cadre_status refuse_place(const char *place, int failure,
                                 struct cadre_error *err)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    return cadre_fail_errno(
        err, CADRE_E_RESOURCE, failure, "rank 0 cannot listen at tcp://%s on %s%s",
        place, host,
        failure == EADDRINUSE      ? " (another job may have the port: set CADRE_INIT "
                                     "to tcp://host:port)"
        : failure == EADDRNOTAVAIL ? " (expected one of this machine's addresses)"
                                   : "");
}

/* The error of the last address, where no address could be listened at. */
static int listen_at_all(struct host *h, const struct addrinfo *all)
{
    int failure = 0;
    for (const struct addrinfo *at = all; at && h->n_listeners < LISTENERS;
         at = at->ai_next) {
        int fd = listen_at(at);
        if (fd >= 0) {
            h->listener[h->n_listeners++] = fd;
            tell_address(at);
        } else {
            failure = errno;
        }
    }
    return failure;
}

/* Another job uses a port only while its ranks meet, so rank 0 waits for the port until
 * `deadline`. */
static cadre_status open_host(struct host *h, const struct cadre_rendezvous *job,
                              const char *place, double deadline,
                              struct cadre_error *err)
{
    struct addrinfo *all = NULL;
    CADRE_TRY(resolve(place, true, &all, err));
    widen(job, place, &all);
    int failure = listen_at_all(h, all);
    if (failure == EADDRINUSE && h->n_listeners == 0)
        cadre_log(CADRE_LOG_WARN, "comm",
                  "another program listens at tcp://%s, where the ranks meet; waiting",
                  place);
    while (failure == EADDRINUSE && h->n_listeners == 0 && cadre_now_s() < deadline) {
        cadre_rendezvous_tick();
        failure = listen_at_all(h, all);
    }
    freeaddrinfo(all);
    h->guest = calloc(GUESTS, sizeof *h->guest);
    h->ready = calloc(LISTENERS + GUESTS, sizeof *h->ready);
    if (h->n_listeners == 0)
        return refuse_place(place, failure, err);
    return h->guest && h->ready
               ? CADRE_OK
               : cadre_fail(err, CADRE_E_RESOURCE, "no memory to meet the ranks");
}

static void close_host(struct host *h)
{
    for (int i = 0; i < h->n_guests; i++)
        if (h->guest[i].fd >= 0)
            close(h->guest[i].fd);
    for (int i = 0; i < h->n_listeners; i++)
        close(h->listener[i]);
    free(h->guest);
    free(h->ready);
}

static void drop(struct host *h, int i)
{
    close(h->guest[i].fd);
    h->n_guests--;
    memmove(&h->guest[i], &h->guest[i + 1],
            (size_t)(h->n_guests - i) * sizeof *h->guest);
}

static bool is_whole(const struct guest *g)
{
    return g->have == sizeof g->hello;
}

/* Of those that have not said who they are, the oldest; false where all have. */
static bool drop_silent(struct host *h, struct rendezvous_refused *refused)
{
    int i = 0;
    while (i < h->n_guests && is_whole(&h->guest[i]))
        i++;
    if (i == h->n_guests)
        return false;
    refused->slow++;
    drop(h, i);
    return true;
}

/* The challenge fits the socket's buffer, which is empty. */
static bool challenge(struct guest *g)
{
    struct rendezvous_challenge c = {.magic = RENDEZVOUS_MAGIC};
    set_nonblocking(g->fd);
    if (!cadre_rendezvous_draw(&c.zero))
        return false;
    g->zero = c.zero;
    return send(g->fd, &c, sizeof c, MSG_NOSIGNAL) == (ssize_t)sizeof c;
}

static void accept_all(struct host *h, struct rendezvous_refused *refused)
{
    for (int i = 0; i < h->n_listeners; i++)
        for (int n = 0; n < ACCEPTS; n++) {
            if (h->n_guests == GUESTS && !drop_silent(h, refused))
                return;
            int fd = accept(h->listener[i], NULL, NULL);
            if (fd < 0 && (errno == EMFILE || errno == ENFILE) &&
                drop_silent(h, refused))
                continue;
            if (fd < 0)
                break;
            struct guest *g = &h->guest[h->n_guests++];
            *g = (struct guest){.fd = fd, .since_s = cadre_now_s()};
            if (!challenge(g))
                drop(h, h->n_guests - 1);
        }
}

/* Read what guest i has sent; false where it is to be dropped. */
static bool hear(struct host *h, int i, const struct cadre_rendezvous *job,
                 struct rendezvous_list *list, size_t n)
{
    struct guest *g = &h->guest[i];
    if (is_whole(g)) { /* a rank that waits: is it gone? */
        char byte;
        ssize_t more = recv(g->fd, &byte, 1, MSG_PEEK);
        return more < 0 && (errno == EAGAIN || errno == EINTR);
    }
    ssize_t got =
        recv(g->fd, (char *)&g->hello + g->have, sizeof g->hello - g->have, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        bool slow = cadre_now_s() > g->since_s + HELLO_WAIT_S;
        list->refused.slow += slow;
        return !slow;
    }
    if (got <= 0)
        return false;
    g->have += (size_t)got;
    if (g->have >= 8 && g->hello.magic != RENDEZVOUS_MAGIC) {
        list->refused.foreign++;
        return false;
    }
    if (!is_whole(g))
        return true;
    if (!cadre_rendezvous_ours(job, &g->zero, &g->hello, &list->refused))
        return false;
    cadre_rendezvous_note(list, job, &g->hello, n);
    return true;
}

/* Until somebody has said something, at most a tick. */
static void await_words(struct host *h)
{
    nfds_t n = 0;
    for (int i = 0; i < h->n_listeners; i++)
        h->ready[n++] = (struct pollfd){.fd = h->listener[i], .events = POLLIN};
    for (int i = 0; i < h->n_guests; i++)
        h->ready[n++] = (struct pollfd){.fd = h->guest[i].fd, .events = POLLIN};
    poll(h->ready, n, RENDEZVOUS_TICK_MS);
}

static void send_whole(int fd, const void *data, size_t bytes)
{
    size_t done = 0;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    /* it fits the socket's buffer, so a rank that does not read blocks others only
     * briefly */
    struct timeval most = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    while (done < bytes) {
        ssize_t n = send(fd, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return;
        done += n > 0 ? (size_t)n : 0;
    }
}

static void reply(const struct cadre_rendezvous *job, const struct guest *g,
                  const struct rendezvous_answer *answer)
{
    unsigned char code[CADRE_SHA256_BYTES];
    cadre_rendezvous_answer_code(job, &g->zero, &g->hello.own, answer, code);
    send_whole(g->fd, answer, sizeof *answer);
    send_whole(g->fd, code, sizeof code);
}

/* Of two connections of a rank the later one: it came when the other was lost. */
static void keep_guests(struct host *h, const struct cadre_rendezvous *job)
{
    for (int i = h->n_guests - 1; job->kept && i >= 0; i--) {
        struct guest *g = &h->guest[i];
        if (is_whole(g) && job->kept[g->hello.rank] < 0) {
            job->kept[g->hello.rank] = g->fd;
            g->fd = -1;
        }
    }
}

static cadre_status lead(const struct cadre_rendezvous *job, const char *place,
                         const struct rendezvous_hello *own, void *bytes,
                         struct cadre_error *err)
{
    double deadline = cadre_now_s() + job->timeout_s;
    struct rendezvous_list list = {.failed = -1};
    struct rendezvous_answer answer;
    struct host h = {.n_listeners = 0};
    cadre_status rc;
    cadre_rendezvous_note(&list, job, own, own->bytes);
    CADRE_TRY_OR(open_host(&h, job, place, deadline - job->timeout_s / 2, err), fail);
    for (bool last = false; list.here < job->size && !last;) {
        last = cadre_now_s() >= deadline;
        accept_all(&h, &list.refused);
        for (int i = h.n_guests - 1; i >= 0; i--)
            if (!hear(&h, i, job, &list, own->bytes))
                drop(&h, i);
        if (list.here < job->size && !last)
            await_words(&h);
    }
    cadre_rendezvous_close(&list, job, bytes, own->bytes, &answer);
    for (int i = 0; i < h.n_guests; i++)
        if (is_whole(&h.guest[i]))
            reply(job, &h.guest[i], &answer);
    rc = cadre_rendezvous_take(&answer, bytes, own->bytes, err);
    if (rc == CADRE_OK)
        keep_guests(&h, job);
fail:
    close_host(&h);
    return rc;
}

/* ---- the other ranks ---- */

enum answered {
    ANSWER_NONE, /* nobody, or no rank 0 */
    ANSWER_REFUSED, /* rank 0 of another job, or with another secret */
    ANSWER_TRUE,
};

/* Moves `bytes` through fd before the deadline; false where the peer is gone. */
static bool move(int fd, void *data, size_t bytes, bool out, double deadline)
{
    size_t done = 0;
    while (done < bytes && cadre_now_s() < deadline) {
        struct pollfd p = {.fd = fd, .events = out ? POLLOUT : POLLIN};
        if (poll(&p, 1, RENDEZVOUS_TICK_MS) <= 0)
            continue;
        char *at = (char *)data + done;
        ssize_t n = out ? send(fd, at, bytes - done, MSG_NOSIGNAL)
                        : recv(fd, at, bytes - done, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return done == bytes;
}

static int connect_to(const struct addrinfo *at, double deadline)
{
    int fd = socket(at->ai_family, SOCK_STREAM, 0), failure = 0;
    socklen_t size = sizeof failure;
    if (fd < 0)
        return -1;
    set_nonblocking(fd);
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0)
        return fd;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (errno == EINPROGRESS)
        while (cadre_now_s() < deadline)
            if (poll(&p, 1, RENDEZVOUS_TICK_MS) > 0) {
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size);
                if (failure == 0)
                    return fd;
                break;
            }
    close(fd);
    return -1;
}

/* One connection to rank 0. */
static enum answered talk(const struct cadre_rendezvous *job, int fd,
                          const struct rendezvous_hello *own,
                          struct rendezvous_answer *answer, double deadline)
{
    struct rendezvous_challenge c;
    struct rendezvous_hello hello = *own;
    unsigned char code[CADRE_SHA256_BYTES], given[CADRE_SHA256_BYTES];
    const char *why;
    double soon = cadre_now_s() + HELLO_WAIT_S;
    if (!move(fd, &c, sizeof c, false, soon < deadline ? soon : deadline) ||
        c.magic != RENDEZVOUS_MAGIC || !cadre_secret_look(job->secret, &why))
        return ANSWER_NONE;
    cadre_rendezvous_sign(job, &c.zero, &hello);
    if (!move(fd, &hello, sizeof hello, true, deadline) ||
        !move(fd, answer, sizeof *answer, false, deadline) ||
        !move(fd, given, sizeof given, false, deadline))
        return ANSWER_REFUSED;
    cadre_rendezvous_answer_code(job, &c.zero, &hello.own, answer, code);
    return answer->magic == RENDEZVOUS_MAGIC && answer->job == own->job &&
                   cadre_sha256_equal(code, given)
               ? ANSWER_TRUE
               : ANSWER_REFUSED;
}

/* One attempt. */
static enum answered ask(const struct cadre_rendezvous *job, const struct addrinfo *all,
                         const struct rendezvous_hello *own,
                         struct rendezvous_answer *answer, double deadline)
{
    enum answered found = ANSWER_NONE;
    for (const struct addrinfo *at = all; at && found != ANSWER_TRUE;
         at = at->ai_next) {
        int fd = connect_to(at, deadline);
        if (fd < 0)
            continue;
        enum answered said = talk(job, fd, own, answer, deadline);
        found = said > found ? said : found;
        if (said == ANSWER_TRUE && job->kept && !answer->failed)
            job->kept[0] = fd;
        else
            close(fd);
    }
    return found;
}

/* Rank 0 may begin its time later than this rank, so that is waited for twice. */
static cadre_status follow(const struct cadre_rendezvous *job, const char *place,
                           const struct rendezvous_hello *own, void *bytes,
                           struct cadre_error *err)
{
    double deadline = cadre_now_s() + 2 * job->timeout_s;
    struct rendezvous_hello hello = *own;
    struct rendezvous_answer answer;
    struct addrinfo *all = NULL;
    char why[1200];
    int refused = 0;
    if (!cadre_rendezvous_draw(&hello.own))
        return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                "no random numbers to meet the ranks");
    CADRE_TRY(resolve(place, false, &all, err));
    enum answered said = ask(job, all, &hello, &answer, deadline);
    while (said != ANSWER_TRUE && cadre_now_s() < deadline) {
        refused += said == ANSWER_REFUSED;
        cadre_rendezvous_tick();
        said = ask(job, all, &hello, &answer, deadline);
    }
    freeaddrinfo(all);
    if (said == ANSWER_TRUE)
        return cadre_rendezvous_take(&answer, bytes, own->bytes, err);
    cadre_rendezvous_explain(job, why, sizeof why);
    if (!why[0] && refused > 0)
        snprintf(why, sizeof why,
                 "; what listens there refused this rank's secret, or has another: "
                 "expected the same CADRE_SECRET, or the same run's folder, and the "
                 "same job on all ranks");
    return cadre_fail(err, CADRE_E_COMM,
                      "rank %d: no rank 0 of this job answered at tcp://%s within "
                      "%g s%s",
                      job->rank, place, 2 * job->timeout_s, why);
}

cadre_status cadre_rendezvous_tcp(const struct cadre_rendezvous *job, const char *place,
                                  void *bytes, size_t n, const char *failed,
                                  struct cadre_error *err)
{
    struct rendezvous_hello own = cadre_rendezvous_hello(job, n, failed);
    return job->rank == 0 ? lead(job, place, &own, bytes, err)
                          : follow(job, place, &own, bytes, err);
}
