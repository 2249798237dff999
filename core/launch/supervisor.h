/* SPDX-License-Identifier: Apache-2.0 */
/* The process that the user starts is the supervisor: it forks before anything else,
 * and its child does what was asked for (the run). The supervisor opens no plugin, so
 * none can end or stop it; it waits, passes signals on, and owns the verdict: it prints
 * the run's last line and ends with its status.
 *
 * - A run that was killed, or that ended without reaching its end, failed, with a line
 *   that names plugin, callback, step and rank where the run was inside a plugin.
 * - A callback without progress for comm.timeout is named, and the run is ended: this
 *   is the one place where Cadre ends a process of its own.
 * - After INT, TERM or USR1 a callback has at most ten seconds without progress.
 *
 * The child is forked without exec, as there is one thread only, and stays in the
 * process group: a terminal's signals reach it by themselves. It ends with the
 * supervisor (PR_SET_PDEATHSIG). The process of a rank that cadre_launch_processes
 * started has its launcher as supervisor; one that an external launcher started has its
 * own. CADRE_SUPERVISE=no leaves the supervisor out, for debuggers. */
#ifndef CADRE_LAUNCH_SUPERVISOR_H
#define CADRE_LAUNCH_SUPERVISOR_H

#include "core/launch/status_page.h"

/* Split into supervisor and run. False in the run: *page is what it shares with its
 * supervisor, and the calling thread's slot is the page's first; or zeroed where there
 * is none. True in the supervisor, once the run has ended, with the status to exit
 * with; a signal that ended the run as users expect, such as a second Ctrl-C, ends this
 * process too. [main, before threads and output] */
bool cadre_supervisor_split(struct cadre_status_page *page, int *status);

#endif
