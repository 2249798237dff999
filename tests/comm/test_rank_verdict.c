/* SPDX-License-Identifier: Apache-2.0 */
/* Hangs that are made: one of three ranks, threads or processes, does something at a
 * random step and operation, and the line by which the others end must name it and what
 * it does. Each kind of hang once; CADRE_TEST_SLOW=2: 200. Every case is a process of
 * its own, WORKERS at once; it waits for the time limit of the ranks. How long after it
 * the line came is printed, not judged.
 *
 * A rank that is inside an operation and does not leave it is made up: it says so in
 * its note and its page, as the operation would, and sleeps. */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/rank_page.h"
#include "core/base/rank_verdict.h"
#include "core/comm/local/segment_private.h"
#include "tests/support/check_main.h"

#define RANKS 3
#define STEPS 1000
#define WORKERS 7

static const enum cadre_rank_verdict_kind kinds[] = {
    CADRE_VERDICT_MISSING_ENTRY,  CADRE_VERDICT_MISSING_EXIT,
    CADRE_VERDICT_DIFFERENT_CALL, CADRE_VERDICT_DATA,
    CADRE_VERDICT_DISK,           CADRE_VERDICT_SLOW,
    CADRE_VERDICT_STOPPED,        CADRE_VERDICT_DEAD, /* of processes alone */
};
#define KINDS (sizeof kinds / sizeof kinds[0])
#define OF_THREADS (KINDS - 2)

struct injected {
    enum cadre_rank_verdict_kind kind;
    bool processes;
    int rank, step, point;
    double timeout_s;
};

/* Of one case, between processes: when the hang began and when the ranks ended. */
struct moments {
    double began_s, ended_s;
};
static struct moments *moments; /* of this process's case */

struct world {
    const struct injected *what;
    struct cadre_local_segment *segment;
    const char *dir;
};

/* What one rank has of it. */
struct rank {
    const struct world *world;
    int index;
    struct cadre_comm *all, *other;
    struct cadre_rank_page *page;
    uint64_t sequence; /* of `all`'s operations; its split is the first */
};

static bool has_failed(const struct rank *r)
{
    return local_failed(r->world->segment);
}

static void sleep_until_failure(const struct rank *r)
{
    while (!has_failed(r))
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void pretend_inside(struct rank *r, const char *label)
{
    struct cadre_rank_page_op op = {.posted_s = cadre_now_s(), .ranks = RANKS};
    struct local_note note = {.sequence = r->sequence + 1,
                              .kind = CADRE_COMM_ALL_REDUCE};
    snprintf(op.kind, sizeof op.kind, "all_reduce");
    snprintf(op.label, sizeof op.label, "%s", label);
    snprintf(op.comm, sizeof op.comm, "world");
    snprintf(note.label, sizeof note.label, "%s", label);
    cadre_rank_page_queued(r->page, cadre_rank_page_posted(r->page, &op),
                           note.sequence);
    cadre_local_note_write(&r->world->segment->shared->ranks[r->index].note, &note);
    cadre_rank_page_enter(r->page, CADRE_PHASE_COMM, 0, 0);
    sleep_until_failure(r);
}

static void inject(struct rank *r, const char *label)
{
    cadre_event done = 0;
    volatile uint64_t spun = 0;
    moments->began_s = cadre_now_s();
    switch (r->world->what->kind) {
    case CADRE_VERDICT_STOPPED:
        raise(SIGSTOP);
        break;
    case CADRE_VERDICT_DEAD:
        raise(SIGKILL);
        break;
    case CADRE_VERDICT_MISSING_EXIT:
        pretend_inside(r, label);
        break;
    case CADRE_VERDICT_DIFFERENT_CALL:
        if (cadre_comm_barrier(r->other, "alone", 0, &done) == CADRE_OK)
            cadre_comm_wait(r->other, done);
        break;
    case CADRE_VERDICT_DATA:
        cadre_rank_page_enter(r->page, CADRE_PHASE_DATA, 0, 0);
        sleep_until_failure(r);
        break;
    case CADRE_VERDICT_DISK:
        cadre_rank_page_state(r->page, CADRE_RANK_SAVING);
        sleep_until_failure(r);
        break;
    case CADRE_VERDICT_SLOW:
        cadre_rank_page_enter(r->page, CADRE_PHASE_FORWARD, 0, 0);
        while (!has_failed(r))
            spun++;
        break;
    default:
        sleep_until_failure(r);
    }
}

static cadre_status reduce(struct rank *r, const char *label)
{
    float in[4] = {1}, out[4];
    cadre_event done = 0;
    cadre_status rc = cadre_comm_all_reduce(r->all, label, in, out, 4, CADRE_F32,
                                            CADRE_SUM, 0, &done);
    if (rc == CADRE_OK)
        rc = cadre_comm_wait(r->all, done);
    r->sequence++;
    return rc;
}

static void train(struct rank *r)
{
    static const char *const label[] = {"losses", "grads"};
    const struct injected *what = r->world->what;
    for (int step = 1; step <= STEPS; step++) {
        cadre_rank_page_begin_step(r->page, (uint64_t)step);
        cadre_comm_set_step(r->all, (uint64_t)step);
        for (int point = 0; point < 2; point++) {
            if (what->rank == r->index && what->step == step && what->point == point)
                inject(r, label[point]);
            if (has_failed(r) || reduce(r, label[point]) != CADRE_OK)
                return;
        }
    }
}

static void rank_main(const struct world *world, int index)
{
    struct rank r = {.world = world, .index = index, .sequence = 1};
    const struct cadre_rank_page_request request = {.dir = world->dir,
                                                    .rank = index,
                                                    .ranks = RANKS,
                                                    .name = "n",
                                                    .stack = "s",
                                                    .last_step = STEPS};
    if (cadre_local_open(world->segment, index, &r.all, NULL) != CADRE_OK ||
        cadre_rank_page_create(&request, &r.page, NULL) != CADRE_OK)
        abort();
    cadre_comm_show(r.all, r.page);
    cadre_rank_page_state(r.page, CADRE_RANK_TRAINING);
    if (cadre_comm_split(r.all, 0, index, &r.other, NULL) == CADRE_OK) {
        r.other->name = "pair";
        train(&r);
        cadre_comm_destroy(r.other);
    }
    cadre_comm_show(r.all, NULL);
    cadre_comm_destroy(r.all);
    cadre_rank_page_close(r.page);
}

struct member {
    const struct world *world;
    int index;
};

static void *thread_main(void *arg)
{
    const struct member *m = arg;
    rank_main(m->world, m->index);
    return NULL;
}

static void run_threads(const struct world *world)
{
    pthread_t thread[RANKS];
    struct member m[RANKS];
    for (int r = 0; r < RANKS; r++) {
        m[r] = (struct member){world, r};
        if (pthread_create(&thread[r], NULL, thread_main, &m[r]) != 0)
            abort();
    }
    while (!local_failed(world->segment))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    moments->ended_s = cadre_now_s();
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
}

static void run_processes(const struct world *world)
{
    pid_t pid[RANKS];
    for (int r = 0; r < RANKS; r++) {
        pid[r] = fork();
        if (pid[r] == 0) {
            rank_main(world, r);
            _exit(0);
        }
    }
    while (!local_failed(world->segment))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    moments->ended_s = cadre_now_s();
    for (int r = 0; r < RANKS; r++) {
        kill(pid[r], SIGCONT);
        waitpid(pid[r], NULL, 0);
    }
}

/* True: the line names the rank and the kind. */
static bool run_case(const struct injected *what)
{
    const struct cadre_local_config config = {
        .size = RANKS, .processes = what->processes, .timeout_s = what->timeout_s};
    char *dir = test_tmpdir(), text[1024], want[64];
    struct world world = {.what = what, .dir = dir};
    if (cadre_local_segment_create(&config, &world.segment, NULL) != CADRE_OK)
        abort();
    if (what->processes)
        run_processes(&world);
    else
        run_threads(&world);
    cadre_local_segment_failure(world.segment, text, sizeof text);
    snprintf(want, sizeof want, "; %s: rank %d (process ",
             cadre_rank_verdict_name(what->kind), what->rank);
    const bool right = strstr(text, want) != NULL;
    printf("%s %s, rank %d of %s, step %d: %s\n", right ? "right" : "WRONG",
           cadre_rank_verdict_name(what->kind), what->rank,
           what->processes ? "processes" : "threads", what->step, text);
    fflush(stdout);
    cadre_local_segment_close(world.segment);
    test_tmpdir_destroy(dir);
    return right;
}

static struct injected make_case(int i, double timeout_s)
{
    const int turn = i % (int)(OF_THREADS + KINDS);
    const bool processes = turn >= (int)OF_THREADS;
    uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u + 1;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u >> 20;
    return (struct injected){
        .kind = kinds[processes ? turn - (int)OF_THREADS : turn],
        .processes = processes,
        .rank = (int)(x % RANKS),
        .step = 1 + (int)(x / RANKS % 20),
        .point = (int)(x / 64 % 2),
        .timeout_s = timeout_s,
    };
}

static bool reap_one(void)
{
    int how = 0;
    wait(&how);
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

START_TEST(hangs_are_named)
{
    const char *slow = getenv("CADRE_TEST_SLOW"), *lean = getenv("CADRE_TEST_LEAN");
    const char *patience = getenv("CADRE_TEST_PATIENCE");
    const double timeout_s = 0.5 * (patience ? atof(patience) : 1) + 0.5;
    const int n = slow && atoi(slow) >= 2 ? 200 : lean ? 6 : OF_THREADS + KINDS;
    int running = 0, right = 0;
    double latest_s = 0;
    struct moments *all = mmap(NULL, (size_t)n * sizeof *all, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(all, MAP_FAILED);
    for (int i = 0; i < n; i++) {
        if (running == WORKERS) {
            right += reap_one();
            running--;
        }
        fflush(stdout);
        moments = &all[i];
        if (fork() == 0) {
            const struct injected what =
                make_case(lean && n == 6 ? 2 * i + 1 : i, timeout_s);
            _exit(run_case(&what) ? 0 : 1);
        }
        running++;
    }
    while (running-- > 0)
        right += reap_one();
    for (int i = 0; i < n; i++)
        latest_s = fmax(latest_s, all[i].ended_s - all[i].began_s - timeout_s);
    munmap(all, (size_t)n * sizeof *all);
    printf("%d of %d hangs: right kind and rank, %.1f %%, at most %.2f s after the "
           "limit of %g s\n",
           right, n, 100.0 * right / n, latest_s, timeout_s);
    ck_assert_int_ge(100 * right, 99 * n);
}
END_TEST

START_TEST(nothing_is_known_without_pages)
{
    const struct cadre_rank_verdict_op op = {"all_reduce", "x", "world", 1, false};
    struct cadre_rank_verdict verdict;
    cadre_rank_verdict_find("/nonexistent", 0, 1, &op, &verdict);
    ck_assert_int_eq(verdict.kind, CADRE_VERDICT_UNKNOWN);
    ck_assert_str_eq(verdict.text, "");
    cadre_rank_verdict_find(NULL, 0, 1, &op, &verdict);
    ck_assert_int_eq(verdict.kind, CADRE_VERDICT_UNKNOWN);
    ck_assert_str_eq(cadre_rank_verdict_name(CADRE_VERDICT_DISK), "waiting for disk");
    ck_assert_str_eq(cadre_rank_verdict_name(CADRE_VERDICTS), "unknown");
}
END_TEST

static struct cadre_rank_page *open_page(const char *dir, int rank)
{
    const struct cadre_rank_page_request request = {.dir = dir,
                                                    .rank = rank,
                                                    .ranks = 2,
                                                    .name = "n",
                                                    .stack = "s",
                                                    .last_step = 9};
    struct cadre_rank_page *page;
    ck_assert_int_eq(cadre_rank_page_create(&request, &page, NULL), CADRE_OK);
    return page;
}

static uint64_t post(struct cadre_rank_page *page, const char *kind, uint64_t ranks)
{
    struct cadre_rank_page_op op = {.posted_s = cadre_now_s(), .ranks = ranks};
    snprintf(op.kind, sizeof op.kind, "%s", kind);
    snprintf(op.comm, sizeof op.comm, "pp");
    const uint64_t shown = cadre_rank_page_posted(page, &op);
    cadre_rank_page_queued(page, shown, 8);
    return shown;
}

/* Rank 0 waits for a message of rank 1; what is said of that one's thread, this one. */
static enum cadre_rank_verdict_kind verdict_of(const char *dir, int self, bool silent)
{
    const struct cadre_rank_verdict_op op = {"recv", "x", "pp", 8, silent};
    struct cadre_rank_verdict verdict;
    cadre_rank_verdict_find(dir, self, 1, &op, &verdict);
    return verdict.kind;
}

/* A message is posted on the other side as its counterpart, and alike in both
 * directions. */
START_TEST(messages_have_two_sides)
{
    char *dir = test_tmpdir();
    struct cadre_rank_page *page[2] = {open_page(dir, 0), open_page(dir, 1)};
    cadre_rank_page_enter(page[1], CADRE_PHASE_DATA, 0, 0);
    post(page[1], "recv", 2);
    ck_assert_int_eq(verdict_of(dir, 0, false), CADRE_VERDICT_DATA);
    post(page[1], "send", 3);
    ck_assert_int_eq(verdict_of(dir, 0, false), CADRE_VERDICT_DATA);
    post(page[1], "send", 2);
    ck_assert_int_eq(verdict_of(dir, 0, false), CADRE_VERDICT_MISSING_EXIT);
    cadre_rank_page_close(page[0]);
    cadre_rank_page_close(page[1]);
    test_tmpdir_destroy(dir);
}
END_TEST

/* A rank speaks of itself where it holds up others. */
START_TEST(a_rank_speaks_of_itself)
{
    char *dir = test_tmpdir();
    struct cadre_rank_page *page = open_page(dir, 1);
    cadre_rank_page_state(page, CADRE_RANK_SAVING);
    ck_assert_int_eq(verdict_of(dir, 1, false), CADRE_VERDICT_DISK);
    const uint64_t shown = post(page, "recv", 2);
    ck_assert_int_eq(verdict_of(dir, 1, false), CADRE_VERDICT_DISK);
    cadre_rank_page_enter(page, CADRE_PHASE_COMM, 0, 0);
    ck_assert_int_eq(verdict_of(dir, 1, false), CADRE_VERDICT_UNKNOWN);
    cadre_rank_page_ended(page, shown, 0);
    ck_assert_int_eq(verdict_of(dir, 1, false), CADRE_VERDICT_DISK);
    post(page, "send", 2);
    ck_assert_int_eq(verdict_of(dir, 1, false), CADRE_VERDICT_UNKNOWN);
    cadre_rank_page_close(page);
    test_tmpdir_destroy(dir);
}
END_TEST

/* Of a rank elsewhere that does not answer nothing is known, whatever its page says. */
START_TEST(silence_elsewhere_is_not_judged)
{
    char *dir = test_tmpdir();
    struct cadre_rank_page *page = open_page(dir, 1);
    cadre_rank_page_enter(page, CADRE_PHASE_DATA, 0, 0);
    ck_assert_int_eq(verdict_of(dir, 0, true), CADRE_VERDICT_DATA);
    page->shared->head.pid_namespace ^= 1;
    ck_assert_int_eq(verdict_of(dir, 0, false), CADRE_VERDICT_DATA);
    ck_assert_int_eq(verdict_of(dir, 0, true), CADRE_VERDICT_UNKNOWN);
    cadre_rank_page_close(page);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/rank_verdict");
    TCase *t = tcase_create("verdict");
    tcase_set_timeout(t, 600);
    tcase_add_test(t, hangs_are_named);
    tcase_add_test(t, nothing_is_known_without_pages);
    tcase_add_test(t, messages_have_two_sides);
    tcase_add_test(t, a_rank_speaks_of_itself);
    tcase_add_test(t, silence_elsewhere_is_not_judged);
    suite_add_tcase(s, t);
    return s;
}
