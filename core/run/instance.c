/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/instance.h"

#include <stdio.h>
#include <string.h>

cadre_status cadre_instance_add(struct cadre_spec *spec,
                                const struct cadre_plugin_handle *plugin,
                                const char *axis, int size, struct cadre_error *err)
{
    struct cadre_run_spec *run = &spec->run;
    const char *own = plugin->desc.axis ? plugin->desc.axis : "";
    const int i = run->n_plugins;
    if (i == CADRE_MAX_STACK)
        return cadre_fail(err, CADRE_E_INVALID,
                          "strategy.stack: '%s' makes more than %d plugins",
                          plugin->name, CADRE_MAX_STACK);
    struct cadre_instance_text *text = &spec->instance[i];
    bool renamed = *axis && strcmp(axis, own) != 0;
    snprintf(text->axis, sizeof text->axis, "%s", *axis ? axis : own);
    snprintf(text->name, sizeof text->name, "%s%s%s", plugin->name, renamed ? "@" : "",
             renamed ? text->axis : "");
    for (int k = 0; k < i; k++)
        if (strcmp(run->instance[k].name, text->name) == 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "strategy.stack: '%s' is listed twice along the axis "
                              "'%s'; name another axis for one of them, as in "
                              "\"ddp:2, ddp@site:2\"",
                              plugin->name, text->axis);
    CADRE_TRY(
        cadre_plugin_add_instance_options(plugin, text->name, spec->options, err));
    run->plugin[i] = plugin;
    run->instance[i] =
        (struct cadre_instance){text->name, *text->axis ? text->axis : NULL};
    run->axis[i] = (struct cadre_axis_request){text->axis, size, text->name};
    run->n_plugins++;
    return CADRE_OK;
}
