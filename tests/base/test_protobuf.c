/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes are those of protobuf's own description of its encoding, or put together by
 * hand. */
#include "core/base/protobuf.h"

#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_text out;

static void setup(void)
{
    out = (struct cadre_text){0};
}

static void teardown(void)
{
    cadre_text_fini(&out);
}

#define EXPECT(...)                                                                    \
    do {                                                                               \
        const unsigned char want[] = {__VA_ARGS__};                                    \
        ck_assert_uint_eq(out.len, sizeof want);                                       \
        ck_assert_mem_eq(out.data, want, sizeof want);                                 \
    } while (0)

START_TEST(a_whole_number_takes_as_many_bytes_as_it_needs)
{
    cadre_protobuf_put_u64(&out, 1, 150);
    cadre_protobuf_varint(&out, 0);
    cadre_protobuf_varint(&out, 127);
    cadre_protobuf_varint(&out, 128);
    EXPECT(0x08, 0x96, 0x01, 0x00, 0x7f, 0x80, 0x01);
}
END_TEST

START_TEST(a_negative_one_and_the_largest_take_ten)
{
    cadre_protobuf_put_i64(&out, 2, -2);
    cadre_protobuf_varint(&out, UINT64_MAX);
    EXPECT(0x10, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0xff, 0xff,
           0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
}
END_TEST

START_TEST(floats_have_their_lowest_byte_first)
{
    cadre_protobuf_put_f32(&out, 1, 1.5f);
    cadre_protobuf_put_f64(&out, 16, -2.0);
    EXPECT(0x0d, 0, 0, 0xc0, 0x3f, 0x81, 0x01, 0, 0, 0, 0, 0, 0, 0, 0xc0);
}
END_TEST

START_TEST(texts_and_messages_stand_behind_their_length)
{
    struct cadre_text inner = {0};
    cadre_protobuf_put_u64(&inner, 1, 150);
    cadre_protobuf_put_message(&out, 3, &inner);
    cadre_protobuf_put_string(&out, 2, "testing");
    cadre_protobuf_put_bytes(&out, 2, "\0a", 2);
    EXPECT(0x1a, 0x03, 0x08, 0x96, 0x01, 0x12, 0x07, 't', 'e', 's', 't', 'i', 'n', 'g',
           0x12, 0x02, 0, 'a');
    cadre_text_fini(&inner);
}
END_TEST

/* A message of which a part is missing would be read as another one. */
START_TEST(what_failed_fails_the_whole)
{
    const struct cadre_text inner = {.failed = true};
    cadre_protobuf_put_message(&out, 1, &inner);
    ck_assert(out.failed);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("protobuf");
    TCase *tc = tcase_create("protobuf");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_whole_number_takes_as_many_bytes_as_it_needs);
    tcase_add_test(tc, a_negative_one_and_the_largest_take_ten);
    tcase_add_test(tc, floats_have_their_lowest_byte_first);
    tcase_add_test(tc, texts_and_messages_stand_behind_their_length);
    tcase_add_test(tc, what_failed_fails_the_whole);
    suite_add_tcase(s, tc);
    return s;
}
