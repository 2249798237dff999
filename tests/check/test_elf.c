/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/kit/elf.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

/* Built beside this program, in tests/check/planted. */
#define RIGHT "tests/check/planted/base_data.so"

static char *dir;
static struct cadre_elf elf;

static void setup(void)
{
    struct cadre_error err = {0};
    dir = test_tmpdir();
    cadre_status rc = cadre_elf_open(RIGHT, &elf, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void teardown(void)
{
    cadre_elf_close(&elf);
    test_tmpdir_destroy(dir);
}

/* What the linker was told to export, and what is left to the C library. */
START_TEST(symbols_are_read)
{
    struct cadre_elf_symbol symbol;
    uint64_t at = 0;
    int entries = 0, others = 0, needed = 0;
    while (cadre_elf_next_symbol(&elf, &at, &symbol)) {
        bool entry = strcmp(symbol.name, "cadre_plugin_entry_1") == 0;
        entries += entry && symbol.defined && !symbol.weak;
        others += symbol.defined && !entry;
        needed += !symbol.defined;
    }
    ck_assert_int_eq(entries, 1);
    ck_assert_int_eq(others, 0);
    ck_assert_int_gt(needed, 0);
    ck_assert(!cadre_elf_next_symbol(&elf, &at, &symbol));
    ck_assert(cadre_elf_imports(&elf, "calloc"));
    ck_assert(cadre_elf_imports(&elf, "call"));
    ck_assert(!cadre_elf_imports(&elf, "cadre_")); /* defines it, needs it not */
    ck_assert(!cadre_elf_imports(&elf, "setenv"));
}
END_TEST

START_TEST(the_rest_is_read)
{
    bool libc = false;
    const char *name;
    for (size_t i = 0; (name = cadre_elf_library(&elf, i)); i++)
        libc |= strncmp(name, "libc.so", 7) == 0;
    ck_assert(libc);
    ck_assert_ptr_null(cadre_elf_soname(&elf));
    ck_assert(elf.relro);
    ck_assert(!elf.executable_stack);
    ck_assert_uint_eq(elf.constructors, 1); /* the compiler's own */
    ck_assert(cadre_elf_made_by(&elf, "GCC") || cadre_elf_made_by(&elf, "clang"));
    ck_assert(!cadre_elf_made_by(&elf, "rustc"));
}
END_TEST

/* Opens a copy of the first n bytes. */
static cadre_status open_copy(const char *data, size_t n, struct cadre_error *err)
{
    struct cadre_elf copy = {0};
    const char *path = test_file_put(dir, "copy.so", data, n);
    cadre_status rc = cadre_elf_open(path, &copy, err);
    ck_assert(rc == CADRE_OK || copy.data == NULL);
    if (rc == CADRE_OK)
        cadre_elf_close(&copy);
    return rc;
}

/* Section headers come last, so every shorter file lacks something. */
START_TEST(a_file_cut_off_is_refused)
{
    struct cadre_error err = {0};
    size_t step = test_lean() ? 997 : 101;
    ck_assert_int_eq(open_copy(elf.data, elf.bytes, &err), CADRE_OK);
    for (size_t n = 0; n < elf.bytes; n += step) {
        err = (struct cadre_error){0};
        ck_assert_int_eq(open_copy(elf.data, n, &err), CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, n < sizeof(Elf64_Ehdr) ? "is no 64-bit shared"
                                                              : "is cut off"),
                      "%zu bytes: %s", n, err.text);
    }
}
END_TEST

/* Uses all that can be read of a file, whatever it holds. */
static void read_all(const char *data, size_t n)
{
    struct cadre_elf copy;
    struct cadre_elf_symbol symbol;
    uint64_t at = 0;
    size_t bytes = 0;
    if (cadre_elf_open(test_file_put(dir, "copy.so", data, n), &copy, NULL) != CADRE_OK)
        return;
    while (cadre_elf_next_symbol(&copy, &at, &symbol))
        bytes += strlen(symbol.name);
    const char *name = "";
    for (size_t i = 0; name && i < 1000; i++)
        bytes += (name = cadre_elf_library(&copy, i)) ? strlen(name) : 0;
    name = cadre_elf_soname(&copy);
    bytes += name ? strlen(name) : 0;
    bytes += cadre_elf_made_by(&copy, "rustc");
    ck_assert_uint_lt(bytes, 1u << 30);
    cadre_elf_close(&copy);
}

/* Each byte of the tables that lead elsewhere, and random ones: nothing beyond the file
 * is read, which an instrumented build sees. */
START_TEST(damaged_files_do_no_harm)
{
    static const char values[] = {0, 1, 0x7f, (char)0x80, (char)0xff};
    Elf64_Ehdr header;
    memcpy(&header, elf.data, sizeof header);
    char *copy = malloc(elf.bytes);
    size_t from = header.e_shoff, step = test_lean() ? 29 : 3;
    for (size_t at = 0; at < elf.bytes; at += at < 600 || at >= from ? step : 1777) {
        memcpy(copy, elf.data, elf.bytes);
        copy[at] = values[at % sizeof values];
        read_all(copy, elf.bytes);
        memset(copy + at, (int)(at % 256), elf.bytes - at < 8 ? elf.bytes - at : 8);
        read_all(copy, elf.bytes);
    }
    free(copy);
}
END_TEST

START_TEST(other_files_are_refused)
{
    struct cadre_error err = {0};
    struct cadre_elf other;
    Elf64_Ehdr header;
    ck_assert_int_eq(open_copy("#!/bin/sh\n", 10, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "is no 64-bit shared object"), "%s", err.text);
    memcpy(&header, elf.data, sizeof header);
    char *copy = malloc(elf.bytes);
    memcpy(copy, elf.data, elf.bytes);
    copy[EI_CLASS] = ELFCLASS32;
    ck_assert_int_eq(open_copy(copy, elf.bytes, &err), CADRE_E_INVALID);
    memcpy(copy, elf.data, elf.bytes);
    header.e_type = ET_REL;
    memcpy(copy, &header, sizeof header);
    ck_assert_int_eq(open_copy(copy, elf.bytes, &err), CADRE_E_INVALID);
    free(copy);
    ck_assert_int_eq(cadre_elf_open("/no/such.so", &other, &err), CADRE_E_IO);
    ck_assert_int_eq(cadre_elf_open(dir, &other, &err), CADRE_E_INVALID);
}
END_TEST

/* A function before main, a name of its own, a stack that may run code, one library. */
START_TEST(what_a_linker_was_asked_for_shows)
{
    static const char source[] = "__attribute__((constructor)) void before(void) {}\n"
                                 "__attribute__((weak)) int weak(void) { return 1; }\n";
    struct cadre_error err = {0};
    struct cadre_elf made;
    struct cadre_elf_symbol symbol;
    char command[4096], path[1100];
    uint64_t at = 0;
    int weak = 0;
    if (system("cc --version >/dev/null 2>&1"))
        test_skip("no cc");
    snprintf(path, sizeof path, "%s/made.so", dir);
    snprintf(command, sizeof command,
             "cc -shared -fPIC -Wl,-soname,other.so -Wl,-z,execstack -Wl,-z,norelro "
             "-Wl,--no-as-needed -o %s %s -lm 2>/dev/null",
             path, test_file_put(dir, "made.c", source, sizeof source - 1));
    ck_assert_int_eq(system(command), 0);
    cadre_status rc = cadre_elf_open(path, &made, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_uint_eq(made.constructors, 2);
    ck_assert_str_eq(cadre_elf_soname(&made), "other.so");
    ck_assert(made.executable_stack && !made.relro);
    ck_assert_ptr_nonnull(strstr(cadre_elf_library(&made, 0), "libm.so"));
    while (cadre_elf_next_symbol(&made, &at, &symbol))
        weak += symbol.weak && symbol.defined && strcmp(symbol.name, "weak") == 0;
    ck_assert_int_eq(weak, 1);
    cadre_elf_close(&made);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("check/elf");
    TCase *t = tcase_create("elf");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, symbols_are_read);
    tcase_add_test(t, the_rest_is_read);
    tcase_add_test(t, a_file_cut_off_is_refused);
    tcase_add_test(t, damaged_files_do_no_harm);
    tcase_add_test(t, other_files_are_refused);
    tcase_add_test(t, what_a_linker_was_asked_for_shows);
    suite_add_tcase(s, t);
    return s;
}
