/* SPDX-License-Identifier: Apache-2.0 */
/* What the shim (fault_calls.c) and its driver (tests/fault/fault_run.c) share: a file
 * that every process of the command maps. A stack is the hash of the return addresses
 * of a call, as offsets in their files, so that it is the same in every run. */
#ifndef CADRE_TESTS_FAULT_TABLE_H
#define CADRE_TESTS_FAULT_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#define FAULT_TABLE_ENV "FAULT_TABLE" /* the file's path */

enum { FAULT_SLOTS = 1 << 15, FAULT_FRAMES = 24, FAULT_TRACE = 4096 };

enum fault_kind {
    FAULT_NONE,
    FAULT_MEMORY,
    FAULT_MMAP,
    FAULT_OPEN,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_SYNC,
    FAULT_RENAME,
    FAULT_FORK,
    FAULT_THREAD,
    FAULT_SOCKET,
    FAULT_KINDS
};

enum { FAULT_SHORT = -1 }; /* in the place of an errno: half of the bytes */

struct fault_slot {
    _Atomic uint64_t stack; /* 0: free; the kind is in it */
    _Atomic uint32_t kind, calls;
};

struct fault_table {
    uint32_t kinds; /* bits that are counted */
    uint32_t fails; /* the driver's: a fault is to be made */
    uint64_t stack; /* where */
    uint32_t at; /* at this call of it, from 1 */
    int32_t error; /* what it returns: an errno or FAULT_SHORT */
    _Atomic uint32_t delivered, full;
    char trace[FAULT_TRACE]; /* of the call that failed, a line a frame */
    struct fault_slot slot[FAULT_SLOTS];
};

#endif
