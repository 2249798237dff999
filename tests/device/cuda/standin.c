/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/device/cuda/standin.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/support/check_main.h"

bool standin_prepare(const char *cache)
{
    const char *build = getenv("CADRE_BUILD");
    char *dir = cadre_format("%s/tests/support/cuda_host/.libs", build ? build : ".");
    char *path = cadre_path_join(dir, "device_cuda.so");
    const bool there = cadre_path_exists(path);
    setenv("CADRE_MODULE_PATH", dir, 1);
    setenv("XDG_CACHE_HOME", cache ? cache : "/dev/null/no-cache", 1);
    if (!there)
        test_note_skip("the stand-in was not built (no C++ compiler)");
    free(path);
    free(dir);
    return there;
}

bool standin_is_real(void)
{
    const char *device = getenv("CADRE_TEST_DEVICE");
    return device && strcmp(device, "cuda") == 0;
}

bool standin_or_cuda(void)
{
    if (!standin_is_real())
        return standin_prepare(NULL);
    setenv("XDG_CACHE_HOME", "/dev/null/no-cache", 1);
    return true;
}

struct cadre_device *standin_open(bool exact)
{
    const struct cadre_device_config config = {
        .kind = "cuda", .threads = 1, .exact = exact};
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_device_open(&config, &device, &err) == CADRE_OK, "%s",
                  err.text);
    ck_assert_str_eq(device->ops->name, "cuda");
    return device;
}
