/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device on the stand-in of the runtime. */
#include <stdio.h>

#include "tests/comm/comm_cases.h"

struct cadre_device *comm_device(void)
{
    const struct cadre_device_config config = {
        .kind = "cuda", .threads = 1, .exact = true};
    struct cadre_device *device = NULL;
    struct cadre_error err;
    if (cadre_device_open(&config, &device, &err) != CADRE_OK)
        fprintf(stderr, "%s\n", err.text);
    return device;
}
