/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware files of `cadre plan` and `cadre compare --predict`. */
#ifndef CADRE_CLI_PLAN_HARDWARE_H
#define CADRE_CLI_PLAN_HARDWARE_H

#include "core/base/error.h"
#include "core/plan/hardware.h"

/* The file `name` among those that come with Cadre: of the build, the installed tree
 * that the program is in, or that of the prefix. NULL where there is none, or no
 * memory. The caller frees. [any thread] */
char *cadre_cli_hardware_beside(const char *name);

/* Load the hardware file `given`: a path, or where there is no such file the name of
 * one that comes with Cadre, such as "h100". Errors: CADRE_E_INVALID, which lists the
 * names; those of cadre_hardware_load. [any thread] */
cadre_status cadre_cli_hardware_load(struct cadre_hardware *hw, const char *given,
                                     struct cadre_error *err);

#endif
