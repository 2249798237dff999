/* SPDX-License-Identifier: Apache-2.0 */
/* What one rank of this machine does in a second: products, memory, attention, an
 * update, and transfers between two ranks; for `cadre plan --measure`. */
#ifndef CADRE_TRAIN_PROBE_H
#define CADRE_TRAIN_PROBE_H

#include "core/base/error.h"
#include "core/comm/local.h"

enum cadre_probe_dtype {
    CADRE_PROBE_F32,
    CADRE_PROBE_F16,
    CADRE_PROBE_BF16,
    CADRE_PROBE_F64,
    CADRE_PROBE_DTYPES,
};

/* Medians of three rounds. A product of F FLOPs takes about (F + half_flops) / flops_s.
 */
struct cadre_probe {
    char device[128]; /* its name */
    int threads; /* of the rank */
    double flops_s[CADRE_PROBE_DTYPES]; /* 0: the device has no such products */
    double half_flops; /* of fp32 */
    double memory_bytes, memory_free; /* of the device */
    double copy_bytes_s; /* read and written together, of blocks that no cache holds */
    double rows_bytes_s; /* the same of a norm of 2048 x 512 */
    double attention_flops_s; /* fp32, causal: of the half that is computed */
    double update_bytes_s; /* AdamW at 30 bytes an element */
    double op_s; /* a small operation that does nearly nothing */
    /* between two ranks of the local transport, the latency half of a small sum's; [1]:
     * of two nodes, where link[1] is given, else the same */
    double link_bytes_s[2], link_latency_s[2];
};

/* Measure for about `seconds` in all, on a device of `kind` with `threads` threads;
 * two more threads stand for two ranks at its end, over the links of comm.link (NULL,
 * all zero: as fast as memory), within nodes and between them. [main] Errors: those of
 * cadre_device_open, CADRE_E_RESOURCE, and those of the operations. */
cadre_status cadre_probe(struct cadre_probe *out, const char *kind, int threads,
                         const struct cadre_link link[2], double seconds,
                         struct cadre_error *err);

#endif
