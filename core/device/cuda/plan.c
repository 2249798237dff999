/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: a GEMM's problem described for cublasLt, with the algorithm chosen for it.
 *
 * cublasLt's matrices are column-major. A row-major (R, C) of leading dimension ld is a
 * column-major (C, R) of the same ld, so c = a b is computed as c' = b' a': b is the
 * left operand and a the right one. A bias along the columns of c then runs along the
 * rows of c', as cublasLt requires. Gradients of weights have 16-bit operands and an
 * f32 c, which is read too where they are added to: no sum is rounded to 16 bits. */
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
    case CADRE_EPILOGUE_SUM_A: /* the right operand */
        return CUBLASLT_EPILOGUE_BGRADB;
    case CADRE_EPILOGUE_SUM_B:
        return CUBLASLT_EPILOGUE_BGRADA;
    default:
        return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

#define SET(desc, attribute, value)                                                    \
    cublasLtMatmulDescSetAttribute(desc, attribute, &(value), sizeof(value))

/* The operand of the epilogue, which cublasLt calls the bias. */
static cublasStatus_t point(const struct cadre_cuda_plan *plan, const void *vector)
{
    return plan->problem.epilogue == CADRE_EPILOGUE_NONE
               ? CUBLAS_STATUS_SUCCESS
               : SET(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
}

/* The heuristics derive the alignment of the epilogue's operand from its address,
 * without reading there: they get one with the least alignment that is fused. */
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
    return point(plan, (void *)16);
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
    const bool sums = plan->problem.epilogue == CADRE_EPILOGUE_SUM_A ||
                      plan->problem.epilogue == CADRE_EPILOGUE_SUM_B;
    void *space = workspace(cuda);
    cublasStatus_t rc;
    if (!space)
        return CUBLAS_STATUS_ALLOC_FAILED;
    if ((rc = point(plan, sums ? g->sums : g->bias)))
        return rc;
    return cublasLtMatmul(cuda->gemms->lt, plan->desc, alpha, g->b, plan->left, g->a,
                          plan->right, beta, g->c, plan->out, out, plan->out, algo,
                          space, CADRE_CUDA_WORKSPACE, cadre_cuda_current(cuda));
}

/* ---- choosing ---- */

#define CANDIDATES 12
#define TIMINGS 3

/* How the parts of a split K may be added: those of a 16-bit result not in its type, in
 * which cublasLt would round each of them, and the product before c is added. */
static uint32_t reductions(const struct cadre_cuda_problem *p)
{
    const bool half = p->dtype == CADRE_BF16 || p->dtype == CADRE_F16;
    return half && !p->wide ? (uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                            : (uint32_t)CUBLASLT_REDUCTION_SCHEME_MASK;
}

static bool reduces_well(const struct cadre_cuda_problem *p,
                         const cublasLtMatmulAlgo_t *algo)
{
    uint32_t scheme = 0;
    size_t written;
    return cublasLtMatmulAlgoConfigGetAttribute(
               algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme,
               &written) != CUBLAS_STATUS_SUCCESS ||
           (scheme & ~reductions(p)) == 0;
}

/* Candidates in cublasLt's order, best first. */
static int heuristics(struct cadre_cuda_gemms *gemms,
                      const struct cadre_cuda_plan *plan,
                      cublasLtMatmulHeuristicResult_t found[CANDIDATES])
{
    const struct cadre_cuda_problem *p = &plan->problem;
    const uint64_t space = CADRE_CUDA_WORKSPACE;
    const uint32_t a = (uint32_t)p->align[1], b = (uint32_t)p->align[0];
    const uint32_t c = (uint32_t)p->align[2], reduce = reductions(p);
    cublasLtMatmulPreference_t prefer = NULL;
    int n = 0;
#define PREFER(attribute, value)                                                       \
    cublasLtMatmulPreferenceSetAttribute(prefer, CUBLASLT_MATMUL_PREF_##attribute,     \
                                         &(value), sizeof(value))
    if (cublasLtMatmulPreferenceCreate(&prefer) || PREFER(MAX_WORKSPACE_BYTES, space) ||
        PREFER(REDUCTION_SCHEME_MASK, reduce) || PREFER(MIN_ALIGNMENT_A_BYTES, a) ||
        PREFER(MIN_ALIGNMENT_B_BYTES, b) || PREFER(MIN_ALIGNMENT_C_BYTES, c) ||
        PREFER(MIN_ALIGNMENT_D_BYTES, c) ||
        cublasLtMatmulAlgoGetHeuristic(gemms->lt, plan->desc, plan->left, plan->right,
                                       plan->out, plan->out, prefer, CANDIDATES, found,
                                       &n))
        n = 0;
    if (prefer)
        cublasLtMatmulPreferenceDestroy(prefer);
    return n;
}

/* Buffers for timing: result and sums go to separate memory, since c may be an input
 * and sums may be accumulated. The memory is allocated and freed in stream order:
 * cudaFree would wait for the whole device, including transfers that other ranks start
 * only after this one continues. */
struct trial {
    struct cadre_cuda *cuda;
    struct cadre_gemm gemm;
    void *out;
    cudaEvent_t mark[2];
};

static size_t bytes_of(const struct cadre_gemm *g)
{
    const uint32_t dtype = g->wide ? cadre_dtype_wide(g->dtype) : g->dtype;
    return ((size_t)(g->m * g->ldc) * cadre_dtype_bytes(dtype) + 63) / 64 * 64;
}

static bool trial_begin(struct trial *t, struct cadre_cuda *cuda,
                        const struct cadre_gemm *g)
{
    const size_t bytes = bytes_of(g), room = (size_t)(g->m > g->n ? g->m : g->n) * 8;
    *t = (struct trial){.cuda = cuda, .gemm = *g};
    if (cudaEventCreate(&t->mark[0]) || cudaEventCreate(&t->mark[1]) ||
        cudaMallocAsync(&t->out, bytes + room, cadre_cuda_current(cuda)))
        return false;
    t->gemm.sums = (char *)t->out + bytes;
    return true;
}

/* After candidates that do not run, which are skipped. */
static void trial_end(struct trial *t)
{
    cudaGetLastError();
    if (t->out && cudaFreeAsync(t->out, cadre_cuda_current(t->cuda)) != cudaSuccess)
        cudaGetLastError();
    for (int i = 0; i < 2; i++)
        if (t->mark[i])
            cudaEventDestroy(t->mark[i]);
}

/* Run the plan once, and where `whole` also the part of the epilogue that it lacks. */
static bool once(struct trial *t, const struct cadre_cuda_plan *plan,
                 const cublasLtMatmulAlgo_t *algo, bool whole)
{
    struct cadre_gemm after = t->gemm;
    after.c = t->out;
    return cadre_cuda_plan_run(t->cuda, plan, &t->gemm, t->out, algo) ==
               CUBLAS_STATUS_SUCCESS &&
           (!whole || cadre_cuda_gemm_after(t->cuda, &after) == CADRE_OK);
}

/* The shortest of some runs, in ms; negative where it does not run. */
static float time_of(struct trial *t, const struct cadre_cuda_plan *plan,
                     const cublasLtMatmulAlgo_t *algo, bool whole)
{
    cudaStream_t stream = cadre_cuda_current(t->cuda);
    float best = -1, ms;
    if (!once(t, plan, algo, whole))
        return -1;
    for (int i = 0; i < TIMINGS; i++) {
        if (cudaEventRecord(t->mark[0], stream) || !once(t, plan, algo, whole) ||
            cudaEventRecord(t->mark[1], stream) || cudaEventSynchronize(t->mark[1]) ||
            cudaEventElapsedTime(&ms, t->mark[0], t->mark[1]))
            return -1;
        best = best < 0 || ms < best ? ms : best;
    }
    return best;
}

/* The fastest candidate; *pays: it is faster than `plain` and the kernel after it. */
static int fastest(struct cadre_cuda *cuda, const struct cadre_cuda_plan *plan,
                   const struct cadre_cuda_plan *plain, const struct cadre_gemm *g,
                   const cublasLtMatmulHeuristicResult_t *found, int n, bool *pays)
{
    struct trial t;
    float least = -1, ms;
    int best = 0;
    *pays = true;
    if (trial_begin(&t, cuda, g)) {
        for (int i = 0; i < n; i++) {
            ms = time_of(&t, plan, &found[i].algo, false);
            if (ms >= 0 && (least < 0 || ms < least)) {
                least = ms;
                best = i;
            }
        }
        ms = plain ? time_of(&t, plain, &plain->algo, true) : -1;
        *pays = ms < 0 || (least >= 0 && least <= ms);
    }
    trial_end(&t);
    return best;
}

static bool is_separate(const cublasLtMatmulAlgo_t *algo)
{
    cublasLtMatmulAlgo_t none;
    memset(&none, 0xff, sizeof none);
    return memcmp(algo, &none, sizeof none) == 0;
}

/* Set the plan's algorithm; false where cublasLt has none, or only a slower one. */
static bool choose(struct cadre_cuda *cuda, struct cadre_cuda_plan *plan,
                   const struct cadre_cuda_plan *plain, const struct cadre_gemm *g)
{
    struct cadre_cuda_gemms *gemms = cuda->gemms;
    cublasLtMatmulHeuristicResult_t found[CANDIDATES], check;
    cadre_cuda_choices_load(gemms);
    const struct cadre_cuda_choice *known =
        cadre_cuda_choice_find(&gemms->choices, &plan->problem);
    bool pays = true;
    if (known && is_separate(&known->algo))
        return false;
    if (known && reduces_well(&plan->problem, &known->algo) &&
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
    if (gemms->timing && (n > 1 || plain) && !cadre_cuda_is_recording(cuda)) {
        struct cadre_cuda_choice choice = {.problem = plan->problem};
        best = fastest(cuda, plan, plain, g, found, n, &pays);
        choice.algo = found[best].algo;
        if (!pays)
            memset(&choice.algo, 0xff, sizeof choice.algo);
        gemms->dirty = cadre_cuda_choice_put(&gemms->choices, &choice) || gemms->dirty;
    }
    plan->algo = found[best].algo;
    return pays;
}

int32_t cadre_cuda_alignment(const void *ptr)
{
    const uintptr_t bits = (uintptr_t)ptr | 64;
    return (int32_t)(bits & -bits);
}

/* Every byte is set: problems are compared as bytes. */
static struct cadre_cuda_problem problem_of(const struct cadre_gemm *g,
                                            enum cadre_epilogue epilogue)
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
    p.epilogue = (int32_t)epilogue;
    p.align[0] = cadre_cuda_alignment(g->a);
    p.align[1] = cadre_cuda_alignment(g->b);
    p.align[2] = cadre_cuda_alignment(g->c);
    return p;
}

static struct cadre_cuda_plan *find(const struct cadre_cuda_gemms *gemms,
                                    const struct cadre_cuda_problem *problem)
{
    for (size_t i = 0; i < gemms->n_plans; i++)
        if (memcmp(&gemms->plans[i].problem, problem, sizeof *problem) == 0)
            return &gemms->plans[i];
    return NULL;
}

/* NULL: logged. */
static struct cadre_cuda_plan *make(struct cadre_cuda *cuda, const struct cadre_gemm *g,
                                    const struct cadre_cuda_problem *problem,
                                    const struct cadre_cuda_plan *plain)
{
    struct cadre_cuda_gemms *gemms = cuda->gemms;
    struct cadre_cuda_plan plan = {.problem = *problem};
    struct cadre_cuda_plan *grown =
        cadre_realloc(gemms->plans, gemms->n_plans + 1, sizeof *grown);
    if (!grown) {
        cadre_log(CADRE_LOG_ERROR, "device", "cuda: no memory for a GEMM's plan");
        return NULL;
    }
    gemms->plans = grown;
    /* Shapes that cublasLt does not support are refused by describe and by choose. */
    plan.usable =
        describe(&plan) == CUBLAS_STATUS_SUCCESS && choose(cuda, &plan, plain, g);
    grown[gemms->n_plans] = plan;
    return &grown[gemms->n_plans++];
}

struct cadre_cuda_plan *cadre_cuda_plan_of(struct cadre_cuda *cuda,
                                           const struct cadre_gemm *g,
                                           enum cadre_epilogue epilogue)
{
    const struct cadre_cuda_problem problem = problem_of(g, epilogue);
    const struct cadre_cuda_problem alone = problem_of(g, CADRE_EPILOGUE_NONE);
    struct cadre_cuda_plan rival, *plain, *plan = find(cuda->gemms, &problem);
    if (plan)
        return plan;
    if (epilogue == CADRE_EPILOGUE_NONE || !cuda->gemms->timing)
        return make(cuda, g, &problem, NULL);
    plain = find(cuda->gemms, &alone);
    if (!plain && !(plain = make(cuda, g, &alone, NULL)))
        return NULL;
    rival = *plain; /* plans move */
    return make(cuda, g, &problem, rival.usable ? &rival : NULL);
}
