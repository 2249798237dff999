/* SPDX-License-Identifier: Apache-2.0 */
/* The segment: wrong descriptors are refused, the first failure is kept, notes are
 * readable. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/comm/local/segment_private.h"
#include "tests/support/check_main.h"

static struct cadre_local_segment *create(int size, bool processes)
{
    struct cadre_local_config config = {
        .size = size, .processes = processes, .timeout_s = 5};
    struct cadre_local_segment *segment;
    struct cadre_error err;
    ck_assert_int_eq(cadre_local_segment_create(&config, &segment, &err), CADRE_OK);
    return segment;
}

START_TEST(opens_in_another_mapping)
{
    struct cadre_local_segment *made = create(64, true), *opened;
    char text[256];
    int fd = dup(cadre_local_segment_fd(made));
    ck_assert_int_eq(cadre_local_segment_open(fd, &opened, NULL), CADRE_OK);
    ck_assert_int_eq(opened->shared->config.size, 64);
    cadre_local_segment_failure(opened, text, sizeof text);
    ck_assert_str_eq(text, "");
    ck_assert(cadre_local_segment_store_failure(made, CADRE_E_COMM, "the first"));
    ck_assert(!cadre_local_segment_store_failure(opened, CADRE_E_COMM, "the second"));
    cadre_local_segment_failure(opened, text, sizeof text);
    ck_assert_str_eq(text, "the first");
    cadre_local_segment_failure(opened, text, 4);
    ck_assert_str_eq(text, "the");
    cadre_local_segment_close(opened);
    cadre_local_segment_close(made);
    cadre_local_segment_close(NULL);
}
END_TEST

START_TEST(wrong_descriptors)
{
    struct cadre_local_segment *segment;
    struct cadre_error err;
    char *dir = test_tmpdir(), path[1100];
    uint64_t lies[2] = {LOCAL_MAGIC, UINT64_C(1) << 40};
    ck_assert_int_eq(cadre_local_segment_open(987, &segment, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "987"));
    ck_assert_int_eq(
        cadre_local_segment_open(open("/dev/null", O_RDWR), &segment, &err),
        CADRE_E_INVALID);
    snprintf(path, sizeof path, "%s/x", dir);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(cadre_local_segment_open(fd, &segment, &err), CADRE_E_INVALID);
    ck_assert_int_eq((int)write(fd, lies, sizeof lies), (int)sizeof lies);
    ck_assert_int_eq(cadre_local_segment_open(fd, &segment, &err), CADRE_E_INVALID);
    close(fd);
    test_tmpdir_destroy(dir);
}
END_TEST

/* Only its user may open it, and its size cannot be changed. */
START_TEST(a_segment_is_its_users_alone)
{
    struct cadre_local_segment *segment = create(2, true);
    struct stat st;
    const int fd = cadre_local_segment_fd(segment);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    ck_assert_int_ne(ftruncate(fd, 4096), 0);
    ck_assert_int_ne(ftruncate(fd, 2 * st.st_size), 0);
    cadre_local_segment_close(segment);
}
END_TEST

/* Sizes and offsets that do not fit are refused before they are used. */
START_TEST(damaged_segments_are_refused)
{
    static const uint64_t wrong[] = {0, 1, 64, UINT64_C(1) << 40, UINT64_MAX - 63};
    struct cadre_local_segment *made = create(4, true), *opened;
    struct shared_segment *s = made->shared;
    struct shared_group *world = local_at(made, s->world);
    struct cadre_error err;
    const uint64_t at = s->world;
    const int fd = cadre_local_segment_fd(made);
    ck_assert(cadre_local_group_fits(made, at));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        s->world = wrong[i];
        ck_assert_int_eq(cadre_local_segment_open(fd, &opened, &err), CADRE_E_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, "damaged segment"));
        s->world = at;
        const uint64_t staging = world->staging;
        world->staging = wrong[i];
        ck_assert(!cadre_local_group_fits(made, at));
        world->staging = staging;
    }
    for (int size = -1; size < 1000; size += 500) {
        s->config.size = size;
        ck_assert_int_eq(cadre_local_segment_open(fd, &opened, &err), CADRE_E_INVALID);
    }
    s->config.size = 4;
    ck_assert(cadre_local_group_fits(made, at));
    cadre_local_segment_close(made);
}
END_TEST

START_TEST(notes_tell_what_a_rank_did)
{
    struct cadre_local_segment *segment = create(3, false);
    struct local_note note = {
        .sequence = 812, .kind = CADRE_COMM_ALL_REDUCE, .label = "ddp bucket 3"};
    char text[256];
    cadre_local_note_text(segment, 1, text, sizeof text);
    ck_assert_str_eq(text, "never opened its communicator");
    atomic_store(&segment->shared->ranks[1].opened, 1);
    atomic_store(&segment->shared->ranks[1].step, 40);
    cadre_local_note_write(&segment->shared->ranks[1].note, &note);
    cadre_local_note_text(segment, 1, text, sizeof text);
    ck_assert_str_eq(text, "was last seen in all_reduce #812 'ddp bucket 3' (step 40)");
    cadre_local_segment_fail(segment, 1, "was killed by signal 9 (Killed)");
    cadre_local_segment_failure(segment, text, sizeof text);
    ck_assert_str_eq(text,
                     "rank 1 was killed by signal 9 (Killed); it was last seen in "
                     "all_reduce #812 'ddp bucket 3' (step 40)");
    cadre_local_segment_close(segment);
}
END_TEST

START_TEST(space_is_bounded)
{
    struct cadre_local_segment *segment = create(4, true);
    uint64_t at, last = 0;
    int n = 0;
    while (cadre_local_group_create(segment, 4, &at)) {
        ck_assert_uint_gt(at, last);
        last = at;
        n++;
    }
    ck_assert_int_ge(n, 8);
    ck_assert_int_le(n, 64);
    cadre_local_segment_close(segment);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/segment");
    TCase *t = tcase_create("segment");
    tcase_add_test(t, opens_in_another_mapping);
    tcase_add_test(t, wrong_descriptors);
    tcase_add_test(t, a_segment_is_its_users_alone);
    tcase_add_test(t, damaged_segments_are_refused);
    tcase_add_test(t, notes_tell_what_a_rank_did);
    tcase_add_test(t, space_is_bounded);
    suite_add_tcase(s, t);
    return s;
}
