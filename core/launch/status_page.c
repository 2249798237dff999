/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/status_page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x3173757461747343u /* changes with the layout */

struct cadre_status_shared {
    uint64_t magic;
    uint64_t bytes;
    _Atomic uint32_t said; /* the text is complete */
    char text[sizeof((struct cadre_error *)0)->text];
    struct cadre_status_slot slot[];
};

static cadre_status map(int fd, size_t bytes, struct cadre_status_page *page,
                        struct cadre_error *err)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                "cannot map %zu bytes to watch the ranks", bytes);
    *page = (struct cadre_status_page){.shared = memory, .bytes = bytes, .fd = fd};
    page->slot = page->shared->slot;
    page->n = (uint32_t)((bytes - sizeof *page->shared) / sizeof *page->slot);
    return CADRE_OK;
}

cadre_status cadre_status_page_create(int n, struct cadre_status_page *page,
                                      struct cadre_error *err)
{
    size_t bytes = sizeof *page->shared + (size_t)n * sizeof *page->slot;
    int fd = memfd_create("cadre-status", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cadre_status rc;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 || fchmod(fd, 0600) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        rc = cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                              "cannot make shared memory to watch the ranks");
    else
        rc = map(fd, bytes, page, err);
    if (rc != CADRE_OK) {
        if (fd >= 0)
            close(fd);
        return rc;
    }
    page->shared->magic = MAGIC;
    page->shared->bytes = bytes;
    return CADRE_OK;
}

cadre_status cadre_status_page_open(int fd, struct cadre_status_page *page,
                                    struct cadre_error *err)
{
    struct stat st;
    uint64_t head[2];
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        st.st_size < (off_t)sizeof *page->shared ||
        pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head || head[0] != MAGIC ||
        head[1] != (uint64_t)st.st_size)
        return cadre_fail(err, CADRE_E_INVALID,
                          "descriptor %d is not the status page of a cadre launcher; "
                          "start ranks through cadre, or unset " CADRE_STATUS_VARIABLE,
                          fd);
    return map(fd, (size_t)st.st_size, page, err);
}

void cadre_status_page_close(struct cadre_status_page *page)
{
    if (!page->shared)
        return;
    munmap(page->shared, page->bytes);
    close(page->fd);
    *page = (struct cadre_status_page){0};
}

void cadre_status_page_say(const struct cadre_status_page *page, const char *text)
{
    struct cadre_status_shared *shared = page->shared;
    snprintf(shared->text, sizeof shared->text, "%s", text);
    atomic_store(&shared->said, 1);
}

void cadre_status_page_said(const struct cadre_status_page *page, char *text,
                            size_t size)
{
    const struct cadre_status_shared *shared = page->shared;
    const int most = (int)sizeof shared->text - 1;
    text[0] = '\0';
    if (atomic_load(&shared->said))
        snprintf(text, size, "%.*s", most, shared->text);
}
