/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include <stdlib.h>

#include <cadre/types.h>

#include "core/checkpoint/format/safetensors.h"

void fuzz_safetensors(const uint8_t *data, size_t size)
{
    struct cadre_safetensors *file = NULL;
    struct cadre_error err = {0};
    double value[4];
    const char *path = fuzz_file("m.safetensors", data, size);
    if (cadre_safetensors_open(path, false, &file, &err) != CADRE_OK)
        return;
    cadre_safetensors_metadata(file, "format");
    for (size_t i = 0; i < cadre_safetensors_count(file); i++) {
        const struct cadre_safetensors_tensor *t = cadre_safetensors_at(file, i);
        if (t->offset > size || t->bytes > size - t->offset)
            abort(); /* it would be read beyond the end */
        const uint64_t n = t->count < 4 ? t->count : 4;
        if (t->dtype && n)
            cadre_safetensors_read(file, i, t->count - n, n, CADRE_F64, value, &err);
        cadre_safetensors_find(file, t->name);
    }
    cadre_safetensors_close(file);
}
