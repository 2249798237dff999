/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Check runs each test in a child: a skip is reported to the parent through a file. */
static char skip_file[64];

/* Two places that share an entry are written as one: only the name of the last place
 * before a crash suffers. */
void test_mark(const char *file, int line)
{
    static unsigned char seen[1 << 12];
    unsigned char *at = &seen[((uintptr_t)file + (unsigned)line) % sizeof seen];
    if (__atomic_load_n(at, __ATOMIC_RELAXED) == 0) {
        __atomic_store_n(at, 1, __ATOMIC_RELAXED);
        _mark_point(file, line);
    }
}

int test_data_sets(const char *folder)
{
    const char *root = getenv("CADRE_TEST_DATA");
    char path[1024];
    if (!root)
        return 1;
    snprintf(path, sizeof path, "%s/%s", root, folder);
    return access(path, R_OK) == 0 ? 2 : 1;
}

const char *test_data(int set, const char *name)
{
    static char paths[8][1024];
    static int next;
    const char *tree = getenv("CADRE_SRC");
    char *path = paths[next++ % 8];
    if (set == 0)
        snprintf(path, sizeof paths[0], "%s/tests/samples/%s", tree ? tree : "..",
                 name);
    else
        snprintf(path, sizeof paths[0], "%s/%s", getenv("CADRE_TEST_DATA"), name);
    ck_assert_msg(access(path, R_OK) == 0, "there is no %s", path);
    return path;
}

const char *test_sample(const char *name)
{
    return test_data(0, name);
}

char *test_tmpdir(void)
{
    const char *root = getenv("TMPDIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/cadre-test-XXXXXX", root ? root : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(path));
    return strdup(path);
}

void test_tmpdir_destroy(char *path)
{
    char command[1100];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    ck_assert_int_eq(system(command), 0);
    free(path);
}

void *test_file_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s is not there", path);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(file);
    char *data = calloc(1, size + 1);
    rewind(file);
    ck_assert_uint_eq(fread(data, 1, size, file), size);
    fclose(file);
    if (bytes)
        *bytes = size;
    return data;
}

void test_file_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "cannot make %s", path);
    ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
    ck_assert_int_eq(fclose(file), 0);
}

const char *test_file_put(const char *folder, const char *name, const void *data,
                          size_t bytes)
{
    static char paths[8][1200];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    test_file_write(path, data, bytes);
    return path;
}

bool test_lean(void)
{
    const char *lean = getenv("CADRE_TEST_LEAN");
    return lean && (strcmp(lean, "1") == 0 || strcmp(lean, "2") == 0);
}

bool test_leanest(void)
{
    const char *lean = getenv("CADRE_TEST_LEAN");
    return lean && strcmp(lean, "2") == 0;
}

double test_patience(void)
{
    const char *text = getenv("CADRE_TEST_PATIENCE");
    double patience = text ? atof(text) : 1;
    return patience > 1 ? patience : 1;
}

/* Check's own limit is 4 s per test, too little for a shared machine. */
static void set_limits(void)
{
    char factor[32];
    snprintf(factor, sizeof factor, "%g", test_patience());
    setenv("CK_DEFAULT_TIMEOUT", "60", 0);
    setenv("CK_TIMEOUT_MULTIPLIER", factor, 0);
}

void test_note_skip(const char *why)
{
    printf("SKIP: %s\n", why);
    fflush(stdout);
    int fd = open(skip_file, O_WRONLY | O_APPEND);
    if (fd >= 0) {
        ck_assert_int_eq((int)write(fd, "s", 1), 1);
        close(fd);
    }
}

int main(void)
{
    snprintf(skip_file, sizeof skip_file, "/tmp/cadre-skip-XXXXXX");
    int fd = mkstemp(skip_file);
    set_limits();
    SRunner *runner = srunner_create(test_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    int run = srunner_ntests_run(runner);
    srunner_free(runner);
    off_t skipped = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    unlink(skip_file);
    if (failed)
        return 1;
    return run > 0 && skipped >= run ? 77 : 0;
}
