/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: a GEMM's problem told to cublasLt, with the algorithm chosen for it.
 *
 * cublasLt's matrices are column-major. A row-major (R, C) of leading dimension ld is a
 * column-major (C, R) of the same ld, so c = a b is asked for as c' = b' a': b is the
 * left operand and a the right one. A bias along the columns of c then runs along the
 * rows of c', where cublasLt wants it. */
#include "core/base/memory.h"
#include "core/device/cuda/gemm.h"
#include "core/tensor/dtype.h"

#include <stdlib.h>
#include <string.h>

cadre_status cadre_cuda_lt_check(cublasStatus_t code, const char *what)
{
    if (code == CUBLAS_STATUS_SUCCESS)
        return CADRE_OK;
    cadre_log(CADRE_LOG_ERROR, "device", "cuda: %s: cublasLt status %d (%s)", what,
              (int)code, cublasLtGetStatusString(code));
    return CADRE_E_DEVICE;
}

static cudaDataType_t data_type(uint32_t dtype)
{
    switch (dtype) {
    case CADRE_F64:
        return CUDA_R_64F;
    case CADRE_BF16:
        return CUDA_R_16BF;
    case CADRE_F16:
        return CUDA_R_16F;
    default:
        return CUDA_R_32F;
    }
}

static cublasLtEpilogue_t epilogue_of(int epilogue)
{
    switch (epilogue) {
    case CADRE_EPILOGUE_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case CADRE_EPILOGUE_BIAS_GELU:
        return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    default:
        return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

#define SET(desc, attribute, value)                                                    \
    cublasLtMatmulDescSetAttribute(desc, attribute, &(value), sizeof(value))

static cublasStatus_t describe(struct cadre_cuda_plan *plan)
{
    const struct cadre_cuda_problem *p = &plan->problem;
    const bool f64 = p->dtype == CADRE_F64;
    const cudaDataType_t in = data_type(p->dtype);
    const cudaDataType_t out = p->wide ? data_type(cadre_dtype_wide(p->dtype)) : in;
    /* Never TF32: COMPUTE_32F sums and multiplies in full fp32. */
    const cublasComputeType_t compute = f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    const cublasOperation_t left = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t right = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = epilogue_of(p->epilogue);
    cublasStatus_t rc;
    if ((rc = cublasLtMatmulDescCreate(&plan->desc, compute,
                                       f64 ? CUDA_R_64F : CUDA_R_32F)) ||
        (rc = SET(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, left)) ||
        (rc = SET(plan->desc, CUBLASLT_MATMUL_DESC_TRANSB, right)) ||
        (rc = SET(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue)) ||
        (rc = cublasLtMatrixLayoutCreate(&plan->left, in,
                                         (uint64_t)(p->tb ? p->k : p->n),
                                         (uint64_t)(p->tb ? p->n : p->k), p->ldb)) ||
        (rc = cublasLtMatrixLayoutCreate(&plan->right, in,
                                         (uint64_t)(p->ta ? p->m : p->k),
                                         (uint64_t)(p->ta ? p->k : p->m), p->lda)) ||
        (rc = cublasLtMatrixLayoutCreate(&plan->out, out, (uint64_t)p->n,
                                         (uint64_t)p->m, p->ldc)))
        return rc;
    if (p->epilogue == CADRE_EPILOGUE_BIAS_GELU)
        rc = SET(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p->ldc);
    return rc;
}

static void undo(struct cadre_cuda_plan *plan)
{
    if (plan->desc)
        cublasLtMatmulDescDestroy(plan->desc);
    if (plan->left)
        cublasLtMatrixLayoutDestroy(plan->left);
    if (plan->right)
        cublasLtMatrixLayoutDestroy(plan->right);
    if (plan->out)
        cublasLtMatrixLayoutDestroy(plan->out);
}

void cadre_cuda_plans_drop(struct cadre_cuda_gemms *gemms)
{
    for (size_t i = 0; i < gemms->n_plans; i++)
        undo(&gemms->plans[i]);
    free(gemms->plans);
    gemms->plans = NULL;
    gemms->n_plans = 0;
}

/* At first use by this stream; recorded work cannot allocate. */
static void *workspace(struct cadre_cuda *cuda)
{
    void **place = &cuda->gemms->workspace[cuda->current];
    if (!*place && !cadre_cuda_is_recording(cuda) &&
        cudaMalloc(place, CADRE_CUDA_WORKSPACE) != cudaSuccess) {
        cudaGetLastError();
        *place = NULL;
    }
    return *place;
}

cublasStatus_t cadre_cuda_plan_run(struct cadre_cuda *cuda,
                                   const struct cadre_cuda_plan *plan,
                                   const struct cadre_gemm *g, void *out,
                                   const cublasLtMatmulAlgo_t *algo)
{
    static const double one64 = 1, zero64 = 0;
    static const float one = 1, zero = 0;
    const bool f64 = g->dtype == CADRE_F64;
    const void *alpha = f64 ? (const void *)&one64 : &one;
    const void *beta = g->beta ? alpha : f64 ? (const void *)&zero64 : &zero;
    void *space = workspace(cuda);
    cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;
    if (!space)
        return CUBLAS_STATUS_ALLOC_FAILED;
    if (plan->problem.epilogue != CADRE_EPILOGUE_NONE)
        rc = SET(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g->bias);
    if (!rc && plan->problem.epilogue == CADRE_EPILOGUE_BIAS_GELU)
        rc = SET(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g->aux);
    if (rc)
        return rc;
    return cublasLtMatmul(cuda->gemms->lt, plan->desc, alpha, g->b, plan->left, g->a,
                          plan->right, beta, g->c, plan->out, out, plan->out, algo,
                          space, CADRE_CUDA_WORKSPACE, cadre_cuda_current(cuda));
}

/* ---- choosing ------------------------------------------------------------------ */

#define CANDIDATES 12
#define TIMINGS 3

/* Candidates in cublasLt's order, the one it thinks best first. */
static int heuristics(struct cadre_cuda_gemms *gemms,
                      const struct cadre_cuda_plan *plan,
                      cublasLtMatmulHeuristicResult_t found[CANDIDATES])
{
    const struct cadre_cuda_problem *p = &plan->problem;
    const uint64_t space = CADRE_CUDA_WORKSPACE;
    const uint32_t a = (uint32_t)p->align[1], b = (uint32_t)p->align[0];
    const uint32_t c = (uint32_t)p->align[2];
    cublasLtMatmulPreference_t prefer = NULL;
    int n = 0;
#define PREFER(attribute, value)                                                       \
    cublasLtMatmulPreferenceSetAttribute(prefer, CUBLASLT_MATMUL_PREF_##attribute,     \
                                         &(value), sizeof(value))
    if (cublasLtMatmulPreferenceCreate(&prefer) || PREFER(MAX_WORKSPACE_BYTES, space) ||
        PREFER(MIN_ALIGNMENT_A_BYTES, a) || PREFER(MIN_ALIGNMENT_B_BYTES, b) ||
        PREFER(MIN_ALIGNMENT_C_BYTES, c) || PREFER(MIN_ALIGNMENT_D_BYTES, c) ||
        cublasLtMatmulAlgoGetHeuristic(gemms->lt, plan->desc, plan->left, plan->right,
                                       plan->out, plan->out, prefer, CANDIDATES, found,
                                       &n))
        n = 0;
    if (prefer)
        cublasLtMatmulPreferenceDestroy(prefer);
    return n;
}

/* The shortest of some runs, in ms; negative where it does not run. */
static float time_of(struct cadre_cuda *cuda, const struct cadre_cuda_plan *plan,
                     const struct cadre_gemm *g, void *out,
                     const cublasLtMatmulAlgo_t *algo, cudaEvent_t mark[2])
{
    cudaStream_t stream = cadre_cuda_current(cuda);
    float best = -1, ms;
    if (cadre_cuda_plan_run(cuda, plan, g, out, algo))
        return -1;
    for (int i = 0; i < TIMINGS; i++) {
        if (cudaEventRecord(mark[0], stream) ||
            cadre_cuda_plan_run(cuda, plan, g, out, algo) ||
            cudaEventRecord(mark[1], stream) || cudaEventSynchronize(mark[1]) ||
            cudaEventElapsedTime(&ms, mark[0], mark[1]))
            return -1;
        best = best < 0 || ms < best ? ms : best;
    }
    return best;
}

/* Time the candidates, with the result in memory of its own: c may be an input. */
static int fastest(struct cadre_cuda *cuda, const struct cadre_cuda_plan *plan,
                   const struct cadre_gemm *g,
                   const cublasLtMatmulHeuristicResult_t *found, int n)
{
    const uint32_t dtype = g->wide ? cadre_dtype_wide(g->dtype) : g->dtype;
    const size_t bytes = (size_t)(g->m * g->ldc) * cadre_dtype_bytes(dtype);
    cudaEvent_t mark[2] = {NULL, NULL};
    void *out = NULL;
    float least = -1;
    int best = 0;
    if (cudaEventCreate(&mark[0]) == cudaSuccess &&
        cudaEventCreate(&mark[1]) == cudaSuccess &&
        cudaMalloc(&out, bytes) == cudaSuccess)
        for (int i = 0; i < n; i++) {
            float ms = time_of(cuda, plan, g, out, &found[i].algo, mark);
            if (ms >= 0 && (least < 0 || ms < least)) {
                least = ms;
                best = i;
            }
        }
    cudaGetLastError(); /* a candidate that does not run is passed over */
    cudaFree(out);
    for (int i = 0; i < 2; i++)
        if (mark[i])
            cudaEventDestroy(mark[i]);
    return best;
}

/* Set the plan's algorithm; false where cublasLt has none. */
static bool choose(struct cadre_cuda *cuda, struct cadre_cuda_plan *plan,
                   const struct cadre_gemm *g)
{
    struct cadre_cuda_gemms *gemms = cuda->gemms;
    cublasLtMatmulHeuristicResult_t found[CANDIDATES], check;
    const struct cadre_cuda_choice *known =
        cadre_cuda_choice_find(&gemms->choices, &plan->problem);
    if (known &&
        cublasLtMatmulAlgoCheck(gemms->lt, plan->desc, plan->left, plan->right,
                                plan->out, plan->out, &known->algo,
                                &check) == CUBLAS_STATUS_SUCCESS &&
        check.workspaceSize <= CADRE_CUDA_WORKSPACE) {
        plan->algo = known->algo;
        return true;
    }
    int n = heuristics(gemms, plan, found), best = 0;
    if (n == 0)
        return false;
    if (gemms->timing && n > 1 && !cadre_cuda_is_recording(cuda)) {
        struct cadre_cuda_choice choice = {.problem = plan->problem};
        best = fastest(cuda, plan, g, found, n);
        choice.algo = found[best].algo;
        gemms->dirty = cadre_cuda_choice_put(&gemms->choices, &choice) || gemms->dirty;
    }
    plan->algo = found[best].algo;
    return true;
}

struct cadre_cuda_plan *cadre_cuda_plan_of(struct cadre_cuda *cuda,
                                           const struct cadre_gemm *g,
                                           const struct cadre_cuda_problem *problem)
{
    struct cadre_cuda_gemms *gemms = cuda->gemms;
    struct cadre_cuda_plan plan = {.problem = *problem};
    for (size_t i = 0; i < gemms->n_plans; i++)
        if (memcmp(&gemms->plans[i].problem, problem, sizeof *problem) == 0)
            return &gemms->plans[i];
    struct cadre_cuda_plan *grown =
        cadre_realloc(gemms->plans, gemms->n_plans + 1, sizeof *grown);
    if (!grown) {
        cadre_log(CADRE_LOG_ERROR, "device", "cuda: no memory for a GEMM's plan");
        return NULL;
    }
    gemms->plans = grown;
    /* Shapes that cublasLt has no form for are refused by describe or choose alike. */
    plan.usable = describe(&plan) == CUBLAS_STATUS_SUCCESS && choose(cuda, &plan, g);
    grown[gemms->n_plans] = plan;
    return &grown[gemms->n_plans++];
}
