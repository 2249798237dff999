/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS starts a thread per core while the program is loaded. Each waits for work
 * with sched_yield, for 0.1 s or more, on the cores that read data and initialise
 * weights. Cadre calls OpenBLAS on one thread at a time. */
#include <cblas.h>

#include "core/device/cpu/cpu.h"

/* OpenBLAS calls this before a fork; it is not in its headers, nor in a build without
 * threads. With one thread to use, no thread is started again. */
int blas_thread_shutdown_(void) __attribute__((weak));

void cadre_cpu_quiet_blas(void)
{
    if (openblas_get_num_threads() == 1)
        return;
    openblas_set_num_threads(1);
    if (blas_thread_shutdown_)
        blas_thread_shutdown_();
}
