/* SPDX-License-Identifier: Apache-2.0 */
/* The wire format of protobuf, for reading: a message is a row of numbered fields. */
#ifndef CADRE_DATA_TOKENIZER_PROTOBUF_H
#define CADRE_DATA_TOKENIZER_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cadre_protobuf_wire {
    CADRE_PROTOBUF_VARINT = 0,
    CADRE_PROTOBUF_FIXED64 = 1,
    CADRE_PROTOBUF_BYTES = 2, /* a string or a message inside */
    CADRE_PROTOBUF_FIXED32 = 5,
};

/* A message; the caller fills bytes and size. */
struct cadre_protobuf {
    const char *bytes;
    size_t size;
    size_t at;
    bool failed; /* damaged or truncated: there are no more fields */
};

struct cadre_protobuf_field {
    uint32_t number;
    enum cadre_protobuf_wire wire;
    uint64_t value; /* VARINT */
    const char *bytes; /* the others; point into the message, little-endian numbers */
    size_t size;
};

/* The next field; false at the end, or where the message is damaged. [any thread]
 * Source: the encoding page of protobuf.dev. */
bool cadre_protobuf_next(struct cadre_protobuf *message,
                         struct cadre_protobuf_field *field);

#endif
