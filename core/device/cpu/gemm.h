/* SPDX-License-Identifier: Apache-2.0 */
/* One matrix product on the calling thread, by a library: oneDNN for fp32 and, where
 * the CPU multiplies it, bf16; OpenBLAS for fp64. Most of fp32 and fp64 are Cadre's own
 * (own_product.h). Each worker caches its library primitives, so nothing is locked. */
#ifndef CADRE_DEVICE_CPU_GEMM_H
#define CADRE_DEVICE_CPU_GEMM_H

#include "core/device/device.h"

struct cadre_cpu_kernels;
struct cadre_cpu_worker;
struct cadre_gemm_cache;

/* NULL (logged) on failure of the library or lack of memory. */
struct cadre_gemm_cache *cadre_gemm_cache_create(void);
void cadre_gemm_cache_destroy(struct cadre_gemm_cache *cache);

/* Make the libraries run single-threaded on the calling thread. Every thread calls this
 * before cadre_gemm_product. */
void cadre_gemm_thread_init(void);

/* Does the CPU multiply bf16 itself? The library converts them elsewhere. [any thread]
 */
bool cadre_gemm_takes_bf16(void);
/* ... faster than fp32? Of Intel's processors those after Cooper Lake do so in AMX
 * alone: their vdpbf16ps makes half the FLOPs of fp32's multiply-add. [any thread] */
bool cadre_gemm_gains_by_bf16(void);

/* c = op(a) op(b) + beta c on the calling thread, which is `worker`; the epilogue is
 * not applied, and parts are 0 or 1, terms none. m, n, k > 0; dtype f32, f64, or bf16
 * with a wide c. Errors: CADRE_E_DEVICE, CADRE_E_RESOURCE (logged). */
cadre_status cadre_gemm_product(struct cadre_cpu_worker *worker,
                                const struct cadre_gemm *gemm);

/* The same where a (m, k) and the f32 c are dense, and b lies in panels (kernels.h) of
 * the width that the library asks for; 0: no panels. bf16 only. */
int64_t cadre_gemm_panel_width(struct cadre_cpu_worker *worker,
                               const struct cadre_gemm *gemm);
cadre_status cadre_gemm_panel_product(struct cadre_cpu_worker *worker,
                                      const struct cadre_gemm *gemm);

/* The epilogue, after the product; g has the dtype of kernels. */
void cadre_gemm_epilogue(const struct cadre_cpu_kernels *kernels,
                         const struct cadre_gemm *g);

/* The size of a range where n is divided into `parts` nearly equal ones, each but the
 * last a multiple of `unit`. */
static inline int64_t cadre_gemm_piece(int64_t n, int64_t parts, int64_t unit)
{
    return ((n + parts - 1) / parts + unit - 1) / unit * unit;
}

#endif
