/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes of this program, identified by environment variables. They end
 * together: a failure of one is written into the segment and ends all. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/comm/local/segment_private.h"
#include "core/launch/launch.h"
#include "core/launch/status_page.h"
#include "core/launch/status_watch.h"
#include "core/launch/supervise.h"

/* From the first failure to SIGKILL: time for the others to report it; the run ends
 * within two seconds. */
#define GRACE_S 1.3
#define OUR_VARIABLES 6

/* What the process of a rank is started with. */
struct rank {
    char name[32];
    char text[OUR_VARIABLES][40];
    char *variables[OUR_VARIABLES + CADRE_LAUNCH_VARIABLES + 1];
};

struct launch {
    struct cadre_local_segment *segment;
    struct cadre_status_page page; /* a slot for each rank */
    struct cadre_status_watch watch;
    int size;
    double timeout_s;
    struct rank *ranks;
    struct cadre_process *processes;
    bool invalid, failed, stopped; /* how they ended */
    int lost; /* killed, not by the launcher */
    char stalled[512]; /* which one did not return from a callback; "": none */
    int killed_after_grace; /* killed by the launcher after the grace period */
};

/* Cadre's variables, then those of its place. */
static void describe(struct launch *l, int rank, const struct cadre_launch_place *place,
                     char *const argv[])
{
    static const char *const names[OUR_VARIABLES] = {"CADRE_RANK=",
                                                     "CADRE_WORLD_SIZE=",
                                                     "CADRE_LOCAL_RANK=",
                                                     "CADRE_INIT=fd:",
                                                     (CADRE_STATUS_VARIABLE "=fd:"),
                                                     "CADRE_RANK_THREADS="};
    const int values[OUR_VARIABLES] = {rank,       l->size,
                                       rank,       cadre_local_segment_fd(l->segment),
                                       l->page.fd, place ? place->threads : 0};
    struct rank *r = &l->ranks[rank];
    size_t n = 0;
    for (; n < OUR_VARIABLES; n++) {
        snprintf(r->text[n], sizeof r->text[n], "%s%d", names[n], values[n]);
        r->variables[n] = r->text[n];
    }
    for (int i = 0; place && place->variable[i]; i++)
        r->variables[n++] = place->variable[i];
    snprintf(r->name, sizeof r->name, "rank %d", rank);
    l->processes[rank] = (struct cadre_process){
        .argv = argv,
        .variables = r->variables,
        .cpus = place && place->pinned ? &place->cpus : NULL,
        .name = r->name,
    };
}

static bool was_asked(const struct launch *l)
{
    bool asked = false;
    for (int r = 0; r < l->size; r++)
        asked = asked || l->processes[r].end.asked;
    return asked;
}

/* Does a rank not return from a callback? Those that wait for it give up at about the
 * same time: then it is looked for a little earlier than it is due. */
static void look_for_stalls(struct launch *l)
{
    const bool asked = was_asked(l),
               in_vain = atomic_load(&l->segment->shared->in_vain);
    const double limit = asked ? cadre_status_limit_asked(l->timeout_s) : l->timeout_s;
    int found = cadre_status_watch_look(&l->watch, l->page.slot, l->page.n,
                                        in_vain ? 0.8 * limit : limit, cadre_now_s());
    if (found < 0)
        return;
    struct cadre_status_seen seen = cadre_status_read(&l->page.slot[found]);
    cadre_status_tell_stall(&seen, limit, asked, l->stalled, sizeof l->stalled);
    cadre_local_segment_store_failure(l->segment, CADRE_E_COMM, l->stalled);
}

static bool has_failed(void *h)
{
    struct launch *l = h;
    if (!l->stalled[0] &&
        (!local_failed(l->segment) || atomic_load(&l->segment->shared->in_vain)))
        look_for_stalls(l);
    return local_failed(l->segment);
}

/* Its main() has not come to its end: something in the process called exit. */
static void note_exit(struct launch *l, int rank, int status)
{
    const struct cadre_status_seen seen = cadre_status_read(&l->page.slot[rank]);
    char text[512];
    cadre_status_tell_exit(&seen, status, text, sizeof text);
    l->failed = true;
    cadre_local_segment_store_failure(l->segment, CADRE_E_COMM, text);
}

/* By a signal that the launcher has not sent. */
static void note_signal(struct launch *l, int rank, int sig)
{
    const struct cadre_status_seen seen = cadre_status_read(&l->page.slot[rank]);
    char text[512];
    if (seen.exits || seen.other_exits) { /* the signal follows from that */
        note_exit(l, rank, 0);
        return;
    }
    l->lost++;
    if (cadre_status_is_fault(sig) && seen.instance[0]) {
        cadre_status_tell_signal(&seen, sig, text, sizeof text);
        cadre_local_segment_store_failure(l->segment, CADRE_E_COMM, text);
    } else {
        snprintf(text, sizeof text, "was killed by signal %d (%s)", sig,
                 strsignal(sig));
        cadre_local_segment_fail(l->segment, rank, text);
    }
}

static bool has_finished(const struct launch *l, size_t rank)
{
    return atomic_load(&l->page.slot[rank].state) == CADRE_STATUS_FINISHED;
}

static void note_end(void *h, size_t rank, const struct cadre_process_end *end)
{
    struct launch *l = h;
    char why[96] = "";
    if (end->killed) {
        l->failed = true;
        l->killed_after_grace++;
    } else if (end->signal) {
        note_signal(l, (int)rank, end->signal);
    } else if (!has_finished(l, rank)) {
        note_exit(l, (int)rank, end->status);
    } else if (end->status == 4) {
        l->stopped = true;
    } else if (end->status != 0) {
        snprintf(why, sizeof why, "exited with status %d", end->status);
        *(end->status == 2 ? &l->invalid : &l->failed) = true;
    }
    if (why[0])
        cadre_local_segment_fail(l->segment, (int)rank, why);
    cadre_local_segment_ended(l->segment, (int)rank);
    atomic_store(&l->page.slot[rank].state, CADRE_STATUS_UNUSED);
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
    return cadre_fail(err, rc, "%s", l->stalled[0] ? l->stalled : text);
}

/* A process that does not end after the others waited for it in vain does not respond
 * at all; after another failure it may only have been busy. */
static int count_lost(const struct launch *l)
{
    bool awaited =
        l->lost == 0 && (l->stalled[0] || atomic_load(&l->segment->shared->in_vain));
    return awaited ? l->killed_after_grace : l->lost;
}

/* A rank whose launcher is gone cannot report its failure, and is killed. */
static cadre_status run(struct launch *l, struct cadre_launch_end *end,
                        struct cadre_error *err)
{
    const struct cadre_supervise_policy policy = {
        .signal = SIGKILL,
        .failed = has_failed,
        .grace_s = GRACE_S,
        .ended = note_end,
        .h = l,
    };
    struct cadre_supervise_watch watch;
    fcntl(cadre_local_segment_fd(l->segment), F_SETFD, 0); /* the ranks open them */
    fcntl(l->page.fd, F_SETFD, 0);
    cadre_supervise_open(&watch);
    cadre_status rc = cadre_supervise_run(&watch, &policy, CADRE_THIS_PROGRAM,
                                          l->processes, (size_t)l->size, err);
    if (rc == CADRE_OK) {
        rc = outcome(l, err);
        *end = (struct cadre_launch_end){count_lost(l), was_asked(l)};
    }
    cadre_supervise_close(&watch);
    return rc;
}

cadre_status cadre_launch_processes(const struct cadre_local_config *config,
                                    const struct cadre_launch_place *place,
                                    char *const argv[], struct cadre_launch_end *end,
                                    struct cadre_error *err)
{
    struct launch l = {.size = config->size, .timeout_s = config->timeout_s};
    struct cadre_local_config processes = *config;
    struct cadre_launch_end unasked = {0};
    cadre_status rc;
    end = end ? end : &unasked;
    *end = (struct cadre_launch_end){0};
    processes.processes = true;
    l.watch.processes = true;
    CADRE_TRY_OR(cadre_local_segment_create(&processes, &l.segment, err), fail);
    CADRE_TRY_OR(cadre_status_page_create(l.size, &l.page, err), fail);
    l.ranks = calloc((size_t)l.size, sizeof *l.ranks);
    l.processes = calloc((size_t)l.size, sizeof *l.processes);
    if (!l.ranks || !l.processes) {
        rc = cadre_no_memory(err, "%d ranks", l.size);
        goto fail;
    }
    for (int r = 0; r < l.size; r++) {
        describe(&l, r, place ? &place[r] : NULL, argv);
        l.page.slot[r].root = cadre_status_root(cadre_status_current());
    }
    rc = run(&l, end, err);
fail:
    free(l.ranks);
    free(l.processes);
    cadre_status_page_close(&l.page);
    cadre_local_segment_close(l.segment);
    return rc;
}
