/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device/device.h"

#include <dlfcn.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/module.h"
#include "core/device/builtin.h"
#include "core/device/module.h"

static cadre_status open_module(const struct cadre_device_module **module,
                                struct cadre_error *err)
{
    const void *table = NULL;
    cadre_status rc = cadre_module_open(
        "device_cuda", "device", sizeof(struct cadre_device_module), &table, err);
    *module = table;
    if (rc == CADRE_OK && (*module)->ops_bytes != sizeof(struct cadre_device_ops))
        rc = cadre_fail(err, CADRE_E_UNSUPPORTED,
                        "the module device_cuda.so is from another build: expected a "
                        "table of %zu bytes, found %u; install it with the program",
                        sizeof(struct cadre_device_ops), (*module)->ops_bytes);
    return rc;
}

static cadre_status open_cuda(const struct cadre_device_config *config,
                              struct cadre_device **out, struct cadre_error *err)
{
    const struct cadre_device_module *module = NULL;
    cadre_status rc = open_module(&module, err);
    if (rc != CADRE_OK) {
        cadre_error_prefix(err,
                           "device.kind = cuda is not available (cpu and auto are)");
        return rc;
    }
    return module->open(config, out, err);
}

/* The module loads libraries of half a gigabyte, so it is not opened without a
 * driver. */
static bool has_driver(struct cadre_error *why)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver)
        dlclose(driver);
    else
        cadre_fail(why, CADRE_E_UNSUPPORTED,
                   "there is no NVIDIA driver (libcuda.so.1)");
    return driver != NULL;
}

void cadre_device_quiet(void)
{
    cadre_cpu_quiet_blas();
}

cadre_status cadre_device_open(const struct cadre_device_config *config,
                               struct cadre_device **out, struct cadre_error *err)
{
    const char *kind = config->kind;
    struct cadre_error why = {0};
    if (config->threads < 1)
        return cadre_fail(err, CADRE_E_INVALID,
                          "device.threads: expected 1 or more, found %d",
                          config->threads);
    if (strcmp(kind, "cuda") == 0 && config->fixed)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "device.kind = cuda: bits of its products depend on how many "
                          "rows and columns there are, so run.exact_parts is 1 there; "
                          "set it so, or device.kind = cpu");
    if (strcmp(kind, "cuda") == 0)
        return open_cuda(config, out, err);
    if (strcmp(kind, "auto") == 0) {
        if (config->fixed)
            cadre_fail(&why, CADRE_E_UNSUPPORTED, "run.exact_parts is above 1");
        else if (has_driver(&why) && open_cuda(config, out, &why) == CADRE_OK)
            return CADRE_OK;
        cadre_log(CADRE_LOG_DEBUG, "device", "auto: the CPU, because %s", why.text);
        return cadre_cpu_open(config, out, err);
    }
    if (strcmp(kind, "cpu") == 0)
        return cadre_cpu_open(config, out, err);
    return cadre_fail(err, CADRE_E_INVALID,
                      "device.kind: expected auto, cpu or cuda, found \"%s\"", kind);
}

void cadre_device_close(struct cadre_device *device)
{
    if (device)
        device->ops->destroy(device);
}

void cadre_device_describe_cuda(struct cadre_text *out)
{
    const struct cadre_device_module *module = NULL;
    struct cadre_error err = {0};
    if (open_module(&module, &err) == CADRE_OK)
        module->describe(out);
    else
        cadre_text_printf(out, "no: %s\n", err.text);
}

bool cadre_device_identify_cuda(int index, struct cadre_device_identity *out)
{
    const struct cadre_device_module *module = NULL;
    struct cadre_error err = {0};
    *out = (struct cadre_device_identity){0};
    return open_module(&module, &err) == CADRE_OK &&
           module->identify(index, out) == CADRE_OK;
}

int cadre_device_count_cuda(void)
{
    const struct cadre_device_module *module = NULL;
    struct cadre_error err = {0};
    int count = 0;
    if (open_module(&module, &err) != CADRE_OK ||
        module->count(&count, &err) != CADRE_OK)
        return 0;
    return count;
}
