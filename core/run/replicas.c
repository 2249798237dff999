/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/replicas.h"

#include <string.h>

#include "core/run/instance.h"

/* Index of the entry of mig in mode average, -1: none. */
static int find_averaging(const struct cadre_run_spec *run,
                          const struct cadre_options *options)
{
    const char *mode = cadre_options_raw(options, "mig.mode");
    for (int i = 0; mode && strcmp(mode, "average") == 0 && i < run->n_plugins; i++)
        if (strcmp(run->plugin[i]->name, "mig") == 0)
            return i;
    return -1;
}

static cadre_status check_axis(const struct cadre_run_spec *run, int mig,
                               const char *axis, struct cadre_error *err)
{
    for (int i = 0; i < run->n_plugins; i++)
        if (strcmp(run->axis[i].name, axis) == 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "strategy.stack: '%s' and '%s' both take the axis '%s' "
                              "(mig.mode = average is ddp over the instances); only "
                              "one of them can be in the stack",
                              run->plugin[i < mig ? i : mig]->name,
                              run->plugin[i < mig ? mig : i]->name, axis);
    if (run->n_plugins < CADRE_MAX_STACK)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "strategy.stack: mig.mode = average adds ddp to it, which makes "
                      "more than %d plugins",
                      CADRE_MAX_STACK);
}

cadre_status cadre_replicas_add(struct cadre_spec *spec, const char *plugin_path,
                                struct cadre_error *err)
{
    const struct cadre_plugin_handle *ddp;
    const struct cadre_run_spec *run = &spec->run;
    int mig = find_averaging(run, spec->options);
    if (mig < 0)
        return CADRE_OK;
    CADRE_TRY(cadre_plugin_load("ddp", plugin_path, &ddp, err));
    CADRE_TRY(check_axis(run, mig, ddp->desc.axis, err));
    return cadre_instance_add(spec, ddp, run->axis[mig].name, run->axis[mig].size, err);
}
