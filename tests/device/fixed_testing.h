/* SPDX-License-Identifier: Apache-2.0 */
/* Devices opened `fixed`, one for each copy of the kernels that this processor runs. */
#ifndef CADRE_TESTS_DEVICE_FIXED_TESTING_H
#define CADRE_TESTS_DEVICE_FIXED_TESTING_H

#include "core/device/cpu/cpu.h"
#include "tests/device/op_testing.h"

#define FIXED_COPIES 3

/* Device of copy `copy`; NULL where the processor does not run it. */
struct cadre_device *open_fixed(int copy, int threads);

/* A tensor that is not filled. */
struct tensor tensor_room(struct cadre_device *device, uint32_t dtype, int64_t count);

/* As tensor_make, with numbers whose products and sums round in every dtype. */
struct tensor rough_make(struct cadre_device *device, uint32_t dtype, int64_t count,
                         uint64_t seed);

/* As slack, and the roundings to 16 bits of up to 5 levels of a tree. */
double rough_slack(uint32_t dtype, int64_t n);

/* Address of element i. */
void *tensor_at(const struct tensor *tensor, int64_t i);

#endif
