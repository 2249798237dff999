/* SPDX-License-Identifier: Apache-2.0 */
/* Start the ranks of a run on this machine and wait until they end.
 *
 * Threads: one pthread per rank in this process. Processes: this program by re-exec
 * with the same arguments (never a fork after threads); CADRE_RANK, CADRE_WORLD_SIZE,
 * CADRE_LOCAL_RANK and CADRE_INIT=fd:N identify the rank. A process that dies ends the
 * others: the failure is written into the segment, they get about a second to report it
 * and are then killed; none outlives its launcher (PR_SET_PDEATHSIG, which the kernel
 * ties to the launching thread). Each child is a process group of its own, so a
 * terminal's Ctrl-C reaches only the launcher; SIGINT, SIGTERM and SIGUSR1 sent to the
 * launcher are passed on to every process once.
 *
 * A rank that ends without having finished has failed, whatever its exit status. Ranks
 * say where they are in slots (core/base/status_slot.h): threads in those behind the
 * slot of the launching thread, processes in a page of the launcher (CADRE_STATUS), so
 * that a rank that dies or hangs inside a plugin is named with it. */
#ifndef CADRE_LAUNCH_LAUNCH_H
#define CADRE_LAUNCH_LAUNCH_H

#include <sched.h>

#include "core/comm/local.h"

#define CADRE_LAUNCH_VARIABLES 64

/* How one rank starts. Zero-initialised: like the launcher. */
struct cadre_launch_place {
    /* "NAME=value", in place of the launcher's own; ended by NULL; processes only */
    char *variable[CADRE_LAUNCH_VARIABLES + 1];
    bool pinned; /* `cpus` is where its first thread starts; others inherit it */
    cpu_set_t cpus;
    int threads; /* of its device; 0: as all ranks. Processes read CADRE_RANK_THREADS */
};

/* What a rank does; its return value is the rank's status. */
typedef cadre_status (*cadre_rank_main)(void *arg, int rank,
                                        struct cadre_local_segment *segment);

/* Run `main` on config->size threads and wait for all. Returns the status of the rank
 * that failed first by itself (not CADRE_E_ABORTED), or CADRE_OK; err has the world's
 * first failure: the text given to `abort` or found by the communicator, else "rank N
 * failed". config->processes is taken as false. place (config->size) may be NULL; its
 * variables are ignored. */
cadre_status cadre_launch_threads(const struct cadre_local_config *config,
                                  const struct cadre_launch_place *place,
                                  cadre_rank_main main, void *arg,
                                  struct cadre_error *err);

/* How processes ended, in addition to the status. */
struct cadre_launch_end {
    /* ranks that ended without reporting a failure: a signal killed them before the
     * launcher did, or others waited for them in vain, or one of them did not return
     * from a callback, and the launcher killed them */
    int lost;
    bool asked; /* SIGINT, SIGTERM or SIGUSR1 was passed on: the run is asked to end */
};

/* Run argv (argv[0] is for show, /proc/self/exe is executed) config->size times and
 * wait. config->processes is taken as true. Exit codes of the children map back: 0 OK,
 * 2 INVALID, 4 STOPPED, others COMM; a child killed by a signal gives CADRE_E_COMM
 * naming the rank and the signal. err has the world's first failure. place
 * (config->size) may be NULL, as may `end`, which is always filled in. [main; no other
 * threads yet] */
cadre_status cadre_launch_processes(const struct cadre_local_config *config,
                                    const struct cadre_launch_place *place,
                                    char *const argv[], struct cadre_launch_end *end,
                                    struct cadre_error *err);

/* In a child: true and the rank, size and segment fd from the environment; false when
 * this process was not started by cadre_launch_processes (CADRE_INIT is unset or not
 * fd:N). The calling thread's slot is then the rank's in the launcher's page; before
 * the child ends, it calls cadre_status_finished. Malformed variables are
 * CADRE_E_INVALID. [main] */
cadre_status cadre_launch_child(bool *is_child, int *rank, int *size, int *fd,
                                struct cadre_error *err);

/* A process that an external launcher started as one of several ranks: srun, mpirun,
 * torchrun and their like, or a script that has set CADRE_INIT, CADRE_RANK,
 * CADRE_WORLD_SIZE and CADRE_LOCAL_RANK. Copied freely. */
struct cadre_launch_external {
    /* "CADRE_INIT", "torchrun", "srun", "Open MPI", "MVAPICH2", "PALS", "Flux",
     * "jsrun", "MPICH", "PMIx"; NULL: none did */
    const char *launcher;
    char where[512]; /* for cadre_rendezvous; "" where the launcher gives no address */
    char job[128]; /* same on all ranks, differs per job and restart; may be "" */
    int rank, size;
    int local_rank; /* on its machine, counted from 0; -1: unknown */
    int local_size; /* ranks on its machine; 0: unknown */
    int node, nodes; /* -1, 0: unknown */
    bool mpi; /* the launcher can start MPI */
};

/* Fill `out` from the environment (core/launch/launcher.h); `launcher` is NULL where
 * there is none, where cadre is the launcher, or where it started only this process.
 * Ranks of one machine whose launcher gives no address meet at a file in TMPDIR.
 * Errors: CADRE_E_INVALID for malformed or incomplete variables; then `launcher` is
 * NULL. [main] */
cadre_status cadre_launch_external(struct cadre_launch_external *out,
                                   struct cadre_error *err);

#endif
