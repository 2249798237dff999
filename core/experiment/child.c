/* SPDX-License-Identifier: Apache-2.0 */
#include "core/experiment/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* In the child, where only calls that are safe after a fork are made. Ends it with
 * errno told through `tell`, which a successful exec closes. SIGTTOU stays ignored:
 * outside the terminal's foreground group the bar may still be drawn. */
static void become(const struct cadre_child_watch *watch, const char *program,
                   char *const *argv, pid_t parent, int tell)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool ready = nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
                 dup2(nothing, STDOUT_FILENO) >= 0 && setpgid(0, 0) == 0 &&
                 prctl(PR_SET_PDEATHSIG, SIGTERM) == 0;
    signal(SIGTTOU, SIG_IGN);
    for (int sig = 1; sig < NSIG; sig++)
        if (sigismember(&watch->watched, sig) == 1)
            signal(sig, SIG_DFL);
    sigprocmask(SIG_SETMASK, &watch->before, NULL);
    /* a parent that is gone by now sends no signal any more */
    if (ready && getppid() == parent)
        execv(program, argv);
    int error = errno;
    ssize_t told = write(tell, &error, sizeof error);
    _exit(told == (ssize_t)sizeof error ? 127 : 126);
}

/* As posix_spawn, which cannot ask for the parent's death signal. 0 or an errno. */
static int spawn(const struct cadre_child_watch *watch, const char *program,
                 char *const *argv, pid_t *pid)
{
    int pipe_of[2], error = 0;
    pid_t parent = getpid();
    if (pipe2(pipe_of, O_CLOEXEC) != 0)
        return errno;
    pid_t child = fork();
    if (child == 0)
        become(watch, program, argv, parent, pipe_of[1]);
    if (child < 0)
        error = errno;
    close(pipe_of[1]);
    if (child > 0 && read(pipe_of[0], &error, sizeof error) > 0)
        waitpid(child, NULL, 0);
    close(pipe_of[0]);
    *pid = child;
    return error;
}

static cadre_status wait_for(const struct cadre_child_watch *watch, pid_t pid,
                             struct cadre_child_end *end, struct cadre_error *err)
{
    int how = 0;
    pid_t done;
    *end = (struct cadre_child_end){.status = -1};
    /* SIGCHLD is blocked since before the child began, so none of its ends is missed */
    while ((done = waitpid(pid, &how, WNOHANG)) == 0) {
        int sig = sigwaitinfo(&watch->watched, NULL);
        if (sig > 0 && sig != SIGCHLD) {
            kill(pid, sig);
            end->asked = true;
        }
    }
    if (done < 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot wait for a run");
    if (WIFEXITED(how))
        end->status = WEXITSTATUS(how);
    else
        end->signal = WTERMSIG(how);
    return CADRE_OK;
}

cadre_status cadre_child_run(const struct cadre_child_watch *watch, const char *program,
                             char *const *argv, struct cadre_child_end *end,
                             struct cadre_error *err)
{
    pid_t pid = -1;
    int error = spawn(watch, program, argv, &pid);
    if (error)
        return cadre_fail_errno(err, CADRE_E_RESOURCE, error, "cannot start '%s'",
                                program);
    return wait_for(watch, pid, end, err);
}
