/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of MPI itself: its version, its start, its types. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm/mpi/private.h"
#include "core/comm/reduce.h"

/* The first line of the library's version text, up to the first comma: "Open MPI
 * v4.1.4". */
static void library_name(char *name, size_t size)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\n\r")] = '\0';
    for (char *at = text; *at; at++)
        if (*at == '\t')
            *at = ' ';
    snprintf(name, size, "%.*s", (int)size - 1, text);
}

cadre_status cadre_mpi_version(struct cadre_text *out, struct cadre_error *err)
{
    char name[128];
    library_name(name, sizeof name);
    cadre_text_printf(out, "%s", name);
    return out->failed ? cadre_no_memory(err, "a name") : CADRE_OK;
}

cadre_status cadre_mpi_make_id(unsigned char id[CADRE_COMM_ID_BYTES],
                               struct cadre_error *err)
{
    memset(id, 0, CADRE_COMM_ID_BYTES);
    return CADRE_OK;
}

void cadre_mpi_describe(struct cadre_text *out)
{
    char name[128];
    int major = 0, minor = 0;
    library_name(name, sizeof name);
    MPI_Get_version(&major, &minor);
    cadre_text_printf(out, "%s (MPI %d.%d)\n", name, major, minor);
}

MPI_Datatype cadre_mpi_type(uint32_t dtype)
{
    switch (dtype) {
    case CADRE_F32:
        return MPI_FLOAT;
    case CADRE_F64:
        return MPI_DOUBLE;
    case CADRE_BF16:
    case CADRE_F16:
        return MPI_UINT16_T;
    case CADRE_I32:
        return MPI_INT32_T;
    case CADRE_U8:
        return MPI_UINT8_T;
    case CADRE_I8:
        return MPI_INT8_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

MPI_Op cadre_mpi_reduction(const struct mpi_world *w, uint32_t dtype, uint32_t red)
{
    bool sum = red == CADRE_SUM;
    if (dtype == CADRE_BF16)
        return sum ? w->sum_bf16 : w->max_bf16;
    if (dtype == CADRE_F16)
        return sum ? w->sum_f16 : w->max_f16;
    return sum ? MPI_SUM : MPI_MAX;
}

#define DEFINE_OP(name, add)                                                           \
    static void name(void *in, void *inout, int *count, MPI_Datatype *type)            \
    {                                                                                  \
        (void)type;                                                                    \
        add(inout, inout, in, (uint64_t)*count);                                       \
    }
DEFINE_OP(sum_bf16, cadre_reduce_sum_bf16)
DEFINE_OP(max_bf16, cadre_reduce_max_bf16)
DEFINE_OP(sum_f16, cadre_reduce_sum_f16)
DEFINE_OP(max_f16, cadre_reduce_max_f16)

static int make_ops(struct mpi_world *w)
{
    int result = MPI_Op_create(sum_bf16, 1, &w->sum_bf16);
    if (result == MPI_SUCCESS)
        result = MPI_Op_create(max_bf16, 1, &w->max_bf16);
    if (result == MPI_SUCCESS)
        result = MPI_Op_create(sum_f16, 1, &w->sum_f16);
    if (result == MPI_SUCCESS)
        result = MPI_Op_create(max_f16, 1, &w->max_f16);
    return result;
}

/* Open MPI's own modules look for its symbols among those of the program, and this file
 * was opened with symbols of its own. */
static void show_symbols(void)
{
    Dl_info found;
    void *at = NULL;
    int (*call)(const void *, int, MPI_Datatype, int, int, MPI_Comm) = MPI_Send;
    memcpy(&at, &call, sizeof at);
    if (dladdr(at, &found) != 0)
        dlopen(found.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD | RTLD_NODELETE);
}

static int gather_hosts(struct mpi_world *w)
{
    char name[MPI_MAX_PROCESSOR_NAME + 1] = "", mine[HOST_BYTES] = "";
    int n = 0;
    int result = MPI_Get_processor_name(name, &n);
    snprintf(mine, sizeof mine, "%.*s", HOST_BYTES - 1, name);
    if (result == MPI_SUCCESS)
        result = MPI_Allgather(mine, HOST_BYTES, MPI_CHAR, w->hosts, HOST_BYTES,
                               MPI_CHAR, w->comm);
    return result;
}

/* The communicator of all ranks, which returns errors instead of aborting. */
static int take_world(struct mpi_world *w, int *rank, int *size)
{
    int result = MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
    if (result == MPI_SUCCESS)
        result = MPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN);
    if (result == MPI_SUCCESS)
        result = MPI_Comm_dup(w->comm, &w->control.comm);
    if (result == MPI_SUCCESS)
        result = MPI_Comm_rank(w->comm, rank);
    return result == MPI_SUCCESS ? MPI_Comm_size(w->comm, size) : result;
}

static cadre_status failed(const struct mpi_world *w, int result, const char *what,
                           struct cadre_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(result, text, &n);
    return cadre_fail(err, CADRE_E_COMM, "comm.backend = mpi: rank %d: %s: %s",
                      w->context.rank, what, text);
}

static cadre_status init(const struct mpi_world *w, struct cadre_error *err)
{
    int level = MPI_THREAD_SINGLE, begun = 0, over = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&over);
    if (begun || over)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "rank %d: MPI was started in this process before; it has one "
                          "world a process",
                          w->context.rank);
    show_symbols();
    int result = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (result != MPI_SUCCESS)
        return failed(w, result, "MPI_Init_thread", err);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (level < MPI_THREAD_FUNNELED)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "comm.backend = mpi: this MPI cannot be called from a thread "
                          "(MPI_THREAD_FUNNELED); use one that was built with threads");
    return CADRE_OK;
}

cadre_status cadre_mpi_start(struct mpi_world *w, struct cadre_error *err)
{
    char name[128];
    int rank = 0, size = 0;
    CADRE_TRY(init(w, err));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank != w->context.rank || size != w->context.size) {
        library_name(name, sizeof name);
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.backend = mpi: the launcher says that this is rank %d "
                          "of %d, MPI says rank %d of %d: Cadre was built with %s, and "
                          "the launcher is of another MPI; start the ranks with its "
                          "own mpirun",
                          w->context.rank, w->context.size, rank, size, name);
    }
    int result = take_world(w, &rank, &size);
    if (result == MPI_SUCCESS)
        result = gather_hosts(w);
    if (result == MPI_SUCCESS)
        result = make_ops(w);
    return result == MPI_SUCCESS ? CADRE_OK
                                 : failed(w, result, "the ranks cannot meet", err);
}
