/* SPDX-License-Identifier: Apache-2.0 */
/* Cadre's own products: the bits of an element depend on its own row and column alone,
 * and on a device opened `fixed` the inner dimension may be cut into parts that are
 * added in a tree. On the calling thread, which is `worker`. */
#ifndef CADRE_DEVICE_CPU_OWN_PRODUCT_H
#define CADRE_DEVICE_CPU_OWN_PRODUCT_H

#include "core/device/device.h"

struct cadre_cpu_kernels;
struct cadre_cpu_worker;

/* Steps of the inner dimension of a block, at most. */
enum { CADRE_OWN_BLOCK = 384 };

/* Packed panels that a worker keeps for the next tile of the same columns. */
enum { CADRE_OWN_KEPT = 64 };
struct cadre_own_kept {
    bool on; /* the product that runs may use and add to them */
    const void *first; /* the b of the columns */
    uint64_t serial; /* of the product */
    size_t room, used; /* bytes; what is not kept lies after the room */
    int n;
    struct {
        const void *b;
        int64_t k;
        size_t at;
    } panels[CADRE_OWN_KEPT];
};

/* As cadre_gemm_product (gemm.h), terms too; f32, f64, and 16 bits with an f32 c, which
 * are widened as they are read. */
cadre_status cadre_own_product(struct cadre_cpu_worker *worker,
                               const struct cadre_gemm *gemm);

/* Bytes of the panels of all of b or of all terms; 0 where they are too many to keep.
 * [any thread] */
size_t cadre_own_panel_bytes(const struct cadre_cpu_kernels *kernels,
                             const struct cadre_gemm *gemm);
/* Keep the panels of the columns that begin at b in the product `serial`, up to that
 * many bytes, until cadre_own_pause; those of the call before are still there where b
 * and serial are its own. */
void cadre_own_keep(struct cadre_cpu_worker *worker, const void *b, uint64_t serial,
                    size_t bytes);
void cadre_own_pause(struct cadre_cpu_worker *worker);

/* What adds the parts of a product whose c is of `element` bytes. */
struct cadre_parts {
    void *arg;
    size_t element;
    /* c = the product of one part, without parts; where `adds`, g->beta may be 1 */
    cadre_status (*leaf)(void *arg, const struct cadre_gemm *g);
    /* c (g->m, g->n; ldc) += right (g->m, g->n), dense */
    void (*join)(void *arg, const struct cadre_gemm *g, void *c, const void *right);
    bool adds;
};

/* c = the tree of the parts of g; beta is 0. Errors: those of leaf, CADRE_E_RESOURCE.
 */
cadre_status cadre_parts_run(struct cadre_cpu_worker *worker,
                             const struct cadre_parts *parts,
                             const struct cadre_gemm *g);
/* The same by cadre_own_product; f32 and f64, terms too. */
cadre_status cadre_parts_product(struct cadre_cpu_worker *worker,
                                 const struct cadre_cpu_kernels *kernels,
                                 const struct cadre_gemm *g);

#endif
