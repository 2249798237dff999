/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes: this program again, watched until the last has ended. The
 * launcher has no threads; it sleeps in sigtimedwait, so signals arrive as values, not
 * handlers. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/launch/launch.h"
#include "core/comm/local/shared.h"

/* From the first failure to SIGKILL: time for the others to say so, and for the run to
 * be over within two seconds. */
#define GRACE_NS 1300000000u
#define TICK_NS 100000000
#define OUR_VARIABLES 4

struct child {
    pid_t pid; /* 0: reaped */
    char variables[OUR_VARIABLES][40];
};

struct launch {
    struct cadre_local_segment *segment;
    int size, running;
    struct child *children;
    const struct cadre_launch_place *place; /* per rank, or NULL */
    char **environment; /* of the next child: ours, its place's, then what was there */
    sigset_t mask_before;
    struct sigaction sigchld_before;
    bool invalid, failed, stopped; /* how children ended */
    int lost; /* killed, not by the launcher */
    int unheard; /* killed by the launcher when the grace was over */
    bool asked; /* a signal was passed on */
    uint64_t deadline_ns; /* of the grace, 0 while all is well */
    bool killing; /* the grace is over */
};

static const char *const our_names[OUR_VARIABLES] = {
    "CADRE_RANK=", "CADRE_WORLD_SIZE=", "CADRE_LOCAL_RANK=", "CADRE_INIT="};

static bool is_ours(const char *variable)
{
    for (int i = 0; i < OUR_VARIABLES; i++)
        if (strncmp(variable, our_names[i], strlen(our_names[i])) == 0)
            return true;
    return false;
}

/* Does `variable` have the name of `setting`? */
static bool same_name(const char *variable, const char *setting)
{
    return strncmp(variable, setting, strcspn(setting, "=") + 1) == 0;
}

static bool make_environment(struct launch *l)
{
    size_t n = 0;
    while (environ[n])
        n++;
    n += OUR_VARIABLES + CADRE_LAUNCH_VARIABLES + 1;
    l->environment = calloc(n, sizeof *l->environment);
    return l->environment != NULL;
}

static void set_variables(struct launch *l, int rank)
{
    static char *const nothing[] = {NULL};
    struct child *c = &l->children[rank];
    char *const *wished = l->place ? l->place[rank].variable : nothing;
    int values[] = {rank, l->size, rank};
    size_t n = 0;
    for (int i = 0; i < 3; i++)
        snprintf(c->variables[i], sizeof c->variables[i], "%s%d", our_names[i],
                 values[i]);
    snprintf(c->variables[3], sizeof c->variables[3], "%sfd:%d", our_names[3],
             cadre_local_segment_fd(l->segment));
    while (n < OUR_VARIABLES) {
        l->environment[n] = c->variables[n];
        n++;
    }
    for (int i = 0; wished[i]; i++)
        l->environment[n++] = wished[i];
    for (size_t i = 0; environ[i]; i++) {
        bool replaced = is_ours(environ[i]);
        for (int w = 0; wished[w] && !replaced; w++)
            replaced = same_name(environ[i], wished[w]);
        if (!replaced)
            l->environment[n++] = environ[i];
    }
    l->environment[n] = NULL;
}

/* In the child, between fork and exec: system calls alone. The parent may have died
 * before PR_SET_PDEATHSIG was in force, hence the look at getppid. A group of its own
 * keeps the terminal's Ctrl-C away, which the launcher passes on, once. */
static void become_rank(const struct launch *l, pid_t parent, char *const argv[])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setpgid(0, 0);
    fcntl(cadre_local_segment_fd(l->segment), F_SETFD, 0);
    sigprocmask(SIG_SETMASK, &l->mask_before, NULL);
    execve("/proc/self/exe", argv, l->environment);
    _exit(127);
}

/* A child begins on the CPUs of its parent, which goes there for the fork. */
static cadre_status start_children(struct launch *l, char *const argv[],
                                   struct cadre_error *err)
{
    pid_t parent = getpid();
    cpu_set_t own;
    sched_getaffinity(0, sizeof own, &own);
    for (int r = 0; r < l->size; r++) {
        const struct cadre_launch_place *place = l->place ? &l->place[r] : NULL;
        set_variables(l, r);
        if (place && place->pinned && sched_setaffinity(0, sizeof own, &place->cpus))
            return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                    "cannot start rank %d on its CPUs", r);
        pid_t pid = fork();
        if (pid == 0)
            become_rank(l, parent, argv);
        int failure = errno;
        if (place && place->pinned)
            sched_setaffinity(0, sizeof own, &own);
        if (pid < 0)
            return cadre_fail_errno(err, CADRE_E_RESOURCE, failure,
                                    "cannot start the process of rank %d", r);
        l->children[r].pid = pid;
        l->running++;
    }
    return CADRE_OK;
}

static void signal_children(const struct launch *l, int signal)
{
    for (int r = 0; r < l->size; r++)
        if (l->children[r].pid)
            kill(l->children[r].pid, signal);
}

static void note_end(struct launch *l, int rank, int status)
{
    char why[96] = "";
    if (WIFSIGNALED(status) && l->killing) {
        l->failed = true;
        l->unheard++;
    } else if (WIFSIGNALED(status)) {
        int signal = WTERMSIG(status);
        const char *name = strsignal(signal);
        snprintf(why, sizeof why, "was killed by signal %d (%s)", signal, name);
        l->lost++;
    } else if (WEXITSTATUS(status) == 4) {
        l->stopped = true;
    } else if (WEXITSTATUS(status) != 0) {
        snprintf(why, sizeof why, "exited with status %d", WEXITSTATUS(status));
        *(WEXITSTATUS(status) == 2 ? &l->invalid : &l->failed) = true;
    }
    if (why[0])
        cadre_local_segment_fail(l->segment, rank, why);
    cadre_local_segment_ended(l->segment, rank);
}

static void reap(struct launch *l)
{
    int status;
    for (int r = 0; r < l->size; r++) {
        pid_t pid = l->children[r].pid;
        if (!pid || waitpid(pid, &status, WNOHANG) != pid)
            continue;
        l->children[r].pid = 0;
        l->running--;
        note_end(l, r, status);
    }
}

/* After a failure the others have until the deadline, then they are killed. */
static void keep_deadline(struct launch *l)
{
    if (!local_failed(l->segment))
        return;
    uint64_t now = cadre_local_now_ns();
    if (!l->deadline_ns)
        l->deadline_ns = now + GRACE_NS;
    if (now < l->deadline_ns)
        return;
    l->killing = true;
    signal_children(l, SIGKILL);
}

static void watch(struct launch *l, const sigset_t *signals)
{
    const struct timespec tick = {.tv_nsec = TICK_NS};
    while (l->running) {
        int signal = sigtimedwait(signals, NULL, &tick);
        if (signal > 0 && signal != SIGCHLD) {
            l->asked = true;
            signal_children(l, signal);
        }
        reap(l);
        keep_deadline(l);
    }
}

static cadre_status outcome(const struct launch *l, struct cadre_error *err)
{
    char text[1024];
    cadre_status rc = l->lost > 0  ? CADRE_E_COMM
                      : l->invalid ? CADRE_E_INVALID
                      : l->failed  ? CADRE_E_COMM
                      : l->stopped ? CADRE_E_STOPPED
                                   : CADRE_OK;
    if (rc == CADRE_E_STOPPED)
        return cadre_fail(err, rc, "stopped by a signal, after a checkpoint");
    if (rc == CADRE_OK)
        return CADRE_OK;
    cadre_local_segment_failure(l->segment, text, sizeof text);
    return cadre_fail(err, rc, "%s", text);
}

/* Whoever does not end after the others waited for it in vain does not answer at all;
 * after another failure it may only have been busy. */
static int count_lost(const struct launch *l)
{
    bool awaited = l->lost == 0 && atomic_load(&l->segment->shared->in_vain);
    return awaited ? l->unheard : l->lost;
}

static void signals_begin(struct launch *l, sigset_t *signals)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigemptyset(signals);
    sigaddset(signals, SIGCHLD);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGUSR1);
    sigemptyset(&plain.sa_mask);
    sigaction(SIGCHLD, &plain, &l->sigchld_before);
    sigprocmask(SIG_BLOCK, signals, &l->mask_before);
}

static void signals_end(const struct launch *l)
{
    sigprocmask(SIG_SETMASK, &l->mask_before, NULL);
    sigaction(SIGCHLD, &l->sigchld_before, NULL);
}

cadre_status cadre_launch_processes(const struct cadre_local_config *config,
                                    const struct cadre_launch_place *place,
                                    char *const argv[], struct cadre_launch_end *end,
                                    struct cadre_error *err)
{
    struct launch l = {.size = config->size, .place = place};
    struct cadre_local_config processes = *config;
    sigset_t signals;
    cadre_status rc;
    if (end)
        *end = (struct cadre_launch_end){0};
    processes.processes = true;
    CADRE_TRY(cadre_local_segment_create(&processes, &l.segment, err));
    l.children = calloc((size_t)l.size, sizeof *l.children);
    if (!l.children || !make_environment(&l)) {
        rc = cadre_fail(err, CADRE_E_RESOURCE, "no memory for %d ranks", l.size);
        goto fail;
    }
    signals_begin(&l, &signals);
    rc = start_children(&l, argv, err);
    if (rc != CADRE_OK) {
        signal_children(&l, SIGKILL);
        watch(&l, &signals);
    } else {
        watch(&l, &signals);
        rc = outcome(&l, err);
        if (end)
            *end = (struct cadre_launch_end){count_lost(&l), l.asked};
    }
    signals_end(&l);
fail:
    free(l.environment);
    free(l.children);
    cadre_local_segment_close(l.segment);
    return rc;
}
