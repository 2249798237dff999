/* SPDX-License-Identifier: Apache-2.0 */
#define CADRE_REAL_BITS 32
#include "core/device/cpu/kernels_all.h"
