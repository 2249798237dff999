/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include "core/base/memory.h"
#include "core/compare/verdict/certificate.h"

void fuzz_certificate(const uint8_t *data, size_t size)
{
    struct cadre_text text = {0};
    struct cadre_error err = {0};
    const char *path = fuzz_file("certificate.json", data, size);
    cadre_certificate_is(path);
    cadre_certificate_check(path, &text, &err);
    cadre_text_fini(&text);
}
