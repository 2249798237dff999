/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins of a run as instances: each with a name, an axis and a section of options
 * of its own. */
#ifndef CADRE_RUN_INSTANCE_H
#define CADRE_RUN_INSTANCE_H

#include "core/run/spec.h"

/* Put a plugin behind those that the run has, along `axis` ("": the one of its
 * descriptor), over `size` ranks (0: open). On another axis than its own it is called
 * NAME@AXIS, and its options [NAME@AXIS] are added too. Errors: CADRE_E_INVALID a
 * second instance of one name, too many. */
cadre_status cadre_instance_add(struct cadre_spec *spec,
                                const struct cadre_plugin_handle *plugin,
                                const char *axis, int size, struct cadre_error *err);

#endif
