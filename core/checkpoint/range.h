/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank saves and loads: ranges of its parameters and of states of their shape,
 * to and from their positions in unsharded tensors. Private to core/checkpoint. */
#ifndef CADRE_CHECKPOINT_RANGE_H
#define CADRE_CHECKPOINT_RANGE_H

#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/format/draft.h"
#include "core/checkpoint/format/hf.h"
#include "core/engine/rank.h"

/* Elements that are copied through host memory at once. */
#define CADRE_RANGE_CHUNK ((uint64_t)1 << 18)

/* Elements [begin, begin + count) of this rank's part of a parameter, or of a state of
 * the same shape; all are of the store's wide dtype. */
struct cadre_range {
    enum cadre_checkpoint_part part;
    const char *name; /* of the tensor in the checkpoint, and what follows in it */
    const char *key; /* of an optimizer plugin's state; else NULL */
    int replica; /* 1 + the place along the axis of diverging replicas; 0: none */
    uint32_t param;
    bool flat; /* elements are those of the tensor: one a row or a column */
    uint32_t per; /* elements of the parameter that each stands for, as a block's scale
                     does; 0: one */
    uint64_t begin, count;
    const void *data; /* of element `begin` */
    bool on_host; /* data is in host memory, else the device's */
};

typedef cadre_status (*cadre_range_visit)(void *arg, const struct cadre_range *range,
                                          struct cadre_error *err);

/* Receives ranges. After a failure it ignores further ranges, but the giver continues:
 * other ranks combine their values with this rank's. */
struct cadre_range_sink {
    cadre_range_visit visit;
    void *arg;
    cadre_status rc; /* the first failure, of a visit or of a giver */
    struct cadre_error *err; /* its text */
};

/* Pass a range; its data may be freed afterwards, its name must stay valid. */
void cadre_range_give(struct cadre_range_sink *sink, const struct cadre_range *range);

/* How values of several ranks become one. */
struct cadre_range_sum {
    const struct cadre_axis *axis; /* over whose ranks, NULL: the data ranks */
    bool mean;
    const char *label; /* of the operation */
    void *buffer; /* host memory of a chunk */
};

/* [collective: the ranks of `sum`] Pass the sum, or the mean, of the range over these
 * ranks to the sink. With an axis its first rank passes all of it; data ranks pass
 * chunks in turn. Errors: the device's, the communicator's; without a text. */
cadre_status cadre_range_combine(const struct cadre_rank *rank,
                                 const struct cadre_range *range,
                                 const struct cadre_range_sum *sum,
                                 struct cadre_range_sink *sink);

/* [collective: the ranks of `mean`] Pass the mean of an optimizer state over diverging
 * replicas; ranks that are no primary owner of the parameter within a replica have no
 * part. Errors: as cadre_range_combine; the sink has a text. */
cadre_status cadre_range_give_mean(const struct cadre_rank *rank,
                                   const struct cadre_range *range,
                                   const struct cadre_range_sum *mean,
                                   struct cadre_range_sink *sink);

/* Copy the range to host memory (count). */
cadre_status cadre_range_fetch(const struct cadre_rank *rank,
                               const struct cadre_range *range, void *to,
                               struct cadre_error *err);

/* The tensor's name of a range: its name, .key and .replica, the latter from 0. Errors:
 * CADRE_E_INVALID too long. */
cadre_status cadre_range_name(const struct cadre_range *range,
                              char out[CADRE_CHECKPOINT_NAME], struct cadre_error *err);

/* Write a range to its positions in the draft; device memory is copied through `buffer`
 * (a chunk). [any thread, where the range is on the host] */
cadre_status cadre_range_write(const struct cadre_rank *rank, struct cadre_draft *draft,
                               const struct cadre_range *range, void *buffer,
                               struct cadre_error *err);

/* Read a range (its data is not used) from its positions in a checkpoint, or in a model
 * folder where `hf` is not NULL, to host memory (count). */
cadre_status cadre_range_read(const struct cadre_rank *rank,
                              struct cadre_checkpoint *checkpoint,
                              const struct cadre_hf *hf,
                              const struct cadre_range *range, void *to,
                              struct cadre_error *err);

/* data (n, fp32 or fp64, host memory) *= times / over */
void cadre_range_scale(void *data, uint32_t dtype, uint64_t n, double times,
                       double over);

/* A tensor of a parameter's whole shape. The name is borrowed. */
struct cadre_safetensors_spec cadre_range_tensor(const struct cadre_model *model,
                                                 uint32_t param, const char *name);

/* The tensors of a checkpoint: the model's parameters without tied ones; of a model
 * with adapters those alone, or where `base` is set the others. The caller frees it.
 * NULL: no memory, with the text in err. */
struct cadre_safetensors_spec *cadre_range_tensors(const struct cadre_model *model,
                                                   bool base, size_t *n,
                                                   struct cadre_error *err);

/* Moments per parameter: 0, 1 exp_avg, 2 both. An optimizer plugin and adamw8bit have
 * none: their states are those of opt_state.h. */
int cadre_range_moments(const struct cadre_run_spec *run);

#endif
