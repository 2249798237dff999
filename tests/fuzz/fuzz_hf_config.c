/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include "core/checkpoint/format/hf.h"

/* config.json, and the index of a model in several files. */
void fuzz_hf_config(const uint8_t *data, size_t size)
{
    struct cadre_hf_config config;
    struct cadre_error err = {0};
    struct cadre_hf *hf = NULL;
    const uint8_t *rest;
    size_t n;
    const size_t first = fuzz_split(data, size, &rest, &n);
    fuzz_file("config.json", data, first);
    fuzz_file("model.safetensors.index.json", rest, n);
    cadre_hf_config_read(fuzz_file(NULL, NULL, 0), &config, &err);
    if (cadre_hf_open(fuzz_file(NULL, NULL, 0), &hf, &err) == CADRE_OK)
        cadre_hf_close(hf);
}
