/* SPDX-License-Identifier: Apache-2.0 */
/* The files byte by byte where they are few; tests/cli/test_plan_chakra.sh reads those
 * of whole steps. */
#include "core/export/chakra.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static char *path_of(const char *name)
{
    static char path[1200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* Rank 0 sends 300 bytes to rank 1, which begins its step 5 us later. */
static struct cadre_step_node send_node[] = {
    {.kind = CADRE_STEP_COMPUTE,
     .name = "a",
     .begin_s = 1,
     .end_s = 1 + 7.4e-6,
     .flops = 2,
     .bytes = 3},
    {.kind = CADRE_STEP_COMM,
     .name = "b",
     .begin_s = 1 + 7.4e-6,
     .end_s = 1 + 9.6e-6,
     .n_deps = 1,
     .op = CADRE_COMM_SEND,
     .group = 3,
     .peer = 1,
     .size = 300,
     .sent = 300,
     .ordinal = 2},
};
static struct cadre_step_node receive_node[] = {
    {.kind = CADRE_STEP_COMM,
     .name = "c",
     .begin_s = 1 + 7.4e-6,
     .end_s = 1 + 9.6e-6,
     .op = CADRE_COMM_RECV,
     .group = 3,
     .peer = 0,
     .size = 300,
     .ordinal = 2},
};
static size_t first[1] = {0};
static const struct cadre_step_graph graph[2] = {
    {.begin_s = 1, .end_s = 2, .steps = 1, .node = send_node, .n = 2, .dep = first},
    {.begin_s = 1 + 5e-6, .end_s = 2, .steps = 1, .node = receive_node, .n = 1},
};
static int ranks[2] = {0, 1};
static const struct cadre_step_group group[4] = {
    {ranks, 2}, {0}, {ranks, 2}, {ranks, 2}};
static const struct cadre_chakra_step two = {.ranks = 2,
                                             .graph = graph,
                                             .group = group,
                                             .n_groups = 4,
                                             .stack = "s",
                                             .hardware = "h"};

/* The file without its first message. */
static size_t read_nodes(const char *name, unsigned char *out, size_t room)
{
    size_t bytes;
    unsigned char *data = test_file_read(path_of(name), &bytes);
    size_t head =
        data[0] & 0x80 ? 2u + (data[0] & 0x7fu) + 128u * data[1] : 1u + data[0];
    ck_assert_uint_le(head, bytes);
    ck_assert_uint_le(bytes - head, room);
    memcpy(out, data + head, bytes - head);
    free(data);
    return bytes - head;
}

START_TEST(nodes_are_messages_behind_their_length)
{
    static const unsigned char compute[] = {
        0x4d, /* 77 bytes: id = 1, "a", COMP_NODE, at 0 for 7 us */
        0x08, 1, 0x12, 1, 'a', 0x18, 4, 0x30, 0, 0x38, 7,
        /* is_cpu_op = false, num_ops = 2, tensor_size = 3 */
        0x52, 14, 0x0a, 9, 'i', 's', '_', 'c', 'p', 'u', '_', 'o', 'p', 0xd8, 1, 0,
        0x52, 11, 0x0a, 7, 'n', 'u', 'm', '_', 'o', 'p', 's', 0x48, 2, 0x52, 15, 0x0a,
        11, 't', 'e', 'n', 's', 'o', 'r', '_', 's', 'i', 'z', 'e', 0x68, 3};
    unsigned char found[4096];
    ck_assert_int_eq(cadre_chakra_write(&two, dir, &err), CADRE_OK);
    const size_t n = read_nodes("step.0.et", found, sizeof found);
    ck_assert_uint_eq(found[0], sizeof compute - 1);
    ck_assert_uint_gt(n, sizeof compute);
    ck_assert_mem_eq(found + 1, compute + 1, sizeof compute - 1);
    /* id = 2, "b", COMM_SEND_NODE, after 1, from 7 us on to 10 us */
    static const unsigned char send[] = {0x08, 2, 0x12, 1,    'b', 0x18, 5,
                                         0x2a, 1, 1,    0x30, 7,   0x38, 3};
    const unsigned char *second = found + sizeof compute;
    ck_assert_mem_eq(second + (second[0] & 0x80 ? 2 : 1), send, sizeof send);
}
END_TEST

static bool has(const unsigned char *data, size_t n, const void *part, size_t bytes)
{
    for (size_t i = 0; i + bytes <= n; i++)
        if (memcmp(data + i, part, bytes) == 0)
            return true;
    return false;
}

/* The group is the only one: number 1; the third message of two numbers: tag 5. */
START_TEST(both_ends_of_a_message_say_the_same)
{
    static const char tag[] = "comm_tag\x38\x05", bytes[] = "comm_size\x48\xac\x02";
    static const char source[] = "comm_src\x38\0", target[] = "comm_dst\x38\x01";
    static const char name[] = "pg_name\xea\x01\x01"
                               "1";
    ck_assert_int_eq(cadre_chakra_write(&two, dir, &err), CADRE_OK);
    for (int r = 0; r < 2; r++) {
        unsigned char found[4096];
        const size_t n = read_nodes(r ? "step.1.et" : "step.0.et", found, sizeof found);
        ck_assert(has(found, n, tag, sizeof tag - 1));
        ck_assert(has(found, n, bytes, sizeof bytes - 1));
        ck_assert(has(found, n, source, sizeof source - 1));
        ck_assert(has(found, n, target, sizeof target - 1));
        ck_assert(has(found, n, name, sizeof name - 1));
    }
    size_t n;
    char *groups = test_file_read(path_of("comm_groups.json"), &n);
    ck_assert_str_eq(groups, "{\n  \"1\": [0, 1]\n}\n");
    free(groups);
}
END_TEST

START_TEST(a_rank_that_begins_later_has_a_node_before)
{
    /* id = 0, COMP_NODE, at 0 for 5 us */
    static const unsigned char before[] = {0x08, 0, 0x12, 15};
    static const unsigned char lasts[] = {0x18, 4, 0x30, 0, 0x38, 5};
    static const unsigned char after[] = {'c', 0x18, 6, 0x2a, 1, 0, 0x30, 7, 0x38, 3};
    unsigned char found[4096];
    ck_assert_int_eq(cadre_chakra_write(&two, dir, &err), CADRE_OK);
    const size_t n = read_nodes("step.1.et", found, sizeof found);
    ck_assert_mem_eq(found + 1, before, sizeof before);
    ck_assert_mem_eq(found + 5, "before the step", 15);
    ck_assert_mem_eq(found + 20, lasts, sizeof lasts);
    ck_assert(has(found, n, after, sizeof after));
}
END_TEST

static int count_files(void)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;
    int n = 0;
    while ((entry = readdir(folder)))
        n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

START_TEST(files_of_another_step_go_and_no_others)
{
    static const char *const gone[] = {"step.2.et", "step.17.et"};
    static const char *const kept[] = {"step.x.et", "step..et", "step.1.et.bak",
                                       "x.et"};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(cadre_path_write_file(path_of(gone[i]), "x", 1, &err), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(cadre_path_write_file(path_of(kept[i]), "x", 1, &err), 0);
    ck_assert_int_eq(cadre_chakra_write(&two, dir, &err), CADRE_OK);
    for (int i = 0; i < 2; i++)
        ck_assert(!cadre_path_exists(path_of(gone[i])));
    ck_assert_int_eq(count_files(), 3 + 4);
}
END_TEST

START_TEST(where_one_cannot_be_written_none_is_left)
{
    ck_assert_int_eq(cadre_path_make_dirs(path_of("comm_groups.json/x"), &err), 0);
    ck_assert_int_eq(cadre_chakra_write(&two, dir, &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "comm_groups.json"));
    ck_assert_int_eq(count_files(), 1);
    ck_assert_int_eq(cadre_path_write_file(path_of("file"), "x", 1, &err), 0);
    err = (struct cadre_error){0};
    ck_assert_int_eq(cadre_chakra_write(&two, path_of("file/y"), &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "/file"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("chakra");
    TCase *tc = tcase_create("chakra");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, nodes_are_messages_behind_their_length);
    tcase_add_test(tc, both_ends_of_a_message_say_the_same);
    tcase_add_test(tc, a_rank_that_begins_later_has_a_node_before);
    tcase_add_test(tc, files_of_another_step_go_and_no_others);
    tcase_add_test(tc, where_one_cannot_be_written_none_is_left);
    suite_add_tcase(s, tc);
    return s;
}
