/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/optimizer_plugin.h"

#include "core/config/nearest.h"

static cadre_status load(const char *name, const char *plugin_path,
                         const struct cadre_plugin_handle **out,
                         struct cadre_error *err)
{
    struct cadre_nearest nearest = {0};
    struct cadre_error why = {0};
    cadre_status rc = cadre_plugin_load(name, plugin_path, out, &why);
    if (rc == CADRE_OK)
        return CADRE_OK;
    for (int i = 0; cadre_optimizer_name(i); i++)
        cadre_nearest_offer(&nearest, name, cadre_optimizer_name(i));
    return cadre_fail(err, rc,
                      "optim.name = %.64s: expected adamw, sgd, lion, adamw8bit or the "
                      "name of an optimizer plugin%s%s: %s",
                      name, nearest.name ? "; the nearest is " : "",
                      nearest.name ? nearest.name : "", why.text);
}

/* A plugin of the other roles has its place in the stack, and an optimizer has none
 * there. */
static cadre_status check_roles(const struct cadre_run_spec *run,
                                const struct cadre_plugin_handle *optimizer,
                                struct cadre_error *err)
{
    for (int i = 0; i < run->n_plugins; i++)
        if (run->plugin[i]->desc.role == CADRE_ROLE_OPTIMIZER)
            return cadre_fail(err, CADRE_E_INVALID,
                              "strategy.stack: '%s' is an optimizer, which is no part "
                              "of a stack; name it in optim.name",
                              run->plugin[i]->name);
    if (!optimizer || optimizer->desc.role == CADRE_ROLE_OPTIMIZER)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "optim.name: the plugin '%s' is no optimizer; expected adamw, sgd, "
        "lion, adamw8bit or a plugin of that role, such as muon; strategies stand in "
        "strategy.stack",
        optimizer->name);
}

cadre_status cadre_optimizer_plugin_add(struct cadre_run_spec *run,
                                        struct cadre_options *options,
                                        const char *plugin_path,
                                        struct cadre_error *err)
{
    const char *name = cadre_options_raw(options, "optim.name");
    const struct cadre_plugin_handle *plugin = NULL;
    const bool named = cadre_optimizer_kind_of(name) == CADRE_OPTIMIZER_PLUGIN;
    if (named)
        CADRE_TRY(load(name, plugin_path, &plugin, err));
    CADRE_TRY(check_roles(run, plugin, err));
    if (!named)
        return CADRE_OK;
    CADRE_TRY(cadre_plugin_add_options(plugin, options, err));
    run->plugin[run->n_plugins] = plugin;
    run->instance[run->n_plugins] =
        (struct cadre_instance){.name = plugin->name, .axis = NULL};
    run->axis[run->n_plugins++] =
        (struct cadre_axis_request){.name = "", .size = 1, .plugin = plugin->name};
    return CADRE_OK;
}
