/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM over cublasLt: plans by problem, and the choice of an algorithm for each.
 *
 * An epilogue saves a pass over memory. In a GPT-2 block of C channels, N tokens and
 * elements of e bytes it saves
 *   BIAS         6 NCe of 9: qkv is not written twice and read between; fc 8 of 12
 *   SUM_A, _B    9 NCe: the gradients of qkv, proj, fc and out are not read again
 * and one or two launches each. It restricts cublasLt: fewer algorithms support it, and
 * a long K may not be split. So where the device may time, the fused epilogue is
 * compared with the product and a kernel after it, and the faster one is chosen;
 * otherwise cublasLt's epilogue is used where it exists. gelu and its gradient are
 * kernels after the product: gemm.c. */
#ifndef CADRE_DEVICE_CUDA_GEMM_H
#define CADRE_DEVICE_CUDA_GEMM_H

#include <cublasLt.h>

#include "core/device/cuda/cuda.h"

/* What determines a choice; also its name in files and between ranks. */
struct cadre_cuda_problem {
    int64_t m, n, k, lda, ldb, ldc;
    uint32_t dtype;
    int32_t wide, ta, tb, beta, epilogue;
    int32_t align[3]; /* of a, b, c: the largest power of two up to 64 */
};

/* An algorithm for a problem; timed or imported. All bits set: the product and its
 * epilogue one after the other. */
struct cadre_cuda_choice {
    struct cadre_cuda_problem problem;
    cublasLtMatmulAlgo_t algo;
};

/* The known choices, unordered. Zero-initialised is empty. */
struct cadre_cuda_choices {
    struct cadre_cuda_choice *list;
    size_t n;
};

/* A problem made ready for cublasLt. */
struct cadre_cuda_plan {
    struct cadre_cuda_problem problem;
    bool usable; /* else cublasLt has no algorithm, or separate is faster */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t left, right, out;
    cublasLtMatmulAlgo_t algo;
};

struct cadre_cuda_gemms {
    cublasLtHandle_t lt;
    void *workspace[CADRE_CUDA_STREAMS]; /* two streams' work may overlap */
    struct cadre_cuda_plan *plans;
    size_t n_plans;
    struct cadre_cuda_choices choices;
    bool timing; /* choose by timing where there is no choice */
    bool dirty; /* there are choices that the file lacks */
    bool loaded; /* the file was read, or another rank's choices replace it */
    char *path; /* of the file; NULL for none */
    char library[320]; /* tuning_library */
};

/* Open cublasLt for the device; name is that of the GPU. Errors: CADRE_E_DEVICE,
 * CADRE_E_RESOURCE. */
cadre_status cadre_cuda_gemms_open(struct cadre_cuda *cuda, const char *name,
                                   struct cadre_error *err);
/* After the work in flight; writes the file where there are new choices. */
void cadre_cuda_gemms_close(struct cadre_cuda *cuda);

/* The choice for a problem, NULL where there is none. */
const struct cadre_cuda_choice *
cadre_cuda_choice_find(const struct cadre_cuda_choices *choices,
                       const struct cadre_cuda_problem *problem);

/* Add a choice, or replace that for the same problem. false: no memory. */
bool cadre_cuda_choice_put(struct cadre_cuda_choices *choices,
                           const struct cadre_cuda_choice *choice);

/* One line per choice, sorted, and a last line with a checksum. */
void cadre_cuda_choices_write(struct cadre_cuda_choices *choices,
                              struct cadre_text *out);

/* Add the choices of a text. false: it is damaged, and nothing was added. */
bool cadre_cuda_choices_read(struct cadre_cuda_choices *choices, const char *text);

/* The file of choices, of one GPU's name and one version of the library. It is read
 * once, when first needed, with a warning where it is damaged. Writing keeps the
 * choices of other processes in it, and replaces the file atomically. Neither fails:
 * without a file more is timed. With CADRE_TUNING=keep nothing is written. */
char *cadre_cuda_choices_path(const char *device_name);
void cadre_cuda_choices_load(struct cadre_cuda_gemms *gemms);
void cadre_cuda_choices_save(struct cadre_cuda_gemms *gemms);

cadre_status cadre_cuda_op_gemm(struct cadre_device *, const struct cadre_gemm *);
cadre_status cadre_cuda_op_tuning_export(struct cadre_device *, struct cadre_text *);
cadre_status cadre_cuda_op_tuning_import(struct cadre_device *, const char *text);
void cadre_cuda_op_tuning_library(struct cadre_device *, struct cadre_text *);

/* The epilogue, after the product, by kernels. */
cadre_status cadre_cuda_gemm_after(struct cadre_cuda *cuda, const struct cadre_gemm *g);

/* The largest power of two, up to 64, that divides the address. */
int32_t cadre_cuda_alignment(const void *ptr);

/* plan.c: the plan for g with that epilogue (g's or none), made at first use; good
 * until the next call. NULL: logged. */
struct cadre_cuda_plan *cadre_cuda_plan_of(struct cadre_cuda *cuda,
                                           const struct cadre_gemm *g,
                                           enum cadre_epilogue epilogue);
void cadre_cuda_plans_drop(struct cadre_cuda_gemms *gemms);

/* Run the plan for these operands into `out` (c itself, or a buffer for timing). */
cublasStatus_t cadre_cuda_plan_run(struct cadre_cuda *cuda,
                                   const struct cadre_cuda_plan *plan,
                                   const struct cadre_gemm *g, void *out,
                                   const cublasLtMatmulAlgo_t *algo);

/* CADRE_OK, or one log line and CADRE_E_DEVICE. */
cadre_status cadre_cuda_lt_check(cublasStatus_t code, const char *what);

#endif
