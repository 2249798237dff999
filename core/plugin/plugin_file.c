/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a plugin as a file. The dynamic linker maps what the program headers
 * declare without checking the file's size, so a truncated object is a SIGBUS inside
 * dlopen: every range is checked here first, on a copy in memory. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/plugin/plugin_private.h"

#define MAX_FILE_BYTES ((off_t)1 << 30)

/* A file in memory. */
struct image {
    const char *path;
    unsigned char *data;
    size_t bytes;
};

static cadre_status read_all(int fd, struct image *image, struct cadre_error *err)
{
    size_t done = 0;
    while (done < image->bytes) {
        ssize_t n = read(fd, image->data + done, image->bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cadre_fail_errno(err, CADRE_E_INVALID, errno,
                                    "cannot read the plugin '%s'", image->path);
        if (n == 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "the plugin '%s' shrank while it was read: try again",
                              image->path);
        done += (size_t)n;
    }
    return CADRE_OK;
}

static cadre_status check_kind(int fd, struct image *image, struct cadre_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return cadre_fail_errno(err, CADRE_E_INVALID, errno,
                                "cannot inspect the plugin '%s'", image->path);
    if (!S_ISREG(st.st_mode))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "the plugin '%s' is %s, not a regular file: name the .so file", image->path,
            S_ISDIR(st.st_mode) ? "a directory" : "a special file");
    if (st.st_size > MAX_FILE_BYTES)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has %lld bytes, more than the 1 GiB that a "
                          "plugin may have",
                          image->path, (long long)st.st_size);
    image->bytes = (size_t)st.st_size;
    return CADRE_OK;
}

/* O_NONBLOCK: a named pipe must not hang the check. */
static cadre_status load_image(struct image *image, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    int fd = open(image->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return cadre_fail_errno(err, CADRE_E_INVALID, errno,
                                "cannot open the plugin '%s'", image->path);
    CADRE_TRY_OR(check_kind(fd, image, err), fail);
    image->data = cadre_calloc(image->bytes, 1);
    if (!image->data) {
        rc = cadre_no_memory(err, "the %zu bytes of the plugin '%s'", image->bytes,
                             image->path);
        goto fail;
    }
    rc = read_all(fd, image, err);
fail:
    close(fd);
    return rc;
}

/* The first bytes of the running program: its class, byte order and machine are what a
 * plugin must have. Zeroed where /proc is missing; then nothing is compared. */
static void own_header(ElfW(Ehdr) * own)
{
    memset(own, 0, sizeof *own);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, own, sizeof *own) != (ssize_t)sizeof *own)
        memset(own, 0, sizeof *own);
    close(fd);
}

static cadre_status check_header(const struct image *image, const ElfW(Ehdr) * head,
                                 struct cadre_error *err)
{
    ElfW(Ehdr) own;
    own_header(&own);
    const unsigned char *found = head->e_ident, *want = own.e_ident;
    if (want[EI_CLASS] && found[EI_CLASS] != want[EI_CLASS])
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' is a %s object, this program needs %s: "
                          "rebuild it for this machine",
                          image->path,
                          found[EI_CLASS] == ELFCLASS32   ? "32-bit"
                          : found[EI_CLASS] == ELFCLASS64 ? "64-bit"
                                                          : "nonsense-class",
                          want[EI_CLASS] == ELFCLASS64 ? "64-bit" : "32-bit");
    if (want[EI_CLASS] &&
        (found[EI_DATA] != want[EI_DATA] || head->e_machine != own.e_machine))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "the plugin '%s' is for another machine (ELF machine %u, this "
            "program is %u): rebuild it for this machine",
            image->path, head->e_machine, own.e_machine);
    if (head->e_type != ET_DYN)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' is %s, not a shared object: link it with "
                          "-shared",
                          image->path,
                          head->e_type == ET_REL    ? "an object file"
                          : head->e_type == ET_EXEC ? "a program"
                                                    : "an ELF file of another type");
    return CADRE_OK;
}

static cadre_status truncated(const struct image *image, const char *what,
                              uint64_t begin, uint64_t bytes, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      "the plugin '%s' is truncated: its %s should be %llu bytes at "
                      "%llu, the file has %zu: copy or build it again",
                      image->path, what, (unsigned long long)bytes,
                      (unsigned long long)begin, image->bytes);
}

static bool inside(const struct image *image, uint64_t begin, uint64_t bytes)
{
    return begin <= image->bytes && bytes <= image->bytes - begin;
}

static cadre_status check_segments(const struct image *image, const ElfW(Ehdr) * head,
                                   struct cadre_error *err)
{
    uint64_t table = (uint64_t)head->e_phnum * sizeof(ElfW(Phdr));
    bool has_dynamic = false;
    if (!inside(image, head->e_phoff, table))
        return truncated(image, "program header table", head->e_phoff, table, err);
    if (head->e_phentsize != sizeof(ElfW(Phdr)))
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' is damaged: its program headers are of %u "
                          "bytes, expected %zu: build it again",
                          image->path, head->e_phentsize, sizeof(ElfW(Phdr)));
    for (unsigned i = 0; i < head->e_phnum; i++) {
        ElfW(Phdr) seg;
        memcpy(&seg, image->data + head->e_phoff + i * sizeof seg, sizeof seg);
        if ((seg.p_type == PT_LOAD || seg.p_type == PT_DYNAMIC) &&
            !inside(image, seg.p_offset, seg.p_filesz))
            return truncated(image, "segment", seg.p_offset, seg.p_filesz, err);
        has_dynamic |= seg.p_type == PT_DYNAMIC;
    }
    if (!has_dynamic)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "the plugin '%s' has no dynamic section: link it with -shared",
            image->path);
    return CADRE_OK;
}

/* The linker does not read sections, but they are last in the file: a file truncated by
 * a failed copy is found here even when every segment is whole. */
static cadre_status check_sections(const struct image *image, const ElfW(Ehdr) * head,
                                   struct cadre_error *err)
{
    uint64_t table = (uint64_t)head->e_shnum * head->e_shentsize;
    if (head->e_shoff == 0 || head->e_shentsize != sizeof(ElfW(Shdr)))
        return CADRE_OK; /* stripped of its sections: legal */
    if (!inside(image, head->e_shoff, table))
        return truncated(image, "section table", head->e_shoff, table, err);
    for (unsigned i = 0; i < head->e_shnum; i++) {
        ElfW(Shdr) sec;
        memcpy(&sec, image->data + head->e_shoff + i * sizeof sec, sizeof sec);
        if (sec.sh_type != SHT_NOBITS && sec.sh_type != SHT_NULL &&
            !inside(image, sec.sh_offset, sec.sh_size))
            return truncated(image, "section", sec.sh_offset, sec.sh_size, err);
    }
    return CADRE_OK;
}

static cadre_status check_image(const struct image *image, struct cadre_error *err)
{
    ElfW(Ehdr) head;
    if (image->bytes < SELFMAG || memcmp(image->data, ELFMAG, SELFMAG) != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' is not an ELF file: name the .so file that "
                          "was built, not a script or an archive",
                          image->path);
    if (image->bytes < sizeof head)
        return truncated(image, "header", 0, sizeof head, err);
    memcpy(&head, image->data, sizeof head);
    CADRE_TRY(check_header(image, &head, err));
    CADRE_TRY(check_segments(image, &head, err));
    return check_sections(image, &head, err);
}

char *cadre_plugin_record_path(const char *plugin)
{
    size_t length = strlen(plugin);
    if (length > 3 && strcmp(plugin + length - 3, ".so") == 0)
        length -= 3;
    return cadre_format("%.*s.check.json", (int)length, plugin);
}

cadre_status cadre_plugin_file_check(const char *path, uint64_t *digest,
                                     bool *has_entry, struct cadre_error *err)
{
    struct image image = {.path = path};
    cadre_status rc;
    CADRE_TRY_OR(load_image(&image, err), fail);
    CADRE_TRY_OR(check_image(&image, err), fail);
    if (digest)
        *digest = cadre_hash_of(image.data, image.bytes, 0);
    if (has_entry)
        *has_entry = memmem(image.data, image.bytes, CADRE_ENTRY_NAME,
                            sizeof CADRE_ENTRY_NAME) != NULL;
fail:
    free(image.data);
    return rc;
}
