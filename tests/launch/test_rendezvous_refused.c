/* SPDX-License-Identifier: Apache-2.0 */
/* Who is not of the job where its ranks meet over TCP: with another secret, with a
 * message that was recorded, silent, slow, with other bytes, or in rank 0's place. The
 * ranks meet all the same, and rank 0's answer counts what it refused. Only slow ones
 * wait for time to pass. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/launch/rendezvous_private.h"
#include "tests/support/check_main.h"

#define BYTES 200
#define PATIENT 600.0

struct rank {
    struct cadre_rendezvous job;
    struct cadre_secret secret;
    unsigned char bytes[BYTES];
    struct cadre_error err;
    cadre_status rc;
    pthread_t thread;
};

static char where[64];
static struct sockaddr_in at;

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* A port that is free. */
static void find_place(void)
{
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    at = (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(bind(fd, (void *)&at, size), 0);
    ck_assert_int_eq(getsockname(fd, (void *)&at, &size), 0);
    close(fd);
    snprintf(where, sizeof where, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    r->rc = cadre_rendezvous_meet(&r->job, r->bytes, BYTES, NULL, &r->err);
    return NULL;
}

static void start(struct rank *r, int rank, int size, const char *secret,
                  double timeout_s)
{
    memset(r, 0, sizeof *r);
    ck_assert_int_eq(cadre_secret_init(&r->secret, secret, "", "", NULL), CADRE_OK);
    r->job = (struct cadre_rendezvous){.where = where,
                                       .job = "job",
                                       .rank = rank,
                                       .size = size,
                                       .timeout_s = timeout_s,
                                       .secret = &r->secret};
    for (int i = 0; rank == 0 && i < BYTES; i++)
        r->bytes[i] = (unsigned char)(i + 1);
    ck_assert_int_eq(pthread_create(&r->thread, NULL, rank_main, r), 0);
}

static void end(struct rank *r)
{
    pthread_join(r->thread, NULL);
}

/* As soon as rank 0 listens. */
static int dial(void)
{
    for (int i = 0; i < 60000; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0)
            return -1;
        if (connect(fd, (void *)&at, sizeof at) == 0)
            return fd;
        close(fd);
        pause_ms(1);
    }
    return -1;
}

static bool get(int fd, void *to, size_t bytes)
{
    size_t done = 0;
    ssize_t n = 1;
    while (done < bytes && n > 0) {
        n = recv(fd, (char *)to + done, bytes - done, 0);
        done += n > 0 ? (size_t)n : 0;
    }
    return done == bytes;
}

static void is_closed(int fd)
{
    char byte;
    ck_assert_int_le(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

/* What rank 1 of two would say, by a secret. */
static struct rendezvous_hello hello_to(const struct rendezvous_challenge *c,
                                        struct cadre_secret *secret)
{
    const struct cadre_rendezvous job = {
        .where = where, .job = "job", .rank = 1, .size = 2, .secret = secret};
    struct rendezvous_hello hello = cadre_rendezvous_hello(&job, BYTES, NULL);
    cadre_rendezvous_draw(&hello.own);
    cadre_rendezvous_sign(&job, &c->zero, &hello);
    return hello;
}

static const char ours[] = "a secret of the job";

static void both_have_met(struct rank *ranks)
{
    for (int r = 0; r < 2; r++) {
        end(&ranks[r]);
        ck_assert_msg(ranks[r].rc == CADRE_OK, "rank %d: %s", r, ranks[r].err.text);
    }
    ck_assert_int_eq(memcmp(ranks[1].bytes, ranks[0].bytes, BYTES), 0);
}

START_TEST(another_secret_is_refused)
{
    struct rank ranks[3];
    struct rendezvous_challenge c;
    struct cadre_secret theirs;
    find_place();
    start(&ranks[0], 0, 2, ours, PATIENT);
    cadre_secret_init(&theirs, "a secret of another job", "", "", NULL);
    for (int i = 0; i < 3; i++) { /* gets nothing, and does not take the place */
        int fd = dial();
        ck_assert(get(fd, &c, sizeof c));
        struct rendezvous_hello hello = hello_to(&c, &theirs);
        ck_assert_int_eq(send(fd, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
        is_closed(fd);
    }
    start(&ranks[2], 1, 2, "a secret of another job", 0.2);
    end(&ranks[2]);
    ck_assert_int_eq(ranks[2].rc, CADRE_E_COMM);
    ck_assert_msg(strstr(ranks[2].err.text, "expected the same CADRE_SECRET"), "%s",
                  ranks[2].err.text);
    start(&ranks[1], 1, 2, ours, PATIENT);
    both_have_met(ranks);
}
END_TEST

/* Byte for byte what a rank said: in this meeting on another connection, or before. */
START_TEST(a_recorded_message_is_refused)
{
    struct rank ranks[2];
    struct rendezvous_challenge first, second;
    struct cadre_secret secret;
    find_place();
    start(&ranks[0], 0, 2, ours, 1);
    cadre_secret_init(&secret, ours, "", "", NULL);
    int fd = dial();
    ck_assert(get(fd, &first, sizeof first));
    close(fd);
    struct rendezvous_hello hello = hello_to(&first, &secret);
    fd = dial();
    ck_assert(get(fd, &second, sizeof second));
    ck_assert_int_ne(memcmp(&first, &second, sizeof first), 0);
    ck_assert_int_eq(send(fd, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    is_closed(fd);
    end(&ranks[0]);
    ck_assert_int_eq(ranks[0].rc, CADRE_E_COMM);
    ck_assert_msg(strstr(ranks[0].err.text, "missing: 1; refused: 1 replayed"), "%s",
                  ranks[0].err.text);
}
END_TEST

/* Bits of a true message are changed. */
START_TEST(changed_messages_are_refused)
{
    struct rank ranks[2];
    struct rendezvous_challenge c;
    struct cadre_secret secret;
    find_place();
    start(&ranks[0], 0, 2, ours, PATIENT);
    cadre_secret_init(&secret, ours, "", "", NULL);
    for (size_t i = 16; i < sizeof(struct rendezvous_hello); i += 16) {
        int fd = dial();
        ck_assert(get(fd, &c, sizeof c));
        struct rendezvous_hello hello = hello_to(&c, &secret);
        ((unsigned char *)&hello)[i] ^= 1;
        ck_assert_int_eq(send(fd, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
        is_closed(fd);
    }
    start(&ranks[1], 1, 2, ours, PATIENT);
    both_have_met(ranks);
}
END_TEST

/* More than rank 0 keeps, all before the rank; none is waited for. */
START_TEST(many_silent_connections_hold_nobody_up)
{
    enum { MOST = 3000 };
    struct rank ranks[2];
    static int fds[MOST];
    struct rlimit limit;
    int n = 0;
    find_place();
    start(&ranks[0], 0, 2, ours, PATIENT);
    getrlimit(RLIMIT_NOFILE, &limit); /* both ends are of this process */
    const int most =
        limit.rlim_cur / 2 < MOST + 100 ? (int)(limit.rlim_cur * 3 / 4) : MOST;
    while (n < most && (fds[n] = dial()) >= 0)
        n++;
    ck_assert_int_gt(n, 100);
    start(&ranks[1], 1, 2, ours, PATIENT);
    both_have_met(ranks);
    while (n > 0)
        close(fds[--n]);
}
END_TEST

START_TEST(slow_and_foreign_connections_are_dropped)
{
    struct rank ranks[2];
    static const char request[] = "GET / HTTP/1.1\r\n\r\n";
    find_place();
    start(&ranks[0], 0, 2, ours, PATIENT);
    int foreign = dial(), slow = dial();
    ck_assert_int_eq(send(foreign, request, sizeof request, MSG_NOSIGNAL),
                     sizeof request);
    struct rendezvous_challenge c;
    ck_assert(get(foreign, &c, sizeof c));
    is_closed(foreign);
    if (getenv("CADRE_TEST_SLOW")) { /* seconds */
        ck_assert(get(slow, &c, sizeof c));
        is_closed(slow);
    } else {
        close(slow);
    }
    start(&ranks[1], 1, 2, ours, PATIENT);
    both_have_met(ranks);
}
END_TEST

/* A rank of a wrong number, with the secret, is told what is wrong. */
START_TEST(wrong_numbers_get_a_true_line)
{
    struct rank ranks[2];
    struct rendezvous_challenge c;
    struct cadre_secret secret;
    const uint32_t wrong = _i == 0 ? 0 : _i == 1 ? 2 : 0xfffffff0u;
    find_place();
    start(&ranks[0], 0, 2, ours, PATIENT);
    cadre_secret_init(&secret, ours, "", "", NULL);
    int fd = dial();
    ck_assert(get(fd, &c, sizeof c));
    struct rendezvous_hello hello = hello_to(&c, &secret);
    const struct cadre_rendezvous job = {.job = "job", .secret = &secret};
    hello.rank = wrong;
    cadre_rendezvous_sign(&job, &c.zero, &hello);
    ck_assert_int_eq(send(fd, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    pause_ms(50);
    start(&ranks[1], 1, 2, ours, PATIENT);
    for (int r = 0; r < 2; r++) {
        end(&ranks[r]);
        ck_assert_msg(ranks[r].rc == CADRE_E_COMM &&
                          strstr(ranks[r].err.text,
                                 "a rank of this number came; expected 1 to 1"),
                      "%s", ranks[r].err.text);
    }
    close(fd);
}
END_TEST

START_TEST(two_with_one_number_are_told)
{
    struct rank ranks[4];
    find_place();
    start(&ranks[0], 0, 3, ours, PATIENT);
    start(&ranks[1], 1, 3, ours, PATIENT);
    start(&ranks[2], 1, 3, ours, PATIENT);
    pause_ms(100);
    start(&ranks[3], 2, 3, ours, PATIENT);
    for (int r = 0; r < 4; r++)
        end(&ranks[r]);
    ck_assert_msg(
        strstr(ranks[0].err.text, "rank 1: two processes say that they are this rank"),
        "%s", ranks[0].err.text);
}
END_TEST

/* Who listens in rank 0's place and knows no secret is not believed. */
static void *impostor(void *arg)
{
    struct rendezvous_hello hello;
    struct {
        struct rendezvous_answer answer;
        unsigned char code[CADRE_SHA256_BYTES];
    } reply = {.answer = {.magic = RENDEZVOUS_MAGIC, .bytes = BYTES}};
    struct rendezvous_challenge c = {.magic = RENDEZVOUS_MAGIC};
    int *listener = arg, fd;
    while ((fd = accept(*listener, NULL, NULL)) >= 0) {
        send(fd, &c, sizeof c, MSG_NOSIGNAL);
        if (get(fd, &hello, sizeof hello)) {
            reply.answer.job = hello.job;
            memcpy(reply.code, hello.code, sizeof reply.code);
            send(fd, &reply, sizeof reply, MSG_NOSIGNAL);
        }
        close(fd);
    }
    return NULL;
}

START_TEST(another_rank_0_is_refused)
{
    struct rank rank;
    pthread_t other;
    int on = 1;
    find_place();
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ck_assert_int_eq(bind(listener, (void *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(listener, 5), 0);
    ck_assert_int_eq(pthread_create(&other, NULL, impostor, &listener), 0);
    start(&rank, 1, 2, ours, 0.2);
    end(&rank);
    ck_assert_int_eq(rank.rc, CADRE_E_COMM);
    ck_assert_msg(strstr(rank.err.text, "refused this rank's secret, or has another"),
                  "%s", rank.err.text);
    shutdown(listener, SHUT_RDWR);
    pthread_join(other, NULL);
    close(listener);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/rendezvous_refused");
    TCase *t = tcase_create("refused");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, another_secret_is_refused);
    tcase_add_test(t, a_recorded_message_is_refused);
    tcase_add_test(t, changed_messages_are_refused);
    tcase_add_test(t, many_silent_connections_hold_nobody_up);
    tcase_add_test(t, slow_and_foreign_connections_are_dropped);
    tcase_add_loop_test(t, wrong_numbers_get_a_true_line, 0, 3);
    tcase_add_test(t, two_with_one_number_are_told);
    tcase_add_test(t, another_rank_0_is_refused);
    suite_add_tcase(s, t);
    return s;
}
