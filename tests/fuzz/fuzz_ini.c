/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include "core/config/ini.h"

void fuzz_ini(const uint8_t *data, size_t size)
{
    struct cadre_ini ini;
    struct cadre_error err = {0};
    if (cadre_ini_load(&ini, fuzz_file("a.ini", data, size), &err) == CADRE_OK) {
        for (size_t i = 0; i < ini.n; i++)
            if (ini.entries[i].value)
                cadre_ini_quote(ini.entries[i].value);
        cadre_ini_fini(&ini);
    }
}
