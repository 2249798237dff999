/* SPDX-License-Identifier: Apache-2.0 */
#include "core/experiment/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/memory.h"

void cadre_child_watch_open(struct cadre_child_watch *watch)
{
    sigemptyset(&watch->watched);
    sigaddset(&watch->watched, SIGINT);
    sigaddset(&watch->watched, SIGTERM);
    sigaddset(&watch->watched, SIGUSR1);
    sigaddset(&watch->watched, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &watch->watched, &watch->before);
}

void cadre_child_watch_close(struct cadre_child_watch *watch)
{
    pthread_sigmask(SIG_SETMASK, &watch->before, NULL);
}

/* ---- starting one ---------------------------------------------------------------- */

/* What a child that is being started has of this process. */
struct start {
    const struct cadre_child_watch *watch;
    const char *program;
    const struct cadre_child *child;
    char **environment;
    pid_t parent;
    int tell; /* a pipe that a successful exec closes */
};

static bool same_name(const char *variable, const char *setting)
{
    return strncmp(variable, setting, strcspn(setting, "=") + 1) == 0;
}

/* Pointers alone are new; NULL: no memory. */
static char **make_environment(char *const *wished)
{
    size_t n = 0, wishes = 0;
    while (environ[n])
        n++;
    while (wished && wished[wishes])
        wishes++;
    char **environment = cadre_calloc(n + wishes + 1, sizeof *environment);
    if (!environment)
        return NULL;
    for (size_t w = 0; w < wishes; w++)
        environment[w] = wished[w];
    size_t used = wishes;
    for (size_t i = 0; i < n; i++) {
        bool replaced = false;
        for (size_t w = 0; w < wishes && !replaced; w++)
            replaced = same_name(environ[i], wished[w]);
        if (!replaced)
            environment[used++] = environ[i];
    }
    return environment;
}

/* In the child, where only calls that are safe after a fork are made. Ends it with
 * errno told where exec fails. SIGTTOU stays ignored: outside the terminal's foreground
 * group the bar may still be drawn. */
static void become(const struct start *start)
{
    const struct cadre_child *child = start->child;
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool ready =
        nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
        (child->keeps_stdout || dup2(nothing, STDOUT_FILENO) >= 0) &&
        setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 &&
        (!child->cpus || sched_setaffinity(0, sizeof *child->cpus, child->cpus) == 0);
    signal(SIGTTOU, SIG_IGN);
    for (int sig = 1; sig < NSIG; sig++)
        if (sigismember(&start->watch->watched, sig) == 1)
            signal(sig, SIG_DFL);
    sigprocmask(SIG_SETMASK, &start->watch->before, NULL);
    /* a parent that is gone by now sends no signal any more */
    if (ready && getppid() == start->parent)
        execve(start->program, child->argv, start->environment);
    int error = errno;
    ssize_t told = write(start->tell, &error, sizeof error);
    _exit(told == (ssize_t)sizeof error ? 127 : 126);
}

/* As posix_spawn, which cannot ask for the parent's death signal. 0 or an errno. */
static int spawn(const struct cadre_child_watch *watch, const char *program,
                 struct cadre_child *child)
{
    int pipe_of[2], error = 0;
    if (pipe2(pipe_of, O_CLOEXEC) != 0)
        return errno;
    const struct start start = {watch,    program,
                                child,    make_environment(child->variables),
                                getpid(), pipe_of[1]};
    pid_t pid = start.environment ? fork() : -1;
    if (pid == 0)
        become(&start);
    if (pid < 0)
        error = start.environment ? errno : ENOMEM;
    close(pipe_of[1]);
    if (pid > 0 && read(pipe_of[0], &error, sizeof error) > 0)
        waitpid(pid, NULL, 0);
    close(pipe_of[0]);
    free(start.environment);
    child->pid = error ? 0 : pid;
    child->end = (struct cadre_child_end){.status = -1};
    return error;
}

/* ---- all of them ----------------------------------------------------------------- */

/* Those that have ended by now are gone; how many still run. */
static size_t reap(struct cadre_child *children, size_t n)
{
    size_t running = 0;
    for (size_t i = 0; i < n; i++) {
        int how = 0;
        if (!children[i].pid)
            continue;
        pid_t done = waitpid(children[i].pid, &how, WNOHANG);
        if (done == 0) {
            running++;
            continue;
        }
        children[i].pid = 0;
        if (done > 0 && WIFEXITED(how))
            children[i].end.status = WEXITSTATUS(how);
        else if (done > 0)
            children[i].end.signal = WTERMSIG(how);
    }
    return running;
}

static void pass_on(struct cadre_child *children, size_t n, int sig)
{
    for (size_t i = 0; i < n; i++)
        if (children[i].pid) {
            kill(children[i].pid, sig);
            children[i].end.asked = true;
        }
}

/* SIGCHLD is blocked since before the first began, so none of the ends is missed. */
static void wait_for_all(const struct cadre_child_watch *watch,
                         struct cadre_child *children, size_t n)
{
    while (reap(children, n) > 0) {
        int sig = sigwaitinfo(&watch->watched, NULL);
        if (sig > 0 && sig != SIGCHLD)
            pass_on(children, n, sig);
    }
}

cadre_status cadre_child_run_all(const struct cadre_child_watch *watch,
                                 const char *program, struct cadre_child *children,
                                 size_t n, struct cadre_error *err)
{
    int error = 0;
    for (size_t i = 0; i < n && !error; i++)
        error = spawn(watch, program, &children[i]);
    if (error)
        pass_on(children, n, SIGTERM);
    wait_for_all(watch, children, n);
    if (error)
        return cadre_fail_errno(err, CADRE_E_RESOURCE, error, "cannot start '%s'",
                                program);
    return CADRE_OK;
}

cadre_status cadre_child_run(const struct cadre_child_watch *watch, const char *program,
                             char *const *argv, struct cadre_child_end *end,
                             struct cadre_error *err)
{
    struct cadre_child child = {.argv = argv};
    cadre_status rc = cadre_child_run_all(watch, program, &child, 1, err);
    *end = child.end;
    return rc;
}
