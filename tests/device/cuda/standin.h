/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the CUDA device on the stand-in of the runtime. */
#ifndef CADRE_TESTS_DEVICE_CUDA_STANDIN_H
#define CADRE_TESTS_DEVICE_CUDA_STANDIN_H

#include "core/device/device.h"

/* Make cadre_module_open find the stand-in; false (with the skip said) where it was not
 * built. XDG_CACHE_HOME becomes `cache`, or a folder that cannot be. */
bool standin_prepare(const char *cache);

/* The device on the stand-in; the test fails where it does not open. */
struct cadre_device *standin_open(bool exact);

#endif
