/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_BASE_RELAX_H
#define CADRE_BASE_RELAX_H

#include <stdatomic.h>

/* In a loop that waits for another thread: leaves the core's units to others for some
 * cycles. [any thread] */
static inline void cadre_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

#endif
