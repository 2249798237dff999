/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device/device.h"

#include <string.h>

#include "core/device/cpu/cpu.h"

cadre_status cadre_device_open(const struct cadre_device_config *config,
                               struct cadre_device **out, struct cadre_error *err)
{
    const char *kind = config->kind;
    if (config->threads < 1)
        return cadre_fail(err, CADRE_E_INVALID,
                          "device.threads: expected 1 or more, found %d",
                          config->threads);
    if (strcmp(kind, "cpu") == 0 || strcmp(kind, "auto") == 0)
        return cadre_cpu_open(config->threads, out, err);
    if (strcmp(kind, "cuda") == 0)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "device.kind = cuda: this build has no module device_cuda.so; "
            "use device.kind = cpu or auto");
    return cadre_fail(err, CADRE_E_INVALID,
                      "device.kind: expected auto, cpu or cuda, found \"%s\"", kind);
}

void cadre_device_close(struct cadre_device *device)
{
    if (device)
        device->ops->destroy(device);
}
