/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the CUDA device on the stand-in of the runtime. */
#ifndef CADRE_TESTS_DEVICE_CUDA_STANDIN_H
#define CADRE_TESTS_DEVICE_CUDA_STANDIN_H

#include "core/device/device.h"

/* Make cadre_module_open find the stand-in; false (with the skip said) where it was not
 * built. XDG_CACHE_HOME becomes `cache`, or a folder that cannot be. */
bool standin_prepare(const char *cache);

/* CADRE_TEST_DEVICE=cuda: the real module and a GPU are asked for. */
bool standin_is_real(void);

/* standin_prepare(NULL), or, where the real module is asked for, what the program finds
 * by itself: true, and standin_open fails the test where it cannot be used. */
bool standin_or_cuda(void);

/* The device; the test fails where it does not open. */
struct cadre_device *standin_open(bool exact);

#endif
