/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of a file's tensors in pieces of 1 MiB that restart at each tensor, so that
 * an error names the damaged tensor and bytes.
 *
 * The sum of a piece is the sum modulo 2^64 of one mixed value per 4-byte word, keyed
 * by the word's index: sums of disjoint parts add up, in any order. So every writer
 * sums what it writes, from its own memory, without reading the file back; the result
 * does not depend on which rank wrote what. A change of one word always changes the
 * sum, since the mix is one to one; any other change is missed once in 2^64. Not
 * cryptographic. Source: the mix is SplitMix64's finaliser (Steele, Lea and Flood
 * 2014); sums of keyed hashes as in AdHash (Bellare and Micciancio 1997). */
#ifndef CADRE_CHECKPOINT_FORMAT_CHECKSUM_H
#define CADRE_CHECKPOINT_FORMAT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/checkpoint/format/safetensors.h"

#define CADRE_CHECKSUM_BYTES ((uint64_t)1 << 20)

/* The sum of `words` 4-byte words, which are words first, first + 1, ... of their
 * tensor. data may be unaligned. [any thread] */
uint64_t cadre_checksum_of(const void *data, size_t words, uint64_t first);

struct cadre_checksums {
    size_t n_tensors; /* of the file, in its order */
    size_t n; /* pieces of all tensors */
    size_t *first; /* n_tensors + 1: a tensor's first piece */
    uint64_t *sum;
    uint64_t *bytes; /* summed so far; a piece is complete when all its bytes are */
};

/* Empty pieces for the tensors of an open file. On failure fini is harmless. Errors:
 * CADRE_E_RESOURCE. */
cadre_status cadre_checksums_init(struct cadre_checksums *pieces,
                                  const struct cadre_safetensors *file,
                                  struct cadre_error *err);
void cadre_checksums_fini(struct cadre_checksums *pieces);

/* Add the data at bytes [begin, begin + bytes) of a tensor; multiples of 4. */
void cadre_checksums_add(struct cadre_checksums *pieces, size_t tensor, uint64_t begin,
                         const void *data, uint64_t bytes);

/* Bytes that a piece of a tensor of `tensor_bytes` has; `index` counts within it. */
uint64_t cadre_checksum_bytes(uint64_t tensor_bytes, size_t index);

#endif
