/* SPDX-License-Identifier: Apache-2.0 */
/* A device with queued ops, emulated on the host: streams run as late as allowed, on a
 * wait for an event or for the stream, so that a missing wait shows as old data. Its
 * memory is the heap, which tests may access where nothing is pending; host_reaches
 * denies it. Entries: memory, events, worker streams, tree_add and maximum; the others
 * are NULL. */
#ifndef CADRE_TESTS_COMM_LATE_DEVICE_H
#define CADRE_TESTS_COMM_LATE_DEVICE_H

#include "core/device/device.h"

/* NULL: no memory. Close it with its table's destroy. */
struct cadre_device *late_device_open(void);

/* From now on its ops fail with CADRE_E_DEVICE. */
void late_device_break(struct cadre_device *device);

#endif
