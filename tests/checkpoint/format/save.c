/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/checkpoint/format/save.h"

#include <stdlib.h>
#include <string.h>

#include <cadre/types.h>

#include "tests/support/check_main.h"

const struct cadre_safetensors_spec save_tensors[SAVE_TENSORS] = {
    {"model.embed.weight", CADRE_F32, 2, {300, 1000}},
    {"model.norm.weight", CADRE_F32, 1, {64}},
    {"model.wide.weight", CADRE_F64, 2, {33, 7}},
    {"model.empty", CADRE_F32, 1, {0}},
};

static const struct cadre_manifest_value values[] = {
    {"build", "0123456789abcdef"},
    {"note", "quotes \" and \\ and \xc3\xa9"},
};

uint64_t save_count(size_t tensor)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < save_tensors[tensor].ndim; i++)
        count *= save_tensors[tensor].dim[i];
    return count;
}

void save_values(uint64_t step, int part, size_t tensor, uint64_t begin, uint64_t count,
                 void *out)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = (begin + i) * 0x9e3779b97f4a7c15u + step * 1000003u +
                       (uint64_t)part * 7919u + tensor * 104729u;
        double value = (double)(int64_t)(key >> 11) * 0x1p-53 - 0.5;
        if (save_tensors[tensor].dtype == CADRE_F64)
            ((double *)out)[i] = value;
        else
            ((float *)out)[i] = (float)value;
    }
}

/* `first` and `stride` are in elements. */
static cadre_status write_tensor(struct cadre_draft *writer, uint64_t step,
                                 size_t tensor, uint64_t first, uint64_t stride,
                                 uint64_t run, struct cadre_error *err)
{
    double *data = malloc((run + 1) * sizeof *data);
    cadre_status rc = CADRE_OK;
    uint64_t count = save_count(tensor);
    for (int part = 0; part < 3; part++)
        for (uint64_t at = first; at < count && rc == CADRE_OK; at += stride) {
            uint64_t n = count - at < run ? count - at : run;
            save_values(step, part, tensor, at, n, data);
            rc = cadre_draft_write(writer, (enum cadre_checkpoint_part)part,
                                   save_tensors[tensor].name, at, n, data, err);
        }
    free(data);
    return rc;
}

cadre_status save_share(const char *root, uint64_t step, int rank, int n_ranks,
                        uint64_t run, struct cadre_error *err)
{
    struct cadre_draft *writer = NULL;
    cadre_status rc = cadre_draft_open(root, step, rank, &writer, err);
    for (size_t t = 0; t < SAVE_TENSORS && rc == CADRE_OK; t++)
        rc = write_tensor(writer, step, t, (uint64_t)rank * run,
                          (uint64_t)n_ranks * run, run, err);
    if (rc == CADRE_OK)
        rc = cadre_draft_sync(writer, err);
    cadre_draft_close(writer);
    return rc;
}

struct cadre_manifest save_manifest(uint64_t step)
{
    return (struct cadre_manifest){
        .step = step,
        .samples = step * 32,
        .seed = UINT64_MAX - step,
        .options = "[model]\narch = gpt2\n",
        .n_values = 2,
        .values = values,
    };
}

cadre_status save_checkpoint(const char *root, uint64_t step, int n_ranks, uint64_t run,
                             size_t keep, struct cadre_error *err)
{
    struct cadre_manifest manifest = save_manifest(step);
    CADRE_TRY(cadre_draft_begin(root, step, save_tensors, SAVE_TENSORS, 2, err));
    for (int rank = 0; rank < n_ranks; rank++)
        CADRE_TRY(save_share(root, step, rank, n_ranks, run, err));
    return cadre_draft_commit(root, n_ranks, &manifest, keep, err);
}

static void compare_tensor(struct cadre_checkpoint *checkpoint, uint64_t step, int part,
                           size_t tensor, uint64_t run)
{
    uint32_t dtype = save_tensors[tensor].dtype;
    size_t size = dtype == CADRE_F64 ? 8 : 4;
    uint64_t count = save_count(tensor);
    double *want = malloc((run + 1) * sizeof *want);
    double *got = malloc((run + 1) * sizeof *got);
    struct cadre_error err = {0};
    for (uint64_t at = 0; at < count; at += run) {
        uint64_t n = count - at < run ? count - at : run;
        save_values(step, part, tensor, at, n, want);
        cadre_status rc =
            cadre_checkpoint_read(checkpoint, (enum cadre_checkpoint_part)part,
                                  save_tensors[tensor].name, at, n, dtype, got, &err);
        ck_assert_msg(rc == CADRE_OK, "%s", err.text);
        ck_assert(memcmp(want, got, n * size) == 0);
    }
    free(want);
    free(got);
}

void save_compare(const char *dir, uint64_t step, uint64_t run)
{
    struct cadre_checkpoint *checkpoint = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_checkpoint_open(dir, &checkpoint, &err) == CADRE_OK, "%s",
                  err.text);
    const struct cadre_manifest *manifest = cadre_checkpoint_manifest(checkpoint);
    ck_assert_uint_eq(manifest->step, step);
    ck_assert_uint_eq(manifest->samples, step * 32);
    ck_assert_uint_eq(manifest->seed, UINT64_MAX - step);
    ck_assert_str_eq(manifest->options, "[model]\narch = gpt2\n");
    ck_assert_str_eq(cadre_checkpoint_value(checkpoint, "note"), values[1].value);
    ck_assert_ptr_null(cadre_checkpoint_value(checkpoint, "none"));
    for (int part = 0; part < 3; part++)
        for (size_t t = 0; t < SAVE_TENSORS; t++)
            compare_tensor(checkpoint, step, part, t, run);
    cadre_checkpoint_close(checkpoint);
}
