/* SPDX-License-Identifier: Apache-2.0 */
/* Small WFDB records for the tests: 360 Hz, format 16, gain 200 per mV, the samples
 * 0, 1, 2, ... times 3, beats N at 10, V at 20, / at 30, A at 40 and a rhythm mark. */
#ifndef CADRE_TESTS_DATA_RECORDS_H
#define CADRE_TESTS_DATA_RECORDS_H

#include <stdint.h>
#include <stdio.h>

#include "tests/support/check_main.h"

static FILE *test_open_part(const char *dir, const char *name, const char *suffix,
                            const char *mode)
{
    char path[1300];
    snprintf(path, sizeof path, "%s/%s.%s", dir, name, suffix);
    FILE *f = fopen(path, mode);
    ck_assert_ptr_nonnull(f);
    return f;
}

/* Write the header again, with the checksum and initial value of the samples. */
static inline void test_fix_checksum(const char *dir, const char *name,
                                     const char *lead, int count)
{
    int16_t value = 0, first = 0;
    uint16_t sum = 0;
    FILE *f = test_open_part(dir, name, "dat", "rb");
    for (int t = 0; t < count; t++) {
        ck_assert_uint_eq(fread(&value, sizeof value, 1, f), 1);
        sum = (uint16_t)(sum + (uint16_t)value);
        first = t == 0 ? value : first;
    }
    fclose(f);
    f = test_open_part(dir, name, "hea", "wb");
    fprintf(f, "%s 1 360 %d\n%s.dat 16 200/mV 16 0 %d %d 0 %s\n", name, count, name,
            first, (int16_t)sum, lead);
    fclose(f);
}

/* `count` samples, of which the first is `start`; count >= 41 for all the beats. */
static inline void test_write_record(const char *dir, const char *name,
                                     const char *lead, int count, int start)
{
    static const uint8_t beats[] = {
        5, 28 << 2, 5, 1 << 2, 10, 5 << 2, 10, 12 << 2, 10, 8 << 2, 0, 0,
    };
    FILE *f = test_open_part(dir, name, "dat", "wb");
    for (int t = 0; t < count; t++) {
        int16_t value = (int16_t)(start + 3 * t);
        fwrite(&value, sizeof value, 1, f);
    }
    fclose(f);
    f = test_open_part(dir, name, "atr", "wb");
    fwrite(beats, 1, sizeof beats, f);
    fclose(f);
    test_fix_checksum(dir, name, lead, count);
}

#endif
