/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of the options' life fails once: an error each time, never a crash,
 * and (under a sanitizer) never a leak. The linker sends our allocations here (--wrap).
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "core/config/options.h"
#include "tests/support/check_main.h"

static long left = -1; /* allocations that still succeed; -1 is no limit */

static bool spend(void)
{
    if (left > 0)
        left--;
    return left != 0;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
int __real_vasprintf(char **out, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);
int __wrap_vasprintf(char **out, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

void *__wrap_malloc(size_t bytes)
{
    return spend() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return spend() ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return spend() ? __real_realloc(old, bytes) : NULL;
}

char *__wrap_strdup(const char *text)
{
    return spend() ? __real_strdup(text) : NULL;
}

char *__wrap_strndup(const char *text, size_t n)
{
    return spend() ? __real_strndup(text, n) : NULL;
}

int __wrap_vasprintf(char **out, const char *fmt, va_list ap)
{
    return spend() ? __real_vasprintf(out, fmt, ap) : -1;
}

static cadre_status live(const char *path, struct cadre_error *err)
{
    cadre_status rc;
    struct cadre_options *o = NULL, *copy = NULL;
    char **names = NULL;
    size_t n;
    CADRE_TRY_OR(cadre_options_create(&o, err), fail);
    CADRE_TRY_OR(cadre_options_load(o, path, err), fail);
    CADRE_TRY_OR(cadre_options_set(o, "train.steps=3", "command line", err), fail);
    CADRE_TRY_OR(cadre_options_allow_section(o, "mig", err), fail);
    CADRE_TRY_OR(cadre_options_list_runs(o, &names, &n, err), fail);
    CADRE_TRY_OR(cadre_options_resolve(o, err), fail);
    copy = cadre_options_clone(o);
    if (!copy)
        rc = cadre_fail(err, CADRE_E_RESOURCE, "no memory to clone");
    else
        rc = cadre_options_apply_run(copy, names[0], err);
    if (rc == CADRE_OK)
        rc = cadre_options_resolve(copy, err);
fail:
    free(names);
    cadre_options_destroy(o);
    cadre_options_destroy(copy);
    return rc;
}

START_TEST(every_allocation_may_fail)
{
    static const char base[] = "[train]\nmicro_batch = 2\n[mig]\nmode = x\n";
    static const char text[] = "[run]\nextends = b.ini\n[optim]\nlr = 0.1\n"
                               "[run:a]\noptim.lr = 0.2\n[run:b]\noptim.lr = 0.3\n";
    char *dir = test_tmpdir();
    char *base_path = cadre_path_join(dir, "b.ini");
    char *path = cadre_path_join(dir, "x.ini");
    cadre_path_write_file(base_path, base, strlen(base), NULL);
    cadre_path_write_file(path, text, strlen(text), NULL);
    cadre_status rc = CADRE_E_RESOURCE;
    long allowed = 0;
    while (rc == CADRE_E_RESOURCE && allowed < 10000) {
        struct cadre_error err = {0};
        left = ++allowed;
        rc = live(path, &err);
        left = -1;
        ck_assert_msg(rc == CADRE_OK || rc == CADRE_E_RESOURCE, "%ld: %s", allowed,
                      err.text);
        ck_assert_msg(rc == CADRE_OK || err.text[0], "%ld: no text", allowed);
    }
    ck_assert_int_eq(rc, CADRE_OK);
    ck_assert_int_gt(allowed, 450);
    free(path);
    free(base_path);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("options_memory");
    TCase *tc = tcase_create("options_memory");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_allocation_may_fail);
    suite_add_tcase(s, tc);
    return s;
}
