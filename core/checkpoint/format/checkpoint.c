/* SPDX-License-Identifier: Apache-2.0 */
/* Loading. A piece is checked when it is first read, so a rank reads only what it
 * needs. */
#include "core/checkpoint/format/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/checkpoint/format/folder.h"
#include "core/checkpoint/format/tensor_file.h"
#include "core/tensor/dtype.h"

struct cadre_checkpoint {
    struct cadre_manifest_reader *manifest;
    struct cadre_tensor_file
        files[CADRE_CHECKPOINT_FILES]; /* sums.bytes > 0: checked */
    unsigned char *buffer; /* one piece */
};

static cadre_status open_file(struct cadre_checkpoint *checkpoint, const char *dir,
                              int which, struct cadre_error *err)
{
    struct cadre_tensor_file *file = &checkpoint->files[which];
    cadre_status rc = cadre_tensor_file_open(
        file, dir, cadre_checkpoint_file_in(dir, which), false, err);
    return rc == CADRE_OK ? cadre_manifest_sums(checkpoint->manifest, file, err) : rc;
}

cadre_status cadre_checkpoint_open(const char *dir, struct cadre_checkpoint **out,
                                   struct cadre_error *err)
{
    cadre_status rc;
    struct cadre_checkpoint *checkpoint = cadre_calloc(1, sizeof *checkpoint);
    if (!checkpoint)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", dir);
    CADRE_TRY_OR(cadre_manifest_open(dir, &checkpoint->manifest, err), fail);
    checkpoint->buffer = malloc(CADRE_CHECKSUM_BYTES);
    if (!checkpoint->buffer) {
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", dir);
        goto fail;
    }
    CADRE_TRY_OR(open_file(checkpoint, dir, 0, err), fail);
    for (int f = 1; f < CADRE_CHECKPOINT_FILES; f++)
        if (cadre_manifest_lists(checkpoint->manifest, cadre_checkpoint_files[f]))
            CADRE_TRY_OR(open_file(checkpoint, dir, f, err), fail);
    *out = checkpoint;
    return CADRE_OK;
fail:
    cadre_checkpoint_close(checkpoint);
    return rc;
}

void cadre_checkpoint_close(struct cadre_checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    for (int i = 0; i < CADRE_CHECKPOINT_FILES; i++)
        cadre_tensor_file_close(&checkpoint->files[i]);
    cadre_manifest_close(checkpoint->manifest);
    free(checkpoint->buffer);
    free(checkpoint);
}

const struct cadre_manifest *
cadre_checkpoint_manifest(const struct cadre_checkpoint *checkpoint)
{
    return cadre_manifest_get(checkpoint->manifest);
}

const char *cadre_checkpoint_value(const struct cadre_checkpoint *checkpoint,
                                   const char *key)
{
    const struct cadre_manifest *manifest = cadre_checkpoint_manifest(checkpoint);
    for (size_t i = 0; i < manifest->n_values; i++)
        if (strcmp(manifest->values[i].key, key) == 0)
            return manifest->values[i].value;
    return NULL;
}

const char *cadre_checkpoint_small(const struct cadre_checkpoint *checkpoint,
                                   size_t index)
{
    return cadre_manifest_small(checkpoint->manifest, index);
}

const struct cadre_safetensors *
cadre_checkpoint_model(const struct cadre_checkpoint *checkpoint)
{
    return checkpoint->files[0].file;
}

const struct cadre_safetensors *
cadre_checkpoint_plugin_state(const struct cadre_checkpoint *checkpoint)
{
    return checkpoint->files[cadre_checkpoint_file_of(CADRE_CHECKPOINT_PLUGIN_STATE)]
        .file;
}

bool cadre_checkpoint_holds(const struct cadre_checkpoint *checkpoint,
                            enum cadre_checkpoint_part part, const char *tensor)
{
    const struct cadre_safetensors *file =
        checkpoint->files[cadre_checkpoint_file_of(part)].file;
    return file && cadre_safetensors_find(file, tensor) >= 0;
}

cadre_status cadre_checkpoint_check(const struct cadre_checkpoint *checkpoint,
                                    const struct cadre_safetensors_spec *tensors,
                                    size_t n, struct cadre_error *err)
{
    const struct cadre_safetensors *model = checkpoint->files[0].file;
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; i < n; i++) {
        ptrdiff_t index = cadre_safetensors_find(model, tensors[i].name);
        if (index < 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s: tensor '%.200s': expected by the model, found none; "
                              "resume with the [model] keys of the checkpoint",
                              cadre_safetensors_path(model), tensors[i].name);
        CADRE_TRY(cadre_safetensors_expect(model, (size_t)index, &tensors[i], err));
    }
    if (cadre_safetensors_count(model) != n)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "%s: expected the model's %zu tensors, found %zu; resume with "
                        "the [model] keys of the checkpoint",
                        cadre_safetensors_path(model), n,
                        cadre_safetensors_count(model));
    return rc;
}

/* Check piece `piece` (counted within the tensor) unless that was done. */
static cadre_status check_piece(struct cadre_checkpoint *checkpoint, int which,
                                size_t index, size_t piece, struct cadre_error *err)
{
    const struct cadre_safetensors *file = checkpoint->files[which].file;
    const struct cadre_safetensors_tensor *tensor = cadre_safetensors_at(file, index);
    struct cadre_checksums *pieces = &checkpoint->files[which].sums;
    size_t at = pieces->first[index] + piece;
    uint64_t begin = piece * CADRE_CHECKSUM_BYTES;
    uint64_t size = cadre_checksum_bytes(tensor->bytes, piece);
    if (pieces->bytes[at] > 0)
        return CADRE_OK;
    CADRE_TRY(cadre_safetensors_read_bytes(file, index, begin, size, checkpoint->buffer,
                                           err));
    if (cadre_checksum_of(checkpoint->buffer, size / 4, begin / 4) != pieces->sum[at])
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: tensor '%.200s': the checksum of its bytes [%" PRIu64
                          ", %" PRIu64 "), in the file [%" PRIu64 ", %" PRIu64
                          "), does not match: the file is damaged; use another "
                          "checkpoint",
                          cadre_safetensors_path(file), tensor->name, begin,
                          begin + size, tensor->offset + begin,
                          tensor->offset + begin + size);
    pieces->bytes[at] = size;
    return CADRE_OK;
}

cadre_status cadre_checkpoint_read(struct cadre_checkpoint *checkpoint,
                                   enum cadre_checkpoint_part part, const char *tensor,
                                   uint64_t begin, uint64_t count, uint32_t dtype,
                                   void *out, struct cadre_error *err)
{
    int which = cadre_checkpoint_file_of(part);
    const struct cadre_safetensors *file = checkpoint->files[which].file;
    char name[CADRE_CHECKPOINT_NAME];
    CADRE_TRY(cadre_checkpoint_name(part, tensor, name, err));
    ptrdiff_t index = file ? cadre_safetensors_find(file, name) : -1;
    if (index < 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: tensor '%.200s': the checkpoint holds none",
                          cadre_safetensors_path(checkpoint->files[0].file), name);
    const struct cadre_safetensors_tensor *found =
        cadre_safetensors_at(file, (size_t)index);
    if (begin <= found->count && count <= found->count - begin && count > 0) {
        uint64_t size = cadre_dtype_bytes(found->dtype);
        uint64_t last = ((begin + count) * size - 1) / CADRE_CHECKSUM_BYTES;
        for (uint64_t p = begin * size / CADRE_CHECKSUM_BYTES; p <= last; p++)
            CADRE_TRY(check_piece(checkpoint, which, (size_t)index, p, err));
    }
    return cadre_safetensors_read(file, (size_t)index, begin, count, dtype, out, err);
}

cadre_status cadre_checkpoint_verify(struct cadre_checkpoint *checkpoint,
                                     struct cadre_error *err)
{
    for (int f = 0; f < CADRE_CHECKPOINT_FILES; f++) {
        const struct cadre_checksums *pieces = &checkpoint->files[f].sums;
        for (size_t i = 0; i < pieces->n_tensors; i++)
            for (size_t p = 0; p < pieces->first[i + 1] - pieces->first[i]; p++)
                CADRE_TRY(check_piece(checkpoint, f, i, p, err));
    }
    return CADRE_OK;
}

static cadre_status verify_folder(const char *dir, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    cadre_status rc;
    CADRE_TRY_OR(cadre_checkpoint_open(dir, &checkpoint, err), fail);
    CADRE_TRY_OR(cadre_checkpoint_verify(checkpoint, err), fail);
fail:
    cadre_checkpoint_close(checkpoint);
    return rc;
}

cadre_status cadre_checkpoint_find_latest(const char *root, char **path,
                                          struct cadre_error *err)
{
    struct cadre_error why = {0};
    uint64_t *steps = NULL;
    size_t n = 0;
    char *dir = NULL;
    cadre_status rc;
    CADRE_TRY_OR(cadre_folder_list(root, &steps, &n, err), fail);
    while (n-- > 0 && !dir) {
        dir = cadre_folder_path(root, steps[n], "");
        rc = dir ? verify_folder(dir, &why)
                 : cadre_fail(&why, CADRE_E_RESOURCE, "%s: no memory", root);
        if (rc == CADRE_OK)
            break;
        free(dir);
        dir = NULL;
        /* Without memory or descriptors a good checkpoint would be skipped. */
        if (rc == CADRE_E_RESOURCE) {
            rc = cadre_fail(err, rc, "%s", why.text);
            goto fail;
        }
        cadre_log(CADRE_LOG_WARN, "checkpoint", "checkpoint skipped [%s]", why.text);
    }
    rc = CADRE_OK;
    *path = dir;
fail:
    free(steps);
    return rc;
}
