/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plugin/plugin_private.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/plugin/plugin_fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static unsigned char *good;
static size_t good_bytes;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
    good = test_file_read(test_module("bad_descriptor"), &good_bytes);
    memset(&err, 0, sizeof err);
}

static void teardown(void)
{
    free(good);
    test_tmpdir_destroy(dir);
}

/* Through the loader, so that a file that passes the check by mistake reaches dlopen.
 */
static void refused(const char *path, const char *text)
{
    const struct cadre_plugin_handle *plugin = NULL;
    err = (struct cadre_error){0};
    test_refused(cadre_plugin_load(path, NULL, &plugin, &err), &err, text);
}

static void write_refused(const void *data, size_t bytes, const char *text)
{
    static int n;
    char name[32];
    snprintf(name, sizeof name, "bad%d.so", n++);
    const char *path = test_path(dir, name);
    test_file_write(path, data, bytes);
    refused(path, text);
    ck_assert_ptr_nonnull(strstr(err.text, name));
}

START_TEST(accepts_a_plugin)
{
    uint64_t digest = 0, again = 1;
    bool has_entry = false;
    const char *path = test_module("bad_descriptor");
    ck_assert_int_eq(cadre_plugin_file_check(path, &digest, &has_entry, &err),
                     CADRE_OK);
    ck_assert(has_entry);
    ck_assert_int_eq(cadre_plugin_file_check(path, &again, NULL, NULL), CADRE_OK);
    ck_assert_uint_eq(digest, again);
    ck_assert_int_eq(
        cadre_plugin_file_check(test_module("bad_entry"), &again, &has_entry, &err),
        CADRE_OK);
    ck_assert(!has_entry);
    ck_assert_uint_ne(digest, again);
}
END_TEST

START_TEST(refuses_what_is_no_file)
{
    refused(test_path(dir, "absent.so"), "No such file or directory");
    ck_assert_ptr_nonnull(strstr(err.text, "absent.so"));
    refused(test_path(dir, ""), "is a directory, not a regular file");
    ck_assert_int_eq(mkfifo(test_path(dir, "pipe.so"), 0600), 0);
    refused(test_path(dir, "pipe.so"), "is a special file");
    refused("/dev/zero", "is a special file");
}
END_TEST

START_TEST(refuses_a_huge_file)
{
    const char *path = test_path(dir, "huge.so");
    test_file_write(path, good, good_bytes);
    if (truncate(path, (off_t)3 << 30))
        test_skip("no sparse file of 3 GiB here");
    refused(path, "more than the 1 GiB");
}
END_TEST

START_TEST(refuses_what_is_not_elf)
{
    write_refused("", 0, "is not an ELF file");
    write_refused("\177EL", 3, "is not an ELF file");
    write_refused("#!/bin/sh\nexit 0\n", 17, "is not an ELF file");
}
END_TEST

START_TEST(refuses_another_machine)
{
    ElfW(Ehdr) *head = (ElfW(Ehdr) *)good;
    ElfW(Ehdr) keep = *head;
    head->e_ident[EI_CLASS] = ELFCLASS32;
    write_refused(good, good_bytes, "is a 32-bit object, this program needs 64-bit");
    *head = keep;
    head->e_ident[EI_CLASS] = 9;
    write_refused(good, good_bytes, "is a nonsense-class object");
    *head = keep;
    head->e_machine = EM_S390;
    write_refused(good, good_bytes, "is for another machine");
    *head = keep;
    head->e_ident[EI_DATA] = 3;
    write_refused(good, good_bytes, "is for another machine");
    *head = keep;
    head->e_type = ET_REL;
    write_refused(good, good_bytes, "is an object file, not a shared object");
    head->e_type = ET_CORE;
    write_refused(good, good_bytes, "is an ELF file of another type");
    refused("/proc/self/exe", "the plugin '");
}
END_TEST

START_TEST(refuses_every_truncation)
{
    char name[32];
    for (size_t bytes = 4; bytes < good_bytes; bytes += bytes < 1024 ? 7 : 509) {
        snprintf(name, sizeof name, "cut%zu.so", bytes);
        const char *path = test_path(dir, name);
        test_file_write(path, good, bytes);
        refused(path, "is truncated");
    }
    write_refused(good, good_bytes - 1, "is truncated");
}
END_TEST

START_TEST(refuses_tables_beyond_the_end)
{
    ElfW(Ehdr) *head = (ElfW(Ehdr) *)good;
    ElfW(Ehdr) keep = *head;
    ElfW(Phdr) *seg = (ElfW(Phdr) *)(good + head->e_phoff);
    ElfW(Phdr) first = *seg;
    seg->p_type = PT_LOAD;
    seg->p_filesz = good_bytes + 1;
    write_refused(good, good_bytes, "is truncated: its segment");
    seg->p_offset = UINT64_MAX - 8; /* the sum overflows */
    seg->p_filesz = 16;
    write_refused(good, good_bytes, "is truncated: its segment");
    *seg = first;
    head->e_phoff = UINT64_MAX - 8;
    write_refused(good, good_bytes, "is truncated: its program header table");
    *head = keep;
    head->e_phentsize = 1;
    write_refused(good, good_bytes, "program headers are of 1 bytes");
    *head = keep;
    head->e_phnum = 0;
    write_refused(good, good_bytes, "has no dynamic section");
    *head = keep;
    head->e_shoff = good_bytes;
    write_refused(good, good_bytes, "is truncated: its section table");
    *head = keep;
    ElfW(Shdr) *sec = (ElfW(Shdr) *)(good + head->e_shoff);
    sec[1].sh_size = good_bytes;
    write_refused(good, good_bytes, "is truncated: its section");
}
END_TEST

/* Damaged headers and tables never take the check outside the file (under ASan). */
START_TEST(survives_damage)
{
    uint32_t state = 12345;
    const char *path = test_path(dir, "damaged.so");
    ElfW(Ehdr) head;
    memcpy(&head, good, sizeof head);
    test_file_write(path, good, good_bytes);
    int fd = open(path, O_WRONLY);
    for (int round = 0; round < 1000; round++) {
        size_t at[3];
        for (int k = 0; k < 3; k++) {
            state = state * 1664525u + 1013904223u;
            size_t n = state >> 8;
            at[k] = round % 3 == 0   ? n % sizeof head
                    : round % 3 == 1 ? head.e_phoff + n % (head.e_phnum * 56u)
                                     : head.e_shoff + n % (head.e_shnum * 64u);
            unsigned char byte = (unsigned char)(state >> 3);
            ck_assert_int_eq((int)pwrite(fd, &byte, 1, (off_t)at[k]), 1);
        }
        cadre_status rc = cadre_plugin_file_check(path, NULL, NULL, &err);
        ck_assert(rc == CADRE_OK || rc == CADRE_E_INVALID);
        for (int k = 0; k < 3; k++)
            ck_assert_int_eq((int)pwrite(fd, good + at[k], 1, (off_t)at[k]), 1);
    }
    close(fd);
}
END_TEST

START_TEST(the_record_lies_beside_it)
{
    static const char *const paths[][2] = {{"/a/b.so", "/a/b.check.json"},
                                           {"b.so", "b.check.json"},
                                           {".so", ".so.check.json"},
                                           {"/a.so/b", "/a.so/b.check.json"}};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char *found = cadre_plugin_record_path(paths[i][0]);
        ck_assert_str_eq(found, paths[i][1]);
        free(found);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plugin_file");
    TCase *tc = tcase_create("plugin_file");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, accepts_a_plugin);
    tcase_add_test(tc, refuses_what_is_no_file);
    tcase_add_test(tc, refuses_a_huge_file);
    tcase_add_test(tc, refuses_what_is_not_elf);
    tcase_add_test(tc, refuses_another_machine);
    tcase_add_test(tc, refuses_every_truncation);
    tcase_add_test(tc, refuses_tables_beyond_the_end);
    tcase_add_test(tc, survives_damage);
    tcase_add_test(tc, the_record_lies_beside_it);
    suite_add_tcase(s, tc);
    return s;
}
