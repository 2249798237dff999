/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes that met over TCP: one is killed, one fails, one is stopped, one
 * ends as it should, the network is cut, and the machine is overloaded: for 2 s, with
 * CADRE_TEST_SLOW=2 for twice half an hour. Times are printed, not judged. */
#include "core/launch/vigil.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/launch/rendezvous.h"
#include "tests/support/check_main.h"

enum { SIZE = 4, LINE = 400 };

static pid_t child[SIZE];
static int order[SIZE]; /* a byte: e, end; f, fail; s, spin until the end */
static FILE *said; /* lines of all children */
static int told; /* where they write them */
static char where[64];

static void put(int rank, const char *what, const char *text)
{
    char line[LINE];
    const int n = snprintf(line, sizeof line, "%d %s%.300s\n", rank, what, text);
    if (write(told, line, (size_t)n) != n)
        _exit(9);
}

static void on_lost(void *arg, const char *text)
{
    put(*(int *)arg, "told: ", text);
}

static cadre_status open_vigil(const int *fd, int *rank, struct cadre_vigil **out,
                               struct cadre_error *err)
{
    const struct cadre_vigil_job job = {.rank = *rank,
                                        .size = SIZE,
                                        .fd = fd,
                                        .lost_s = 2,
                                        .lost = on_lost,
                                        .arg = rank};
    return cadre_vigil_open(&job, out, err);
}

static void *spin(void *arg)
{
    volatile uint64_t spun = 0;
    for (;;)
        spun++;
    return arg;
}

/* All ranks together keep twice as many threads at work as the machine has cores. */
static void start_to_spin(void)
{
    const long threads = (sysconf(_SC_NPROCESSORS_ONLN) + 1) / 2;
    pthread_t thread;
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread, NULL, spin, NULL) != 0)
            _exit(7);
}

static void run_rank(int rank, int orders)
{
    struct cadre_secret secret;
    struct cadre_vigil *vigil = NULL;
    struct cadre_error err = {0};
    int kept[SIZE] = {-1, -1, -1, -1};
    char byte = 0;
    cadre_status rc = cadre_secret_init(&secret, "a secret of the tests", "", "", NULL);
    const struct cadre_rendezvous job = {.where = where,
                                         .job = "vigil",
                                         .rank = rank,
                                         .size = SIZE,
                                         .timeout_s = 60,
                                         .secret = &secret,
                                         .kept = kept};
    if (rc == CADRE_OK)
        rc = cadre_rendezvous_meet(&job, &byte, 1, NULL, &err);
    if (rc == CADRE_OK)
        rc = open_vigil(kept, &rank, &vigil, &err);
    put(rank, "", rc == CADRE_OK ? "ready" : err.text);
    while (byte != 'e') {
        if (read(orders, &byte, 1) != 1)
            _exit(8);
        if (byte == 'f')
            cadre_vigil_tell(vigil, "rank 2: the loss is not finite");
        if (byte == 's')
            start_to_spin();
    }
    cadre_vigil_close(vigil);
    put(rank, "", "ended");
    _exit(0);
}

static void find_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, size), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    snprintf(where, sizeof where, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
    close(fd);
}

/* The next line, of rank *rank; the text behind it. */
static const char *next(int *rank)
{
    static char line[LINE];
    int used = 0;
    ck_assert_ptr_nonnull(fgets(line, sizeof line, said));
    ck_assert_int_eq(sscanf(line, "%d %n", rank, &used), 1);
    return line + used;
}

static void start(void)
{
    int pipes[SIZE][2], lines[2], rank;
    find_port();
    ck_assert_int_eq(pipe(lines), 0);
    told = lines[1];
    for (int r = 0; r < SIZE; r++)
        ck_assert_int_eq(pipe(pipes[r]), 0);
    for (int r = 0; r < SIZE; r++) {
        child[r] = fork();
        ck_assert_int_ge(child[r], 0);
        if (child[r] > 0)
            continue;
        for (int i = 0; i < SIZE; i++)
            close(pipes[i][1]);
        run_rank(r, pipes[r][0]);
    }
    for (int r = 0; r < SIZE; r++) {
        order[r] = pipes[r][1];
        close(pipes[r][0]);
    }
    close(lines[1]);
    said = fdopen(lines[0], "r");
    for (int r = 0; r < SIZE; r++) {
        const char *text = next(&rank);
        ck_assert_msg(strcmp(text, "ready\n") == 0, "rank %d: %s", rank, text);
    }
}

static void end(int rank)
{
    ck_assert_int_eq(write(order[rank], "e", 1), 1);
}

/* All that `without` (-1: nobody) has left end now, and nobody says more. */
static void end_all(int without)
{
    char line[LINE];
    int ended = 0;
    for (int r = 0; r < SIZE; r++)
        if (r != without)
            end(r);
    while (fgets(line, sizeof line, said)) {
        ck_assert_msg(strstr(line, " ended\n") != NULL, "%s", line);
        ended++;
    }
    ck_assert_int_eq(ended, without < 0 ? SIZE : SIZE - 1);
    for (int r = 0; r < SIZE; r++)
        ck_assert_int_eq(waitpid(child[r], NULL, 0), child[r]);
    fclose(said);
}

/* Each of the others says so, as rank 0 has told it. */
static void all_say(int n, const char *what, double since_s)
{
    double last_s = 0;
    for (int i = 0; i < n; i++) {
        int rank;
        const char *text = next(&rank);
        last_s = cadre_now_s() - since_s;
        ck_assert_msg(strncmp(text, "told: ", 6) == 0 && strstr(text, what) != NULL,
                      "rank %d: %s", rank, text);
    }
    printf("\"%s\" was known to all after %.2f s\n", what, last_s);
}

START_TEST(a_killed_rank_is_missed)
{
    const int lost = _i;
    char what[64];
    start();
    const double since_s = cadre_now_s();
    kill(child[lost], SIGKILL);
    snprintf(what, sizeof what, "rank %d at 127.0.0.1 has ended without a word", lost);
    all_say(SIZE - 1, what, since_s);
    end_all(lost);
}
END_TEST

/* Its reason is everybody's. */
START_TEST(a_failed_rank_is_quoted)
{
    const int failing = _i;
    start();
    const double since_s = cadre_now_s();
    ck_assert_int_eq(write(order[failing], "f", 1), 1);
    all_say(SIZE - 1, "rank 2: the loss is not finite", since_s);
    end_all(-1);
}
END_TEST

/* Nor is one that has ended as it should. */
START_TEST(a_stopped_rank_is_not)
{
    int rank;
    start();
    end(2);
    ck_assert_str_eq(next(&rank), "ended\n");
    for (int r = 0; r < 2; r++)
        kill(child[r], SIGSTOP);
    nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    for (int r = 0; r < 2; r++)
        kill(child[r], SIGCONT);
    nanosleep(&(struct timespec){.tv_nsec = 600000000}, NULL);
    for (int r = 0; r < SIZE; r++)
        if (r != 2)
            end(r);
    for (int r = 0; r < SIZE - 1; r++)
        ck_assert_str_eq(next(&rank), "ended\n");
    ck_assert_int_eq(fgetc(said), EOF);
    fclose(said);
}
END_TEST

static bool is_long(void)
{
    const char *slow = getenv("CADRE_TEST_SLOW");
    return slow && atoi(slow) >= 2;
}

/* Check fails a test of more than 35 minutes: it counts microseconds in an int. */
static int load_s(void)
{
    return is_long() ? 1800 : 2;
}

/* Nobody is missed where the cores are taken. */
START_TEST(a_busy_machine_alarms_nobody)
{
    double load = 0;
    int rank;
    start();
    for (int r = 0; r < SIZE; r++)
        ck_assert_int_eq(write(order[r], "s", 1), 1);
    const double until_s = cadre_now_s() + load_s();
    for (double left_s; (left_s = until_s - cadre_now_s()) > 0;) {
        struct pollfd line = {.fd = fileno(said), .events = POLLIN};
        const bool quiet = poll(&line, 1, (int)(1e3 * left_s) + 1) == 0;
        ck_assert_msg(quiet, "%s", next(&rank));
    }
    ck_assert_int_eq(getloadavg(&load, 1), 1);
    printf("no alarm in %d s; load at the end: %.1f\n", load_s(), load);
    end_all(-1);
}
END_TEST

static bool set_loopback(bool up)
{
    struct ifreq request = {0};
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "lo");
    request.ifr_flags = (short)(up ? IFF_UP | IFF_RUNNING : 0);
    const bool done = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    close(fd);
    return done;
}

/* In a network of its own, where nothing arrives from one moment on. */
START_TEST(a_cut_network_is_noticed)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !set_loopback(true)) {
        printf("SKIP: this machine gives no network of one's own\n");
        return;
    }
    start();
    const double since_s = cadre_now_s();
    ck_assert(set_loopback(false));
    all_say(SIZE, "down or cut off from rank", since_s);
    end_all(-1);
}
END_TEST

START_TEST(alone_there_is_nobody_to_miss)
{
    const int none[SIZE] = {-1, -1, -1, -1};
    int rank = 1;
    struct cadre_vigil *vigil;
    ck_assert_int_eq(open_vigil(none, &rank, &vigil, NULL), CADRE_OK);
    ck_assert_ptr_null(vigil);
    cadre_vigil_tell(vigil, "nothing");
    cadre_vigil_close(vigil);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("vigil");
    TCase *tc = tcase_create("vigil");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_killed_rank_is_missed, 0, 3);
    tcase_add_loop_test(tc, a_failed_rank_is_quoted, 0, 3);
    tcase_add_test(tc, a_stopped_rank_is_not);
    tcase_add_test(tc, a_cut_network_is_noticed);
    tcase_add_test(tc, alone_there_is_nobody_to_miss);
    suite_add_tcase(s, tc);
    TCase *busy = tcase_create("busy");
    tcase_set_timeout(busy, load_s() + 120);
    tcase_add_loop_test(busy, a_busy_machine_alarms_nobody, 0, is_long() ? 2 : 1);
    suite_add_tcase(s, busy);
    return s;
}
