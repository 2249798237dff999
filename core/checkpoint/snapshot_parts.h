/* SPDX-License-Identifier: Apache-2.0 */
/* What saving and loading of snapshots share. Private to core/checkpoint. */
#ifndef CADRE_CHECKPOINT_SNAPSHOT_PARTS_H
#define CADRE_CHECKPOINT_SNAPSHOT_PARTS_H

#include "core/base/arena.h"
#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/format/draft.h"
#include "core/strategy/rank.h"

/* The owned parameters in canonical layout; names are the model's. The caller frees it,
 * NULL: no memory. */
struct cadre_safetensors_spec *cadre_snapshot_table(const struct cadre_model *model,
                                                    size_t *n);

/* Optimizer states per parameter: 0, 1 exp_avg, 2 both. */
int cadre_snapshot_moments(const struct cadre_run_spec *run);

/* The folder of the run's checkpoints; the caller frees it, NULL: no memory. */
char *cadre_snapshot_root(const char *out);

/* A parameter cut by tensor parallelism is not a flat range of its logical self: from
 * local element `begin`, how many of at most `limit` elements are neighbours in the
 * logical tensor too? *logical is where they begin there. */
uint64_t cadre_snapshot_run(const struct cadre_model *model, uint32_t param,
                            uint64_t begin, uint64_t limit, uint64_t *logical);

/* Host memory for one range of a parameter at a time, touched once however many ranges
 * pass through. The caller ends it with cadre_arena_fini. */
cadre_status cadre_snapshot_staging(struct cadre_arena *staging,
                                    const struct cadre_rank *rank,
                                    struct cadre_error *err);

/* data (n, fp32 or fp64, host memory) *= factor */
void cadre_snapshot_scale(void *data, uint32_t dtype, uint64_t n, double factor);

struct cadre_states;

/* What one rank writes at once: elements [begin, begin + count) of the local part of a
 * parameter, or of a state of the same shape. */
struct cadre_snapshot_piece {
    enum cadre_checkpoint_part part;
    const char *name; /* of the tensor as the checkpoint's writer wants it */
    uint32_t param;
    uint64_t begin, count;
    const void *data;
    bool on_host; /* data is in host memory, else the device's */
};

typedef cadre_status (*cadre_snapshot_visit)(void *arg,
                                             const struct cadre_snapshot_piece *piece,
                                             struct cadre_error *err);

/* [collective: world, quiesced] Show `visit` all that this rank has to write; after a
 * visit that failed no other is made, but the ranks still combine their states, so none
 * is left waiting. The pieces' names last as long as the model and the states. */
cadre_status cadre_snapshot_each(struct cadre_rank *rank, struct cadre_states *states,
                                 cadre_snapshot_visit visit, void *arg,
                                 struct cadre_error *err);

/* [collective: the axis of param.apart] Show the means over the replicas of this rank's
 * optimizer states, for each that has something to write. After a visit that failed no
 * other is made. */
cadre_status cadre_snapshot_means(struct cadre_rank *rank, cadre_snapshot_visit visit,
                                  void *arg, struct cadre_error *err);

/* Write a piece that is in host memory to its logical places. [any thread] */
cadre_status cadre_snapshot_write(const struct cadre_rank *rank,
                                  struct cadre_draft *writer,
                                  const struct cadre_snapshot_piece *piece,
                                  struct cadre_error *err);

/* The files of a checkpoint made. [one rank, any thread] */
cadre_status cadre_snapshot_begin(const struct cadre_rank *rank,
                                  const struct cadre_states *states, const char *root,
                                  int64_t step, struct cadre_error *err);

/* What is written beside the tensors: blobs, and the model's configuration by rank 0.
 * Then all of the rank's is brought to the disk. [any thread] */
cadre_status cadre_snapshot_seal(const struct cadre_rank *rank,
                                 const struct cadre_states *states,
                                 struct cadre_draft *writer, const char *root,
                                 int64_t step, struct cadre_error *err);

/* The hash of the run's data, in hexadecimal. */
void cadre_snapshot_data(const struct cadre_rank *rank, char out[17]);

/* How a rank's device multiplies, as a checkpoint keeps it: the library, and the hash
 * of its chosen algorithms where there are any. */
#define CADRE_GEMM_CHARS (sizeof(struct cadre_tuning) + 16)
void cadre_snapshot_gemm(const struct cadre_tuning *tuning, char out[CADRE_GEMM_CHARS]);

/* The checkpoint published, with the loss scale of its moment, once all ranks have
 * sealed theirs. [one rank, any thread]
 */
cadre_status cadre_snapshot_commit(const struct cadre_rank *rank,
                                   const struct cadre_loss_scale *scale,
                                   const char *root, int64_t step,
                                   struct cadre_error *err);

/* [collective: world] Do all ranks report OK? A barrier too. Errors: `mine`, or
 * CADRE_E_ABORTED where it is another's. */
cadre_status cadre_snapshot_agree(struct cadre_rank *rank, cadre_status mine,
                                  struct cadre_error *err);

#endif
