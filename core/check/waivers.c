/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/waivers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/check/catalogue.h"

#define MOST (sizeof((struct cadre_waivers *)0)->waiver / sizeof(struct cadre_waiver))

static cadre_status take_line(struct cadre_waivers *waivers, char *line,
                              const char *path, int number, struct cadre_error *err)
{
    char *text = cadre_strip(line), *reason = text + strcspn(text, " \t");
    if (*text == 0 || *text == '#')
        return CADRE_OK;
    if (*reason)
        *reason++ = 0;
    reason = cadre_strip(reason);
    const struct cadre_check *check = cadre_catalogue_find(text);
    if (!check)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s:%d: there is no check '%s'; `cadre check --list` lists "
                          "them",
                          path, number, text);
    if (!*reason)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "%s:%d: the waiver of %s has no reason: write it after the id", path,
            number, check->id);
    if (waivers->n == MOST)
        return cadre_fail(err, CADRE_E_INVALID, "%s:%d: more than %zu waivers", path,
                          number, MOST);
    struct cadre_waiver *waiver = &waivers->waiver[waivers->n++];
    snprintf(waiver->id, sizeof waiver->id, "%s", check->id);
    snprintf(waiver->reason, sizeof waiver->reason, "%s", reason);
    return CADRE_OK;
}

cadre_status cadre_waivers_read(const char *path, struct cadre_waivers *out,
                                struct cadre_error *err)
{
    char *data = NULL, *rest = NULL;
    size_t bytes = 0;
    int number = 0;
    out->n = 0;
    cadre_status rc = cadre_path_read_file(path, 1 << 20, &data, &bytes, err);
    if (rc != CADRE_OK)
        return cadre_error_of_input(rc, err);
    /* strsep and not strtok: empty lines count */
    rest = data;
    for (char *line; rc == CADRE_OK && (line = strsep(&rest, "\n"));)
        rc = take_line(out, line, path, ++number, err);
    free(data);
    return rc;
}

static const struct cadre_waiver *waiver_of(const struct cadre_waivers *waivers,
                                            const struct cadre_check *check)
{
    for (size_t i = 0; i < waivers->n; i++)
        if (strcasecmp(waivers->waiver[i].id, check->id) == 0)
            return &waivers->waiver[i];
    return NULL;
}

void cadre_waivers_apply(const struct cadre_waivers *waivers,
                         struct cadre_check_result *result)
{
    const struct cadre_waiver *waiver = waiver_of(waivers, result->check);
    struct cadre_verdict *verdict = &result->verdict;
    const struct cadre_verdict before = *verdict;
    if (!waiver)
        return;
    if (!cadre_check_status_is_bad(before.status)) {
        snprintf(verdict->text, sizeof verdict->text,
                 "%.1700s%sits waiver is not needed (%s): remove it from the file",
                 before.text, before.text[0] ? "; " : "", waiver->reason);
        return;
    }
    verdict->status = CADRE_CHECK_WAIVED;
    snprintf(verdict->text, sizeof verdict->text, "%s (%s: %.1700s)", waiver->reason,
             cadre_check_status_name(before.status), before.text);
}
