/* SPDX-License-Identifier: Apache-2.0 */
/* A small checkpoint whose every value is a function of (step, part, tensor, element),
 * for the tests of writing and of reading. */
#ifndef CADRE_TESTS_CHECKPOINT_SAVE_H
#define CADRE_TESTS_CHECKPOINT_SAVE_H

#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/format/draft.h"

enum { SAVE_TENSORS = 4 };
extern const struct cadre_safetensors_spec save_tensors[SAVE_TENSORS];

uint64_t save_count(size_t tensor);

/* Elements [begin, begin + count) of a part of a tensor, in its dtype. */
void save_values(uint64_t step, int part, size_t tensor, uint64_t begin, uint64_t count,
                 void *out);

/* Write the share of a rank of `n_ranks`: every n_ranks-th run of `run` elements. */
cadre_status save_share(const char *root, uint64_t step, int rank, int n_ranks,
                        uint64_t run, struct cadre_error *err);

/* The whole save by one thread. */
cadre_status save_checkpoint(const char *root, uint64_t step, int n_ranks, uint64_t run,
                             size_t keep, struct cadre_error *err);

/* The manifest of a step. */
struct cadre_manifest save_manifest(uint64_t step);

/* Assert that the checkpoint holds what save_checkpoint wrote, read in runs of `run`.
 */
void save_compare(const char *dir, uint64_t step, uint64_t run);

#endif
