/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/energy/fake_powercap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "tests/support/check_main.h"

void fake_powercap_file(const char *root, const char *zone, const char *name,
                        const char *text)
{
    char *dir = cadre_path_join(root, zone), *path = cadre_path_join(dir, name);
    ck_assert_int_eq(cadre_path_make_dirs(dir, NULL), CADRE_OK);
    test_file_write(path, text, strlen(text));
    free(path);
    free(dir);
}

static void put_number(const char *root, const char *zone, const char *name,
                       uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64 "\n", value);
    fake_powercap_file(root, zone, name, text);
}

void fake_powercap_zone(const char *root, const char *zone, const char *kind,
                        uint64_t energy_uj, uint64_t range_uj, uint64_t limit_uw)
{
    char name[64];
    snprintf(name, sizeof name, "%s\n", kind);
    fake_powercap_file(root, zone, "name", name);
    put_number(root, zone, "max_energy_range_uj", range_uj);
    put_number(root, zone, "energy_uj", energy_uj);
    if (limit_uw)
        put_number(root, zone, "constraint_0_power_limit_uw", limit_uw);
}

void fake_powercap_count(const char *root, const char *zone, uint64_t energy_uj)
{
    put_number(root, zone, "energy_uj", energy_uj);
}
