/* SPDX-License-Identifier: Apache-2.0 */
/* A file of events for TensorBoard: events.out.tfevents.TIME.HOST.PID.0. Each record is
 * a length, its masked CRC-32C, a protobuf message (Event) and its masked CRC-32C.
 * Sources: TensorFlow's record_writer.h, event.proto and summary.proto. */
#ifndef CADRE_EXPORT_TFEVENTS_H
#define CADRE_EXPORT_TFEVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/export/scalar.h"

struct cadre_tfevents;

/* Make a new file in `dir`, never one that is there, with the file version and the mark
 * of a start at step `first`: TensorBoard forgets what older files of the folder say of
 * that step and later ones. *out is owned by the caller (close). Errors: CADRE_E_IO,
 * CADRE_E_RESOURCE. [one thread] */
cadre_status cadre_tfevents_open(const char *dir, int64_t first,
                                 struct cadre_tfevents **out, struct cadre_error *err);

/* Append the known ones of n scalars (at most 16) of a step, as float32, with the wall
 * time of now, and flush them. Errors: CADRE_E_IO (disk full ...). */
cadre_status cadre_tfevents_step(struct cadre_tfevents *events, int64_t step,
                                 const struct cadre_scalar *scalar, size_t n,
                                 struct cadre_error *err);

/* Accepts NULL. */
void cadre_tfevents_close(struct cadre_tfevents *events);

#endif
