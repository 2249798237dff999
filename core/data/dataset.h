/* SPDX-License-Identifier: Apache-2.0 */
/* A data set: one interface for text, token files, ECG records and images. The contents
 * of a sample depend only on the files, the options and the sample's index, never on
 * the caller or the time.
 *
 * Text and tokens: one stream, its end kept for validation, divided into windows of
 * `context` inputs and the token after each (targets are the inputs one ahead).
 * wfdb: windows of `window` samples around each beat of one lead, split by record; the
 * foundation task predicts the next sample (window - 1 inputs), the tasks beats and vbd
 * give the whole window and a label.
 * idx, images: see core/data/image/images.h. The inputs of a sample are the bytes of
 * its image, and its tokens are patches and a class token, which the model makes.
 * instruct: a record of instruction data each, the targets of the prompt masked, or
 * several records packed into a window, with positions that begin again in each. */
#ifndef CADRE_DATA_DATASET_H
#define CADRE_DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/split/holdout.h"
#include "core/data/tokenizer/tokenizer.h"

enum cadre_data_task {
    CADRE_TASK_LM,
    CADRE_TASK_CLASSIFY,
};

enum cadre_data_split {
    CADRE_SPLIT_TRAIN,
    CADRE_SPLIT_VALID,
};

/* A target with this value is left out of the loss. */
#define CADRE_TARGET_IGNORED (-1)

/* Strings are borrowed for the call of cadre_dataset_open; NULL and "" mean not given.
 */
struct cadre_dataset_config {
    const char *format; /* text, tokens, wfdb, idx, images, instruct */
    /* a file (text, tokens, idx, instruct); a folder or one record (wfdb); a folder
     * (images) */
    const char *path;
    const char *labels; /* idx, and the rest of these for images too */
    int64_t classes, patch, shift;
    bool nhwc, flip;
    /* text, instruct: see cadre_tokenizer_open; default "byte" */
    const char *tokenizer;
    const char *lead; /* wfdb: the signal's description, as "MLII" */
    const char *task; /* wfdb: foundation, beats, vbd; default foundation */
    const char *valid_records; /* wfdb: "119, 209"; wins over valid_fraction */
    const char *template_name; /* instruct: alpaca, chatml, plain; default alpaca */
    const char *too_long; /* instruct: truncate, refuse; default truncate */
    bool train_on_prompt, pack; /* instruct */
    const char *cache_dir; /* made if missing; NULL: an unnamed temporary file */
    int64_t window; /* wfdb: samples per window */
    int64_t levels; /* wfdb: tokens, 2 to 65536 */
    double range_mv; /* wfdb: clip to +- this */
    double valid_fraction; /* [0, 1): of the stream, or of the records */
    int64_t context; /* text, tokens, instruct: inputs per sample */
    int64_t vocab; /* tokens: ids must be below, all are checked; 0: largest, plus 1 */
    bool shuffle;
    uint64_t seed;
};

struct cadre_dataset;

struct cadre_dataset_info {
    enum cadre_data_task task;
    int64_t vocab;
    int64_t classes; /* 0 where the task is LM */
    int64_t seq_len; /* T: tokens per sample */
    int64_t inputs; /* int32 per sample: T, or the bytes of an image, rounded up */
    int64_t channels, height, width; /* of images; else 0 */
    uint64_t train_samples;
    uint64_t valid_samples;
    uint64_t train_tokens; /* tokens of the split, each counted once */
    uint64_t valid_tokens;
    bool masked; /* the number of targets differs between samples: cadre_dataset_targets
                  */
    bool packed; /* samples have positions of their own: cadre_dataset_positions */
    bool pairs; /* samples 2i and 2i + 1 are a chosen and a rejected answer */
    struct cadre_tokenizer_marks marks; /* of text and instruct */
    uint64_t records; /* wfdb: records used; else 0 */
    struct cadre_holdout holdout; /* all zero: wfdb, which has records */
    uint64_t fingerprint; /* hash of contents and options: equal on every machine for
                             the same data */
};

/* Open, tokenise if no cache exists yet, and map. Safe to call from several
 * threads and processes at once, also with the same cache_dir. The caller closes *out.
 * [any thread] Errors: CADRE_E_INVALID (options, files' contents), CADRE_E_IO,
 * CADRE_E_RESOURCE; *out is then untouched. */
cadre_status cadre_dataset_open(const struct cadre_dataset_config *config,
                                struct cadre_dataset **out, struct cadre_error *err);

/* NULL is accepted. No call on the data set may be under way. */
void cadre_dataset_close(struct cadre_dataset *set);

/* Everything below reads only: any number of threads may share an open data set. */

void cadre_dataset_info(const struct cadre_dataset *set,
                        struct cadre_dataset_info *info);

/* Write sample `index` of the split.
 *
 *   inputs  (I) i32  written
 *   targets (T) i32  written; all CADRE_TARGET_IGNORED if the task is CLASSIFY, and of
 *                    masked tokens; may be NULL
 *   label   (1) i32  written; -1 if the task is LM; may be NULL
 *
 * T = info.seq_len, I = info.inputs. [any thread] Errors: CADRE_E_INVALID index outside
 * the split, or a token that is not below info.vocab (a file changed or broken after
 * open). */
cadre_status cadre_dataset_sample(const struct cadre_dataset *set,
                                  enum cadre_data_split split, uint64_t index,
                                  int32_t *inputs, int32_t *targets, int32_t *label);

/* positions (T) i32 written: each input's position in its record, 0 where one begins.
 * [any thread] Errors: CADRE_E_INVALID index outside the split. */
cadre_status cadre_dataset_positions(const struct cadre_dataset *set,
                                     enum cadre_data_split split, uint64_t index,
                                     int32_t *positions);

/* Targets that are not ignored in the n samples from global sample position `position`
 * on; labels where the task is CLASSIFY. [any thread] */
uint64_t cadre_dataset_targets(const struct cadre_dataset *set, uint64_t position,
                               uint64_t n);

/* The training order: global sample position 0, 1, 2, ... over all epochs -> index in
 * the train split. A function of (seed, position) alone; every epoch is a permutation
 * of its own, of pairs where samples are paired. The split must not be empty. [any
 * thread] */
uint64_t cadre_dataset_order(const struct cadre_dataset *set, uint64_t position);

/* Write the inputs of the training sample `index` as it is at global position
 * `position`: an image is changed by the epoch. Other samples are those of
 * cadre_dataset_sample. Errors are its. [any thread] */
cadre_status cadre_dataset_train_sample(const struct cadre_dataset *set,
                                        uint64_t position, int32_t *inputs,
                                        int32_t *targets, int32_t *label);

/* Samples per class in the split: counts (info.classes) u64 written. [any thread] */
void cadre_dataset_class_counts(const struct cadre_dataset *set,
                                enum cadre_data_split split, uint64_t *counts);

/* "N", "S", "V", "F", "Q" (beats); "other", "ventricular" (vbd); digits or the names of
 * folders (images). Valid while the set is open. */
const char *cadre_dataset_class_name(const struct cadre_dataset *set, int64_t class_id);

/* Order-1 conditional entropy H(x_t | x_t-1) of the split| in nats, from its own
 * counts: the lowest loss of a bigram model on exactly these targets. Errors:
 * CADRE_E_RESOURCE; CADRE_E_INVALID where no pair exists; CADRE_E_UNSUPPORTED where
 * targets are masked. [any thread] */
cadre_status cadre_dataset_bigram_entropy(const struct cadre_dataset *set,
                                          enum cadre_data_split split, double *nats,
                                          struct cadre_error *err);

/* Name of record `index` (below info.records) and the split it is in, for reports.
 * Valid while the set is open. */
const char *cadre_dataset_record(const struct cadre_dataset *set, uint64_t index,
                                 enum cadre_data_split *split);

#endif
