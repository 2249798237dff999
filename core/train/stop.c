/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/stop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* A handler can only reach a variable of the file. Ranks that are threads read it while
 * it is set, so it is atomic, and lock-free, as a handler needs. */
static atomic_int requested;
static atomic_int held;
static pthread_t holder; /* the thread that waits for signals while they are held */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler takes no locks");

static void on_signal(int sig)
{
    if (requested && sig == SIGINT) {
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }
    requested = 1;
    if (held) /* in a thread of a library, which does not block them */
        /* blocked there: it stays pending until the holder asks for it
         * NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread,cert-pos44-c) */
        pthread_kill(holder, SIGTERM);
}

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
    if (requested)
        raise(SIGTERM); /* stays pending; what came before is not lost */
}

void cadre_stop_release(void)
{
    held = 0;
    change_mask(SIG_UNBLOCK);
}

bool cadre_stop_requested(void)
{
    return requested != 0;
}
