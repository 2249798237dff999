/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon is asked by its own program, since what its pipes and sockets are called
 * is not documented. */
#include "plugins/mig/mps.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "nvidia-cuda-mps-control"
#define LIMIT_MS 10000

extern char **environ;

/* The program with a question to be read from its stdin. 0, or an errno. */
static int ask(pid_t *pid)
{
    static const char question[] = "get_server_list\n";
    static char program[] = PROGRAM;
    char *argv[] = {program, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    /* all of it fits into the pipe: this neither waits nor raises SIGPIPE */
    int failed = write(ends[1], question, sizeof question - 1) < 0 ? errno : 0;
    close(ends[1]);
    if (!failed)
        failed = posix_spawn_file_actions_init(&actions);
    if (!failed) {
        posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, 1, 2);
        failed = posix_spawnp(pid, PROGRAM, &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[0]);
    return failed;
}

/* Its exit status; -1: it was ended by a signal, or for being too late. */
static int wait_for(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    int status = 0;
    for (int ms = 0; ms < LIMIT_MS; ms += 10) {
        const pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (ended < 0 && errno != EINTR)
            return -1;
        nanosleep(&pause, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

bool mig_mps_runs(char *why, size_t size)
{
    pid_t pid = 0;
    const int failed = ask(&pid);
    const int status = failed ? -1 : wait_for(pid);
    if (failed)
        snprintf(why, size, PROGRAM " cannot be run (%s)", strerror(failed));
    else if (status < 0)
        snprintf(why, size, PROGRAM " gives no answer");
    else if (status > 0)
        snprintf(why, size, "its control daemon does not run");
    return status == 0;
}
