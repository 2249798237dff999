/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a world over MPI: mpirun comm_rank_mpi TIMEOUT_S MODE CASE[=ARG]... runs
 * the cases one after the other, MODE is "exact" or "loose". A single case has the
 * world itself; of several each has its own group. Prints "rank N: CASE: STATUS TEXT",
 * where a case has failed and on success of rank 0, and exits 0 where all cases
 * passed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm/module.h"
#include "core/tensor/dtype.h"
#include "tests/comm/comm_cases.h"

/* What main passes to comm_with_world, whose signature is that of a launcher. */
static struct {
    struct cadre_comm *comm;
    bool shared;
} opened;

struct cadre_device *comm_device(void)
{
    return NULL;
}

cadre_status comm_with_world(comm_body run, void *arg, int rank,
                             struct cadre_local_segment *segment)
{
    struct world w = {.comm = opened.comm, .rank = rank, .size = opened.comm->size};
    struct cadre_error err = {.code = CADRE_OK};
    cadre_status rc = CADRE_OK;
    if (opened.shared)
        rc = cadre_comm_split(opened.comm, 0, 0, &w.comm, &err);
    if (rc == CADRE_OK)
        rc = cadre_comm_use_device(w.comm, NULL, &err);
    if (rc != CADRE_OK) {
        fprintf(stderr, "rank %d: split: %d %s\n", rank, rc, err.text);
        return rc;
    }
    rc = run(&w, arg);
    if (opened.shared && w.comm)
        cadre_comm_destroy(w.comm);
    else if (!opened.shared)
        opened.comm = w.comm;
    return rc;
}

/* ---- reductions of small whole numbers, where any order gives the same ---- */

#define SUMMED 1000

/* Element i of rank r's input. */
static double given(int r, uint64_t i)
{
    return (double)((i * 7 + (uint64_t)r * 3) % 11);
}

static double sum_or_max(const struct world *w, uint64_t i, uint32_t red)
{
    double v = 0;
    for (int r = 0; r < w->size; r++)
        v = red == CADRE_SUM ? v + given(r, i) : v > given(r, i) ? v : given(r, i);
    return v;
}

/* Elements [from, from + n) of the reduction, in `got` from its start. */
static cadre_status is_reduced(struct world *w, const char *got, uint64_t from,
                               uint64_t n, uint32_t dtype, uint32_t red)
{
    size_t e = cadre_dtype_bytes(dtype);
    for (uint64_t i = 0; i < n; i++) {
        double expected = 0;
        comm_store(&expected, 0, dtype, sum_or_max(w, from + i, red));
        CHECK(w, memcmp(got + i * e, &expected, e) == 0);
    }
    return CADRE_OK;
}

static cadre_status try_sum(struct world *w, uint64_t count, uint32_t dtype,
                            uint32_t red, bool in_place)
{
    size_t e = cadre_dtype_bytes(dtype);
    double in[SUMMED], out[SUMMED];
    uint64_t offsets[MAX_RANKS + 1] = {0};
    cadre_event done;
    for (int m = 1; m <= w->size;
         m++) /* the first slice is empty, the last the largest */
        offsets[m] = m == w->size ? count : (uint64_t)(m - 1) * (count / 8);
    uint64_t at = offsets[w->rank], mine = offsets[w->rank + 1] - at;
    for (uint64_t i = 0; i < count; i++)
        comm_store(in, i, dtype, given(w->rank, i));
    CHECK(w, cadre_comm_all_reduce(w->comm, "sum", in, out, count, dtype, red, 0,
                                   &done) == CADRE_OK &&
                 cadre_comm_wait(w->comm, done) == CADRE_OK);
    CADRE_TRY(is_reduced(w, (char *)out, 0, count, dtype, red));
    char *part = in_place ? (char *)in + at * e : (char *)out;
    CHECK(w, cadre_comm_reduce_scatter(w->comm, "sum", in, part, offsets, dtype, red, 0,
                                       &done) == CADRE_OK &&
                 cadre_comm_wait(w->comm, done) == CADRE_OK);
    CADRE_TRY(is_reduced(w, part, at, mine, dtype, red));
    for (uint64_t i = 0; i < count; i++)
        comm_store(in, i, dtype, given(w->rank, i));
    CHECK(w, cadre_comm_all_reduce(w->comm, "sum", in, in, count, dtype, red, 0,
                                   &done) == CADRE_OK &&
                 cadre_comm_wait(w->comm, done) == CADRE_OK);
    return is_reduced(w, (char *)in, 0, count, dtype, red);
}

static cadre_status run_sums(struct world *w, const char *arg)
{
    static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16,
                                      CADRE_F16, CADRE_I32, CADRE_U8};
    static const uint64_t counts[] = {0, 1, 9, SUMMED};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++)
            for (int in_place = 0; in_place < 2; in_place++) {
                if (dtypes[d] != CADRE_U8)
                    CADRE_TRY(
                        try_sum(w, counts[n], dtypes[d], CADRE_SUM, in_place != 0));
                CADRE_TRY(try_sum(w, counts[n], dtypes[d], CADRE_MAX, in_place != 0));
            }
    return CADRE_OK;
}

static cadre_status case_sums(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_sums, arg, rank, segment);
}

static cadre_rank_main find_case(const char *name)
{
    return strcmp(name, "sums") == 0 ? case_sums : comm_case(name);
}

static int number(const char *first, const char *second)
{
    const char *text = getenv(first);
    text = text ? text : getenv(second);
    return text ? atoi(text) : -1;
}

static cadre_status run_case(char *text, int rank)
{
    struct cadre_error err = {.code = CADRE_OK};
    char *arg = strchr(text, '=');
    if (arg)
        *arg++ = '\0';
    cadre_rank_main run = find_case(text);
    cadre_status rc = run ? run(arg ? arg : "", rank, NULL) : CADRE_E_INVALID;
    if (opened.comm)
        cadre_comm_failure(opened.comm, &err);
    if (rank == 0 || rc != CADRE_OK)
        fprintf(stderr, "rank %d: %s: %d %s\n", rank, text, rc, err.text);
    return rc;
}

int main(int argc, char **argv)
{
    const struct cadre_comm_module *module;
    unsigned char id[CADRE_COMM_ID_BYTES];
    struct cadre_error err = {.code = CADRE_OK};
    struct cadre_comm_world world = {.rank = number("OMPI_COMM_WORLD_RANK", "PMI_RANK"),
                                     .size =
                                         number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")};
    if (argc < 4)
        return 2;
    world.timeout_s = atof(argv[1]);
    world.exact = strcmp(argv[2], "exact") == 0;
    cadre_status rc = cadre_comm_module_mpi(&module, &err);
    if (rc == CADRE_OK)
        rc = module->make_id(id, &err);
    if (rc == CADRE_OK)
        rc = module->open(&world, id, &opened.comm, &err);
    if (rc != CADRE_OK) {
        fprintf(stderr, "rank %d: open: %d %s\n", world.rank, rc, err.text);
        return 1;
    }
    opened.shared = argc > 4;
    for (int i = 3; i < argc && rc == CADRE_OK; i++)
        rc = run_case(argv[i], world.rank);
    if (opened.comm)
        cadre_comm_destroy(opened.comm);
    return rc == CADRE_OK ? 0 : 1;
}
