/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/launch/launcher.h"
#include "tests/support/check_main.h"

#define MOST 24

/* An environment from "A=1 B=2". */
struct list {
    char text[1024];
    char *one[MOST];
    int n;
};

static void split(struct list *list, const char *text)
{
    char *rest = list->text, *one;
    list->n = 0;
    snprintf(list->text, sizeof list->text, "%s", text);
    while ((one = strsep(&rest, " ")))
        if (*one)
            list->one[list->n++] = one;
}

static const char *from_list(void *h, const char *name)
{
    const struct list *list = h;
    size_t length = strlen(name);
    for (int i = 0; i < list->n; i++)
        if (strncmp(list->one[i], name, length) == 0 && list->one[i][length] == '=')
            return list->one[i] + length + 1;
    return NULL;
}

static cadre_status find(const char *text, struct cadre_launch_external *out,
                         struct cadre_text *why, struct cadre_error *err)
{
    struct list list = {.n = 0};
    const struct cadre_launcher_env env = {.get = from_list, .h = &list};
    split(&list, text);
    return cadre_launcher_find(&env, out, why, err);
}

#define SLURM                                                                          \
    "SLURM_JOB_ID=4097 SLURM_STEP_ID=2 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=6 "         \
    "SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_NUM_NODES=3 "                           \
    "SLURM_STEP_TASKS_PER_NODE=2(x3) SLURM_STEP_NODELIST=gpu[07-09]-ib "
#define TORCH                                                                          \
    "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 "                \
    "GROUP_WORLD_SIZE=2 MASTER_ADDR=head MASTER_PORT=29500 "                           \
    "TORCHELASTIC_RUN_ID=r7 TORCHELASTIC_RESTART_COUNT=2 "
#define OMPI                                                                           \
    "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "      \
    "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=55 PMIX_RANK=1 "
#define HYDRA "PMI_RANK=2 PMI_SIZE=4 PMI_FD=6 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2 "

/* Environments, and the result. */
static const struct {
    const char *env;
    struct cadre_launch_external want;
} good[] = {
    {SLURM, {"srun", "tcp://gpu07-ib:61443", "4097.2", 3, 6, 1, 2, 1, 3, false}},
    {SLURM "PMIX_RANK=3 SLURM_RESTART_COUNT=1 PMI_RANK=3 PMI_SIZE=6 ",
     {"srun", "tcp://gpu07-ib:61443", "4097.2.1", 3, 6, 1, 2, 1, 3, true}},
    {"SLURM_JOB_ID=8 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 "
     "SLURM_NODEID=0 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=n1",
     {"srun", "tcp://localhost:61448", "8.0", 1, 2, 1, 2, 0, 1, false}},
    {"SLURM_JOB_ID=8 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_NODEID=1 "
     "SLURM_JOB_NODELIST=n[1-2] SLURM_STEP_NUM_NODES=2 SLURM_LOCALID=0 "
     "CADRE_INIT=file:///net/meet CADRE_JOB=x",
     {"srun", "file:///net/meet", "x", 1, 2, 0, 0, 1, 2, false}},
    /* torchrun, and where srun has started it */
    {TORCH, {"torchrun", "tcp://head:29501", "r7.2", 1, 4, 1, 2, 0, 2, false}},
    {TORCH SLURM, {"torchrun", "tcp://head:29501", "r7.2", 1, 4, 1, 2, 0, 2, false}},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=65535",
     {"torchrun", "tcp://[::1]:65534", "torchrun.0", 0, 2, -1, 0, -1, 0, false}},
    {"WORLD_SIZE=6 MASTER_ADDR=head " SLURM, /* a script's habit */
     {"srun", "tcp://gpu07-ib:61443", "4097.2", 3, 6, 1, 2, 1, 3, false}},
    {"RANK=3 " SLURM,
     {"srun", "tcp://gpu07-ib:61443", "4097.2", 3, 6, 1, 2, 1, 3, false}},
    {OMPI, {"Open MPI", "", "55", 1, 4, 1, 4, -1, 1, true}},
    /* mpirun's daemons are tasks of srun; so is the shell that it was typed into */
    {OMPI SLURM, {"Open MPI", "", "55", 1, 4, 1, 4, -1, 1, true}},
    {HYDRA SLURM, {"MPICH", "", "", 2, 4, 0, 2, -1, 0, true}},
    {HYDRA, {"MPICH", "", "", 2, 4, 0, 2, -1, 0, true}},
    {"MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_LOCAL_RANK=1 "
     "MV2_COMM_WORLD_LOCAL_SIZE=2 " HYDRA,
     {"MVAPICH2", "", "", 1, 2, 1, 2, -1, 1, true}},
    {"PALS_RANKID=5 PMI_SIZE=8 PMI_RANK=5 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4 "
     "PALS_NODEID=1 PALS_APID=a1",
     {"PALS", "", "a1", 5, 8, 1, 4, 1, 0, true}},
    {"FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=1 "
     "FLUX_JOB_ID=f9 PMI_RANK=1 PMI_SIZE=2",
     {"Flux", "", "f9", 1, 2, 1, 2, -1, 1, true}},
    {"JSM_NAMESPACE_RANK=1 JSM_NAMESPACE_SIZE=12 JSM_NAMESPACE_LOCAL_RANK=1 "
     "JSM_NAMESPACE_LOCAL_SIZE=6 PMIX_RANK=1",
     {"jsrun", "", "", 1, 12, 1, 6, -1, 0, true}},
    {"PMIX_RANK=1 CADRE_WORLD_SIZE=2 PMIX_NAMESPACE=prte-1@1",
     {"PMIx", "", "prte-1@1", 1, 2, -1, 0, -1, 0, true}},
    /* ours before all */
    {"CADRE_INIT=tcp://h:1 CADRE_RANK=1 CADRE_WORLD_SIZE=2 CADRE_LOCAL_RANK=0 " SLURM,
     {"CADRE_INIT", "tcp://h:1", "", 1, 2, 0, 0, -1, 0, false}},
    {"CADRE_INIT=tcp://h:1 CADRE_RANK=1 CADRE_WORLD_SIZE=4 CADRE_LOCAL_RANK=1 " OMPI,
     {"CADRE_INIT", "tcp://h:1", "", 1, 4, 1, 4, -1, 1, true}},
    {"CADRE_INIT=tcp://h:1 CADRE_RANK=1 CADRE_WORLD_SIZE=2 CADRE_LOCAL_RANK=1 "
     "CADRE_LOCAL_WORLD_SIZE=2 CADRE_JOB=j CADRE_NODE_RANK=0",
     {"CADRE_INIT", "tcp://h:1", "j", 1, 2, 1, 2, 0, 1, false}},
    {"CADRE_INIT=tcp://h:1 " OMPI,
     {"Open MPI", "tcp://h:1", "55", 1, 4, 1, 4, -1, 1, true}},
};

START_TEST(launchers_are_known)
{
    const struct cadre_launch_external *want = &good[_i].want;
    struct cadre_launch_external found;
    struct cadre_error err = {0};
    struct cadre_text why = {0};
    ck_assert_msg(find(good[_i].env, &found, &why, &err) == CADRE_OK, "%s", err.text);
    ck_assert_str_eq(found.launcher, want->launcher);
    ck_assert_str_eq(found.where, want->where);
    ck_assert_str_eq(found.job, want->job);
    ck_assert_int_eq(found.rank, want->rank);
    ck_assert_int_eq(found.size, want->size);
    ck_assert_int_eq(found.local_rank, want->local_rank);
    ck_assert_int_eq(found.local_size, want->local_size);
    ck_assert_int_eq(found.node, want->node);
    ck_assert_int_eq(found.nodes, want->nodes);
    ck_assert_int_eq(found.mpi, want->mpi);
    ck_assert_msg(
        strncmp(cadre_text_str(&why), want->launcher, strlen(want->launcher)) == 0,
        "%s", cadre_text_str(&why));
    cadre_text_fini(&why);
}
END_TEST

/* Environments of a process that no launcher started as one of several, and part of
 * `why`. */
static const char *const nobody[][2] = {
    {"", ""},
    {"CADRE_INIT=fd:3 CADRE_RANK=0 " SLURM, ""},
    {"SLURM_JOB_ID=8 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NODEID=0",
     "no: SLURM_PROCID is set, but SLURM_STEP_ID is not"},
    {"SLURM_JOB_ID=8 SLURM_STEP_ID=4294967291 SLURM_PROCID=0 SLURM_NTASKS=4",
     "no: SLURM_STEP_ID = 4294967291 is no step"},
    {"SLURM_JOB_ID=8 SLURM_STEP_ID=extern SLURM_PROCID=0 SLURM_NTASKS=4",
     "no: SLURM_STEP_ID = extern is no step"},
    {"SLURM_JOB_ID=8 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1",
     "no: srun started only this process"},
    {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "no: Open MPI started only this"},
    {"WORLD_SIZE=4 MASTER_ADDR=head MASTER_PORT=1", ""},
    {"SLURM_STEP_ID=0 SLURM_NTASKS=4", ""},
};

START_TEST(no_launcher_is_found)
{
    struct cadre_launch_external found;
    struct cadre_error err = {0};
    struct cadre_text why = {0};
    ck_assert_msg(find(nobody[_i][0], &found, &why, &err) == CADRE_OK, "%s", err.text);
    ck_assert(!found.launcher && found.size == 0 && found.rank == 0);
    ck_assert_msg(strstr(cadre_text_str(&why), nobody[_i][1]), "%s",
                  cadre_text_str(&why));
    cadre_text_fini(&why);
}
END_TEST

/* Environments that are incomplete or contradictory, and the error. */
static const char *const bad[][2] = {
    {"SLURM_STEP_ID=0 SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS is not set"},
    {"SLURM_STEP_ID=0 SLURM_PROCID=4 SLURM_NTASKS=4", "SLURM_PROCID is \"4\""},
    {"SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_NODES=1",
     "SLURM_JOB_ID is not set"},
    {"SLURM_JOB_ID=1x SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=4",
     "SLURM_JOB_ID is \"1x\""},
    {"SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=4",
     "SLURM_STEP_NODELIST is not set"},
    {"SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=4 "
     "SLURM_STEP_NODELIST=n[3-1]",
     "SLURM_STEP_NODELIST is \"n[3-1]\""},
    {"SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=1 "
     "SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_STEP_NODELIST=n[1-2]",
     "SLURM_STEP_TASKS_PER_NODE = 1, SLURM_LOCALID = 1"},
    {"RANK=1", "WORLD_SIZE is not set"},
    {"RANK=1 WORLD_SIZE=2", "MASTER_ADDR is not set"},
    {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=0", "MASTER_PORT is \"0\""},
    {"RANK=2 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1", "RANK is \"2\""},
    {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=1 MASTER_ADDR=h MASTER_PORT=1",
     "LOCAL_RANK = 1, LOCAL_WORLD_SIZE = 1"},
    {"TORCHELASTIC_RUN_ID=x WORLD_SIZE=2", "TORCHELASTIC_RUN_ID is set"},
    {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE is not set"},
    {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_SIZE is set as by Open MPI"},
    {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2000", "is \"2000\""},
    {"OMPI_COMM_WORLD_RANK=-1 OMPI_COMM_WORLD_SIZE=2", "is \"-1\""},
    {"PMI_RANK=1", "PMI_SIZE is not set"},
    {"PMI_SIZE=2 MPI_LOCALRANKID=1", "PMI_RANK is not"},
    {"MV2_COMM_WORLD_LOCAL_RANK=1", "MV2_COMM_WORLD_RANK is not"},
    {"PMIX_RANK=1 PMIX_NAMESPACE=x", "set CADRE_WORLD_SIZE, or unset PMIX_RANK"},
    {"CADRE_RANK=1", "CADRE_RANK is set, but CADRE_INIT is not"},
    {"CADRE_RANK=1 " OMPI, "CADRE_RANK is set, but CADRE_INIT is not"},
    {"CADRE_INIT=tcp://h:1", "CADRE_WORLD_SIZE is not set"},
    {"CADRE_INIT=h:1 " OMPI, "CADRE_INIT is \"h:1\""},
    {"CADRE_INIT=tcp://h:1 CADRE_WORLD_SIZE=4 " OMPI, "CADRE_RANK is not set"},
    {"CADRE_INIT=tcp://h:1 CADRE_WORLD_SIZE=4 CADRE_RANK=2 CADRE_LOCAL_RANK=2 "
     "CADRE_LOCAL_WORLD_SIZE=2",
     "CADRE_LOCAL_WORLD_SIZE is \"2\""},
};

START_TEST(incomplete_variables_are_refused)
{
    struct cadre_launch_external found;
    struct cadre_error err = {0};
    ck_assert_int_eq(find(bad[_i][0], &found, NULL, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, bad[_i][1]), "'%s' lacks '%s'", err.text,
                  bad[_i][1]);
    ck_assert(!strchr(err.text, '\n'));
    ck_assert_ptr_null(found.launcher);
}
END_TEST

START_TEST(others_that_were_seen_are_named)
{
    struct cadre_launch_external found;
    struct cadre_error err = {0};
    struct cadre_text why = {0};
    ck_assert_int_eq(find(TORCH SLURM "PMI_RANK=3", &found, &why, &err), CADRE_OK);
    ck_assert_str_eq(
        cadre_text_str(&why),
        "torchrun: rank 1 of 4, 1 of 2 on its machine, 2 machines, by RANK and "
        "WORLD_SIZE\n"
        "no: SLURM_PROCID is set as by srun, but torchrun has priority\n"
        "no: PMI_RANK is set as by MPICH, but torchrun has priority\n");
    cadre_text_reset(&why);
    ck_assert_int_eq(find(OMPI SLURM, &found, &why, &err), CADRE_OK);
    ck_assert_msg(strstr(cadre_text_str(&why), "but Open MPI says otherwise"), "%s",
                  cadre_text_str(&why));
    cadre_text_fini(&why);
    ck_assert_str_eq(cadre_launcher_variable("srun"), "SLURM_PROCID");
    ck_assert_str_eq(cadre_launcher_variable("CADRE_INIT"), "CADRE_RANK");
    ck_assert_ptr_null(cadre_launcher_variable("ssh"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/launcher");
    TCase *t = tcase_create("launcher");
    tcase_add_loop_test(t, launchers_are_known, 0, (int)(sizeof good / sizeof good[0]));
    tcase_add_loop_test(t, no_launcher_is_found, 0,
                        (int)(sizeof nobody / sizeof nobody[0]));
    tcase_add_loop_test(t, incomplete_variables_are_refused, 0,
                        (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(t, others_that_were_seen_are_named);
    suite_add_tcase(s, t);
    return s;
}
