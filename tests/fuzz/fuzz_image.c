/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include "core/data/image/idx.h"
#include "core/data/image/picture.h"

void fuzz_idx(const uint8_t *data, size_t size)
{
    struct cadre_idx idx = {0};
    struct cadre_error err = {0};
    if (cadre_idx_init(fuzz_file("idx", data, size), 1, 4, &idx, &err) == CADRE_OK)
        cadre_idx_fini(&idx);
}

void fuzz_picture(const uint8_t *data, size_t size)
{
    struct cadre_picture picture = {0};
    struct cadre_error err = {0};
    if (cadre_picture_init(fuzz_file("p", data, size), &picture, &err) == CADRE_OK)
        cadre_picture_fini(&picture);
}
