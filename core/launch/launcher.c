/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/launch/launcher_table.h"
#include "core/launch/nodelist.h"
#include "core/launch/rendezvous.h"

/* ---- variables ---- */

static const char *from_process(void *h, const char *name)
{
    (void)h;
    return getenv(name);
}

struct cadre_launcher_env cadre_launcher_environment(void)
{
    return (struct cadre_launcher_env){.get = from_process};
}

static const char *look(const struct cadre_launcher_env *env, const char *name)
{
    const char *value = name ? env->get(env->h, name) : NULL;
    return value && *value ? value : NULL;
}

/* The first name of the two that is set, else the first. */
static const char *which(const struct cadre_launcher_env *env,
                         const char *const name[LAUNCHER_NAMES])
{
    return !look(env, name[0]) && look(env, name[1]) ? name[1] : name[0];
}

static bool has(const struct cadre_launcher_env *env, const struct cadre_launcher *row)
{
    return look(env, row->rank) != NULL;
}

/* A number that must be set: `row` has started the process. */
static cadre_status need(const struct cadre_launcher_env *env,
                         const struct cadre_launcher *row, const char *name, int low,
                         int high, int *out, struct cadre_error *err)
{
    const char *text = look(env, name);
    if (cadre_launcher_number(text, low, high, out))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s %s%s%s, but %s is set as by %s: expected a number from %d to "
                      "%d; start the ranks only by %s, or unset %s",
                      name, text ? "is \"" : "is not set", text ? text : "",
                      text ? "\"" : "", row->rank, row->name, low, high, row->name,
                      row->rank);
}

/* A number that may be missing: then `out` is unchanged. */
static cadre_status may(const struct cadre_launcher_env *env,
                        const struct cadre_launcher *row, const char *name, int low,
                        int high, int *out, struct cadre_error *err)
{
    return look(env, name) ? need(env, row, name, low, high, out, err) : CADRE_OK;
}

/* ---- a launcher's variables ---- */

static cadre_status contradiction(const struct cadre_launcher *row, const char *a,
                                  int x, const char *b, int y, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      "the environment of %s contradicts itself: %s = %d, %s = %d; "
                      "start the ranks only by %s",
                      row->name, a, x, b, y, row->name);
}

static cadre_status read_ranks(const struct cadre_launcher_env *env,
                               const struct cadre_launcher *row,
                               struct cadre_launch_external *out,
                               struct cadre_error *err)
{
    const char *size = which(env, row->size);
    const char *local_rank = which(env, row->local_rank);
    const char *local_size = which(env, row->local_size);
    cadre_status rc = CADRE_OK;
    *out = (struct cadre_launch_external){
        .launcher = row->name, .local_rank = -1, .node = -1, .mpi = row->mpi};
    if (row == &cadre_launchers[LAUNCHER_PMIX] && !look(env, size))
        return cadre_fail(err, CADRE_E_INVALID,
                          "PMIX_RANK is set, but PMIx puts no number of ranks in the "
                          "environment: set CADRE_WORLD_SIZE, or unset PMIX_RANK");
    CADRE_TRY(need(env, row, size, 1, CADRE_RENDEZVOUS_RANKS, &out->size, err));
    CADRE_TRY(need(env, row, row->rank, 0, out->size - 1, &out->rank, err));
    CADRE_TRY(may(env, row, local_size, 1, out->size, &out->local_size, err));
    CADRE_TRY(may(env, row, local_rank, 0, out->size - 1, &out->local_rank, err));
    CADRE_TRY(may(env, row, row->nodes, 1, INT32_MAX, &out->nodes, err));
    CADRE_TRY(may(env, row, row->node, 0, INT32_MAX - 1, &out->node, err));
    if (out->local_size && out->local_rank >= out->local_size)
        rc = contradiction(row, local_rank, out->local_rank, local_size,
                           out->local_size, err);
    if (out->nodes && out->node >= out->nodes)
        rc = contradiction(row, row->node, out->node, row->nodes, out->nodes, err);
    return rc;
}

static cadre_status read_torchrun(const struct cadre_launcher_env *env,
                                  struct cadre_launch_external *out,
                                  struct cadre_error *err)
{
    const struct cadre_launcher *row = &cadre_launchers[LAUNCHER_TORCHRUN];
    const char *host = look(env, "MASTER_ADDR");
    const char *run = look(env, "TORCHELASTIC_RUN_ID");
    const char *restarts = look(env, "TORCHELASTIC_RESTART_COUNT");
    int port;
    CADRE_TRY(read_ranks(env, row, out, err));
    if (!host)
        return cadre_fail(err, CADRE_E_INVALID,
                          "RANK and WORLD_SIZE are set as by torchrun, but MASTER_ADDR "
                          "is not set: expected rank 0's host; set it, or unset RANK");
    CADRE_TRY(need(env, row, "MASTER_PORT", 1, 65535, &port, err));
    /* torchrun's agent listens at MASTER_PORT itself */
    port += port < 65535 ? 1 : -1;
    bool v6 = strchr(host, ':') && host[0] != '[';
    snprintf(out->where, sizeof out->where, "tcp://%s%.400s%s:%d", v6 ? "[" : "", host,
             v6 ? "]" : "", port);
    snprintf(out->job, sizeof out->job, "%.100s.%.16s", run ? run : "torchrun",
             restarts ? restarts : "0");
    return CADRE_OK;
}

/* Steps that are not ranks: the batch script's shell, processes outside of steps, the
 * shell of an interactive allocation. */
static bool is_real_step(const char *step)
{
    int n;
    return cadre_launcher_number(step, 0, 0x7fffffff, &n);
}

static cadre_status place_of_srun(const struct cadre_launcher_env *env,
                                  struct cadre_launch_external *out,
                                  struct cadre_error *err)
{
    const char *list = look(env, "SLURM_STEP_NODELIST");
    const char *job = look(env, "SLURM_JOB_ID"), *step = look(env, "SLURM_STEP_ID");
    const char *restarts = look(env, "SLURM_RESTART_COUNT");
    char host[256] = "localhost";
    if (!job || strspn(job, "0123456789") != strlen(job))
        return cadre_fail(err, CADRE_E_INVALID,
                          "SLURM_JOB_ID is %s%s%s, but SLURM_PROCID is set as by srun: "
                          "expected a number; start the ranks only by srun",
                          job ? "\"" : "not set", job ? job : "", job ? "\"" : "");
    snprintf(out->job, sizeof out->job, "%.40s.%.20s%s%.20s", job, step,
             restarts ? "." : "", restarts ? restarts : "");
    if (!list)
        list = look(env, "SLURM_JOB_NODELIST");
    if (out->nodes != 1 && (!list || !cadre_nodelist_host(list, 0, host, sizeof host)))
        return cadre_fail(err, CADRE_E_INVALID,
                          "SLURM_STEP_NODELIST is %s%.200s%s: expected a list of hosts "
                          "as node[01-04], whose first is where the ranks meet; set "
                          "CADRE_INIT to tcp://host:port",
                          list ? "\"" : "not set", list ? list : "", list ? "\"" : "");
    /* as others do: ports without a service, different for jobs and steps */
    unsigned long long at = strtoull(job, NULL, 10) + strtoull(step, NULL, 10);
    snprintf(out->where, sizeof out->where, "tcp://%s:%llu", host, 61440 + at % 4096);
    return CADRE_OK;
}

static cadre_status read_srun(const struct cadre_launcher_env *env,
                              struct cadre_launch_external *out,
                              struct cadre_error *err)
{
    const struct cadre_launcher *row = &cadre_launchers[LAUNCHER_SRUN];
    const char *tasks = look(env, "SLURM_STEP_TASKS_PER_NODE");
    const char *list = look(env, "SLURM_STEP_NODELIST");
    int local;
    cadre_status rc = CADRE_OK;
    CADRE_TRY(read_ranks(env, row, out, err));
    if (!out->nodes && list && cadre_nodelist_count(list) > 0)
        out->nodes = (int)cadre_nodelist_count(list);
    local = tasks && out->node >= 0 ? cadre_nodelist_tasks(tasks, out->node) : -1;
    if (out->nodes == 1)
        local = out->size;
    if (local > out->size || (local > 0 && out->local_rank >= local))
        return contradiction(row, "SLURM_STEP_TASKS_PER_NODE", local,
                             local > out->size ? "tasks" : "SLURM_LOCALID",
                             local > out->size ? out->size : out->local_rank, err);
    out->local_size = local > 0 ? local : 0;
    /* srun --mpi=... sets one of these */
    out->mpi = look(env, "PMIX_RANK") || look(env, "PMI_RANK") || look(env, "PMI_FD");
    if (out->size > 1 && !look(env, "CADRE_INIT"))
        rc = place_of_srun(env, out, err);
    return rc;
}

static cadre_status read_launcher(const struct cadre_launcher_env *env,
                                  const struct cadre_launcher *row,
                                  struct cadre_launch_external *out,
                                  struct cadre_error *err)
{
    if (row == &cadre_launchers[LAUNCHER_TORCHRUN])
        return read_torchrun(env, out, err);
    if (row == &cadre_launchers[LAUNCHER_SRUN])
        return read_srun(env, out, err);
    cadre_status rc = read_ranks(env, row, out, err);
    const char *job = look(env, which(env, row->job));
    if (job && rc == CADRE_OK)
        snprintf(out->job, sizeof out->job, "%.120s", job);
    if (out->nodes == 1 && !out->local_size)
        out->local_size = out->size;
    if (out->local_size && out->local_size == out->size)
        out->nodes = 1;
    return rc;
}

/* ---- which launcher it is ---- */

static void say(struct cadre_text *why, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct cadre_text *why, const char *fmt, ...)
{
    va_list ap;
    if (!why)
        return;
    va_start(ap, fmt);
    cadre_text_vprintf(why, fmt, ap);
    va_end(ap);
}

/* Launchers' daemons are often started by srun, whose variables their ranks inherit.
 * Such a launcher is the nearer one where its numbers differ from srun's. */
static const struct cadre_launcher *
nearer_than_srun(const struct cadre_launcher_env *env)
{
    const char *rank = look(env, cadre_launchers[LAUNCHER_SRUN].rank);
    const char *size = look(env, which(env, cadre_launchers[LAUNCHER_SRUN].size));
    for (const struct cadre_launcher *row = &cadre_launchers[LAUNCHER_OPEN_MPI];
         row <= &cadre_launchers[LAUNCHER_MPICH]; row++) {
        const char *its = look(env, row->rank), *all = look(env, row->size[0]);
        if (row == &cadre_launchers[LAUNCHER_MPICH] && !look(env, "MPI_LOCALRANKID"))
            continue; /* PMI_RANK alone may be srun's own */
        if (its && all && rank && size &&
            (strcmp(its, rank) != 0 || strcmp(all, size) != 0))
            return row;
    }
    return NULL;
}

/* Should `row` be ignored? Reports why. */
static bool is_trap(const struct cadre_launcher_env *env,
                    const struct cadre_launcher *row, struct cadre_text *why)
{
    const char *step = look(env, "SLURM_STEP_ID");
    if (row == &cadre_launchers[LAUNCHER_TORCHRUN] && !look(env, "WORLD_SIZE") &&
        !look(env, "TORCHELASTIC_RUN_ID")) {
        for (const struct cadre_launcher *other = &cadre_launchers[LAUNCHER_SRUN];
             other < &cadre_launchers[LAUNCHERS]; other++)
            if (has(env, other)) {
                say(why, "no: RANK is set, but WORLD_SIZE is not: not torchrun's\n");
                return true;
            }
        return false; /* one of two: reading it reports the error */
    }
    if (row != &cadre_launchers[LAUNCHER_SRUN])
        return false;
    const struct cadre_launcher *nearer = nearer_than_srun(env);
    if (step && is_real_step(step) && !nearer)
        return false;
    if (!step)
        say(why, "no: SLURM_PROCID is set, but SLURM_STEP_ID is not: a batch script's "
                 "shell, not a rank of srun\n");
    else if (!is_real_step(step))
        say(why, "no: SLURM_STEP_ID = %s is no step of ranks\n", step);
    else
        say(why, "no: SLURM_PROCID is set, but %s says otherwise, and is the nearer\n",
            nearer->name);
    return true;
}

/* The launcher that has priority, or NULL. */
static const struct cadre_launcher *choose(const struct cadre_launcher_env *env,
                                           struct cadre_text *why)
{
    const struct cadre_launcher *chosen = NULL;
    for (const struct cadre_launcher *row = cadre_launchers;
         row < &cadre_launchers[LAUNCHERS]; row++) {
        if (!has(env, row))
            continue;
        if (chosen)
            say(why, "no: %s is set as by %s, but %s has priority\n", row->rank,
                row->name, chosen->name);
        else if (!is_trap(env, row, why))
            chosen = row;
    }
    return chosen;
}

/* A size without a rank: part of the environment was removed. */
static cadre_status refuse_halves(const struct cadre_launcher_env *env,
                                  struct cadre_error *err)
{
    /* PMI's size is set by other launchers too, others' by scripts */
    for (const struct cadre_launcher *row = &cadre_launchers[LAUNCHER_OPEN_MPI];
         row <= &cadre_launchers[LAUNCHER_MPICH]; row++) {
        const char *left = look(env, row->size[0]) ? row->size[0] : row->local_rank[0];
        if (look(env, left) && strcmp(row->name, "PALS") != 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s is set as by %s, but %s is not: expected both in "
                              "each rank; start the ranks only by %s, or unset %s",
                              left, row->name, row->rank, row->name, left);
    }
    if (look(env, "TORCHELASTIC_RUN_ID"))
        return cadre_fail(err, CADRE_E_INVALID,
                          "TORCHELASTIC_RUN_ID is set as by torchrun, but RANK is not: "
                          "expected both in each rank; unset TORCHELASTIC_RUN_ID");
    return CADRE_OK;
}

/* ---- CADRE_* variables ---- */

static cadre_status own_number(const struct cadre_launcher_env *env, const char *name,
                               int low, int high, int *out, struct cadre_error *err)
{
    const char *text = look(env, name), *init = look(env, "CADRE_INIT");
    if (cadre_launcher_number(text, low, high, out))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s %s%s%s, but CADRE_INIT is \"%s\": expected a number from %d "
                      "to %d; set CADRE_RANK, CADRE_WORLD_SIZE and CADRE_LOCAL_RANK in "
                      "each process, or unset CADRE_INIT",
                      name, text ? "is \"" : "is not set", text ? text : "",
                      text ? "\"" : "", init, low, high);
}

static cadre_status read_own(const struct cadre_launcher_env *env,
                             struct cadre_launch_external *out, struct cadre_error *err)
{
    *out =
        (struct cadre_launch_external){.launcher = cadre_launcher_own.name, .node = -1};
    CADRE_TRY(own_number(env, "CADRE_WORLD_SIZE", 1, CADRE_RENDEZVOUS_RANKS, &out->size,
                         err));
    CADRE_TRY(own_number(env, "CADRE_RANK", 0, out->size - 1, &out->rank, err));
    CADRE_TRY(
        own_number(env, "CADRE_LOCAL_RANK", 0, out->size - 1, &out->local_rank, err));
    if (look(env, "CADRE_LOCAL_WORLD_SIZE"))
        CADRE_TRY(own_number(env, "CADRE_LOCAL_WORLD_SIZE", out->local_rank + 1,
                             out->size, &out->local_size, err));
    if (look(env, "CADRE_NODE_RANK"))
        CADRE_TRY(
            own_number(env, "CADRE_NODE_RANK", 0, out->size - 1, &out->node, err));
    out->nodes = out->local_size == out->size ? 1 : 0;
    return CADRE_OK;
}

/* Without an address each of many processes would train alone, in one folder. */
static cadre_status refuse_own_halves(const struct cadre_launcher_env *env,
                                      const struct cadre_launcher *chosen,
                                      struct cadre_error *err)
{
    static const char *const names[] = {"CADRE_RANK", "CADRE_WORLD_SIZE",
                                        "CADRE_LOCAL_RANK"};
    for (int i = chosen == &cadre_launchers[LAUNCHER_PMIX] ? 3 : 0; i < 3; i++)
        if (look(env, names[i]))
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s is set, but CADRE_INIT is not: expected "
                              "tcp://host:port or file:///path, where the ranks meet; "
                              "set it, or unset %s",
                              names[i], names[i]);
    return CADRE_OK;
}

static cadre_status check_init(const char *init, struct cadre_error *err)
{
    bool known = strncmp(init, "tcp://", 6) == 0 || strncmp(init, "file:///", 8) == 0;
    if (known && strlen(init) < sizeof((struct cadre_launch_external *)0)->where)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "CADRE_INIT is \"%.600s\"; expected tcp://host:port or "
                      "file:///path, where the ranks meet, or nothing",
                      init);
}

/* Or does CADRE_INIT only name the address where the launcher's ranks meet? */
static bool names_itself(const struct cadre_launcher_env *env,
                         const struct cadre_launcher *row)
{
    return look(env, "CADRE_RANK") ||
           (row != &cadre_launchers[LAUNCHER_PMIX] &&
            (look(env, "CADRE_WORLD_SIZE") || look(env, "CADRE_LOCAL_RANK")));
}

/* Take what the launcher knows in addition to CADRE_*, where its numbers agree. */
static void add_launcher(const struct cadre_launcher_env *env,
                         const struct cadre_launcher *row,
                         struct cadre_launch_external *found)
{
    struct cadre_launch_external its;
    if (read_launcher(env, row, &its, NULL) != CADRE_OK || its.rank != found->rank ||
        its.size != found->size)
        return;
    found->mpi = its.mpi;
    found->nodes = its.nodes;
    if (!found->local_size)
        found->local_size = its.local_size;
}

static void explain(const struct cadre_launcher *row,
                    const struct cadre_launch_external *found, struct cadre_text *why)
{
    say(why, "%s: rank %d of %d", row->name, found->rank, found->size);
    if (found->local_rank >= 0 && found->local_size)
        say(why, ", %d of %d on its machine", found->local_rank, found->local_size);
    else if (found->local_rank >= 0)
        say(why, ", %d on its machine", found->local_rank);
    if (found->nodes)
        say(why, ", %d machine%s", found->nodes, found->nodes == 1 ? "" : "s");
    say(why, ", by %s and %s\n", row->rank, row->size[0]);
}

/* The launcher's variables, or CADRE_*, before they are checked. */
static cadre_status find(const struct cadre_launcher_env *env,
                         struct cadre_launch_external *found, struct cadre_text *why,
                         struct cadre_error *err)
{
    const char *init = look(env, "CADRE_INIT"), *job = look(env, "CADRE_JOB");
    struct cadre_text passed = {0};
    const struct cadre_launcher *row = choose(env, why ? &passed : NULL);
    cadre_status rc = init ? check_init(init, err) : refuse_own_halves(env, row, err);
    if (rc == CADRE_OK && init && (!row || names_itself(env, row))) {
        rc = read_own(env, found, err);
        if (row && rc == CADRE_OK)
            add_launcher(env, row, found);
        row = &cadre_launcher_own;
    } else if (rc == CADRE_OK && row) {
        rc = read_launcher(env, row, found, err);
    } else if (rc == CADRE_OK) {
        rc = refuse_halves(env, err);
    }
    if (rc == CADRE_OK && init)
        snprintf(found->where, sizeof found->where, "%s", init);
    if (rc == CADRE_OK && job)
        snprintf(found->job, sizeof found->job, "%.120s", job);
    if (rc == CADRE_OK && row && row != &cadre_launcher_own && found->size == 1) {
        say(why, "no: %s started only this process: it is not a rank of several\n",
            row->name);
        *found = (struct cadre_launch_external){0};
    } else if (rc == CADRE_OK && row) {
        explain(row, found, why);
    }
    if (why)
        cadre_text_printf(why, "%s", cadre_text_str(&passed));
    cadre_text_fini(&passed);
    return rc;
}

cadre_status cadre_launcher_find(const struct cadre_launcher_env *env,
                                 struct cadre_launch_external *out,
                                 struct cadre_text *why, struct cadre_error *err)
{
    const char *init = look(env, "CADRE_INIT");
    struct cadre_launch_external found = {0};
    cadre_status rc = CADRE_OK;
    *out = found;
    if (!init || strncmp(init, "fd:", 3) != 0) /* else one of Cadre's own */
        rc = find(env, &found, why, err);
    if (rc == CADRE_OK)
        *out = found;
    return rc;
}

const char *cadre_launcher_variable(const char *launcher)
{
    for (const struct cadre_launcher *row = cadre_launchers;
         row < &cadre_launchers[LAUNCHERS]; row++)
        if (strcmp(row->name, launcher) == 0)
            return row->rank;
    return strcmp(launcher, cadre_launcher_own.name) == 0 ? cadre_launcher_own.rank
                                                          : NULL;
}
