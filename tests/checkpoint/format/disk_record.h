/* SPDX-License-Identifier: Apache-2.0 */
/* What a program writes below a folder, call by call, and the disk that a loss of power
 * leaves: everything that was synced, and any part of what was not. The program that
 * links this has its own open, pwrite, fallocate, ftruncate, fsync, rename, renameat2,
 * mkdir, unlink and remove, which record and then do the call.
 *
 * The model is the harshest that POSIX allows: data is safe after an fsync of its file,
 * a name after one of its folder; what is not safe may be there or not, in any order,
 * and a write may be torn at any multiple of 512 bytes. One thread. */
#ifndef CADRE_TESTS_CHECKPOINT_DISK_RECORD_H
#define CADRE_TESTS_CHECKPOINT_DISK_RECORD_H

#include <stdbool.h>
#include <stddef.h>

enum disk_kind {
    DISK_MAKE, /* a new file or folder got a name */
    DISK_MOVE, /* a name was moved over another one, or freed */
    DISK_SWAP, /* two names exchanged what they name */
    DISK_DROP, /* a name was removed */
    DISK_SIZE, /* a file got a size */
    DISK_DATA, /* bytes were written */
    DISK_SYNC, /* a file or folder was synced */
};

/* Record calls below `root` from now on, whose present contents are safe; returns how
 * many calls stand for these. */
size_t disk_record_begin(const char *root);
/* Returns how many calls there are with them. */
size_t disk_record_end(void);
void disk_record_free(void);

/* Let renameat2 fail, as file systems without an exchange of names do. */
void disk_refuse_exchange(bool refuse);

/* Is the call not safe if power is lost before call `before`? */
bool disk_is_open(size_t call, size_t before);
bool disk_is_data(size_t call);

/* Which calls that are not safe have reached the disk: `one` alone, or all others. */
struct disk_state {
    size_t before; /* the first call that was not made */
    size_t one; /* SIZE_MAX: none */
    bool others; /* the calls but `one` are there, `one` is not; else the reverse */
    int torn; /* of `one`, if data: 0 no, 1 its first 512 bytes, 2 all but these */
};

/* Write that disk into `folder`, which is made. */
void disk_build(const struct disk_state *state, const char *folder);

#endif
