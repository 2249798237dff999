/* SPDX-License-Identifier: Apache-2.0 */
#include "core/experiment/child.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

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

/* The child starts with the mask of before and none of our handlers. SIGTTOU stays
 * ignored in it: outside the terminal's foreground group it may still draw its bar. */
static int spawn(const struct cadre_child_watch *watch, const char *program,
                 char *const *argv, pid_t *pid)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    int error = posix_spawnattr_init(&attributes);
    if (error)
        return error;
    error = posix_spawn_file_actions_init(&files);
    if (error) {
        posix_spawnattr_destroy(&attributes);
        return error;
    }
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                              POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &watch->before);
    posix_spawnattr_setsigdefault(&attributes, &watch->watched);
    error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null",
                                             O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null",
                                                 O_WRONLY, 0);
    sigaction(SIGTTOU, &ignore, &before);
    if (!error)
        error = posix_spawn(pid, program, &files, &attributes, argv, environ);
    sigaction(SIGTTOU, &before, NULL);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
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
    pid_t pid;
    int error = spawn(watch, program, argv, &pid);
    if (error)
        return cadre_fail_errno(err, CADRE_E_RESOURCE, error, "cannot start '%s'",
                                program);
    return wait_for(watch, pid, end, err);
}
