/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS starts a thread for every core while the program is loaded, and each waits
 * for work with sched_yield, a tenth of a second or more, on the cores that read data
 * and make weights. Ours calls it on one thread at a time. */
#include <cblas.h>

#include "core/device/cpu/cpu.h"

/* What OpenBLAS does before a fork; not in its headers, nor in a build without threads.
 * Once there is one thread to use, none is started again. */
int blas_thread_shutdown_(void) __attribute__((weak));

void cadre_cpu_quiet_blas(void)
{
    if (openblas_get_num_threads() == 1)
        return;
    openblas_set_num_threads(1);
    if (blas_thread_shutdown_)
        blas_thread_shutdown_();
}
