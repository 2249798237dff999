/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes of the kit, as a rule this program again: with a time limit, and with
 * whatever it prints in a file. A child that the kit gives up is killed with all that
 * it has started. */
#ifndef CADRE_CHECK_KIT_PROCESS_H
#define CADRE_CHECK_KIT_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/base/error.h"

struct cadre_check_process {
    const char *program; /* NULL: this one, again */
    char *const *argv; /* NULL-terminated; borrowed */
    const char *output; /* file of its stdout and stderr; borrowed */
    double limit_s;
    bool
        leads; /* its own process group, so that all of it can be killed at once, a heap
                   whose use can be counted, and no supervisor */
    long file_kib; /* largest file that it may write; 0: no limit */
    /* filled */
    pid_t pid; /* 0: not running */
    double begin_s;
    bool timed_out;
    int status; /* exit status; -1 where a signal ended it */
    int signal;
    double cpu_s; /* of it and of what it waited for */
};

/* Make this process the parent of what its descendants leave behind, so that
 * cadre_check_process_sweep finds it. [main, once] */
void cadre_check_process_adopt(void);

/* Start it. stdin is empty. It is killed where this process dies. [main, no other
 * threads] Errors: CADRE_E_RESOURCE. */
cadre_status cadre_check_process_start(struct cadre_check_process *process,
                                       struct cadre_error *err);

/* Has it ended? Fills how. Kills it where its time is over, and reports it as ended
 * once it has. */
bool cadre_check_process_ended(struct cadre_check_process *process);

/* Kill it, with its group where it leads one, and wait for it. */
void cadre_check_process_kill(struct cadre_check_process *process);

/* Start it and wait for its end. */
cadre_status cadre_check_process_run(struct cadre_check_process *process,
                                     struct cadre_error *err);

/* The children of a process, at most `most`, the oldest first; returns their number. */
size_t cadre_check_process_children(pid_t parent, pid_t *out, size_t most);

/* Kill the children of this process that are none of the n given ones, and theirs: what
 * ended children have left. Returns how many there were. */
int cadre_check_process_sweep(const pid_t *running, size_t n);

/* The end of a child's output, at most `bytes`, for a report: the last lines, without
 * control bytes but line breaks. `out` is empty where there is none. */
void cadre_check_process_tail(const char *output, char *out, size_t bytes);

#endif
