/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include "core/data/text/token_file.h"

void fuzz_token_file(const uint8_t *data, size_t size)
{
    struct cadre_token_file file;
    struct cadre_error err = {0};
    volatile unsigned sum = 0;
    if (cadre_token_file_init(fuzz_file("t.bin", data, size), &file, &err) != CADRE_OK)
        return;
    for (uint64_t i = 0; i < file.count; i++)
        sum += file.tokens[i];
    cadre_token_file_fini(&file);
}
