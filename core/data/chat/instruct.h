/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction data: the dialogues of one file as tokens and masks in a cache, their
 * split, and the samples made of them: a record each, or several packed into a window.
 *
 * The cache has a record of every dialogue, named after its line: tokens (16 bits, or
 * 32 where the tokenizer has more ids), and a label of each, 1 where it is a target. Of
 * a pair, dialogue 2i is the chosen and 2i + 1 the rejected one, and so are samples. */
#ifndef CADRE_DATA_CHAT_INSTRUCT_H
#define CADRE_DATA_CHAT_INSTRUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/split/holdout.h"
#include "core/data/tokenizer/tokenizer.h"

/* CADRE_TARGET_IGNORED of core/data/dataset.h */
#define CADRE_INSTRUCT_IGNORED (-1)

/* Strings are borrowed for the call, as is the tokenizer. */
struct cadre_instruct_config {
    const char *path; /* a file */
    const char *template_name; /* see cadre_chat_template_parse */
    const char *tokenizer_spec; /* whose folder has the template "model" */
    const char *too_long; /* "truncate" or "refuse"; NULL and "" truncate */
    const char *cache_dir; /* NULL: an unnamed temporary file */
    const struct cadre_tokenizer *tokenizer;
    int64_t context; /* T, rows of a sample */
    double valid_fraction; /* of the records, chosen by seed */
    uint64_t seed;
    bool train_on_prompt; /* every token is a target */
    bool pack;
};

struct cadre_instruct;

struct cadre_instruct_info {
    uint64_t samples[2], tokens[2]; /* by enum cadre_data_split */
    struct cadre_holdout holdout; /* its content: tokens and masks; items: records,
                                     pairs where samples are */
    bool pairs;
};

/* Tokenise if no cache exists yet, and map. The caller closes *out. [any thread; as
 * cadre_dataset_open] Errors: CADRE_E_INVALID, with file and line where a record is the
 * cause; CADRE_E_UNSUPPORTED; CADRE_E_IO; CADRE_E_RESOURCE; *out is then untouched. */
cadre_status cadre_instruct_open(const struct cadre_instruct_config *config,
                                 struct cadre_instruct **out, struct cadre_error *err);

/* NULL is accepted. */
void cadre_instruct_close(struct cadre_instruct *set);

void cadre_instruct_info(const struct cadre_instruct *set,
                         struct cadre_instruct_info *info);

/* Everything below is of sample `index`, below samples[split]. [any thread] */

/* inputs, targets (T) i32 written; targets may be NULL. Rows after the last record hold
 * the end of a sequence, and have no target. */
void cadre_instruct_sample(const struct cadre_instruct *set, int split, uint64_t index,
                           int32_t *inputs, int32_t *targets);

/* positions (T) i32 written: 0, 1, ... from each record's first row on, and again from
 * the first row after the last record. */
void cadre_instruct_positions(const struct cadre_instruct *set, int split,
                              uint64_t index, int32_t *positions);

/* Targets that are not masked. */
uint64_t cadre_instruct_targets(const struct cadre_instruct *set, int split,
                                uint64_t index);

#endif
