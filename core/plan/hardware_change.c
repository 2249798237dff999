/* SPDX-License-Identifier: Apache-2.0 */
/* A number of a hardware file changed by a text, for `--what-if`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/hardware_private.h"

/* "link" is both levels; "bandwidth" is bandwidth_gb_s: a unit may be left out. */
static bool is_meant(const struct cadre_hardware_key *k, const char *section,
                     const char *key)
{
    static const char *const units[] = {"_gb_s", "_us", "_gib", "_gflop", "_tflops"};
    const size_t level = strlen(section), n = strlen(key);
    if (strncmp(k->section, section, level) != 0 ||
        (k->section[level] && k->section[level] != ':'))
        return false;
    if (strncmp(k->key, key, n) != 0)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(k->key + n, units[i]) == 0)
            return true;
    return !k->key[n];
}

/* "+10%", "-5%", "x2" and a number of its own. */
static bool apply(const char *text, double before, double *after)
{
    char *end;
    const bool times = *text == 'x';
    const double number = strtod(text + times, &end);
    if (end == text + times || !isfinite(number))
        return false;
    if (times && !*end)
        *after = before * number;
    else if (!times && strcmp(end, "%") == 0 && (*text == '+' || *text == '-'))
        *after = before * (1 + number / 100);
    else if (!times && !*end && *text != '+' && *text != '-')
        *after = number;
    else
        return false;
    return true;
}

static cadre_status change_one(struct cadre_hardware *hw,
                               const struct cadre_hardware_key *k,
                               const char *assignment, const char *value,
                               struct cadre_error *err)
{
    void *at = (char *)hw + k->field;
    const bool count = k->value == CADRE_HARDWARE_COUNT;
    const double before = count ? (double)*(int64_t *)at : *(double *)at;
    double after;
    if (!apply(value, before, &after))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "%s: '%s' is no change, expected +10%%, -10%%, x2 or a number", assignment,
            value);
    if (after > k->most || !(k->closed ? after >= k->least : after > k->least) ||
        (count && after != floor(after)))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: %s.%s would be %g, expected a %snumber %s %g and at "
                          "most %g",
                          assignment, k->section, k->key, after, count ? "whole " : "",
                          k->closed ? "of at least" : "above", k->least, k->most);
    if (count)
        *(int64_t *)at = (int64_t)after;
    else
        *(double *)at = after;
    return CADRE_OK;
}

cadre_status cadre_hardware_change(struct cadre_hardware *hw, const char *assignment,
                                   struct cadre_error *err)
{
    char name[80];
    const char *equals = strchr(assignment, '=');
    const size_t n = equals ? (size_t)(equals - assignment) : 0;
    struct cadre_hardware changed = *hw;
    int found = 0;
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : 0), assignment);
    char *dot = strrchr(name, '.');
    if (!equals || !dot)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is no change, expected SECTION.KEY=+10%% with a key of "
                          "the hardware file",
                          assignment);
    *dot = '\0';
    for (int i = 0; i < cadre_hardware_keys_n; i++) {
        const struct cadre_hardware_key *k = &cadre_hardware_keys[i];
        const bool number =
            k->value == CADRE_HARDWARE_NUMBER || k->value == CADRE_HARDWARE_COUNT;
        if (!number || !is_meant(k, name, dot + 1))
            continue;
        CADRE_TRY(change_one(&changed, k, assignment, equals + 1, err));
        found++;
    }
    if (!found)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: no number '%s' in [%s] of a hardware file; "
                          "docs/planning.md lists them",
                          assignment, dot + 1, name);
    if (changed.device.reserve_gib >= changed.device.memory_gib)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: no memory would be left beside reserve_gib", assignment);
    *hw = changed;
    return CADRE_OK;
}
