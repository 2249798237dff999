/* SPDX-License-Identifier: Apache-2.0 */
/* Plain types that cross the plugin boundary. Only fixed-width integers, double,
 * pointers and function pointers cross it. */
#ifndef CADRE_TYPES_H
#define CADRE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include <cadre/status.h>

/* element types */
#define CADRE_F32 1u
#define CADRE_F64 2u
#define CADRE_BF16 3u
#define CADRE_F16 4u
#define CADRE_I32 5u
#define CADRE_U8 6u
#define CADRE_I8 7u

/* memory spaces */
#define CADRE_SPACE_DEVICE 0u
#define CADRE_SPACE_PINNED 1u
#define CADRE_SPACE_HOST 2u

/* reductions */
#define CADRE_SUM 1u
#define CADRE_MAX 2u

/* A point in an ordered queue. 0 has already happened. Stays valid for the whole run.
 */
typedef uint64_t cadre_event;

/* A view of `count` elements; never owns. */
struct cadre_buf {
    uint32_t struct_size;
    uint32_t dtype;
    void *data;
    uint64_t count;
    uint32_t space;
    uint32_t flags;
};

#endif
