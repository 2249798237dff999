/* SPDX-License-Identifier: Apache-2.0 */
/* The instance of adafactor, and what its files share. */
#ifndef CADRE_PLUGINS_ADAFACTOR_ADAFACTOR_H
#define CADRE_PLUGINS_ADAFACTOR_ADAFACTOR_H

#include <cadre/helpers.h>

/* Factors of the second moment of a matrix, as the plan lists them. */
enum { ADAFACTOR_ROWS, ADAFACTOR_COLUMNS, ADAFACTOR_STATES };

struct cadre_self {
    const struct cadre_host *host;
    struct cadre_ctx *ctx;
    const struct cadre_model_svc *model;
    const struct cadre_mem_svc *mem;
    const struct cadre_ops_svc *ops;
    double decay, clip, eps;
    uint32_t dtype; /* of gradients and states */
    uint32_t n_params;
    uint8_t *factored; /* (n_params) 1 for a matrix */
    /* Scratch, elements: the largest matrix or vector; the most rows, and columns. */
    uint64_t n_scratch, n_rows, n_columns;
    /* ones: as many as the longest of a row, a column and a vector */
    uint64_t n_ones;
    void *scratch, *row, *column, *ones;
};

/* Stage MATRIX: the factors become those of this step, and ev->grad what the parameter
 * moves by. [stream; waits for the device twice] */
cadre_status adafactor_matrix(struct cadre_self *self,
                              const struct cadre_update_ev *ev);

/* The same for a vector, which has a moment for each element. [stream; waits for the
 * device once] */
cadre_status adafactor_vector(struct cadre_self *self,
                              const struct cadre_update_ev *ev);

#endif
