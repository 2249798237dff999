/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command and prints what the machine did meanwhile, by core/compare/timing:
 * begin on the monotonic clock, then wall, own, foreign, steal and throttled time, all
 * in seconds, on one line of stdout. The command's own output goes to stderr. Ends with
 * the command's status.
 *
 * Usage: bench_load COMMAND [ARGUMENT]... */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/compare/timing/load.h"

int main(int argc, char **argv)
{
    struct cadre_load_counters begin;
    struct cadre_load load;
    int status;
    if (argc < 2)
        return 2;
    cadre_load_begin(&begin);
    pid_t child = fork();
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    cadre_load_end(&begin, false, &load);
    printf("%.3f %.3f %.3f %.3f %.3f %.3f\n", begin.wall_s, load.wall_s, load.own_s,
           load.foreign_s, load.steal_s, load.throttled_s);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
