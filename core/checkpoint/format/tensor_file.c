/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/format/tensor_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/path.h"

const char *const cadre_checkpoint_files[CADRE_CHECKPOINT_FILES] = {
    "model.safetensors",    "optimizer.safetensors", "strategy.safetensors",
    "replicas.safetensors", "forms.safetensors",
};

const char *cadre_checkpoint_file_in(const char *dir, int which)
{
    const bool adapters = which == 0 && cadre_path_has(dir, CADRE_CHECKPOINT_ADAPTERS);
    return adapters ? CADRE_CHECKPOINT_ADAPTERS : cadre_checkpoint_files[which];
}

int cadre_checkpoint_file_of(enum cadre_checkpoint_part part)
{
    return part == CADRE_CHECKPOINT_PARAM          ? 0
           : part == CADRE_CHECKPOINT_PLUGIN_STATE ? 2
           : part == CADRE_CHECKPOINT_REPLICA      ? 3
           : part == CADRE_CHECKPOINT_FORM         ? 4
                                                   : 1;
}

cadre_status cadre_checkpoint_name(enum cadre_checkpoint_part part, const char *tensor,
                                   char out[CADRE_CHECKPOINT_NAME],
                                   struct cadre_error *err)
{
    static const char *const endings[] = {"", ".exp_avg", ".exp_avg_sq", "", "",
                                          "", ""};
    int n = snprintf(out, CADRE_CHECKPOINT_NAME, "%s%s", tensor, endings[part]);
    if (n < 0 || n >= CADRE_CHECKPOINT_NAME)
        return cadre_fail(err, CADRE_E_INVALID,
                          "tensor '%.200s': expected a name of fewer than %d bytes, "
                          "found %d",
                          tensor, CADRE_CHECKPOINT_NAME, n);
    return CADRE_OK;
}

cadre_status cadre_tensor_file_open(struct cadre_tensor_file *file, const char *dir,
                                    const char *name, bool writable,
                                    struct cadre_error *err)
{
    char *path = cadre_format("%s/%s", dir, name);
    if (!path)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", dir);
    file->name = name;
    cadre_status rc = cadre_safetensors_open(path, writable, &file->file, err);
    if (rc == CADRE_OK)
        rc = cadre_checksums_init(&file->sums, file->file, err);
    free(path);
    return rc;
}

void cadre_tensor_file_close(struct cadre_tensor_file *file)
{
    cadre_safetensors_close(file->file);
    cadre_checksums_fini(&file->sums);
}
