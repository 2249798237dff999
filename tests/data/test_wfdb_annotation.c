/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/wfdb/wfdb_annotation.h"
#include "tests/support/check_main.h"

static const char *const names[] = {"100", "107", "109", "118", "119", "208", "209"};

static cadre_status parse(const void *bytes, size_t size,
                          struct cadre_wfdb_annotations *list, struct cadre_error *err)
{
    *err = (struct cadre_error){0};
    return cadre_wfdb_annotations_parse(bytes, size, "x.atr", list, err);
}

/* One line of the decoded listing: sample, symbol, subtype, chan, num, aux. */
static void format_line(const struct cadre_wfdb_annotation *item, char *line,
                        size_t size)
{
    int aux = item->aux_size;
    while (aux > 0 && item->aux[aux - 1] == '\0')
        aux--;
    snprintf(line, size, "%lld\t%s\t%d\t%d\t%d\t%.*s\n", (long long)item->time,
             cadre_wfdb_symbol(item->code), item->subtype, item->chan, item->num, aux,
             item->aux ? item->aux : "");
}

START_TEST(mitdb_equals_listing)
{
    char file[64], want[1024], got[1024];
    snprintf(file, sizeof file, "mitdb/%s.atr", names[_i % 7]);
    const char *atr = test_data(_i / 7, file);
    snprintf(file, sizeof file, "mitdb/%s.ann.tsv", names[_i % 7]);
    const char *tsv = test_data(_i / 7, file);
    struct cadre_wfdb_annotations list = {0};
    struct cadre_error err = {0};
    size_t line = 0;
    ck_assert_msg(cadre_wfdb_annotations_read(atr, &list, &err) == CADRE_OK, "%s",
                  err.text);
    FILE *f = fopen(tsv, "r");
    ck_assert_ptr_nonnull(f);
    for (; fgets(want, sizeof want, f); line++) {
        ck_assert_uint_lt(line, list.count);
        format_line(&list.items[line], got, sizeof got);
        ck_assert_str_eq(got, want);
    }
    ck_assert_uint_eq(line, list.count);
    fclose(f);
    cadre_wfdb_annotations_fini(&list);
}
END_TEST

START_TEST(mitdb_counts_equal_expected)
{
    char file[64];
    const char *expected = test_data(_i / 7, "mitdb/EXPECTED.json");
    snprintf(file, sizeof file, "mitdb/%s.atr", names[_i % 7]);
    const char *atr = test_data(_i / 7, file);
    struct cadre_wfdb_annotations list = {0};
    long counts[50] = {0}, beats = 0;
    json_t *all = json_load_file(expected, JSON_REJECT_DUPLICATES, NULL);
    json_t *want = json_object_get(all, names[_i % 7]);
    ck_assert_int_eq(cadre_wfdb_annotations_read(atr, &list, NULL), CADRE_OK);
    for (size_t i = 0; i < list.count; i++) {
        counts[list.items[i].code]++;
        beats += cadre_wfdb_aami_class(list.items[i].code) >= 0;
    }
    ck_assert_int_eq((long)list.count,
                     json_integer_value(json_object_get(want, "nann")));
    ck_assert_int_eq(beats, json_integer_value(json_object_get(want, "beats")));
    for (uint8_t code = 0; code < 50; code++)
        ck_assert_int_eq(counts[code], json_integer_value(json_object_get(
                                           json_object_get(want, "counts"),
                                           cadre_wfdb_symbol(code))));
    static const int windows[] = {128, 256, 512, 1024};
    const json_int_t samples = json_integer_value(json_object_get(want, "nsamp"));
    for (int k = 0; k < 4; k++) {
        long full = 0, w = windows[k];
        char key[24];
        for (size_t i = 0; i < list.count; i++)
            full += cadre_wfdb_aami_class(list.items[i].code) >= 0 &&
                    list.items[i].time >= w / 2 &&
                    list.items[i].time - w / 2 + w <= samples;
        snprintf(key, sizeof key, "%ld", w);
        ck_assert_int_eq(full,
                         json_integer_value(json_object_get(
                             json_object_get(want, "beats_with_full_window"), key)));
    }
    cadre_wfdb_annotations_fini(&list);
    json_decref(all);
}
END_TEST

#define WORD(code, value) (uint8_t)((value)&0xff), (uint8_t)((code) << 2 | (value) >> 8)

START_TEST(skip_sub_num_chn_aux)
{
    static const uint8_t
        bytes[] =
            {
                WORD(59, 0), 0x01,          0x00,        0x02,
                0x00, /* skip 0x10002, high word first */
                WORD(1, 5),  WORD(61, 255), WORD(62, 3), WORD(60, 2),
                WORD(63, 3), 'a',           'b',         'c',
                0,           WORD(5, 1023), /* chan and num last, subtype and aux do not
                                             */
                WORD(59, 0), 0xff,          0xff,        0xff,
                0xff, /* one back */
                WORD(28, 1), WORD(0, 0),
            };
    struct cadre_wfdb_annotations list = {0};
    struct cadre_error err;
    ck_assert_msg(parse(bytes, sizeof bytes, &list, &err) == CADRE_OK, "%s", err.text);
    ck_assert_uint_eq(list.count, 3);
    ck_assert_int_eq(list.items[0].time, 0x10002 + 5);
    ck_assert_int_eq(list.items[0].subtype, -1);
    ck_assert_int_eq(list.items[0].chan, 3);
    ck_assert_int_eq(list.items[0].num, 2);
    ck_assert_int_eq(list.items[0].aux_size, 3);
    ck_assert_mem_eq(list.items[0].aux, "abc", 3);
    ck_assert_int_eq(list.items[1].time, 0x10002 + 5 + 1023);
    ck_assert_int_eq(list.items[1].subtype, 0);
    ck_assert_int_eq(list.items[1].chan, 3);
    ck_assert_int_eq(list.items[1].num, 2);
    ck_assert_ptr_null(list.items[1].aux);
    ck_assert_int_eq(list.items[2].time, list.items[1].time);
    cadre_wfdb_annotations_fini(&list);
}
END_TEST

START_TEST(time_resolution_is_not_an_annotation)
{
    uint8_t bytes[40] = {WORD(22, 0), WORD(63, 24)};
    struct cadre_wfdb_annotations list = {0};
    struct cadre_error err;
    memcpy(bytes + 4, "## time resolution: 1000", 24);
    ck_assert_int_eq(parse(bytes, sizeof bytes, &list, &err), CADRE_OK);
    ck_assert_uint_eq(list.count, 0);
    ck_assert(list.frequency == 1000);
    cadre_wfdb_annotations_fini(&list);
}
END_TEST

/* As WFDB and wfdb-python end their definitions of types: SKIP -1, then code 0 with a
 * step of 1. The time stays, and the file goes on. */
START_TEST(code_0_with_a_step_is_a_filler)
{
    static const char note[] = "## end of definitions";
    uint8_t head[] = {WORD(22, 0), WORD(63, 21)};
    uint8_t tail[] = {0,           WORD(59, 0), 0xff,        0xff,        0xff,
                      0xff,        WORD(0, 1),  WORD(1, 77), WORD(62, 1), WORD(0, 3),
                      WORD(62, 2), WORD(5, 10), WORD(0, 0)};
    uint8_t bytes[64];
    struct cadre_wfdb_annotations list = {0};
    struct cadre_error err;
    memcpy(bytes, head, sizeof head);
    memcpy(bytes + sizeof head, note, 21);
    memcpy(bytes + sizeof head + 21, tail, sizeof tail);
    ck_assert_msg(parse(bytes, sizeof head + 21 + sizeof tail, &list, &err) == CADRE_OK,
                  "%s", err.text);
    ck_assert_uint_eq(list.count, 3);
    ck_assert_int_eq(list.items[0].code, 22);
    ck_assert_int_eq(list.items[1].time, 77);
    ck_assert_int_eq(list.items[1].chan, 1);
    ck_assert_int_eq(list.items[2].time, 77 + 3 + 10);
    ck_assert_int_eq(list.items[2].code, 5);
    ck_assert_int_eq(list.items[2].chan, 2);
    cadre_wfdb_annotations_fini(&list);
}
END_TEST

static const struct {
    uint8_t bytes[10];
    size_t size;
    const char *says;
} wrong[] = {
    {{0}, 0, "truncated"},
    {{WORD(1, 5)}, 2, "truncated"},
    {{WORD(1, 5), 0}, 3, "truncated"},
    {{WORD(59, 0), 1, 2}, 4, "truncated"},
    {{WORD(1, 5), WORD(63, 9), 'a'}, 5, "truncated"},
    {{WORD(1, 5), WORD(63, 1000), 'a'}, 5, "255"},
    {{WORD(50, 5), WORD(0, 0)}, 4, "code"},
    {{WORD(58, 5), WORD(0, 0)}, 4, "code"},
    {{WORD(0, 5)}, 2, "truncated"},
    {{WORD(59, 0), 0xff, 0xff, 0, 0, WORD(1, 0), 0, 0}, 10, "time of 0"},
};

START_TEST(refuses_wrong_files)
{
    struct cadre_wfdb_annotations list = {0};
    struct cadre_error err;
    ck_assert_int_eq(parse(wrong[_i].bytes, wrong[_i].size, &list, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, wrong[_i].says), "%s", err.text);
    ck_assert_msg(strstr(err.text, "x.atr"), "%s", err.text);
    ck_assert_ptr_null(list.items);
}
END_TEST

START_TEST(survives_random_bytes)
{
    unsigned state = 99;
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[64];
        struct cadre_wfdb_annotations list = {0};
        for (size_t i = 0; i < sizeof bytes; i++) {
            state = state * 1664525u + 1013904223u;
            bytes[i] = (uint8_t)(state >> 24);
            if (i % 2 == 1 && round % 2)
                bytes[i] = (uint8_t)(bytes[i] % 4 ? bytes[i] & 0x1f : 0xec | bytes[i]);
        }
        if (cadre_wfdb_annotations_parse(bytes, (size_t)round % 64, "m", &list, NULL) ==
            CADRE_OK)
            cadre_wfdb_annotations_fini(&list);
    }
}
END_TEST

START_TEST(aami_classes)
{
    static const char *const groups[] = {"NLRBejn", "AaJS", "VEr", "F", "/fQ?"};
    int beats = 0;
    for (uint8_t code = 0; code < 50; code++) {
        int class_id = cadre_wfdb_aami_class(code);
        const char *symbol = cadre_wfdb_symbol(code);
        beats += class_id >= 0;
        if (class_id >= 0)
            ck_assert_ptr_nonnull(strchr(groups[class_id], symbol[0]));
    }
    ck_assert_int_eq(beats, 19);
    ck_assert_str_eq(cadre_wfdb_symbol(CADRE_WFDB_PVC), "V");
    ck_assert_str_eq(cadre_wfdb_symbol(CADRE_WFDB_VESC), "E");
    ck_assert_str_eq(cadre_wfdb_symbol(200), "[?]");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("wfdb_annotation");
    TCase *tc = tcase_create("annotation");
    const int sets = test_data_sets("mitdb");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, mitdb_equals_listing, 0, 7 * sets);
    tcase_add_loop_test(tc, mitdb_counts_equal_expected, 0, 7 * sets);
    tcase_add_test(tc, skip_sub_num_chn_aux);
    tcase_add_test(tc, time_resolution_is_not_an_annotation);
    tcase_add_test(tc, code_0_with_a_step_is_a_filler);
    tcase_add_loop_test(tc, refuses_wrong_files, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tc, survives_random_bytes);
    tcase_add_test(tc, aami_classes);
    suite_add_tcase(suite, tc);
    return suite;
}
