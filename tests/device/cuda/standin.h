/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the CUDA device on the stand-in of the runtime. */
#ifndef CADRE_TESTS_DEVICE_CUDA_STANDIN_H
#define CADRE_TESTS_DEVICE_CUDA_STANDIN_H

#include "core/device/device.h"

/* Make cadre_module_open find the stand-in; false (and the skip printed) where it was
 * not built. XDG_CACHE_HOME becomes `cache`, or a folder that cannot exist. */
bool standin_prepare(const char *cache);

/* CADRE_TEST_DEVICE=cuda requests the real module and a GPU. */
bool standin_is_real(void);

/* standin_prepare(NULL), or, where the real module is requested, the program's own
 * search: true, and standin_open fails the test where the module cannot be used. */
bool standin_or_cuda(void);

/* The device; the test fails where it does not open. */
struct cadre_device *standin_open(bool exact);

#endif
