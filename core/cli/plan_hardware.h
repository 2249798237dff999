/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware files of `cadre plan` and `cadre compare --predict`. */
#ifndef CADRE_CLI_PLAN_HARDWARE_H
#define CADRE_CLI_PLAN_HARDWARE_H

#include <limits.h>
#include <stdbool.h>

#include "core/base/error.h"
#include "core/plan/hardware.h"

/* The path of the file `name` among those that come with Cadre: of the build, the
 * installed tree that the program is in, or that of the prefix. false where there is
 * none. [any thread] */
bool cadre_cli_hardware_beside(const char *name, char path[PATH_MAX]);

/* Load the hardware file `given`: a path, or where there is no such file the name of
 * one that comes with Cadre, such as "h100". Errors: CADRE_E_INVALID, which lists the
 * names; those of cadre_hardware_load. [any thread] */
cadre_status cadre_cli_hardware_load(struct cadre_hardware *hw, const char *given,
                                     struct cadre_error *err);

#endif
