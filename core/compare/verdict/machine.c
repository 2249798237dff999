/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cores.h"
#include "core/device/device.h"

const char *cadre_machine_cpu(char *out, size_t size)
{
    cadre_cores_name(out, size);
    return out;
}

void cadre_machine_libraries(struct cadre_text *out)
{
    struct cadre_text lines = {0};
    char *rest = NULL;
    cadre_device_describe(&lines);
    for (char *line = lines.data ? strtok_r(lines.data, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        if (strncmp(line, "warning", strlen("warning")) != 0)
            cadre_text_printf(out, "%s%s", out->len ? "; " : "", line);
    cadre_text_fini(&lines);
}
