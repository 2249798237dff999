/* SPDX-License-Identifier: Apache-2.0 */
/* For programs whose cases run only in host memory. */
#include "tests/comm/comm_cases.h"

struct cadre_device *comm_device(void)
{
    return NULL;
}
