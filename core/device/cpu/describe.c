/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device/cpu/cpu.h"
#include "core/device/cpu/gemm.h"

#include <cblas.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

static const char *instruction_set(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "AVX-512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "AVX2";
#endif
    return "baseline";
}

static bool fuses(void)
{
    return strcmp(instruction_set(), "baseline") != 0;
}

void cadre_device_describe(struct cadre_text *out)
{
    const dnnl_version_t *dnnl = dnnl_version();
    const char *forced = getenv("OPENBLAS_CORETYPE");
    cadre_text_printf(out, "kernels: %s\n", instruction_set());
    cadre_text_printf(out, "fp32 and fp64 GEMM: %s (device.gemm)\n",
                      fuses() ? "Cadre" : "the libraries");
    cadre_text_printf(out, "fp32 GEMM of the library: oneDNN %d.%d.%d\n", dnnl->major,
                      dnnl->minor, dnnl->patch);
    cadre_text_printf(out, "bf16 GEMM: %s\n",
                      cadre_gemm_gains_by_bf16() ? "oneDNN"
                      : cadre_gemm_takes_bf16()
                          ? "widened to fp32 (faster than this CPU's own)"
                          : "widened to fp32 (this CPU does not multiply bf16)");
    cadre_text_printf(out, "fp16 GEMM: widened to fp32\n");
    cadre_text_printf(out, "fp64 GEMM of the library: %s, running %s kernels\n",
                      openblas_get_config(), openblas_get_corename());
    if (forced)
        cadre_text_printf(out,
                          "warning: OPENBLAS_CORETYPE=%s is set and decides the fp64 "
                          "kernels; unset it to let OpenBLAS choose the fastest\n",
                          forced);
}

void cadre_cpu_tuning_library(struct cadre_device *device, struct cadre_text *out)
{
    const dnnl_version_t *dnnl = dnnl_version();
    const char *blas = openblas_get_config(); /* "OpenBLAS 0.3.21 NO_LAPACKE ..." */
    size_t name = strcspn(blas, " ");
    size_t version = blas[name] ? 1 + strcspn(blas + name + 1, " ") : 0;
    const struct cadre_cpu *cpu = (const struct cadre_cpu *)device;
    if (cpu->fixed) {
        cadre_text_printf(out, "Cadre, fixed by row and column (%s)",
                          instruction_set());
        return;
    }
    cadre_text_printf(out, "%soneDNN %d.%d.%d (%s%s), %.*s (%s)",
                      cpu->own ? "Cadre, " : "", dnnl->major, dnnl->minor, dnnl->patch,
                      instruction_set(), cpu->multiplies_bf16 ? " and its bf16" : "",
                      (int)(name + version), blas, openblas_get_corename());
}
