/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/stop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ASKED 1u /* in `state`: one of the signals has arrived */
#define TAKEN 2u /* and the ranks of this process vote for it in the step of `state` */
#define STEP_SHIFT 2

/* A handler can only reach a variable of the file. Ranks that are threads read it while
 * it is set, so it is atomic, and lock-free, as a handler needs. */
static atomic_uint_least64_t state; /* step << STEP_SHIFT | TAKEN | ASKED */
static atomic_int held;
static pthread_t holder; /* the thread that waits for signals while they are held */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "a signal handler takes no locks");

/* What is said once; not changed while `told` is set. */
static atomic_int told, said;
static char words[1400]; /* behind the number of the step */
static uint64_t last;
static bool below_bar;

/* ---- in the handler ---- */

struct line {
    char text[1600];
    size_t n;
};

static void put(struct line *line, const char *text)
{
    while (*text && line->n < sizeof line->text)
        line->text[line->n++] = *text++;
}

static void put_number(struct line *line, uint64_t number)
{
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    put(line, digits + at);
}

/* The steps that this rank has told began with a vote that is made, so the next one is
 * where the ranks agree; those of other processes may have voted in this one. One
 * write, as of the log: its lines stay whole. */
static void say(uint64_t step)
{
    struct line line = {.n = 0};
    if (!told || atomic_exchange(&said, 1))
        return;
    put(&line, below_bar ? "\n" : "");
    if (step >= last) {
        put(&line, "asked to stop: step ");
        put_number(&line, last);
        put(&line, " is the last one and is finished; Ctrl-C now ends it at once\n");
    } else {
        put(&line, "asked to stop: after step ");
        put_number(&line, step + 1);
        put(&line, words);
    }
    const ssize_t n = write(STDERR_FILENO, line.text, line.n);
    (void)n;
}

static void on_signal(int sig)
{
    const uint64_t before = atomic_fetch_or(&state, ASKED);
    if ((before & ASKED) && sig == SIGINT) {
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }
    say(before >> STEP_SHIFT);
    if (held) /* in a thread of a library, which does not block them */
        /* blocked there: it stays pending until the holder asks for it
         * NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread,cert-pos44-c) */
        pthread_kill(holder, SIGTERM);
}

/* ---- the signals ---- */

static const int signals[] = {SIGINT, SIGTERM, SIGUSR1};

static void change_mask(int how)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&set, signals[i]);
    pthread_sigmask(how, &set, NULL);
}

void cadre_stop_install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &action, NULL);
    cadre_stop_release();
}

void cadre_stop_hold(void)
{
    change_mask(SIG_BLOCK);
    holder = pthread_self();
    held = 1;
    if (cadre_stop_requested())
        raise(SIGTERM); /* stays pending; what came before is not lost */
}

void cadre_stop_release(void)
{
    held = 0;
    change_mask(SIG_UNBLOCK);
}

bool cadre_stop_requested(void)
{
    return (atomic_load(&state) & ASKED) != 0;
}

/* ---- steps ---- */

bool cadre_stop_vote(uint64_t step)
{
    uint64_t before = atomic_load(&state), after;
    do {
        if (before >> STEP_SHIFT == step) /* another rank of this process was here */
            return (before & TAKEN) != 0;
        after = step << STEP_SHIFT | (before & ASKED) | (before & ASKED ? TAKEN : 0);
    } while (!atomic_compare_exchange_weak(&state, &before, after));
    return (after & TAKEN) != 0;
}

void cadre_stop_tell(const struct cadre_stop_plan *plan)
{
    told = 0;
    if (!plan)
        return;
    last = plan->last_step;
    below_bar = plan->bar;
    if (plan->dir)
        snprintf(words, sizeof words,
                 " at the latest a checkpoint is saved in '%s/checkpoints', then it "
                 "ends; Ctrl-C now ends it at once, without one\n",
                 plan->dir);
    else
        snprintf(words, sizeof words,
                 " at the latest the benchmark ends, without a result; Ctrl-C now ends "
                 "it at once\n");
    uint64_t before = atomic_load(&state);
    while (before >> STEP_SHIFT < plan->first_step &&
           !atomic_compare_exchange_weak(
               &state, &before, plan->first_step << STEP_SHIFT | (before & ASKED)))
        ;
    told = 1;
    before = atomic_load(&state);
    if (before & ASKED)
        say(before >> STEP_SHIFT);
}
