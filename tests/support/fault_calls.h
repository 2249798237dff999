/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the shim share. */
#ifndef CADRE_TESTS_FAULT_CALLS_H
#define CADRE_TESTS_FAULT_CALLS_H

#include "tests/support/fault_table.h"

#define FAULT_EXPORT __attribute__((visibility("default")))

/* The errno or FAULT_SHORT with which this call has to fail, else 0. */
int fault_of_call(enum fault_kind kind);

/* Calls of this thread between these two are neither counted nor failed. */
void fault_pause(void);
void fault_go_on(void);

/* The next definition of a function, found at its first use. */
#define FAULT_NEXT(name)                                                               \
    static __typeof__(&name) next;                                                     \
    if (!next) {                                                                       \
        fault_pause();                                                                 \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                                     \
        fault_go_on();                                                                 \
    }

#endif
