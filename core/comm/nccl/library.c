/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of NCCL itself: its version, ids, and what its errors mean. */
#include <stdio.h>
#include <string.h>

#include "core/comm/nccl/private.h"

#define MULTI_RANK 23003 /* the first version in which ranks may share a GPU */

/* Since 2.9, versions are major * 10000 + minor * 100 + patch. */
static void put_version(struct cadre_text *out, int v)
{
    cadre_text_printf(out, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
}

cadre_status cadre_nccl_version(struct cadre_text *out, struct cadre_error *err)
{
    int v = 0;
    ncclResult_t result = ncclGetVersion(&v);
    if (result != ncclSuccess)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "NCCL does not report its version: %s",
                          ncclGetErrorString(result));
    put_version(out, v);
    return CADRE_OK;
}

cadre_status cadre_nccl_check_library(struct cadre_error *err)
{
    struct cadre_text found = {0}, built = {0};
    int v = 0;
    cadre_status rc = CADRE_OK;
    ncclGetVersion(&v);
    if (v / 100 < NCCL_VERSION_CODE / 100 || v / 10000 != NCCL_MAJOR) {
        put_version(&found, v);
        put_version(&built, NCCL_VERSION_CODE);
        rc = cadre_fail(err, CADRE_E_UNSUPPORTED,
                        "comm.backend = nccl: the library that is loaded is %s, this "
                        "build is for %s or newer: install that, or look at "
                        "LD_LIBRARY_PATH",
                        cadre_text_str(&found), cadre_text_str(&built));
        cadre_text_fini(&found);
        cadre_text_fini(&built);
    }
    return rc;
}

cadre_status cadre_nccl_make_id(unsigned char id[CADRE_COMM_ID_BYTES],
                                struct cadre_error *err)
{
    ncclUniqueId made;
    char text[512];
    CADRE_TRY(cadre_nccl_check_library(err));
    _Static_assert(sizeof made <= CADRE_COMM_ID_BYTES, "ids are longer");
    ncclResult_t result = ncclGetUniqueId(&made);
    if (result != ncclSuccess) {
        cadre_nccl_text(result, NULL, text, sizeof text);
        return cadre_fail(err, CADRE_E_COMM,
                          "comm.backend = nccl: rank 0 gets no id: %s; %s", text,
                          cadre_nccl_advice(text));
    }
    memset(id, 0, CADRE_COMM_ID_BYTES);
    memcpy(id, &made, sizeof made);
    return CADRE_OK;
}

void cadre_nccl_describe(struct cadre_text *out)
{
    struct cadre_error err = {0};
    int v = 0, runtime = 0;
    if (cadre_nccl_check_library(&err) != CADRE_OK) {
        cadre_text_printf(out, "no: %s\n", err.text);
        return;
    }
    ncclGetVersion(&v);
    cudaRuntimeGetVersion(&runtime);
    put_version(out, v);
    cadre_text_printf(out, ", built with %d.%d.%d; CUDA runtime %d.%d\n", NCCL_MAJOR,
                      NCCL_MINOR, NCCL_PATCH, runtime / 1000, runtime / 10 % 100);
}

void cadre_nccl_text(ncclResult_t result, ncclComm_t comm, char *text, size_t size)
{
    const char *last = ncclGetLastError(comm);
    int n = snprintf(text, size, "%s", ncclGetErrorString(result));
    if (last && *last && n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, " (%s)", last);
    for (char *at = text; *at; at++)
        if (*at == '\n' || *at == '\r')
            *at = ' ';
}

const char *cadre_nccl_advice(const char *text)
{
    int v = 0;
    ncclGetVersion(&v);
    if (!strstr(text, "Duplicate GPU"))
        return "the logs of the other ranks, or NCCL_DEBUG=WARN, say more";
    if (v >= MULTI_RANK)
        return "start one rank per GPU, run the ranks as threads with comm.backend = "
               "local, or let NCCL share GPUs with NCCL_MULTI_RANK_GPU_ENABLE=1";
    return "two ranks have one GPU: start one rank per GPU, or run the ranks as "
           "threads with comm.backend = local";
}

ncclDataType_t cadre_nccl_type(uint32_t dtype)
{
    switch (dtype) {
    case CADRE_F32:
        return ncclFloat32;
    case CADRE_F64:
        return ncclFloat64;
    case CADRE_BF16:
        return ncclBfloat16;
    case CADRE_F16:
        return ncclFloat16;
    case CADRE_I32:
        return ncclInt32;
    case CADRE_U8:
        return ncclUint8;
    case CADRE_I8:
        return ncclInt8;
    default:
        return ncclNumTypes;
    }
}
