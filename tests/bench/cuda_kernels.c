/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel, copy and memset that a program gives the GPU, as lines "start_ns end_ns
 * stream name", in any order: of any program, linked against nothing of Cadre's.
 *
 *   CUDA_INJECTION64_PATH=$PWD/cuda_kernels.so CADRE_KERNELS=FILE PROGRAM...
 *
 * Built by tests/bench/profile.sh, which reads the lines; needs CUPTI's headers, and
 * libcupti where it runs. A program that is killed leaves what was flushed. */
#include <cupti.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFER_BYTES = 8 << 20 };

static FILE *out;

static void CUPTIAPI give(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    *bytes = *buffer ? BUFFER_BYTES : 0;
    *most_records = 0;
}

static void print(const CUpti_Activity *record)
{
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel10 *k = (const CUpti_ActivityKernel10 *)record;
        fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu32 " %s\n", k->start, k->end,
                k->streamId, k->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy6 *c = (const CUpti_ActivityMemcpy6 *)record;
        fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu32 " copy-%d\n", c->start, c->end,
                c->streamId, c->copyKind);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *m = (const CUpti_ActivityMemset4 *)record;
        fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu32 " memset\n", m->start, m->end,
                m->streamId);
    }
}

static void CUPTIAPI take(CUcontext context, uint32_t stream, uint8_t *buffer,
                          size_t bytes, size_t valid)
{
    CUpti_Activity *record = NULL;
    (void)context;
    (void)stream;
    (void)bytes;
    while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        print(record);
    fflush(out);
    free(buffer);
}

static void finish(void)
{
    cuptiActivityFlushAll(1);
    fflush(out);
}

/* The driver calls this before the program's first own call ends. */
int InitializeInjection(void);
int InitializeInjection(void)
{
    const char *path = getenv("CADRE_KERNELS");
    out = fopen(path ? path : "kernels.txt", "w");
    if (!out)
        return 1;
    if (cuptiActivityRegisterCallbacks(give, take) ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY) ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET) ||
        cuptiActivityFlushPeriod(500))
        fprintf(stderr, "cuda_kernels: CUPTI refuses\n");
    atexit(finish);
    return 1;
}
