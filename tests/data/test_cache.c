/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/data/cache/cache.h"
#include "tests/support/check_main.h"

static char *dir;

static void setup(void)
{
    dir = test_tmpdir();
    cadre_log_set_level(CADRE_LOG_ERROR);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

enum { RECORDS = 20 };

/* Record r: 1000 * r + 3 tokens r, r + 1, ... and r labels. */
static cadre_status build(void *context, struct cadre_cache_writer *writer,
                          struct cadre_error *err)
{
    atomic_int *builds = context;
    (void)err;
    atomic_fetch_add(builds, 1);
    for (int r = 0; r < RECORDS; r++) {
        char name[32];
        uint8_t labels[RECORDS];
        snprintf(name, sizeof name, "record/%d", r);
        cadre_status rc = cadre_cache_write_record(writer, name);
        for (int i = 0; i < 1000 * r + 3 && rc == CADRE_OK; i++) {
            uint16_t token = (uint16_t)(r + i);
            rc = cadre_cache_write_tokens(writer, &token, 1);
        }
        memset(labels, r, sizeof labels);
        if (rc == CADRE_OK)
            rc = cadre_cache_write_labels(writer, labels, (size_t)r);
        if (rc != CADRE_OK)
            return rc;
    }
    return CADRE_OK;
}

static cadre_status build_failing(void *context, struct cadre_cache_writer *writer,
                                  struct cadre_error *err)
{
    (void)context;
    (void)writer;
    return cadre_fail(err, CADRE_E_INVALID, "the third record is bad");
}

static void check_contents(const struct cadre_cache *cache)
{
    ck_assert_uint_eq(cache->count, RECORDS);
    for (uint64_t r = 0; r < RECORDS; r++) {
        char name[32];
        snprintf(name, sizeof name, "record/%d", (int)r);
        ck_assert_str_eq(cache->records[r].name, name);
        ck_assert_uint_eq(cache->records[r].token_count, 1000 * r + 3);
        ck_assert_uint_eq(cache->records[r].label_count, r);
        for (uint64_t i = 0; i < cache->records[r].token_count; i++)
            ck_assert_uint_eq(cache->records[r].tokens[i], r + i);
        for (uint64_t i = 0; i < r; i++)
            ck_assert_uint_eq(cache->records[r].labels[i], r);
    }
}

static void open_and_check(const char *folder, uint64_t key, atomic_int *builds)
{
    struct cadre_cache cache = {0};
    struct cadre_error err = {0};
    ck_assert_msg(cadre_cache_init(folder, key, build, builds, &cache, &err) ==
                      CADRE_OK,
                  "%s", err.text);
    check_contents(&cache);
    cadre_cache_fini(&cache);
}

START_TEST(is_made_once_per_key)
{
    char folder[1200];
    atomic_int builds = 0;
    snprintf(folder, sizeof folder, "%s/a/b", dir);
    open_and_check(folder, 7, &builds);
    open_and_check(folder, 7, &builds);
    ck_assert_int_eq(builds, 1);
    open_and_check(folder, 8, &builds);
    ck_assert_int_eq(builds, 2);
    open_and_check(NULL, 7, &builds);
    open_and_check(NULL, 7, &builds);
    ck_assert_int_eq(builds, 4);
}
END_TEST

START_TEST(content_hash_is_free_of_the_key)
{
    struct cadre_cache a = {0}, b = {0};
    atomic_int builds = 0;
    ck_assert_int_eq(cadre_cache_init(dir, 1, build, &builds, &a, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_cache_init(NULL, 2, build, &builds, &b, NULL), CADRE_OK);
    ck_assert_uint_eq(a.content_hash, b.content_hash);
    cadre_cache_fini(&a);
    cadre_cache_fini(&b);
}
END_TEST

/* Any damaged byte, a truncated and a longer file are found, and the cache is made
 * again. */
START_TEST(damage_is_found)
{
    char path[1200];
    atomic_int builds = 0;
    struct stat st;
    open_and_check(dir, 7, &builds);
    snprintf(path, sizeof path, "%s/tokens-0000000000000007.cache", dir);
    ck_assert_int_eq(stat(path, &st), 0);
    static const double places[] = {0, 0.0001, 0.011, 0.3, 0.9, 0.997, 0.9999};
    for (int p = 0; p < 9; p++) {
        int before = builds;
        FILE *f = fopen(path, "r+b");
        ck_assert_ptr_nonnull(f);
        if (p < 7) {
            long at = (long)((double)st.st_size * places[p]);
            fseek(f, at, SEEK_SET);
            int byte = fgetc(f);
            fseek(f, at, SEEK_SET);
            fputc(byte ^ 0x40, f);
        } else {
            ck_assert_int_eq(ftruncate(fileno(f), p == 7 ? 100 : st.st_size + 8), 0);
        }
        fclose(f);
        open_and_check(dir, 7, &builds);
        ck_assert_int_eq(builds, before + 1);
    }
}
END_TEST

static int count_files(void)
{
    int count = 0;
    DIR *d = opendir(dir);
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

START_TEST(failure_leaves_nothing_behind)
{
    struct cadre_cache cache = {0};
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_cache_init(dir, 7, build_failing, NULL, &cache, &err),
                     CADRE_E_INVALID);
    ck_assert_str_eq(err.text, "the third record is bad");
    ck_assert_int_eq(count_files(), 0);
    ck_assert_int_eq(cadre_cache_init(NULL, 7, build_failing, NULL, &cache, NULL),
                     CADRE_E_INVALID);
    ck_assert_int_eq(cadre_cache_init("/proc/none/x", 7, build, NULL, &cache, &err),
                     CADRE_E_IO);
}
END_TEST

START_TEST(what_a_killed_process_left_is_overwritten)
{
    atomic_int builds = 0;
    test_file_put(dir, "tokens-0000000000000007.cache.tmp", "half a cache", 12);
    open_and_check(dir, 7, &builds);
    ck_assert_int_eq(count_files(), 1);
}
END_TEST

START_TEST(full_disk_is_one_error)
{
    struct cadre_cache cache = {0};
    struct cadre_error err = {0};
    atomic_int builds = 0;
    struct rlimit limit = {100000, 100000}; /* of this test's own process */
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(cadre_cache_init(dir, 7, build, &builds, &cache, &err),
                     CADRE_E_IO);
    ck_assert_msg(strstr(err.text, "cannot write the token cache"), "%s", err.text);
    ck_assert_int_eq(count_files(), 0);
}
END_TEST

static void *thread_main(void *builds)
{
    open_and_check(dir, 7, builds);
    return NULL;
}

START_TEST(threads_make_it_once)
{
    pthread_t threads[8];
    atomic_int builds = 0;
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, thread_main, &builds), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(builds, 1);
}
END_TEST

START_TEST(processes_make_it_once)
{
    pid_t pids[4];
    int made = 0;
    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            atomic_int builds = 0;
            open_and_check(dir, 7, &builds);
            _exit(builds);
        }
    }
    for (int i = 0; i < 4; i++) {
        int status = 0;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert(WIFEXITED(status));
        made += WEXITSTATUS(status);
    }
    ck_assert_int_eq(made, 1);
    ck_assert_int_eq(count_files(), 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("cache");
    TCase *tc = tcase_create("cache");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, is_made_once_per_key);
    tcase_add_test(tc, content_hash_is_free_of_the_key);
    tcase_add_test(tc, damage_is_found);
    tcase_add_test(tc, failure_leaves_nothing_behind);
    tcase_add_test(tc, what_a_killed_process_left_is_overwritten);
    tcase_add_test(tc, full_disk_is_one_error);
    tcase_add_test(tc, threads_make_it_once);
    tcase_add_test(tc, processes_make_it_once);
    suite_add_tcase(suite, tc);
    return suite;
}
