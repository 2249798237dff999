/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of what comes from elsewhere, called with any bytes. One file a reader,
 * fuzz_NAME.c; the table is fuzz_readers.c. Two programs take it: fuzz_replay, which
 * runs the corpus, and libFuzzer's, which run.sh builds. */
#ifndef CADRE_TESTS_FUZZ_H
#define CADRE_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Between the files of an input that is several. */
#define FUZZ_SPLIT "\n%%%%\n"

struct fuzz_reader {
    const char *name; /* of its folder in corpus/ */
    void (*read)(const uint8_t *data, size_t size);
    /* The most that one allocation may take: base + times * the input's bytes. What a
     * file claims is no reason for more. */
    size_t base, times;
};

extern const struct fuzz_reader fuzz_readers[];
extern const size_t fuzz_n_readers;

/* NULL: there is none of this name. */
const struct fuzz_reader *fuzz_find(const char *name);

/* Runs the reader; a larger allocation than it may make ends the program. */
void fuzz_run(const struct fuzz_reader *reader, const uint8_t *data, size_t size);

/* The input as the file `name` of a folder of this process; its path, valid until the
 * next call with this name. The folder alone: name NULL. */
const char *fuzz_file(const char *name, const void *data, size_t size);

/* Remove that file. */
void fuzz_remove(const char *name);

/* The first file's bytes of an input; those of the rest are in *rest and *n, 0 where
 * there is no separator. */
size_t fuzz_split(const uint8_t *data, size_t size, const uint8_t **rest, size_t *n);

/* Remove the folder. */
void fuzz_end(void);

#endif
