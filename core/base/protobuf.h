/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of protobuf, written field by field: a key, which is the field's number and
 * the type of its value, and the value. A message in a message is its bytes. Appended
 * to a text, whose `failed` tells of missing memory. Source: protobuf's "Encoding". */
#ifndef CADRE_BASE_PROTOBUF_H
#define CADRE_BASE_PROTOBUF_H

#include <stdint.h>

#include "core/base/memory.h"

/* Without a key: the length before a message of a stream, a value of a packed list. */
void cadre_protobuf_varint(struct cadre_text *out, uint64_t value);

/* uint32, uint64, int32, int64, bool and enum: a negative value has 64 bits. */
void cadre_protobuf_put_u64(struct cadre_text *out, unsigned field, uint64_t value);
void cadre_protobuf_put_i64(struct cadre_text *out, unsigned field, int64_t value);

void cadre_protobuf_put_f32(struct cadre_text *out, unsigned field, float value);
void cadre_protobuf_put_f64(struct cadre_text *out, unsigned field, double value);

/* string, bytes, a message, a packed list. */
void cadre_protobuf_put_bytes(struct cadre_text *out, unsigned field, const void *bytes,
                              size_t n);
void cadre_protobuf_put_string(struct cadre_text *out, unsigned field,
                               const char *text);
void cadre_protobuf_put_message(struct cadre_text *out, unsigned field,
                                const struct cadre_text *message);

#endif
