/* SPDX-License-Identifier: Apache-2.0 */
/* A device compared with the CPU through the table of ops. A case is one call (or a
 * few) on named arguments. It runs on the CPU in f64, on the same rounded inputs, and
 * on the device twice for equal bits, and again from an address aligned only to an
 * element. Memory that is not an output of the case must be unchanged, including the
 * space between rows and around buffers.
 *
 * Limits: u is the unit roundoff of a dtype (2^-53, 2^-24, 2^-11, 2^-8). A result may
 * be off by round * u(its dtype) * |result|       it is rounded that many times
 *   + sum * u(wide dtype) * magnitude       what sums and functions before it lose
 *   + narrow * u(the op's dtype) * magnitude   values that are kept in 16 bits between
 * and by half of the smallest number of its dtype. `magnitude` is the size of the
 * summed terms, so that a sum may cancel: see enum parity_magnitude. A sum of n terms
 * of either sign loses about sqrt(n) units (Higham & Mary 2019), and `sum` is a small
 * number plus two or so times that. */
#ifndef CADRE_TESTS_DEVICE_CUDA_PARITY_H
#define CADRE_TESTS_DEVICE_CUDA_PARITY_H

#include "core/device/device.h"

enum { PARITY_ARGS = 16, PARITY_CALLS = 4 };

/* dtypes of an argument, besides those of cadre/types.h */
enum { PARITY_OP = 1000, PARITY_WIDE };

/* An index in the table of ops; 0 is not one that computes. */
#define PARITY_ENTRY(name)                                                             \
    ((int)(offsetof(struct cadre_device_ops, name) / sizeof(void (*)(void))))
enum { PARITY_ENTRIES = sizeof(struct cadre_device_ops) / sizeof(void (*)(void)) };

/* The size of the terms of a result. */
enum parity_magnitude {
    PARITY_OWN, /* the result's own */
    PARITY_ABS, /* the same op on the magnitudes of its inputs */
    PARITY_ROW, /* the largest of its row */
    PARITY_RMS, /* its own and the root mean square of all, and a quarter of the limit
                   for the root mean square of all errors */
};

/* A tensor (rows, width) with leading dimension ld (0: width); rows 0 is NULL. */
struct parity_arg {
    uint32_t dtype;
    int64_t rows, width, ld;
    uint64_t seed; /* uniform numbers; 0: an output, NaN before */
    double range; /* of the numbers, 0 for 1 */
    double grid; /* they are multiples of 1 / grid where not 0 */
    int in; /* it lies in the memory of argument in - 1, at offset `at` */
    int64_t at;
    int call; /* of the case's calls, the one that writes it */
    bool out; /* written by the case and compared */
    bool bits; /* equal to the CPU's in the wide dtype, rounded */
    double round, sum, narrow; /* round 0 is 1, -1 is 0 */
    enum parity_magnitude magnitude;
    double floor; /* at least this */
};

/* In f64, one array an argument: the first element of its first row. */
struct parity_view {
    const double *start[PARITY_ARGS], *want[PARITY_ARGS];
};

struct parity_case {
    const char *name; /* with the shape */
    int calls[PARITY_CALLS]; /* PARITY_ENTRY of each, 0 at the end */
    uint32_t dtype;
    struct parity_arg args[PARITY_ARGS];
    /* The calls, on the memory p of `device`, with the given dtype. */
    cadre_status (*run)(struct cadre_device *device, uint32_t dtype, void **p,
                        const void *ctx);
    const void *ctx;
    /* Change the random inputs. NULL: keep them. */
    void (*fill)(const void *ctx, int arg, double *x, int64_t count);
    /* Change the magnitudes of an argument, (rows, width). NULL: keep them. */
    void (*magnitudes)(const void *ctx, const struct parity_view *view, int arg,
                       double *magnitude);
    bool chosen; /* where cases are the fewest too */
    bool bits_only; /* no f64 reference: only `bits` arguments are compared */
};

struct parity {
    struct cadre_device *cpu, *gpu;
    bool real; /* a GPU, so larger shapes */
    bool lean; /* CADRE_TEST_LEAN */
    bool leanest; /* CADRE_TEST_LEAN=2: a case runs once, and few of them do */
    int failures;
    int lines[PARITY_ENTRIES]; /* of errors, by the first call of a case */
    /* by entry and dtype: the worst error over its limit, and how many cases */
    double worst[PARITY_ENTRIES][8];
    int cases[PARITY_ENTRIES][8];
};

/* f32, f64, bf16, f16 */
extern const uint32_t parity_dtypes[4];

/* Run a case; each error is a line on stdout and counted. */
void parity_hold(struct parity *parity, const struct parity_case *c);

/* A separate check: counted for the entry and dtype, a line where !ok. */
void parity_expect(struct parity *parity, int entry, uint32_t dtype, bool ok,
                   const char *what);

/* CADRE_TEST_SHOW=1: the worst errors as a table. Then every entry that computes must
 * have had a case of every dtype it supports; a line for each without. */
void parity_show(const struct parity *parity);
void parity_covered(struct parity *parity);

/* Families of ops, one file each. */
void parity_gemms(struct parity *parity);
void parity_attentions(struct parity *parity);
void parity_rows(struct parity *parity);
void parity_elements(struct parity *parity);
void parity_losses(struct parity *parity);
void parity_lists(struct parity *parity);
void parity_compression(struct parity *parity);
void parity_vectors(struct parity *parity);
void parity_experts(struct parity *parity);

#endif
