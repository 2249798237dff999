/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/format/checksum.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = 4 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t cadre_checksum_of(const void *data, size_t words, uint64_t first)
{
    const unsigned char *in = data;
    uint64_t sum = 0;
    for (size_t i = 0; i < words; i++) {
        uint32_t word;
        memcpy(&word, in + i * WORD, WORD);
        /* Without the constant, word 0 of a tensor of zeros would add zero. */
        sum += mix(((first + i) << 32 | word) + 0x9e3779b97f4a7c15u);
    }
    return sum;
}

cadre_status cadre_checksums_init(struct cadre_checksums *pieces,
                                  const struct cadre_safetensors *file,
                                  struct cadre_error *err)
{
    *pieces = (struct cadre_checksums){.n_tensors = cadre_safetensors_count(file)};
    pieces->first = cadre_calloc(pieces->n_tensors + 1, sizeof *pieces->first);
    for (size_t i = 0; pieces->first && i < pieces->n_tensors; i++) {
        uint64_t bytes = cadre_safetensors_at(file, i)->bytes;
        pieces->first[i] = pieces->n;
        pieces->n += bytes / CADRE_CHECKSUM_BYTES + (bytes % CADRE_CHECKSUM_BYTES != 0);
        pieces->first[i + 1] = pieces->n;
    }
    pieces->sum = cadre_calloc(pieces->n, sizeof *pieces->sum);
    pieces->bytes = cadre_calloc(pieces->n, sizeof *pieces->bytes);
    if (pieces->first && pieces->sum && pieces->bytes)
        return CADRE_OK;
    cadre_checksums_fini(pieces);
    return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory for its checksums",
                      cadre_safetensors_path(file));
}

void cadre_checksums_fini(struct cadre_checksums *pieces)
{
    free(pieces->first);
    free(pieces->sum);
    free(pieces->bytes);
    *pieces = (struct cadre_checksums){0};
}

void cadre_checksums_add(struct cadre_checksums *pieces, size_t tensor, uint64_t begin,
                         const void *data, uint64_t bytes)
{
    const unsigned char *in = data;
    while (bytes > 0) {
        size_t piece = pieces->first[tensor] + begin / CADRE_CHECKSUM_BYTES;
        uint64_t n = CADRE_CHECKSUM_BYTES - begin % CADRE_CHECKSUM_BYTES;
        if (n > bytes)
            n = bytes;
        pieces->sum[piece] += cadre_checksum_of(in, n / WORD, begin / WORD);
        pieces->bytes[piece] += n;
        in += n;
        begin += n;
        bytes -= n;
    }
}

uint64_t cadre_checksum_bytes(uint64_t tensor_bytes, size_t index)
{
    uint64_t left = tensor_bytes - index * CADRE_CHECKSUM_BYTES;
    return left < CADRE_CHECKSUM_BYTES ? left : CADRE_CHECKSUM_BYTES;
}
