/* SPDX-License-Identifier: Apache-2.0 */
/* The GEMM of the table: cublasLt with the epilogue where it has that for the shape,
 * else without and a kernel after it. */
#include "core/base/memory.h"
#include "core/device/cuda/gemm.h"
#include "core/device/cuda/kernels.h"
#include "core/tensor/dtype.h"

#include <stdlib.h>
#include <string.h>

static int32_t alignment(const void *ptr)
{
    const uintptr_t bits = (uintptr_t)ptr | 64;
    return (int32_t)(bits & -bits);
}

/* Every byte is set: problems are compared as bytes. */
static struct cadre_cuda_problem problem_of(const struct cadre_gemm *g, int epilogue)
{
    struct cadre_cuda_problem p;
    memset(&p, 0, sizeof p);
    p.m = g->m;
    p.n = g->n;
    p.k = g->k;
    p.lda = g->lda;
    p.ldb = g->ldb;
    p.ldc = g->ldc;
    p.dtype = g->dtype;
    p.wide = g->wide;
    p.ta = g->ta;
    p.tb = g->tb;
    p.beta = g->beta;
    p.epilogue = epilogue;
    p.align[0] = alignment(g->a);
    p.align[1] = alignment(g->b);
    p.align[2] = alignment(g->c);
    p.align[3] = epilogue == CADRE_EPILOGUE_BIAS_GELU ? alignment(g->aux) : 0;
    return p;
}

/* What cublasLt.h asks of the epilogue's operands. */
static bool epilogue_fits(const struct cadre_gemm *g)
{
    if (g->epilogue == CADRE_EPILOGUE_NONE)
        return true;
    if (!g->bias || alignment(g->bias) < 16)
        return false;
    return g->epilogue == CADRE_EPILOGUE_BIAS ||
           (g->aux && g->ldc % 8 == 0 && alignment(g->aux) >= 16);
}

/* c = 0 or as it was, where K is 0. */
static cadre_status clear(struct cadre_device *device, const struct cadre_gemm *g)
{
    const size_t bytes =
        cadre_dtype_bytes(g->wide ? cadre_dtype_wide(g->dtype) : g->dtype);
    cadre_status rc = CADRE_OK;
    for (int64_t i = 0; i < g->m && rc == CADRE_OK && !g->beta; i++)
        rc = cadre_cuda_op_zero(device, (char *)g->c + (size_t)(i * g->ldc) * bytes,
                                (size_t)g->n * bytes);
    return rc;
}

cadre_status cadre_cuda_op_gemm(struct cadre_device *device, const struct cadre_gemm *g)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    const struct cadre_cuda_plan *plan = NULL;
    cadre_status rc = cadre_cuda_use(cuda);
    if (rc != CADRE_OK || g->m <= 0 || g->n <= 0)
        return rc;
    if (g->k <= 0) {
        rc = clear(device, g);
    } else {
        struct cadre_cuda_problem problem = problem_of(g, (int)g->epilogue);
        if (epilogue_fits(g) && !(plan = cadre_cuda_plan_of(cuda, g, &problem)))
            return CADRE_E_RESOURCE;
        if (!plan || !plan->usable) {
            problem = problem_of(g, CADRE_EPILOGUE_NONE);
            if (!(plan = cadre_cuda_plan_of(cuda, g, &problem)))
                return CADRE_E_RESOURCE;
        }
        if (!plan->usable) {
            cadre_log(CADRE_LOG_ERROR, "device",
                      "cuda: cublasLt has no algorithm for a %s GEMM of m %lld, n "
                      "%lld, k %lld, lda %lld, ldb %lld, ldc %lld",
                      cadre_dtype_name(g->dtype), (long long)g->m, (long long)g->n,
                      (long long)g->k, (long long)g->lda, (long long)g->ldb,
                      (long long)g->ldc);
            return CADRE_E_DEVICE;
        }
        rc = cadre_cuda_lt_check(cadre_cuda_plan_run(cuda, plan, g, g->c, &plan->algo),
                                 "cublasLtMatmul");
    }
    if (rc != CADRE_OK || g->epilogue == CADRE_EPILOGUE_NONE ||
        (plan && plan->problem.epilogue == (int)g->epilogue))
        return rc;
    return cadre_cuda_epilogue(g, cadre_cuda_current(cuda));
}

/* ---- opening ------------------------------------------------------------------- */

cadre_status cadre_cuda_gemms_open(struct cadre_cuda *cuda, const char *name,
                                   struct cadre_error *err)
{
    struct cadre_cuda_gemms *gemms = cadre_calloc(1, sizeof *gemms);
    if (!gemms)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the CUDA device");
    cublasStatus_t code = cublasLtCreate(&gemms->lt);
    if (code != CUBLAS_STATUS_SUCCESS) {
        free(gemms);
        return cadre_fail(err, CADRE_E_DEVICE,
                          "device.kind = cuda: cublasLtCreate: status %d (%s)",
                          (int)code, cublasLtGetStatusString(code));
    }
    cuda->gemms = gemms;
    gemms->timing = !cuda->exact;
    if (gemms->timing) {
        gemms->path = cadre_cuda_choices_path(name);
        cadre_cuda_choices_load(gemms);
    }
    return CADRE_OK;
}

void cadre_cuda_gemms_close(struct cadre_cuda *cuda)
{
    struct cadre_cuda_gemms *gemms = cuda->gemms;
    if (!gemms)
        return;
    cadre_cuda_choices_save(gemms);
    cadre_cuda_plans_drop(gemms);
    cublasLtDestroy(gemms->lt);
    for (size_t i = 0; i < CADRE_CUDA_STREAMS; i++)
        cudaFree(gemms->workspace[i]);
    free(gemms->choices.list);
    free(gemms->path);
    free(gemms);
    cuda->gemms = NULL;
}

/* ---- between ranks ------------------------------------------------------------- */

cadre_status cadre_cuda_op_tuning_export(struct cadre_device *device,
                                         struct cadre_text *out)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    if (cuda->gemms && cuda->gemms->choices.n > 0)
        cadre_cuda_choices_write(&cuda->gemms->choices, out);
    return out->failed ? CADRE_E_RESOURCE : CADRE_OK;
}

/* Plans that were made before are made again, by the new choices. */
cadre_status cadre_cuda_op_tuning_import(struct cadre_device *device, const char *text)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    struct cadre_cuda_choices taken = {0};
    if (!cuda->gemms)
        return CADRE_E_INVALID;
    if (*text && !cadre_cuda_choices_read(&taken, text)) {
        cadre_log(CADRE_LOG_ERROR, "device",
                  "cuda: another rank's choice of algorithms is damaged");
        return CADRE_E_INVALID;
    }
    cadre_cuda_choices_save(cuda->gemms);
    cadre_cuda_plans_drop(cuda->gemms);
    free(cuda->gemms->choices.list);
    cuda->gemms->choices = taken;
    cuda->gemms->timing = false;
    cuda->gemms->dirty = false;
    return CADRE_OK;
}
