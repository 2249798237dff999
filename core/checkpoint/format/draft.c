/* SPDX-License-Identifier: Apache-2.0 */
/* Saving. Each rank writes the checksums of its data to a separate file next to it; the
 * commit adds them up, which also shows that nothing is missing. */
#include "core/checkpoint/format/draft.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/format/folder.h"
#include "core/checkpoint/format/tensor_file.h"
#include "core/tensor/dtype.h"

struct cadre_draft {
    char *dir;
    int rank;
    struct cadre_tensor_file files[CADRE_CHECKPOINT_FILES];
};

/* A rank's record for the commit: one for each piece that it wrote to. */
struct record {
    uint64_t file, piece, sum, bytes;
};

char *cadre_draft_path(const char *root, uint64_t step)
{
    return cadre_folder_path(root, step, ".partial");
}

static char *sums_path(const char *dir, int rank)
{
    return cadre_format("%s/sums-%06d", dir, rank);
}

/* All parameters of a draft are adapters, or none is. */
static cadre_status create_file(const char *dir, int which,
                                const struct cadre_safetensors_spec *tensors, size_t n,
                                struct cadre_error *err)
{
    const bool adapters = which == 0 && n > 0 && strstr(tensors[0].name, ".lora_A.");
    char *path = cadre_format("%s/%s", dir,
                              adapters ? CADRE_CHECKPOINT_ADAPTERS
                                       : cadre_checkpoint_files[which]);
    cadre_status rc = path ? cadre_safetensors_create(path, tensors, n, err)
                           : cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", dir);
    free(path);
    return rc;
}

static cadre_status create_optimizer(const char *dir,
                                     const struct cadre_safetensors_spec *tensors,
                                     size_t n, int moments, struct cadre_error *err)
{
    size_t total = n * (size_t)moments;
    char(*names)[CADRE_CHECKPOINT_NAME] = cadre_calloc(total, sizeof *names);
    struct cadre_safetensors_spec *specs = cadre_calloc(total, sizeof *specs);
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; names && specs && i < total && rc == CADRE_OK; i++) {
        size_t t = i / (size_t)moments;
        enum cadre_checkpoint_part part =
            CADRE_CHECKPOINT_EXP_AVG + (int)(i % (size_t)moments);
        specs[i] = tensors[t];
        specs[i].name = names[i];
        rc = cadre_checkpoint_name(part, tensors[t].name, names[i], err);
    }
    if (!names || !specs)
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", dir);
    if (rc == CADRE_OK)
        rc = create_file(dir, cadre_checkpoint_file_of(CADRE_CHECKPOINT_EXP_AVG), specs,
                         total, err);
    free(names);
    free(specs);
    return rc;
}

static cadre_status create_files(const char *dir,
                                 const struct cadre_safetensors_spec *tensors, size_t n,
                                 int moments, struct cadre_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (tensors[i].dtype != CADRE_F32 && tensors[i].dtype != CADRE_F64)
            return cadre_fail(err, CADRE_E_INVALID,
                              "tensor '%.200s': a checkpoint holds f32 or f64, found "
                              "%s",
                              tensors[i].name, cadre_dtype_name(tensors[i].dtype));
    cadre_status rc = create_file(dir, cadre_checkpoint_file_of(CADRE_CHECKPOINT_PARAM),
                                  tensors, n, err);
    if (rc == CADRE_OK && moments > 0)
        rc = create_optimizer(dir, tensors, n, moments, err);
    return rc;
}

/* A new root must survive a crash, like the names in it. */
static cadre_status make_root(const char *root, struct cadre_error *err)
{
    if (mkdir(root, 0777) != 0)
        return errno == EEXIST ? CADRE_OK : cadre_file_write_failed(root, errno, err);
    char *parent = cadre_format("%s/..", root);
    if (!parent)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", root);
    cadre_status rc = cadre_file_sync_folder(parent, err);
    free(parent);
    return rc;
}

cadre_status cadre_draft_begin(const char *root, uint64_t step,
                               const struct cadre_safetensors_spec *tensors, size_t n,
                               int moments, struct cadre_error *err)
{
    cadre_status rc;
    char *dir = cadre_draft_path(root, step);
    if (!dir)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", root);
    CADRE_TRY_OR(make_root(root, err), fail);
    CADRE_TRY_OR(cadre_folder_clean(root, err), fail);
    if (mkdir(dir, 0777) != 0) {
        rc = cadre_file_write_failed(dir, errno, err);
        goto fail;
    }
    rc = create_files(dir, tensors, n, moments, err);
    if (rc != CADRE_OK)
        cadre_file_remove_tree(dir, NULL);
fail:
    free(dir);
    return rc;
}

cadre_status cadre_draft_begin_states(const char *root, uint64_t step,
                                      enum cadre_checkpoint_part part,
                                      const struct cadre_safetensors_spec *tensors,
                                      size_t n, struct cadre_error *err)
{
    int which = cadre_checkpoint_file_of(part);
    char *dir = cadre_draft_path(root, step);
    cadre_status rc = dir ? create_file(dir, which, tensors, n, err)
                          : cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", root);
    free(dir);
    return rc;
}

static cadre_status open_file(struct cadre_draft *draft, int which,
                              struct cadre_error *err)
{
    const char *name = cadre_checkpoint_file_in(draft->dir, which);
    char *path = cadre_format("%s/%s", draft->dir, name);
    if (!path)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", draft->dir);
    bool absent = access(path, F_OK) != 0 && errno == ENOENT;
    free(path);
    draft->files[which].name = name;
    if (which > 0 && absent) /* only the parameters must exist */
        return CADRE_OK;
    return cadre_tensor_file_open(&draft->files[which], draft->dir, name, true, err);
}

cadre_status cadre_draft_open(const char *root, uint64_t step, int rank,
                              struct cadre_draft **out, struct cadre_error *err)
{
    cadre_status rc;
    struct cadre_draft *draft = cadre_calloc(1, sizeof *draft);
    if (draft)
        draft->dir = cadre_draft_path(root, step);
    if (!draft || !draft->dir) {
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", root);
        goto fail;
    }
    draft->rank = rank;
    for (int f = 0; f < CADRE_CHECKPOINT_FILES; f++)
        CADRE_TRY_OR(open_file(draft, f, err), fail);
    *out = draft;
    return CADRE_OK;
fail:
    cadre_draft_close(draft);
    return rc;
}

void cadre_draft_close(struct cadre_draft *draft)
{
    if (!draft)
        return;
    for (int i = 0; i < CADRE_CHECKPOINT_FILES; i++)
        cadre_tensor_file_close(&draft->files[i]);
    free(draft->dir);
    free(draft);
}

cadre_status cadre_draft_write(struct cadre_draft *draft,
                               enum cadre_checkpoint_part part, const char *tensor,
                               uint64_t begin, uint64_t count, const void *data,
                               struct cadre_error *err)
{
    int which = cadre_checkpoint_file_of(part);
    const struct cadre_safetensors *file = draft->files[which].file;
    char name[CADRE_CHECKPOINT_NAME];
    CADRE_TRY(cadre_checkpoint_name(part, tensor, name, err));
    ptrdiff_t index = file ? cadre_safetensors_find(file, name) : -1;
    if (index < 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "%s: tensor '%.200s': not among those the checkpoint was begun "
            "with",
            draft->dir, name);
    CADRE_TRY(
        cadre_safetensors_write_range(file, (size_t)index, begin, count, data, err));
    size_t size = cadre_dtype_bytes(cadre_safetensors_at(file, (size_t)index)->dtype);
    cadre_checksums_add(&draft->files[which].sums, (size_t)index, begin * size, data,
                        count * size);
    return CADRE_OK;
}

static cadre_status write_sums(const struct cadre_draft *draft, struct cadre_error *err)
{
    struct record *records = NULL;
    size_t n = 0, most = 0;
    cadre_status rc;
    char *path = sums_path(draft->dir, draft->rank);
    for (int f = 0; f < CADRE_CHECKPOINT_FILES; f++)
        most += draft->files[f].sums.n;
    records = cadre_calloc(most, sizeof *records);
    for (uint64_t f = 0; records && f < CADRE_CHECKPOINT_FILES; f++) {
        const struct cadre_checksums *pieces = &draft->files[f].sums;
        for (size_t p = 0; p < pieces->n; p++)
            if (pieces->bytes[p] > 0)
                records[n++] = (struct record){f, p, pieces->sum[p], pieces->bytes[p]};
    }
    if (!path || !records)
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", draft->dir);
    else
        rc = cadre_file_write_whole(path, records, n * sizeof *records, err);
    free(records);
    free(path);
    return rc;
}

cadre_status cadre_draft_sync(struct cadre_draft *draft, struct cadre_error *err)
{
    for (int i = 0; i < CADRE_CHECKPOINT_FILES; i++)
        if (draft->files[i].file)
            CADRE_TRY(cadre_safetensors_sync(draft->files[i].file, err));
    return write_sums(draft, err);
}

/* Add a rank's sums, and remove its file. */
static cadre_status take_sums(struct cadre_draft *all, int rank,
                              struct cadre_error *err)
{
    struct record record;
    char *data = NULL;
    size_t bytes = 0;
    cadre_status rc;
    char *path = sums_path(all->dir, rank);
    if (!path)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", all->dir);
    rc = cadre_file_read_whole(path, SIZE_MAX, &data, &bytes, err);
    if (rc != CADRE_OK) {
        cadre_error_prefix(err, "rank %d has not synced its part", rank);
        goto fail;
    }
    for (size_t at = 0; at + sizeof record <= bytes; at += sizeof record) {
        memcpy(&record, data + at, sizeof record);
        struct cadre_checksums *pieces =
            record.file < CADRE_CHECKPOINT_FILES ? &all->files[record.file].sums : NULL;
        if (!pieces || record.piece >= pieces->n) {
            rc = cadre_fail(err, CADRE_E_INTERNAL, "%s: a record of an unknown piece",
                            path);
            goto fail;
        }
        pieces->sum[record.piece] += record.sum;
        pieces->bytes[record.piece] += record.bytes;
    }
    if (unlink(path) != 0)
        rc = cadre_file_write_failed(path, errno, err);
fail:
    free(data);
    free(path);
    return rc;
}

static cadre_status check_whole(const struct cadre_tensor_file *tensors,
                                struct cadre_error *err)
{
    const struct cadre_safetensors *file = tensors->file;
    const struct cadre_checksums *pieces = &tensors->sums;
    for (size_t i = 0; i < pieces->n_tensors; i++) {
        const struct cadre_safetensors_tensor *tensor = cadre_safetensors_at(file, i);
        for (size_t p = pieces->first[i]; p < pieces->first[i + 1]; p++) {
            uint64_t begin = (p - pieces->first[i]) * CADRE_CHECKSUM_BYTES;
            uint64_t size = cadre_checksum_bytes(tensor->bytes, p - pieces->first[i]);
            if (pieces->bytes[p] != size)
                return cadre_fail(err, CADRE_E_INTERNAL,
                                  "%s: tensor '%.200s': expected bytes [%" PRIu64
                                  ", %" PRIu64 ") to be written once, found %" PRIu64
                                  " bytes written there",
                                  cadre_safetensors_path(file), tensor->name, begin,
                                  begin + size, pieces->bytes[p]);
        }
    }
    return CADRE_OK;
}

static cadre_status seal(struct cadre_draft *all, int n_ranks,
                         const struct cadre_manifest *manifest, struct cadre_error *err)
{
    struct cadre_checkpoint *again = NULL;
    for (int rank = 0; rank < n_ranks; rank++)
        CADRE_TRY(take_sums(all, rank, err));
    for (int f = 0; f < CADRE_CHECKPOINT_FILES; f++)
        if (all->files[f].file)
            CADRE_TRY(check_whole(&all->files[f], err));
    CADRE_TRY(cadre_manifest_write(all->dir, manifest, all->files,
                                   CADRE_CHECKPOINT_FILES, err));
    CADRE_TRY(cadre_file_sync_folder(all->dir, err));
    /* A checkpoint that cannot be read must not replace one that can. */
    CADRE_TRY(cadre_checkpoint_open(all->dir, &again, err));
    cadre_checkpoint_close(again);
    return CADRE_OK;
}

cadre_status cadre_draft_commit(const char *root, int n_ranks,
                                const struct cadre_manifest *manifest, size_t keep,
                                struct cadre_error *err)
{
    struct cadre_draft *all = NULL;
    struct cadre_error warning = {0};
    cadre_status rc;
    CADRE_TRY_OR(cadre_draft_open(root, manifest->step, -1, &all, err), fail);
    CADRE_TRY_OR(seal(all, n_ranks, manifest, err), fail);
    CADRE_TRY_OR(cadre_folder_publish(root, manifest->step, err), fail);
    if (cadre_folder_prune(root, manifest->step, keep, &warning) != CADRE_OK)
        cadre_log(CADRE_LOG_WARN, "checkpoint", "old checkpoints stay: %s",
                  warning.text);
fail:
    cadre_draft_close(all);
    return rc;
}

cadre_status cadre_draft_abandon(const char *root, uint64_t step,
                                 struct cadre_error *err)
{
    char *dir = cadre_draft_path(root, step);
    if (!dir)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", root);
    cadre_status rc = cadre_file_remove_tree(dir, err);
    free(dir);
    return rc;
}
