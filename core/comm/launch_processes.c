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

#include "core/comm/launch.h"
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
    char **environment; /* ours first, then what was there */
    sigset_t mask_before;
    struct sigaction sigchld_before;
    bool lost, invalid, failed, stopped; /* how children ended */
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

static bool make_environment(struct launch *l)
{
    size_t n = 0, kept = OUR_VARIABLES;
    while (environ[n])
        n++;
    l->environment = calloc(n + OUR_VARIABLES + 1, sizeof *l->environment);
    if (!l->environment)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_ours(environ[i]))
            l->environment[kept++] = environ[i];
    return true;
}

static void set_variables(struct launch *l, int rank)
{
    struct child *c = &l->children[rank];
    int values[] = {rank, l->size, rank};
    for (int i = 0; i < 3; i++)
        snprintf(c->variables[i], sizeof c->variables[i], "%s%d", our_names[i],
                 values[i]);
    snprintf(c->variables[3], sizeof c->variables[3], "%sfd:%d", our_names[3],
             cadre_local_segment_fd(l->segment));
    for (int i = 0; i < OUR_VARIABLES; i++)
        l->environment[i] = c->variables[i];
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

static cadre_status start_children(struct launch *l, char *const argv[],
                                   struct cadre_error *err)
{
    pid_t parent = getpid();
    for (int r = 0; r < l->size; r++) {
        set_variables(l, r);
        pid_t pid = fork();
        if (pid == 0)
            become_rank(l, parent, argv);
        if (pid < 0)
            return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
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
    } else if (WIFSIGNALED(status)) {
        int signal = WTERMSIG(status);
        const char *name = strsignal(signal);
        snprintf(why, sizeof why, "was killed by signal %d (%s)", signal, name);
        l->lost = true;
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
        if (signal > 0 && signal != SIGCHLD)
            signal_children(l, signal);
        reap(l);
        keep_deadline(l);
    }
}

static cadre_status outcome(const struct launch *l, struct cadre_error *err)
{
    char text[1024];
    cadre_status rc = l->lost      ? CADRE_E_COMM
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
                                    char *const argv[], struct cadre_error *err)
{
    struct launch l = {.size = config->size};
    struct cadre_local_config processes = *config;
    sigset_t signals;
    cadre_status rc;
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
    }
    signals_end(&l);
fail:
    free(l.environment);
    free(l.children);
    cadre_local_segment_close(l.segment);
    return rc;
}

/* A decimal number from low to high and nothing else. */
static bool parse_number(const char *text, long low, long high, int *out)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*end || errno || n < low || n > high)
        return false;
    *out = (int)n;
    return true;
}

cadre_status cadre_launch_child(bool *is_child, int *rank, int *size, int *fd,
                                struct cadre_error *err)
{
    const char *init = getenv("CADRE_INIT");
    int r, n, d;
    *is_child = false;
    if (!init || strncmp(init, "fd:", 3) != 0)
        return CADRE_OK;
    if (!parse_number(init + 3, 0, INT32_MAX, &d))
        return cadre_fail(err, CADRE_E_INVALID,
                          "CADRE_INIT is \"%s\"; expected fd:N, which a cadre launcher "
                          "sets: unset it to start a run",
                          init);
    if (!parse_number(getenv("CADRE_WORLD_SIZE"), 1, LOCAL_MAX_RANKS, &n))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "CADRE_WORLD_SIZE is not a number from 1 to %d, but CADRE_INIT "
            "is \"%s\": unset CADRE_INIT to start a run",
            LOCAL_MAX_RANKS, init);
    if (!parse_number(getenv("CADRE_RANK"), 0, n - 1, &r))
        return cadre_fail(err, CADRE_E_INVALID,
                          "CADRE_RANK is not a number from 0 to %d, but CADRE_INIT is "
                          "\"%s\": unset CADRE_INIT to start a run",
                          n - 1, init);
    *is_child = true;
    *rank = r;
    *size = n;
    *fd = d;
    return CADRE_OK;
}
