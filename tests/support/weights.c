/* SPDX-License-Identifier: Apache-2.0 */
/* Load trusted F32 safetensors files into a trainer. core/checkpoint has the reader for
 * untrusted files, which the model's tests do not need. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/support/trainer.h"

static void load_tensor(struct test_trainer *t, const char *name, const json_t *entry,
                        const unsigned char *data)
{
    int32_t index = cadre_model_find(t->model, name);
    const json_t *shape = json_object_get(entry, "shape");
    ck_assert_msg(index >= 0, "the model has no %s", name);
    const struct cadre_param *param = &t->model->params[index];
    ck_assert_str_eq(json_string_value(json_object_get(entry, "dtype")), "F32");
    ck_assert_uint_eq(json_array_size(shape), param->shape.ndim);
    for (uint32_t d = 0; d < param->shape.ndim; d++)
        ck_assert_uint_eq((uint64_t)json_integer_value(json_array_get(shape, d)),
                          param->shape.dim[d]);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    data += json_integer_value(json_array_get(offsets, 0));
    const uint64_t count = cadre_shape_count(&param->shape);
    void *masters = calloc(count, t->wide);
    for (uint64_t e = 0; e < count; e++) {
        float value;
        memcpy(&value, data + e * sizeof value, sizeof value);
        test_trainer_set_wide(t, masters, e, (double)value);
    }
    ck_assert_int_eq(t->device->ops->to_device(t->device, t->masters[index], masters,
                                               count * t->wide),
                     CADRE_OK);
    free(masters);
}

void test_trainer_load(struct test_trainer *t, const char *path)
{
    size_t bytes;
    unsigned char *data = test_file_read(path, &bytes);
    uint64_t header;
    memcpy(&header, data, sizeof header);
    ck_assert_uint_lt(header, bytes - 8);
    json_t *root = json_loadb((const char *)data + 8, header, 0, NULL);
    const char *name;
    json_t *entry;
    uint32_t loaded = 0, owned = 0;
    ck_assert_ptr_nonnull(root);
    json_object_foreach(root, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        load_tensor(t, name, entry, data + 8 + header);
        loaded++;
    }
    for (uint32_t i = 0; i < t->model->n_params; i++)
        owned += t->model->params[i].tied_to < 0;
    ck_assert_uint_eq(loaded, owned);
    test_trainer_round(t);
    json_decref(root);
    free(data);
}
