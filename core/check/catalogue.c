/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/catalogue.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/memory.h"
#include "core/base/terminal.h"
#include "core/check/groups/groups.h"
#include "core/config/nearest.h"

enum { INDENT = 7 }; /* of titles and reasons */

static const struct cadre_check_group *const groups[CADRE_CHECK_GROUPS] = {
    &cadre_check_load,    &cadre_check_descriptor, &cadre_check_lifecycle,
    &cadre_check_threads, &cadre_check_contract,   &cadre_check_equality,
    &cadre_check_stack,   &cadre_check_state,      &cadre_check_faults,
    &cadre_check_fuzz,
};

size_t cadre_catalogue_size(void)
{
    size_t n = 0;
    for (size_t g = 0; g < CADRE_CHECK_GROUPS; g++)
        n += groups[g]->n;
    return n;
}

const struct cadre_check *cadre_catalogue_at(size_t index)
{
    for (size_t g = 0; g < CADRE_CHECK_GROUPS; g++) {
        if (index < groups[g]->n)
            return &groups[g]->check[index];
        index -= groups[g]->n;
    }
    return NULL;
}

const struct cadre_check *cadre_catalogue_find(const char *id)
{
    const struct cadre_check *check;
    for (size_t i = 0; (check = cadre_catalogue_at(i)); i++)
        if (strcasecmp(check->id, id) == 0)
            return check;
    return NULL;
}

static cadre_status choose_one(const char *name, bool *chosen, struct cadre_error *err)
{
    const struct cadre_check *check;
    struct cadre_nearest nearest = {0};
    bool found = false;
    for (size_t i = 0; (check = cadre_catalogue_at(i)); i++) {
        cadre_nearest_offer(&nearest, name, check->id);
        cadre_nearest_offer(&nearest, name, check->group);
        if (strcasecmp(check->id, name) != 0 && strcasecmp(check->group, name) != 0)
            continue;
        chosen[i] = found = true;
    }
    if (found)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "there is no check or group '%s'%s%s%s; `cadre check --list` "
                      "lists them",
                      name, nearest.name ? ", the nearest is '" : "",
                      nearest.name ? nearest.name : "", nearest.name ? "'" : "");
}

cadre_status cadre_catalogue_choose(const char *text, bool quick, bool *chosen,
                                    struct cadre_error *err)
{
    const struct cadre_check *check;
    char *copy, *rest = NULL;
    bool any = false;
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; (check = cadre_catalogue_at(i)); i++)
        chosen[i] = !text && !check->asked_only && !(quick && check->slow);
    if (!text)
        return CADRE_OK;
    copy = cadre_strdup(text);
    if (!copy)
        return cadre_no_memory(err, "the names of checks");
    for (char *name = strtok_r(copy, ",", &rest); name && rc == CADRE_OK;
         name = strtok_r(NULL, ",", &rest)) {
        rc = choose_one(cadre_strip(name), chosen, err);
        any = true;
    }
    free(copy);
    if (rc == CADRE_OK && !any)
        rc = cadre_fail(
            err, CADRE_E_INVALID,
            "'%s' names no check: expected ids and groups, such as K2,state", text);
    return rc;
}

void cadre_catalogue_print(FILE *file)
{
    const struct cadre_check *check;
    const char *group = "";
    for (size_t i = 0; (check = cadre_catalogue_at(i)); i++) {
        if (strcmp(group, check->group) != 0)
            fprintf(file, "%s%s (%s)\n", i ? "\n" : "", check->group,
                    cadre_check_level_name(check->level));
        group = check->group;
        char id[16];
        snprintf(id, sizeof id, "  %-4s ", check->id);
        cadre_terminal_write(file, id, INDENT, check->title);
        cadre_terminal_write(file, "       ", INDENT, check->why);
    }
}
