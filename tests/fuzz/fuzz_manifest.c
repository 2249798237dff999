/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/format/manifest.h"

/* A checkpoint's state.json, and its model. */
void fuzz_manifest(const uint8_t *data, size_t size)
{
    struct cadre_manifest_reader *reader = NULL;
    struct cadre_checkpoint *checkpoint = NULL;
    struct cadre_error err = {0};
    const uint8_t *rest;
    size_t n;
    const size_t first = fuzz_split(data, size, &rest, &n);
    fuzz_file("state.json", data, first);
    fuzz_file("model.safetensors", rest, n);
    const char *dir = fuzz_file(NULL, NULL, 0);
    if (cadre_manifest_open(dir, &reader, &err) == CADRE_OK) {
        cadre_manifest_get(reader);
        cadre_manifest_lists(reader, "model.safetensors");
        cadre_manifest_small(reader, 0);
        cadre_manifest_close(reader);
    }
    if (cadre_checkpoint_open(dir, &checkpoint, &err) == CADRE_OK) {
        cadre_checkpoint_verify(checkpoint, &err);
        cadre_checkpoint_close(checkpoint);
    }
}
