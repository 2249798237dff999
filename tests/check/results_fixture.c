/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/check/results_fixture.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/check_main.h"

void results_of(struct cadre_check_results *out, const char *plugin)
{
    struct cadre_error err = {0};
    cadre_status rc = cadre_check_results_init(out, plugin, 7, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void say(struct cadre_check_result *result, enum cadre_check_status status,
                const char *text)
{
    result->chosen = result->done = true;
    result->verdict.status = status;
    snprintf(result->verdict.text, sizeof result->verdict.text, "%s", text);
}

struct cadre_check_result *results_say(struct cadre_check_results *results,
                                       const char *id, enum cadre_check_status status,
                                       const char *text)
{
    for (size_t i = 0; i < results->n; i++)
        if (strcmp(results->result[i].check->id, id) == 0) {
            say(&results->result[i], status, text);
            return &results->result[i];
        }
    ck_abort_msg("no check '%s'", id);
    return NULL;
}

void results_pass(struct cadre_check_results *results, enum cadre_check_level level)
{
    for (size_t i = 0; i < results->n; i++)
        if (results->result[i].check->level <= level)
            say(&results->result[i], CADRE_CHECK_PASS, "");
}

void results_awkward(struct cadre_check_results *results)
{
    static const char *const texts[] = {
        "a <b> & \"c\" 'd' # e \\ f",
        "two\nlines",
        "a tab\tand a bell\a",
        "\xff\xc3(",
        "\xc3\xa9",
    };
    for (int status = 0; status < CADRE_CHECK_STATUSES; status++)
        say(&results->result[status], (enum cadre_check_status)status,
            texts[status % 5]);
}
