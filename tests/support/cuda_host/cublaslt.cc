/* SPDX-License-Identifier: Apache-2.0 */
/* Products of the stand-in. Pointers are checked at the call; the sums run with the
 * stream. */
#include "tests/support/cuda_host/cublasLt.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "tests/support/cuda_host/runtime.h"

struct cublasLtContext {
    int live;
};
struct cublasLtMatmulDescOpaque_t {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr;
};
struct cublasLtMatrixLayoutOpaque_t {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
};
struct cublasLtMatmulPreferenceOpaque_t {
    uint64_t workspace = 0;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
    uint32_t align[4] = {256, 256, 256, 256};
};

namespace
{

constexpr uint64_t magic = 0x63616472655f6c74;

size_t bytes_of(cudaDataType_t type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

double half_value(uint16_t h)
{
    const int e = h >> 10 & 31, f = h & 1023;
    double v = e == 31  ? (f ? NAN : INFINITY)
               : e == 0 ? std::ldexp(f, -24)
                        : std::ldexp(1024 + f, e - 25);
    return h & 0x8000 ? -v : v;
}

double load(const void *at, cudaDataType_t type, int64_t i)
{
    switch (type) {
    case CUDA_R_64F:
        return ((const double *)at)[i];
    case CUDA_R_32F:
        return (double)((const float *)at)[i];
    case CUDA_R_16F:
        return half_value(((const uint16_t *)at)[i]);
    default: {
        const uint32_t bits = (uint32_t)((const uint16_t *)at)[i] << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    }
}

/* To nearest even, through the 53 bits of a double: one rounding. */
uint16_t to_half(double v)
{
    const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
    v = std::fabs(v);
    if (std::isnan(v))
        return 0x7fff;
    if (v >= 65520)
        return sign | 0x7c00;
    int e;
    std::frexp(v, &e);
    if (v == 0 || e < -13)
        return sign | (uint16_t)std::nearbyint(std::ldexp(v, 24));
    const unsigned f = (unsigned)std::nearbyint(std::ldexp(v, 11 - e)); /* 1024..2048 */
    return (uint16_t)(sign + ((unsigned)(e + 13) << 10) + f);
}

uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (std::isnan(f))
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void store(void *at, cudaDataType_t type, int64_t i, double v)
{
    switch (type) {
    case CUDA_R_64F:
        ((double *)at)[i] = v;
        break;
    case CUDA_R_32F:
        ((float *)at)[i] = (float)v;
        break;
    case CUDA_R_16F:
        ((uint16_t *)at)[i] = to_half((double)(float)v);
        break;
    default:
        ((uint16_t *)at)[i] = to_bf16((float)v);
    }
}

/* How a test sets epilogues: cublasLt.h. */
bool epilogues_are(const char *how)
{
    const char *wanted = getenv("CADRE_STANDIN_EPILOGUES");
    return wanted && strcmp(wanted, how) == 0;
}

bool has_bias(cublasLtEpilogue_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_BIAS;
}

bool has_sums(cublasLtEpilogue_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

/* A copy of one product: descriptors may be gone when it runs. */
struct product {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t la, lb, lc;
    const void *a, *b, *c;
    void *d;
    double alpha, beta;
    bool backwards, narrow; /* narrow: the two parts of K are rounded to d's type */

    double left(int64_t i, int64_t k) const
    {
        return load(a, la.type, desc.transa ? i * la.ld + k : k * la.ld + i);
    }
    double right(int64_t k, int64_t j) const
    {
        return load(b, lb.type, desc.transb ? k * lb.ld + j : j * lb.ld + k);
    }
    template <typename real>
    double dot(int64_t i, int64_t j, int64_t depth, int64_t from = 0) const
    {
        real sum = 0;
        for (int64_t k = from; k < depth; k++) {
            const int64_t at = backwards ? depth - 1 - k : k;
            sum += (real)left(i, at) * (real)right(at, j);
        }
        return (double)sum;
    }
    /* BGRADA: of the rows of the left operand; BGRADB: of the right one's columns. */
    void sum(int64_t depth) const
    {
        const bool of_left = desc.epilogue == CUBLASLT_EPILOGUE_BGRADA;
        const int64_t n = (int64_t)(of_left ? lc.rows : lc.cols);
        for (int64_t i = 0; i < n; i++) {
            float total = 0;
            for (int64_t k = 0; k < depth; k++) {
                const int64_t at = backwards ? depth - 1 - k : k;
                total += (float)(of_left ? left(i, at) : right(at, i));
            }
            store((void *)(uintptr_t)desc.bias, lc.type, i, (double)total);
        }
    }
    double rounded(double v) const
    {
        double one;
        store(&one, lc.type, 0, v);
        return load(&one, lc.type, 0);
    }
    /* Without the rest of the epilogue. */
    double product_at(int64_t i, int64_t j, int64_t depth) const
    {
        if (desc.compute == CUBLAS_COMPUTE_64F)
            return dot<double>(i, j, depth);
        if (!narrow)
            return dot<float>(i, j, depth);
        return rounded(rounded(dot<float>(i, j, depth / 2)) +
                       rounded(dot<float>(i, j, depth, depth / 2)));
    }
    void run() const
    {
        const int64_t depth = (int64_t)(desc.transa ? la.rows : la.cols);
        const bool plain = desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
        if (epilogues_are(plain ? "fast" : "slow"))
            cadre_host::take_longer(1e6);
        if (has_sums(desc.epilogue))
            sum(depth);
        for (int64_t j = 0; j < (int64_t)lc.cols; j++)
            for (int64_t i = 0; i < (int64_t)lc.rows; i++) {
                const int64_t at = j * lc.ld + i;
                double v = alpha * product_at(i, j, depth);
                if (beta != 0)
                    v += beta * load(c, lc.type, at);
                if (has_bias(desc.epilogue))
                    v += load(desc.bias, lc.type, i);
                store(d, lc.type, at, v);
            }
    }
};

bool aligned(const void *ptr)
{
    return ptr && (uintptr_t)ptr % 16 == 0;
}

size_t extent(const cublasLtMatrixLayoutOpaque_t *l)
{
    if (l->rows == 0 || l->cols == 0)
        return 0;
    return ((size_t)(l->ld * (int64_t)(l->cols - 1)) + l->rows) * bytes_of(l->type);
}

/* What the real library refuses, as far as documented. */
bool supported(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
               cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t d)
{
    const uint64_t m = desc->transa ? a->cols : a->rows;
    const uint64_t k = desc->transa ? a->rows : a->cols;
    const uint64_t n = desc->transb ? b->rows : b->cols;
    const uint64_t bk = desc->transb ? b->cols : b->rows;
    const bool f64 = a->type == CUDA_R_64F;
    return m == d->rows && n == d->cols && k == bk && m && n && k &&
           a->ld >= (int64_t)a->rows && b->ld >= (int64_t)b->rows &&
           d->ld >= (int64_t)d->rows && a->type == b->type &&
           f64 == (desc->compute == CUBLAS_COMPUTE_64F) &&
           (d->type == a->type || (d->type == CUDA_R_32F && !f64)) &&
           (!has_sums(desc->epilogue) || (!f64 && aligned(desc->bias))) &&
           (desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT || !epilogues_are("none"));
}

/* Its number, the alignments of A, B, C and D promised for it, and how it reduces. */
cublasLtMatmulAlgo_t algorithm(uint64_t number,
                               const cublasLtMatmulPreferenceOpaque_t *preference)
{
    const uint32_t *align = preference->align;
    const uint64_t scheme =
        number != 0 ? 0
        : preference->reductions & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE
            ? CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE
            : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulAlgo_t algo = {
        {magic, number, align[0], align[1], align[2], align[3], scheme, ~number}};
    return algo;
}

bool known(const cublasLtMatmulAlgo_t *algo)
{
    return algo && algo->data[0] == magic && algo->data[1] < 2 &&
           algo->data[7] == ~algo->data[1];
}

bool promised(const cublasLtMatmulAlgo_t *algo, const void *const at[4])
{
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)at[i] % algo->data[2 + i] != 0)
            return false;
    return true;
}

} // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = new cublasLtContext{1};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    const char *version = getenv("CADRE_STANDIN_LT");
    return version ? (size_t)atoi(version) : 130000;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "stand-in";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *desc = new cublasLtMatmulDescOpaque_t{compute, scale};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    delete desc;
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T> static cublasStatus_t take(T *to, const void *from, size_t bytes)
{
    if (bytes != sizeof *to)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return take(&desc->transa, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return take(&desc->transb, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(&desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take(&desc->bias, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType_t type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    *layout = new cublasLtMatrixLayoutOpaque_t{type, rows, cols, ld};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = new cublasLtMatmulPreferenceOpaque_t;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                     cublasLtMatmulPreferenceAttributes_t attribute,
                                     const void *value, size_t bytes)
{
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return take(&preference->workspace, value, bytes);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return take(&preference->reductions, value, bytes);
    return take(
        &preference->align[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
        value, bytes);
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t preference, int wanted,
                               cublasLtMatmulHeuristicResult_t *results, int *found)
{
    *found = 0;
    if (!supported(desc, a, b, d))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < wanted && i < 2; i++) {
        memset(&results[i], 0, sizeof results[i]);
        results[i].algo = algorithm((uint64_t)i, preference);
        *found = i + 1;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                     cublasLtMatmulAlgoConfigAttributes_t attribute,
                                     void *value, size_t bytes, size_t *written)
{
    const uint32_t scheme = (uint32_t)algo->data[6];
    if (attribute != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME || bytes != sizeof scheme)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &scheme, sizeof scheme);
    *written = sizeof scheme;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result)
{
    memset(result, 0, sizeof *result);
    return known(algo) && supported(desc, a, b, d) ? CUBLAS_STATUS_SUCCESS
                                                   : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                              const void *alpha, const void *a,
                              cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta,
                              const void *c, cublasLtMatrixLayout_t lc, void *d,
                              cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    using cadre_host::is_device;
    const bool f64 = desc->scale == CUDA_R_64F;
    product p = {*desc, *la, *lb, *ld, a, b, c, d, 0, 0, false, false};
    p.alpha = f64 ? *(const double *)alpha : (double)*(const float *)alpha;
    p.beta = f64 ? *(const double *)beta : (double)*(const float *)beta;
    const bool epilogue = desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
    if (!known(algo) || !supported(desc, la, lb, ld) ||
        (epilogue && epilogues_are("late")))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const uint64_t along =
        desc->epilogue == CUBLASLT_EPILOGUE_BGRADB ? ld->cols : ld->rows;
    const size_t vector = along * bytes_of(ld->type);
    p.backwards = algo->data[1] == 1;
    p.narrow = algo->data[6] == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE &&
               ld->type != CUDA_R_32F && ld->type != CUDA_R_64F;
    const void *const at[] = {a, b, c, d};
    if (!promised(algo, at) || !is_device(a, extent(la)) || !is_device(b, extent(lb)) ||
        !is_device(d, extent(ld)) || (p.beta != 0 && !is_device(c, extent(lc))) ||
        !is_device(workspace, workspace_bytes) ||
        ((has_bias(desc->epilogue) || has_sums(desc->epilogue)) &&
         !is_device(desc->bias, vector)))
        return CUBLAS_STATUS_INVALID_VALUE;
    cadre_host_enqueue(stream, [p] { p.run(); });
    return CUBLAS_STATUS_SUCCESS;
}
