/* SPDX-License-Identifier: Apache-2.0 */
/* The GEMM of the table: cublasLt with the epilogue where it has that for the shape and
 * where it pays (gemm.h), else without and a kernel after it. */
#include "core/base/memory.h"
#include "core/device/cuda/gemm.h"
#include "core/device/cuda/kernels.h"
#include "core/tensor/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_sum(const struct cadre_gemm *g)
{
    return g->epilogue == CADRE_EPILOGUE_SUM_A || g->epilogue == CADRE_EPILOGUE_SUM_B;
}

static int64_t sums_of(const struct cadre_gemm *g)
{
    return g->epilogue == CADRE_EPILOGUE_SUM_A ? g->m : g->n;
}

static bool is_gelu(const struct cadre_gemm *g)
{
    return g->epilogue == CADRE_EPILOGUE_BIAS_GELU ||
           g->epilogue == CADRE_EPILOGUE_GELU_BWD;
}

/* Requirements of cublasLt.h on the epilogue's operands, and of the device: an exact
 * device sums in the order of bias_bwd, which cublasLt does not. */
static bool epilogue_fits(const struct cadre_cuda *cuda, const struct cadre_gemm *g)
{
    if (cuda->no_fused_epilogue || g->epilogue == CADRE_EPILOGUE_NONE)
        return false;
    if (is_sum(g))
        return !cuda->exact;
    return g->bias && cadre_cuda_alignment(g->bias) >= 16;
}

/* c = 0 or unchanged, where K is 0. */
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

static cadre_status product(struct cadre_cuda *cuda, const struct cadre_gemm *g)
{
    if (g->k <= 0)
        return clear(&cuda->base, g);
    const struct cadre_cuda_plan *plan =
        cadre_cuda_plan_of(cuda, g, CADRE_EPILOGUE_NONE);
    if (!plan)
        return CADRE_E_RESOURCE;
    if (!plan->usable) {
        cadre_log(CADRE_LOG_ERROR, "device",
                  "cuda: cublasLt has no algorithm for a %s GEMM of m %lld, n %lld, k "
                  "%lld, lda %lld, ldb %lld, ldc %lld",
                  cadre_dtype_name(g->dtype), (long long)g->m, (long long)g->n,
                  (long long)g->k, (long long)g->lda, (long long)g->ldb,
                  (long long)g->ldc);
        return CADRE_E_DEVICE;
    }
    return cadre_cuda_lt_check(cadre_cuda_plan_run(cuda, plan, g, g->c, &plan->algo),
                               "cublasLtMatmul");
}

cadre_status cadre_cuda_gemm_after(struct cadre_cuda *cuda, const struct cadre_gemm *g)
{
    const void *of = g->epilogue == CADRE_EPILOGUE_SUM_A ? g->a : g->b;
    if (g->epilogue == CADRE_EPILOGUE_NONE)
        return CADRE_OK;
    if (is_sum(g))
        return cuda->base.ops->bias_bwd(&cuda->base, g->dtype, of, g->k, sums_of(g),
                                        g->sums, g->beta);
    return cadre_cuda_bias(g, cadre_cuda_current(cuda));
}

static cadre_status separate(struct cadre_cuda *cuda, const struct cadre_gemm *g)
{
    cadre_status rc = product(cuda, g);
    return rc == CADRE_OK ? cadre_cuda_gemm_after(cuda, g) : rc;
}

/* cublasLt overwrites sums and wants them aligned: where they are accumulated or not so
 * aligned, they are computed in separate memory. A plan from the heuristics that the
 * call refuses is not tried again. */
static cadre_status fused(struct cadre_cuda *cuda, struct cadre_cuda_plan *plan,
                          const struct cadre_gemm *g)
{
    const uint32_t wide = cadre_dtype_wide(g->dtype);
    const size_t bytes = (size_t)sums_of(g) * cadre_dtype_bytes(wide);
    const bool aside = is_sum(g) && (g->beta || cadre_cuda_alignment(g->sums) < 16);
    struct cadre_gemm h = *g;
    if (aside && !(h.sums = cadre_cuda_scratch(cuda, bytes)))
        return CADRE_E_RESOURCE;
    cublasStatus_t code = cadre_cuda_plan_run(cuda, plan, &h, g->c, &plan->algo);
    if (code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_INVALID_VALUE) {
        plan->usable = false;
        return separate(cuda, g);
    }
    cadre_status rc = cadre_cuda_lt_check(code, "cublasLtMatmul");
    if (rc != CADRE_OK || !aside)
        return rc;
    if (!g->beta)
        return cadre_cuda_op_copy(&cuda->base, g->sums, h.sums, bytes);
    return cadre_cuda_tree_add(wide, g->sums, g->sums, h.sums, sums_of(g),
                               cadre_cuda_current(cuda));
}

static cadre_status run(struct cadre_cuda *cuda, const struct cadre_gemm *g)
{
    if (g->k <= 0 || !epilogue_fits(cuda, g))
        return separate(cuda, g);
    struct cadre_cuda_plan *plan = cadre_cuda_plan_of(cuda, g, g->epilogue);
    if (!plan)
        return CADRE_E_RESOURCE;
    return plan->usable ? fused(cuda, plan, g) : separate(cuda, g);
}

/* cublasLt's own GELU and its gradient are approximations, off by 1e-9 of a result in
 * f64 too, and no faster than a pass of a kernel. The product is written where
 * the input of gelu is kept, so that the kernel reads one array and writes another. */
static cadre_status gelu(struct cadre_cuda *cuda, const struct cadre_gemm *g)
{
    const bool forward = g->epilogue == CADRE_EPILOGUE_BIAS_GELU;
    struct cadre_gemm h = *g;
    h.epilogue = forward && g->bias ? CADRE_EPILOGUE_BIAS : CADRE_EPILOGUE_NONE;
    if (forward && g->aux && !g->beta) /* else c is an operand too */
        h.c = g->aux;
    const cadre_status rc = run(cuda, &h);
    return rc == CADRE_OK ? cadre_cuda_gelu_of(g, h.c, cadre_cuda_current(cuda)) : rc;
}

cadre_status cadre_cuda_op_gemm(struct cadre_device *device, const struct cadre_gemm *g)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    cadre_status rc = cadre_cuda_use(cuda);
    if (rc != CADRE_OK || g->m <= 0 || g->n <= 0)
        return rc;
    return is_gelu(g) ? gelu(cuda, g) : run(cuda, g);
}

/* ---- opening ---- */

cadre_status cadre_cuda_gemms_open(struct cadre_cuda *cuda, const char *name,
                                   struct cadre_error *err)
{
    struct cadre_cuda_gemms *gemms = cadre_calloc(1, sizeof *gemms);
    if (!gemms)
        return cadre_no_memory(err, "the CUDA device");
    cublasStatus_t code = cublasLtCreate(&gemms->lt);
    if (code != CUBLAS_STATUS_SUCCESS) {
        free(gemms);
        return cadre_fail(err, CADRE_E_DEVICE,
                          "device.kind = cuda: cublasLtCreate: status %d (%s)",
                          (int)code, cublasLtGetStatusString(code));
    }
    cuda->gemms = gemms;
    gemms->timing = !cuda->exact;
    gemms->path = cadre_cuda_choices_path(name);
    const size_t lt = cublasLtGetVersion();
    snprintf(gemms->library, sizeof gemms->library, "cublasLt %zu.%zu.%zu on %s",
             lt / 10000, lt / 100 % 100, lt % 100, name);
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

/* ---- between ranks ---- */

cadre_status cadre_cuda_op_tuning_export(struct cadre_device *device,
                                         struct cadre_text *out)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    if (cuda->gemms)
        cadre_cuda_choices_load(cuda->gemms);
    if (cuda->gemms && cuda->gemms->choices.n > 0)
        cadre_cuda_choices_write(&cuda->gemms->choices, out);
    return out->failed ? CADRE_E_RESOURCE : CADRE_OK;
}

/* Existing plans are made again, by the new choices. */
cadre_status cadre_cuda_op_tuning_import(struct cadre_device *device, const char *text)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    struct cadre_cuda_choices taken = {0};
    if (!cuda->gemms)
        return CADRE_E_INVALID;
    if (!text) {
        cuda->gemms->timing = false;
        return CADRE_OK;
    }
    if (*text && !cadre_cuda_choices_read(&taken, text)) {
        cadre_log(CADRE_LOG_ERROR, "device",
                  "cuda: another rank's choice of algorithms is damaged");
        return CADRE_E_INVALID;
    }
    cadre_cuda_choices_save(cuda->gemms);
    cadre_cuda_plans_drop(cuda->gemms);
    free(cuda->gemms->choices.list);
    cuda->gemms->choices = taken;
    cuda->gemms->loaded = true;
    cuda->gemms->dirty = false;
    return CADRE_OK;
}

void cadre_cuda_op_tuning_library(struct cadre_device *device, struct cadre_text *out)
{
    const struct cadre_cuda *cuda = cadre_cuda_of(device);
    cadre_text_printf(out, "%s", cuda->gemms ? cuda->gemms->library : "");
}
