/* SPDX-License-Identifier: Apache-2.0 */
/* The instance of muon, and what its files share. */
#ifndef CADRE_PLUGINS_MUON_MUON_H
#define CADRE_PLUGINS_MUON_MUON_H

#include <cadre/helpers.h>

/* A parameter as it is updated. */
struct muon_weight {
    uint8_t matrix; /* orthogonalized; else AdamW */
    uint8_t turned; /* its parts are side by side, so it is worked on transposed */
    uint32_t parts; /* 3 of packed q, k, v; 1 of others */
    uint64_t rows, columns; /* of a part, as it is worked on */
    double scale; /* of the orthogonal update, times the learning rate */
};

struct cadre_self {
    const struct cadre_host *host;
    struct cadre_ctx *ctx;
    const struct cadre_model_svc *model;
    const struct cadre_mem_svc *mem;
    const struct cadre_ops_svc *ops;
    double momentum, adamw_lr, beta1, beta2, eps;
    uint32_t nesterov, match_rms, steps;
    uint32_t dtype; /* of gradients and states */
    uint32_t n_params;
    struct muon_weight *weight; /* (n_params) */
    /* Scratch of the largest matrix, elements: a transposed copy of all parts; a second
     * copy of one part; two squares of a part's smaller side. */
    uint64_t n_turned, n_other, n_square;
    void *turned, *other, *square[2];
};

/* The singular values of each part of x (parts, rows, columns), row-major, become about
 * 1, in place. [stream; waits for the device once a part] */
cadre_status muon_orthogonalize(struct cadre_self *self, const struct muon_weight *w,
                                void *x);

/* One step of AdamW; ev->grad is overwritten. */
cadre_status muon_adamw(struct cadre_self *self, const struct cadre_update_ev *ev);

#endif
