/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/protobuf.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_key(struct cadre_text *out, unsigned field, unsigned type)
{
    cadre_protobuf_varint(out, (uint64_t)field << 3 | type);
}

/* `bytes` low bytes of value, the lowest first. */
static void put_fixed(struct cadre_text *out, uint64_t value, int bytes)
{
    char low[8];
    for (int i = 0; i < bytes; i++, value >>= 8)
        low[i] = (char)(value & 0xff);
    cadre_text_append(out, low, (size_t)bytes);
}

void cadre_protobuf_varint(struct cadre_text *out, uint64_t value)
{
    char byte[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        byte[n++] = (char)((value & 0x7f) | 0x80);
    byte[n++] = (char)value;
    cadre_text_append(out, byte, n);
}

void cadre_protobuf_put_u64(struct cadre_text *out, unsigned field, uint64_t value)
{
    put_key(out, field, VARINT);
    cadre_protobuf_varint(out, value);
}

void cadre_protobuf_put_i64(struct cadre_text *out, unsigned field, int64_t value)
{
    cadre_protobuf_put_u64(out, field, (uint64_t)value);
}

void cadre_protobuf_put_f32(struct cadre_text *out, unsigned field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, field, FIXED32);
    put_fixed(out, bits, 4);
}

void cadre_protobuf_put_f64(struct cadre_text *out, unsigned field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, field, FIXED64);
    put_fixed(out, bits, 8);
}

void cadre_protobuf_put_bytes(struct cadre_text *out, unsigned field, const void *bytes,
                              size_t n)
{
    put_key(out, field, BYTES);
    cadre_protobuf_varint(out, n);
    cadre_text_append(out, bytes, n);
}

void cadre_protobuf_put_string(struct cadre_text *out, unsigned field, const char *text)
{
    cadre_protobuf_put_bytes(out, field, text, strlen(text));
}

void cadre_protobuf_put_message(struct cadre_text *out, unsigned field,
                                const struct cadre_text *message)
{
    out->failed |= message->failed;
    cadre_protobuf_put_bytes(out, field, cadre_text_str(message), message->len);
}
