/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include "core/plan/csv.h"
#include "core/plan/hardware.h"

void fuzz_hardware(const uint8_t *data, size_t size)
{
    struct cadre_hardware hw;
    struct cadre_error err = {0};
    cadre_hardware_load(&hw, fuzz_file("hw.ini", data, size), &err);
}

void fuzz_csv(const uint8_t *data, size_t size)
{
    struct cadre_csv csv;
    struct cadre_error err = {0};
    volatile char last = 0;
    if (cadre_csv_load(&csv, fuzz_file("a.csv", data, size), ',', &err) != CADRE_OK)
        return;
    const int column = cadre_csv_column(&csv, "model");
    for (size_t row = 0; row < csv.rows && column >= 0; row++)
        last = *cadre_csv_at(&csv, row, column);
    (void)last;
    cadre_csv_fini(&csv);
}
