/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/wfdb/wfdb_header.h"
#include "tests/support/check_main.h"

static cadre_status parse(const char *text, struct cadre_wfdb_header *header,
                          struct cadre_error *err)
{
    *err = (struct cadre_error){0};
    return cadre_wfdb_header_parse(text, strlen(text), "x.hea", header, err);
}

START_TEST(reads_every_field)
{
    struct cadre_wfdb_header h = {0};
    struct cadre_error err;
    ck_assert_int_eq(
        parse("# first\r\n\r\n100 2 360/720(5.5) 650000 12:00:00 1/2/1990\r\n"
              "a.dat 16x2:3+24 -5 11 1024 995 -22131 0 MLII lead\r\n"
              "a.dat 212 1 1 1 1 1 0\r\n",
              &h, &err),
        CADRE_E_INVALID);
    ck_assert_int_eq(
        parse("# first\r\n\r\n100 2 360/720(5.5) 650000 12:00:00 1/2/1990\r\n"
              "a.dat 16x2:3+24 150.5(-7)/uV 11 1024 995 -22131 0 MLII lead\r\n"
              "#x\n \t\n  b.dat\t212\n",
              &h, &err),
        CADRE_OK);
    ck_assert_str_eq(h.name, "100");
    ck_assert_int_eq(h.signals, 2);
    ck_assert(h.frequency == 360 && h.samples == 650000);
    struct cadre_wfdb_signal *s = &h.signal[0];
    ck_assert_str_eq(s->file, "a.dat");
    ck_assert_int_eq(s->format, 16);
    ck_assert_int_eq(s->samples_per_frame, 2);
    ck_assert(s->skew == 3 && s->byte_offset == 24);
    ck_assert(s->gain == 150.5 && s->baseline == -7);
    ck_assert_str_eq(s->units, "uV");
    ck_assert(s->adc_resolution == 11 && s->adc_zero == 1024);
    ck_assert(s->has_initial && s->initial == 995);
    ck_assert(s->has_checksum && s->checksum == -22131);
    ck_assert_str_eq(s->description, "MLII lead");
    s = &h.signal[1];
    ck_assert(s->gain == 200 && s->baseline == 0 && !s->has_initial &&
              !s->has_checksum);
    ck_assert_str_eq(s->units, "mV");
    ck_assert_str_eq(s->description, "");
    ck_assert_int_eq(cadre_wfdb_header_find(&h, "MLII lead"), 0);
    ck_assert_int_eq(cadre_wfdb_header_find(&h, "V5"), -1);
    cadre_wfdb_header_fini(&h);
}
END_TEST

START_TEST(gain_zero_is_the_default_and_baseline_is_adc_zero)
{
    struct cadre_wfdb_header h = {0};
    struct cadre_error err;
    ck_assert_int_eq(parse("r 1\nf 16 0 12 77\n", &h, &err), CADRE_OK);
    ck_assert(h.frequency == 250 && h.samples == 0);
    ck_assert(h.signal[0].gain == 200 && h.signal[0].baseline == 77);
    cadre_wfdb_header_fini(&h);
}
END_TEST

static const struct {
    const char *text;
    cadre_status rc;
    const char *says;
} wrong[] = {
    {"", CADRE_E_INVALID, "empty header"},
    {"# only a comment\n", CADRE_E_INVALID, "empty header"},
    {"100\n", CADRE_E_INVALID, "number of signals"},
    {"100 x\n", CADRE_E_INVALID, "whole number"},
    {"100 -1\n", CADRE_E_INVALID, "0 to 1024"},
    {"100 99999999999999999999\n", CADRE_E_INVALID, "0 to 1024"},
    {"100 2 360 10\na.dat 16\n", CADRE_E_INVALID, "expected 2 signal lines, found 1"},
    {"100/3 2 360 10\n", CADRE_E_UNSUPPORTED, "segments"},
    {"100 1 0 10\na 16\n", CADRE_E_INVALID, "above 0"},
    {"100 1 nan 10\na 16\n", CADRE_E_INVALID, "expected a number"},
    {"100 1 360 -5\na 16\n", CADRE_E_INVALID, "number of samples"},
    {"100 1 360 9e9\na 16\n", CADRE_E_INVALID, "blank after"},
    {"100 1 360 9223372036854775807\na 16\n", CADRE_E_INVALID, "number of samples"},
    {"100 1 360 10\n../a.dat 16\n", CADRE_E_INVALID, "leaves the record's folder"},
    {"100 1 360 10\nx/../../a.dat 16\n", CADRE_E_INVALID, "leaves the record's folder"},
    {"100 1 360 10\n/etc/passwd 16\n", CADRE_E_INVALID, "leaves the record's folder"},
    {"100 1 360 10\na.dat\n", CADRE_E_INVALID, "signal format"},
    {"100 1 360 10\na.dat 16y\n", CADRE_E_INVALID, "blank after"},
    {"100 1 360 10\na.dat 16x0\n", CADRE_E_INVALID, "samples per frame"},
    {"100 1 360 10\na.dat 16:-3\n", CADRE_E_INVALID, "skew"},
    {"100 1 360 10\na.dat 16+-3\n", CADRE_E_INVALID, "byte offset"},
    {"100 1 360 10\na.dat 16 200(5\n", CADRE_E_INVALID, "baseline"},
    {"100 1 360 10\na.dat 16 -200\n", CADRE_E_INVALID, "gain"},
    {"100 1 360 10\na.dat 16 200 11 x\n", CADRE_E_INVALID, "ADC zero"},
};

START_TEST(refuses_wrong_headers)
{
    struct cadre_wfdb_header h = {0};
    struct cadre_error err;
    ck_assert_int_eq(parse(wrong[_i].text, &h, &err), wrong[_i].rc);
    ck_assert_msg(strstr(err.text, wrong[_i].says), "%s", err.text);
    ck_assert_msg(strstr(err.text, "x.hea"), "%s", err.text);
    ck_assert_ptr_null(h.signal);
}
END_TEST

START_TEST(refuses_long_lines_and_zero_bytes)
{
    struct cadre_wfdb_header h = {0};
    struct cadre_error err = {0};
    char text[3000];
    memset(text, 'a', sizeof text);
    ck_assert_int_eq(cadre_wfdb_header_parse(text, sizeof text, "x", &h, &err),
                     CADRE_E_INVALID);
    ck_assert_int_eq(cadre_wfdb_header_parse("a\0b 1\n", 6, "x", &h, NULL),
                     CADRE_E_INVALID);
    ck_assert_int_eq(cadre_wfdb_header_read("/nowhere/x.hea", &h, &err), CADRE_E_IO);
    ck_assert_int_eq(cadre_wfdb_header_read("/tmp", &h, &err), CADRE_E_INVALID);
}
END_TEST

START_TEST(commented_variant_equals_the_record)
{
    const char *plain = test_sample("mitdb/100.hea");
    const char *variant = test_sample("wfdb_vectors/100_commented_variant.hea");
    struct cadre_wfdb_header a = {0}, b = {0};
    ck_assert_int_eq(cadre_wfdb_header_read(plain, &a, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_wfdb_header_read(variant, &b, NULL), CADRE_OK);
    ck_assert_int_eq(a.signals, 2);
    ck_assert_int_eq(b.signals, 2);
    ck_assert(a.samples == 21600 && b.samples == 21600);
    for (int s = 0; s < 2; s++) {
        ck_assert_str_eq(a.signal[s].description, b.signal[s].description);
        ck_assert_int_eq(a.signal[s].checksum, b.signal[s].checksum);
        ck_assert_int_eq(a.signal[s].initial, b.signal[s].initial);
        ck_assert_int_eq(a.signal[s].format, 212);
    }
    cadre_wfdb_header_fini(&a);
    cadre_wfdb_header_fini(&b);
}
END_TEST

/* Whatever the bytes, parsing ends with an answer and touches nothing it should not. */
START_TEST(survives_mutations)
{
    static const char base[] =
        "# c\r\n100 2 360/7(1) 650000 1:2:3 1/1/1\r\n"
        "100.dat 212x1:0+0 200(1024)/mV 11 1024 995 -22131 0 MLII\r\n"
        "100.dat 212 200 11 1024 1011 20052 0 V5\r\n";
    unsigned state = 12345;
    for (int round = 0; round < 20000; round++) {
        char text[sizeof base];
        struct cadre_wfdb_header h = {0};
        size_t size = sizeof base - 1;
        memcpy(text, base, sizeof base);
        for (int k = 0; k <= round % 5; k++) {
            state = state * 1664525u + 1013904223u;
            text[(state >> 8) % size] =
                "0123456789-+x:/() \n#.eAn\xff"[(state >> 3) % 26];
        }
        state = state * 1664525u + 1013904223u;
        if (round % 3 == 0)
            size = (state >> 8) % size;
        if (cadre_wfdb_header_parse(text, size, "m", &h, NULL) == CADRE_OK)
            cadre_wfdb_header_fini(&h);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("wfdb_header");
    TCase *tc = tcase_create("header");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, reads_every_field);
    tcase_add_test(tc, gain_zero_is_the_default_and_baseline_is_adc_zero);
    tcase_add_loop_test(tc, refuses_wrong_headers, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tc, refuses_long_lines_and_zero_bytes);
    tcase_add_test(tc, commented_variant_equals_the_record);
    tcase_add_test(tc, survives_mutations);
    suite_add_tcase(suite, tc);
    return suite;
}
