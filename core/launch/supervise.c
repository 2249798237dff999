/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"

#define TICK_NS 100000000

const struct cadre_supervise_policy cadre_supervise_independent = {.signal = SIGTERM};

/* The parent may have ignored SIGCHLD: then no child could be waited for. */
void cadre_supervise_open(struct cadre_supervise_watch *watch)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigemptyset(&plain.sa_mask);
    sigemptyset(&watch->watched);
    sigaddset(&watch->watched, SIGINT);
    sigaddset(&watch->watched, SIGTERM);
    sigaddset(&watch->watched, SIGUSR1);
    sigaddset(&watch->watched, SIGCHLD);
    sigaction(SIGCHLD, &plain, &watch->sigchld_before);
    pthread_sigmask(SIG_BLOCK, &watch->watched, &watch->before);
}

void cadre_supervise_close(const struct cadre_supervise_watch *watch)
{
    pthread_sigmask(SIG_SETMASK, &watch->before, NULL);
    sigaction(SIGCHLD, &watch->sigchld_before, NULL);
}

/* ---- starting one ---- */

struct supervision {
    const struct cadre_supervise_watch *watch;
    const struct cadre_supervise_policy *policy;
    const char *program;
    struct cadre_process *children;
    size_t n;
    double deadline_s; /* end of the grace period, 0 while there is no failure */
    bool killing; /* the grace is over */
};

/* Why a child could not start; sent through a pipe that a successful exec closes. */
struct obstacle {
    int error; /* 0: none */
    bool cpus; /* it cannot be bound to its CPUs */
};

static bool same_name(const char *variable, const char *setting)
{
    return strncmp(variable, setting, strcspn(setting, "=") + 1) == 0;
}

/* Only the array of pointers is new; NULL: no memory. */
static char **make_environment(char *const *requested)
{
    size_t n = 0, requests = 0;
    while (environ[n])
        n++;
    while (requested && requested[requests])
        requests++;
    char **environment = cadre_calloc(n + requests + 1, sizeof *environment);
    if (!environment)
        return NULL;
    for (size_t w = 0; w < requests; w++)
        environment[w] = requested[w];
    size_t used = requests;
    for (size_t i = 0; i < n; i++) {
        bool replaced = false;
        for (size_t w = 0; w < requests && !replaced; w++)
            replaced = same_name(environ[i], requested[w]);
        if (!replaced)
            environment[used++] = environ[i];
    }
    return environment;
}

/* In the child: only calls that are safe after a fork. Returns where exec fails.
 * SIGTTOU stays ignored, so that the progress bar can be drawn outside the terminal's
 * foreground group. */
static struct obstacle become(const struct supervision *s,
                              const struct cadre_process *child,
                              char *const *environment, pid_t parent)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool ready = nothing >= 0 &&
                 (!child->no_stdin || dup2(nothing, STDIN_FILENO) >= 0) &&
                 (!child->no_stdout || dup2(nothing, STDOUT_FILENO) >= 0) &&
                 setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, s->policy->signal) == 0;
    if (ready && child->cpus &&
        sched_setaffinity(0, sizeof *child->cpus, child->cpus) != 0)
        return (struct obstacle){errno, true};
    signal(SIGTTOU, SIG_IGN);
    for (int sig = 1; sig < NSIG; sig++)
        if (sigismember(&s->watch->watched, sig) == 1)
            signal(sig, SIG_DFL);
    sigprocmask(SIG_SETMASK, &s->watch->before, NULL);
    /* a parent that is already gone sends no death signal */
    if (ready && getppid() == parent)
        execve(s->program, child->argv, environment);
    return (struct obstacle){.error = errno};
}

/* Like posix_spawn, which cannot set the parent's death signal. */
static struct obstacle start(const struct supervision *s, struct cadre_process *child)
{
    struct obstacle obstacle = {0};
    int report[2];
    child->pid = 0;
    child->end = (struct cadre_process_end){.status = -1};
    if (pipe2(report, O_CLOEXEC) != 0)
        return (struct obstacle){.error = errno};
    char **environment = make_environment(child->variables);
    pid_t parent = getpid(), pid = environment ? fork() : -1;
    if (pid == 0) {
        obstacle = become(s, child, environment, parent);
        ssize_t written = write(report[1], &obstacle, sizeof obstacle);
        _exit(written == (ssize_t)sizeof obstacle ? 127 : 126);
    }
    if (pid < 0)
        obstacle.error = environment ? errno : ENOMEM;
    close(report[1]);
    if (pid > 0 && read(report[0], &obstacle, sizeof obstacle) > 0)
        waitpid(pid, NULL, 0);
    else if (pid > 0)
        child->pid = pid;
    close(report[0]);
    free(environment);
    return obstacle;
}

/* ---- all of them ---- */

/* Reaps children that have ended; returns how many still run. */
static size_t reap(struct supervision *s)
{
    size_t running = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct cadre_process *child = &s->children[i];
        int how = 0;
        if (!child->pid)
            continue;
        pid_t done = waitpid(child->pid, &how, WNOHANG);
        if (done == 0) {
            running++;
            continue;
        }
        child->pid = 0;
        if (done > 0 && WIFEXITED(how))
            child->end.status = WEXITSTATUS(how);
        else if (done > 0)
            child->end.signal = WTERMSIG(how);
        child->end.killed = s->killing && child->end.signal;
        if (s->policy->ended)
            s->policy->ended(s->policy->h, i, &child->end);
    }
    return running;
}

static void pass_on(struct supervision *s, int sig)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->children[i].pid) {
            kill(s->children[i].pid, sig);
            if (sig != SIGKILL)
                s->children[i].end.asked = true;
        }
}

/* After a failure the others have until the deadline; then they are killed. */
static void keep_deadline(struct supervision *s)
{
    if (!s->policy->failed || !s->policy->failed(s->policy->h))
        return;
    double now = cadre_now_s();
    if (s->deadline_s == 0)
        s->deadline_s = now + s->policy->grace_s;
    if (now < s->deadline_s)
        return;
    s->killing = true;
    pass_on(s, SIGKILL);
}

/* SIGCHLD is blocked since before the first child, so no end is missed. */
static void wait_for_all(struct supervision *s)
{
    const struct timespec tick = {.tv_nsec = TICK_NS};
    while (reap(s) > 0) {
        keep_deadline(s);
        int sig = s->policy->failed ? sigtimedwait(&s->watch->watched, NULL, &tick)
                                    : sigwaitinfo(&s->watch->watched, NULL);
        if (sig > 0 && sig != SIGCHLD)
            pass_on(s, sig);
    }
}

cadre_status cadre_supervise_run(const struct cadre_supervise_watch *watch,
                                 const struct cadre_supervise_policy *policy,
                                 const char *program, struct cadre_process *children,
                                 size_t n, struct cadre_error *err)
{
    struct supervision s = {watch, policy, program, children, n, 0, false};
    struct obstacle obstacle = {0};
    size_t begun = 0;
    while (begun < n && !obstacle.error)
        obstacle = start(&s, &children[begun++]);
    if (obstacle.error)
        pass_on(&s, policy->signal);
    wait_for_all(&s);
    if (!obstacle.error)
        return CADRE_OK;
    const char *name = children[begun - 1].name, *quote = name ? "" : "'";
    return cadre_fail_errno(err, CADRE_E_RESOURCE, obstacle.error,
                            "cannot start %s%s%s%s", quote, name ? name : program,
                            quote, obstacle.cpus ? " on its CPUs" : "");
}
