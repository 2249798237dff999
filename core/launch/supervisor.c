/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/supervisor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/launch/status_watch.h"
#include "core/launch/supervise.h"

#define TICK_NS 100000000
/* From SIGTERM to SIGKILL, for a run that is ended. */
#define GRACE_S 1.3

struct supervision {
    const struct cadre_status_page *page;
    struct cadre_supervise_watch signals;
    struct cadre_status_watch watch;
    pid_t run;
    bool asked; /* the run has been asked to end */
    double deadline_s; /* of a run that is being ended; 0: it is not */
    char text[sizeof((struct cadre_error *)0)->text]; /* why it is */
};

/* ---- the run ---- */

/* Says which thread it was, and lets the signal do what it does. */
static void on_fault(int sig)
{
    /* it reads a variable of the thread
     * NOLINTNEXTLINE(bugprone-signal-handler,cert-sig30-c) */
    struct cadre_status_slot *slot = cadre_status_current();
    if (slot)
        atomic_store(&slot->fault, (uint32_t)sig);
    raise(sig); /* SA_RESETHAND: the default action, at the return from here */
}

/* A sanitizer's handlers stay. */
static void watch_faults(void)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (int sig = 1; sig < NSIG; sig++) {
        struct sigaction before;
        if (cadre_status_is_fault(sig) && sigaction(sig, NULL, &before) == 0 &&
            before.sa_handler == SIG_DFL)
            sigaction(sig, &action, NULL);
    }
}

static void become_run(const struct supervision *s, pid_t supervisor)
{
    cadre_supervise_close(&s->signals);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) /* gone before the request */
        raise(SIGKILL);
    cadre_status_use(s->page->slot);
    cadre_status_begin(s->page->slot, CADRE_STATUS_NO_RANK);
    watch_faults();
    cadre_status_watch_exit();
}

/* ---- the supervisor ---- */

/* Of a terminal's Ctrl-C the run has its own. */
static void pass_on(struct supervision *s, const siginfo_t *signal)
{
    s->asked = true;
    if (signal->si_code != SI_KERNEL)
        kill(s->run, signal->si_signo);
}

static double limit_s(const struct supervision *s)
{
    double limit = (double)atomic_load(&s->page->slot->limit_ms) / 1000;
    return s->asked ? cadre_status_limit_asked(limit) : limit;
}

static uint32_t slots_in_use(const struct supervision *s)
{
    uint32_t used = 1 + atomic_load(&s->page->slot->used);
    return used < s->page->n ? used : s->page->n;
}

static void look(struct supervision *s)
{
    const struct cadre_status_slot *slots = s->page->slot;
    const double now = cadre_now_s(), limit = limit_s(s);
    int stalled =
        cadre_status_watch_look(&s->watch, slots, slots_in_use(s), limit, now);
    if (s->deadline_s > 0) {
        if (now >= s->deadline_s)
            kill(s->run, SIGKILL);
    } else if (stalled >= 0) {
        struct cadre_status_seen seen = cadre_status_read(&slots[stalled]);
        cadre_status_tell_stall(&seen, limit, s->asked, s->text, sizeof s->text);
        s->deadline_s = now + GRACE_S;
        kill(s->run, SIGTERM);
    }
}

/* Returns how it ended, as waitpid says. */
static int wait_for_run(struct supervision *s)
{
    const struct timespec tick = {.tv_nsec = TICK_NS};
    int how = 0;
    for (;;) {
        pid_t done = waitpid(s->run, &how, WNOHANG);
        if (done == s->run || (done < 0 && errno != EINTR))
            return how;
        look(s);
        siginfo_t info;
        int sig = sigtimedwait(&s->signals.watched, &info, &tick);
        if (sig > 0 && sig != SIGCHLD)
            pass_on(s, &info);
    }
}

/* Signals that users and systems end a program with. */
static bool is_request(int sig)
{
    return sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT ||
           sig == SIGPIPE || sig == SIGUSR1 || sig == SIGUSR2;
}

/* The run has left the core file, if there is one. */
static int end_alike(int sig)
{
    const struct rlimit none = {0};
    sigset_t one;
    setrlimit(RLIMIT_CORE, &none);
    signal(sig, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, sig);
    raise(sig);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    return 128 + sig;
}

static int say(const char *text, int status)
{
    if (text[0])
        fprintf(stderr, "cadre: %s\n", text);
    return status;
}

/* Of a run that could not remove its progress bar: the line comes below it. */
static int say_failure(const char *text)
{
    if (isatty(STDERR_FILENO) == 1)
        fputc('\n', stderr);
    return say(text, 1);
}

static int verdict(struct supervision *s, int how)
{
    const struct cadre_status_slot *main_slot = s->page->slot;
    const bool finished = atomic_load(&main_slot->state) == CADRE_STATUS_FINISHED;
    const int sig = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    char said[sizeof s->text];
    if (s->deadline_s > 0)
        return say_failure(s->text);
    if (is_request(sig))
        return end_alike(sig);
    cadre_status_page_said(s->page, said, sizeof said);
    if (finished && (said[0] || !sig))
        return say(said, sig ? 1 : WEXITSTATUS(how));
    struct cadre_status_seen seen = cadre_status_blame(main_slot, slots_in_use(s));
    if (sig && !cadre_status_is_fault(sig)) /* sent by somebody, to all of it */
        seen = (struct cadre_status_seen){.rank = CADRE_STATUS_NO_RANK};
    if (sig && !seen.exits && !seen.other_exits)
        cadre_status_tell_signal(&seen, sig, s->text, sizeof s->text);
    else
        cadre_status_tell_exit(&seen, sig ? 0 : WEXITSTATUS(how), s->text,
                               sizeof s->text);
    return say_failure(s->text);
}

static bool is_wanted(void)
{
    const char *choice = getenv("CADRE_SUPERVISE"), *init = getenv("CADRE_INIT");
    return !(choice && strcmp(choice, "no") == 0) &&
           !(init && strncmp(init, "fd:", 3) == 0);
}

bool cadre_supervisor_split(struct cadre_status_page *page, int *status)
{
    struct supervision s = {.page = page};
    struct cadre_error err = {0};
    pid_t supervisor = getpid();
    *page = (struct cadre_status_page){0};
    if (!is_wanted())
        return false;
    if (cadre_status_page_create(CADRE_STATUS_SLOTS, page, &err) != CADRE_OK) {
        cadre_log(CADRE_LOG_WARN, "launch", "%s: nobody watches this run", err.text);
        return false;
    }
    page->slot->behind = CADRE_STATUS_SLOTS - 1;
    page->slot->root = (int32_t)supervisor;
    cadre_supervise_open(&s.signals);
    s.run = fork();
    if (s.run == 0) {
        become_run(&s, supervisor);
        return false;
    }
    if (s.run < 0) {
        cadre_log(CADRE_LOG_WARN, "launch", "%s: nobody watches this run",
                  strerror(errno));
        cadre_supervise_close(&s.signals);
        cadre_status_page_close(page);
        return false;
    }
    int how = wait_for_run(&s);
    *status = verdict(&s, how); /* a signal that comes now comes too late */
    cadre_status_page_close(page);
    return true;
}
