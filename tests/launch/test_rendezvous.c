/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads that meet over TCP and through files. Only tests with a missing rank
 * wait for time to pass. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/launch/rendezvous.h"
#include "tests/support/check_main.h"

#define SIZE 6
#define BYTES 1000
#define PATIENT 600.0

struct rank {
    struct cadre_rendezvous job;
    const char *failed;
    int delay_ms;
    unsigned char bytes[BYTES];
    size_t n;
    struct cadre_error err;
    cadre_status rc;
    struct cadre_secret secret;
    pthread_t thread;
};

static char folder[64];
static char where[128];
static int unresolved; /* how names and addresses are not found */

/* In the place of the C library's. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *want,
                struct addrinfo **out)
{
    int (*next)(const char *, const char *, const struct addrinfo *,
                struct addrinfo **);
    *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
    return unresolved ? unresolved : next(host, port, want, out);
}

static int free_port(int family, int *held)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = family == AF_INET ? sizeof four : sizeof six;
    void *at = family == AF_INET ? (void *)&four : (void *)&six;
    int fd = socket(family, SOCK_STREAM, 0);
    *held = fd;
    if (fd < 0 || bind(fd, at, size) || getsockname(fd, at, &size))
        return 0;
    return ntohs(family == AF_INET ? four.sin_port : six.sin6_port);
}

/* 0: a file, 1: IPv4, 2: IPv6; false where this machine has none of it. */
static bool place(int kind)
{
    int fd = -1;
    if (kind == 0) {
        snprintf(folder, sizeof folder, "/tmp/cadre-meet-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(folder));
        snprintf(where, sizeof where, "file://%s/here", folder);
        return true;
    }
    int port = free_port(kind == 1 ? AF_INET : AF_INET6, &fd);
    close(fd);
    snprintf(where, sizeof where, "tcp://%s:%d", kind == 1 ? "127.0.0.1" : "[::1]",
             port);
    if (port == 0)
        printf("SKIP: this machine has no %s\n", kind == 1 ? "IPv4" : "IPv6");
    return port != 0;
}

static void tidy(int kind)
{
    char path[128];
    if (kind != 0)
        return;
    snprintf(path, sizeof path, "%s/here", folder);
    unlink(path);
    for (int r = 1; r < SIZE; r++) {
        snprintf(path, sizeof path, "%s/here.%d", folder, r);
        unlink(path);
    }
    ck_assert_int_eq(rmdir(folder), 0); /* nothing else was left */
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    nanosleep(&(struct timespec){.tv_nsec = r->delay_ms * 1000000L}, NULL);
    r->rc = cadre_rendezvous_meet(&r->job, r->bytes, r->n, r->failed, &r->err);
    return NULL;
}

static void prepare(struct rank *ranks, const char *job, double timeout_s)
{
    memset(ranks, 0, SIZE * sizeof *ranks);
    for (int r = 0; r < SIZE; r++) {
        ranks[r].job = (struct cadre_rendezvous){.where = where,
                                                 .job = job,
                                                 .rank = r,
                                                 .size = SIZE,
                                                 .timeout_s = timeout_s,
                                                 .secret = &ranks[r].secret};
        ck_assert_int_eq(
            cadre_secret_init(&ranks[r].secret, "a secret of the tests", "", "", NULL),
            CADRE_OK);
        ranks[r].n = BYTES;
        ranks[r].delay_ms = (r * 37) % 100;
    }
    for (int i = 0; i < BYTES; i++)
        ranks[0].bytes[i] = (unsigned char)(i * 7 + job[0]);
}

static void start(struct rank *ranks, int without)
{
    for (int r = 0; r < SIZE; r++)
        if (r != without)
            ck_assert_int_eq(
                pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]), 0);
}

static void join(struct rank *ranks, int without)
{
    for (int r = 0; r < SIZE; r++)
        if (r != without)
            pthread_join(ranks[r].thread, NULL);
}

static void all_have(const struct rank *ranks)
{
    for (int r = 0; r < SIZE; r++) {
        ck_assert_msg(ranks[r].rc == CADRE_OK, "rank %d: %s", r, ranks[r].err.text);
        ck_assert_int_eq(memcmp(ranks[r].bytes, ranks[0].bytes, BYTES), 0);
    }
}

/* A pipe where the last rank's file will be, again and again until that is there. */
static void *put_pipes(void *arg)
{
    char path[128];
    (void)arg;
    snprintf(path, sizeof path, "%s/here.%d", folder, SIZE - 1);
    for (int i = 0; i < 100; i++) {
        mkfifo(path, 0600);
        nanosleep(&(struct timespec){.tv_nsec = 2000000L}, NULL);
    }
    return NULL;
}

START_TEST(a_pipe_in_the_way_is_not_waited_for)
{
    struct rank ranks[SIZE];
    pthread_t putting;
    ck_assert(place(0));
    prepare(ranks, "pipes", PATIENT);
    ranks[0].delay_ms = 0;
    ranks[SIZE - 1].delay_ms = 300;
    ck_assert_int_eq(pthread_create(&putting, NULL, put_pipes, NULL), 0);
    start(ranks, -1);
    join(ranks, -1);
    pthread_join(putting, NULL);
    all_have(ranks);
    tidy(0);
}
END_TEST

START_TEST(all_ranks_get_the_bytes)
{
    struct rank ranks[SIZE];
    if (!place(_i))
        return;
    for (int turn = 0; turn < 3; turn++) { /* one job after the other at one address */
        char job[8] = {(char)('a' + turn), 0};
        prepare(ranks, job, PATIENT);
        ranks[0].delay_ms = turn * 60;
        start(ranks, -1);
        join(ranks, -1);
        all_have(ranks);
    }
    tidy(_i);
}
END_TEST

/* A message of rank 4 is kept as soon as it is there. */
static void *keep(void *kept)
{
    char path[128];
    snprintf(path, sizeof path, "%s/here.4", folder);
    for (int i = 0; i < 60000 && link(path, kept) != 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return NULL;
}

/* A restarted job has the name of the previous one, which left its answer and, where it
 * was killed, a rank's message and a challenge: all are ignored. */
START_TEST(leftovers_are_ignored)
{
    struct rank ranks[SIZE];
    char path[128], kept[128];
    pthread_t keeping;
    place(0);
    snprintf(path, sizeof path, "%s/here.4", folder);
    snprintf(kept, sizeof kept, "%s/kept", folder);
    prepare(ranks, "job", PATIENT);
    for (int r = 1; r < SIZE; r++) /* it is there for some time */
        ranks[r].delay_ms = r == SIZE - 1 ? 200 : 0;
    pthread_create(&keeping, NULL, keep, kept);
    start(ranks, -1);
    join(ranks, -1);
    pthread_join(keeping, NULL);
    prepare(ranks, "job", 0.2); /* rank 4 only: not the previous answer */
    pthread_create(&ranks[4].thread, NULL, rank_main, &ranks[4]);
    pthread_join(ranks[4].thread, NULL);
    ck_assert_int_eq(ranks[4].rc, CADRE_E_COMM);
    ck_assert_int_eq(rename(kept, path), 0);
    snprintf(path, sizeof path, "%s/here.0", folder);
    FILE *old = fopen(path, "we"); /* "CDREMET2" and a number that is no longer used */
    ck_assert_ptr_nonnull(old);
    fputs("CDREMET2an old challenge", old);
    fclose(old);
    prepare(ranks, "job", PATIENT);
    ranks[0].bytes[0] ^= 1;
    ranks[0].delay_ms = 50; /* some ranks come before, some after */
    ranks[4].delay_ms = 200;
    start(ranks, -1);
    join(ranks, -1);
    all_have(ranks);
    cadre_rendezvous_forget(&ranks[1].job);
    snprintf(path, sizeof path, "%s/here", folder);
    ck_assert_int_eq(access(path, F_OK), 0);
    cadre_rendezvous_forget(&ranks[0].job);
    ck_assert_int_ne(access(path, F_OK), 0);
    tidy(0);
}
END_TEST

/* The others come after its report, and still see it. */
START_TEST(a_failure_reaches_the_late)
{
    struct rank ranks[SIZE];
    if (!place(_i % 3))
        return;
    int failing = _i < 3 ? 2 : 0;
    prepare(ranks, "job", PATIENT);
    ranks[failing].failed = "cannot open its device";
    ranks[failing].delay_ms = 0;
    ranks[SIZE - 1].delay_ms = 300;
    start(ranks, -1);
    join(ranks, -1);
    for (int r = 0; r < SIZE; r++) {
        ck_assert_int_eq(ranks[r].rc, CADRE_E_COMM);
        ck_assert_msg(strstr(ranks[r].err.text, failing
                                                    ? "rank 2: cannot open its device"
                                                    : "rank 0: cannot open"),
                      "%s", ranks[r].err.text);
    }
    tidy(_i % 3);
}
END_TEST

START_TEST(missing_ranks_are_named)
{
    struct rank ranks[SIZE];
    if (!place(_i))
        return;
    prepare(ranks, "job", 1);
    start(ranks, 4);
    join(ranks, 4);
    ck_assert_int_eq(ranks[0].rc, CADRE_E_COMM);
    const char *missing = strstr(ranks[0].err.text, "missing: ");
    ck_assert_msg(missing && strchr(missing, '4') &&
                      strstr(ranks[0].err.text, "ranks came to"),
                  "%s", ranks[0].err.text);
    for (int r = 1; r < SIZE; r++)
        ck_assert(r == 4 || ranks[r].rc == CADRE_E_COMM);
    tidy(_i);
}
END_TEST

/* A silent connection, one with another protocol, and a rank of another job. */
START_TEST(other_connections_are_ignored)
{
    struct rank ranks[SIZE], other[SIZE];
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[2];
    if (!place(1))
        return;
    at.sin_port = htons((uint16_t)atoi(strrchr(where, ':') + 1));
    prepare(ranks, "job", PATIENT);
    prepare(other, "another", 0.5);
    for (int r = 1; r < SIZE; r++)
        ranks[r].delay_ms = 500;
    ranks[0].delay_ms = other[3].delay_ms = 0;
    start(ranks, -1);
    pthread_create(&other[3].thread, NULL, rank_main, &other[3]);
    for (int i = 0; i < 2; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        for (int n = 0; n < 500 && connect(fds[i], (void *)&at, sizeof at); n++) {
            close(fds[i]);
            fds[i] = socket(AF_INET, SOCK_STREAM, 0);
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    send(fds[1], "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
    join(ranks, -1);
    all_have(ranks);
    pthread_join(other[3].thread, NULL);
    ck_assert_int_eq(other[3].rc, CADRE_E_COMM);
    ck_assert_msg(strstr(other[3].err.text, "no rank 0 of this job"), "%s",
                  other[3].err.text);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(unequal_ranks_are_reported)
{
    struct rank ranks[SIZE];
    if (!place(_i))
        return;
    prepare(ranks, "job", PATIENT);
    ranks[3].job.size = SIZE + 1;
    start(ranks, -1);
    join(ranks, -1);
    for (int r = 0; r < SIZE; r++)
        ck_assert_msg(
            ranks[r].rc == CADRE_E_COMM &&
                strstr(ranks[r].err.text, "rank 3: it counts 7 ranks, rank 0 counts 6"),
            "%s", ranks[r].err.text);
    tidy(_i);
}
END_TEST

START_TEST(a_taken_port_is_reported)
{
    int fd = -1, port = free_port(AF_INET, &fd);
    struct cadre_error err = {0};
    char byte = 0;
    ck_assert_int_eq(listen(fd, 1), 0);
    snprintf(where, sizeof where, "tcp://127.0.0.1:%d", port);
    struct cadre_secret secret = {.given = true};
    struct cadre_rendezvous job = {
        .where = where, .job = "taken", .size = 2, .timeout_s = 0.2, .secret = &secret};
    ck_assert_int_eq(cadre_rendezvous_meet(&job, &byte, 1, NULL, &err),
                     CADRE_E_RESOURCE);
    ck_assert_msg(strstr(err.text, "another job may have the port"), "%s", err.text);
    close(fd);
    /* TEST-NET-3: no host has it */
    job.where = "tcp://203.0.113.77:1";
    cadre_status rc = cadre_rendezvous_meet(&job, &byte, 1, NULL, &err);
    ck_assert_int_eq(rc, CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(
        strstr(err.text, "cannot listen at tcp://203.0.113.77:1 on "));
}
END_TEST

static void *leave_port(void *fd)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    close(*(int *)fd);
    return NULL;
}

/* Two jobs with the same port: the second waits for the first. */
START_TEST(a_port_that_comes_free_is_taken)
{
    int fd = -1, port = free_port(AF_INET, &fd);
    struct rank ranks[SIZE];
    pthread_t other;
    ck_assert_int_eq(listen(fd, 1), 0);
    snprintf(where, sizeof where, "tcp://127.0.0.1:%d", port);
    ck_assert_int_eq(pthread_create(&other, NULL, leave_port, &fd), 0);
    prepare(ranks, "second", PATIENT);
    start(ranks, -1);
    join(ranks, -1);
    pthread_join(other, NULL);
    all_have(ranks);
}
END_TEST

START_TEST(malformed_addresses_are_refused)
{
    static const char *const wrong[] = {
        "tcp://",  "tcp://host", "tcp://:5", "tcp://host:", "tcp://[::1]:no",
        "file://", "file://x",   "file:///", "fd:3",        ""};
    struct cadre_error err;
    char bytes[4] = "abc";
    struct cadre_secret secret = {.given = true};
    struct cadre_rendezvous job = {
        .job = "j", .size = 2, .timeout_s = 1, .secret = &secret};
    for (int rank = 0; rank < 2; rank++)
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            job.where = wrong[i];
            job.rank = rank;
            ck_assert_msg(cadre_rendezvous_meet(&job, bytes, 4, NULL, &err) ==
                              CADRE_E_INVALID,
                          "%s", wrong[i]);
        }
    job.where = "file:///proc/nowhere/x";
    job.rank = 0;
    ck_assert_int_eq(cadre_rendezvous_meet(&job, bytes, 4, NULL, &err), CADRE_E_IO);
    job.rank = 2;
    ck_assert_int_eq(cadre_rendezvous_meet(&job, bytes, 4, NULL, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(
        strstr(err.text, "rank 2 cannot meet the others; expected 0"));
    job.rank = 0;
    job.secret = NULL;
    ck_assert_int_eq(cadre_rendezvous_meet(&job, bytes, 4, NULL, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "set CADRE_SECRET"));
}
END_TEST

START_TEST(a_lack_of_memory_is_not_the_address)
{
    struct cadre_error err;
    char byte = 0;
    struct cadre_secret secret = {.given = true};
    struct cadre_rendezvous job = {.where = "tcp://127.0.0.1:1",
                                   .job = "j",
                                   .size = 2,
                                   .timeout_s = 1,
                                   .secret = &secret};
    unresolved = EAI_MEMORY;
    for (job.rank = 0; job.rank < 2; job.rank++) {
        ck_assert_int_eq(cadre_rendezvous_meet(&job, &byte, 1, NULL, &err),
                         CADRE_E_RESOURCE);
        ck_assert_ptr_nonnull(strstr(err.text, "memory"));
    }
    unresolved = EAI_NONAME;
    job.rank = 0;
    ck_assert_int_eq(cadre_rendezvous_meet(&job, &byte, 1, NULL, &err),
                     CADRE_E_INVALID);
    unresolved = 0;
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/rendezvous");
    TCase *t = tcase_create("meet");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, all_ranks_get_the_bytes, 0, 3);
    tcase_add_test(t, a_pipe_in_the_way_is_not_waited_for);
    tcase_add_test(t, leftovers_are_ignored);
    tcase_add_loop_test(t, a_failure_reaches_the_late, 0, 6);
    tcase_add_loop_test(t, missing_ranks_are_named, 0, 2);
    tcase_add_test(t, other_connections_are_ignored);
    tcase_add_loop_test(t, unequal_ranks_are_reported, 0, 2);
    tcase_add_test(t, a_taken_port_is_reported);
    tcase_add_test(t, a_port_that_comes_free_is_taken);
    tcase_add_test(t, malformed_addresses_are_refused);
    tcase_add_test(t, a_lack_of_memory_is_not_the_address);
    suite_add_tcase(s, t);
    return s;
}
