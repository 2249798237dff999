/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/tokenizer/protobuf.h"

static bool read_varint(struct cadre_protobuf *message, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && message->at < message->size; shift += 7) {
        const unsigned char byte = (unsigned char)message->bytes[message->at++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool read_field(struct cadre_protobuf *message,
                       struct cadre_protobuf_field *field)
{
    uint64_t head = 0, size = 0;
    if (!read_varint(message, &head) || head >> 3 == 0 || head >> 3 > 0x1fffffff)
        return false;
    *field = (struct cadre_protobuf_field){.number = (uint32_t)(head >> 3),
                                           .wire = head & 7};
    switch (head & 7) {
    case CADRE_PROTOBUF_VARINT:
        return read_varint(message, &field->value);
    case CADRE_PROTOBUF_FIXED64:
        size = 8;
        break;
    case CADRE_PROTOBUF_FIXED32:
        size = 4;
        break;
    case CADRE_PROTOBUF_BYTES:
        if (!read_varint(message, &size))
            return false;
        break;
    default:
        return false;
    }
    if (size > message->size - message->at)
        return false;
    field->bytes = message->bytes + message->at;
    field->size = (size_t)size;
    message->at += (size_t)size;
    return true;
}

bool cadre_protobuf_next(struct cadre_protobuf *message,
                         struct cadre_protobuf_field *field)
{
    if (message->failed || message->at >= message->size)
        return false;
    message->failed = !read_field(message, field);
    return !message->failed;
}
