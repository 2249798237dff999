/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/groups/groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/plugin/plugin_private.h"

cadre_status cadre_check_find(const char *name, char *path, size_t bytes,
                              struct cadre_error *err)
{
    char program[1024];
    if (strchr(name, '/')) {
        snprintf(path, bytes, "%s", name);
        return cadre_path_exists(path)
                   ? CADRE_OK
                   : cadre_fail(err, CADRE_E_INVALID, "there is no file '%s'", name);
    }
    struct cadre_plugin_places *places = cadre_calloc(1, sizeof *places);
    if (!places)
        return cadre_no_memory(err, "the folders of plugins");
    cadre_path_program_dir(program, sizeof program);
    cadre_plugin_places_init(places, "", getenv("CADRE_PLUGIN_PATH"), program);
    cadre_status rc = cadre_plugin_find(places, name, path, bytes, err);
    free(places);
    return rc;
}

bool cadre_case_file(struct cadre_case *c, char *path, size_t bytes)
{
    struct cadre_error err = {0};
    if (cadre_check_find(c->plugin, path, bytes, &err) == CADRE_OK)
        return true;
    cadre_case_fail(c, "%s", err.text);
    return false;
}

const struct cadre_plugin_handle *cadre_case_plugin(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = NULL;
    struct cadre_error err = {0};
    if (cadre_plugin_load(c->plugin, "", &plugin, &err) == CADRE_OK)
        return plugin;
    cadre_case_fail(c, "%s", err.text);
    return NULL;
}

const struct cadre_plugin_handle *cadre_case_stepping(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_plugin(c);
    if (!plugin)
        return NULL;
    if (plugin->desc.role != CADRE_ROLE_PLACEMENT &&
        plugin->desc.role != CADRE_ROLE_OPTIMIZER)
        return plugin;
    cadre_case_unsupported(c, "a plugin of the role %s takes no part in a step",
                           plugin->desc.role == CADRE_ROLE_PLACEMENT ? "PLACEMENT"
                                                                     : "OPTIMIZER");
    return NULL;
}

bool cadre_case_rehearse(struct cadre_case *c,
                         const struct cadre_rehearsal_setup *setup,
                         struct cadre_rehearsal_report *report)
{
    struct cadre_error err = {0};
    if (cadre_rehearse(setup, report, &err) != CADRE_OK) {
        cadre_case_host_fault(c, "%s", err.text);
        return false;
    }
    /* its thread still runs, and would disturb whatever comes next */
    if (report->rule[CADRE_RULE_ABORT].broken)
        cadre_case_fail(c, "%s", report->rule[CADRE_RULE_ABORT].text);
    return !report->rule[CADRE_RULE_ABORT].broken;
}

/* ---- rules over variants ---- */

struct tally {
    uint32_t done, refused, beyond;
    char refusal[640], lack[640], other[800];
};

static void judge(struct cadre_case *c, const struct cadre_variant *variant,
                  const struct cadre_rehearsal_report *report, uint32_t rules,
                  struct tally *tally)
{
    for (int rule = 0; rule < CADRE_RULES; rule++) {
        if (!report->rule[rule].broken)
            continue;
        if (rules >> rule & 1)
            cadre_case_fail(c, "%s: %s", variant->name, report->rule[rule].text);
        else if (!tally->other[0])
            snprintf(tally->other, sizeof tally->other, "%.90s: %s", variant->name,
                     report->rule[rule].text);
    }
    switch (report->end) {
    case CADRE_REHEARSAL_DONE:
        tally->done++;
        break;
    case CADRE_REHEARSAL_REFUSED:
        if (!tally->refused++)
            snprintf(tally->refusal, sizeof tally->refusal, "%s", report->text);
        break;
    case CADRE_REHEARSAL_BEYOND:
        if (!tally->beyond++)
            snprintf(tally->lack, sizeof tally->lack, "%s", report->text);
        break;
    default:
        if (!tally->other[0])
            snprintf(tally->other, sizeof tally->other, "%.90s: %.500s", variant->name,
                     report->text);
    }
}

void cadre_case_hold(struct cadre_case *c, uint32_t rules)
{
    const struct cadre_plugin_handle *plugin = cadre_case_stepping(c);
    struct cadre_variant variant;
    struct cadre_rehearsal_report report;
    struct tally tally = {0};
    for (uint32_t i = 0; plugin && !c->failing &&
                         cadre_variant_get(plugin, i, c->seed, c->quick, &variant);
         i++) {
        if (!cadre_case_rehearse(c, &variant.setup, &report))
            return;
        judge(c, &variant, &report, rules, &tally);
    }
    if (!plugin || c->failing)
        return;
    if (tally.other[0])
        cadre_case_unsupported(c, "not to be seen behind another failure: %s",
                               tally.other);
    else if (tally.done)
        cadre_case_note(c, "%u rehearsals, %u refused", tally.done, tally.refused);
    else if (tally.refused)
        cadre_case_refused(c, "%s", tally.refusal);
    else
        cadre_case_unsupported(c, "%s", tally.lack);
}
