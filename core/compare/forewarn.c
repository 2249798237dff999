/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/forewarn.h"

#include "core/compare/timing/order.h"

static void tell_rounds(const struct cadre_comparison *c, int rounds,
                        struct cadre_text *lines)
{
    size_t timed = 0;
    for (size_t i = 0; i < c->n; i++)
        timed += !*c->run[i].untimed;
    const int needed = cadre_rounds_needed(timed, CADRE_SPEED_ALPHA);
    if (timed < 2 || rounds == 0)
        return;
    if (rounds < CADRE_ROUNDS_LEAST)
        cadre_text_printf(lines,
                          "%d rounds rank nothing, %d are needed: raise "
                          "compare.rounds\n",
                          rounds, CADRE_ROUNDS_LEAST);
    else if (rounds < needed)
        cadre_text_printf(lines,
                          "%d rounds cannot tell one run from the %zu others, %d can: "
                          "raise compare.rounds\n",
                          rounds, timed - 1, needed);
}

static void tell_condition(const struct cadre_comparison *c,
                           const struct cadre_condition *condition,
                           struct cadre_text *lines)
{
    const struct cadre_compared_run *run = &c->run[condition->run];
    if (!*run->untimed)
        run = &c->run[c->baseline];
    if (*run->untimed)
        cadre_text_printf(lines,
                          "--fail-if '%s' will be undecided: run %s is not timed "
                          "(%s)\n",
                          condition->text, run->name, run->untimed);
}

void cadre_forewarn(const struct cadre_comparison *c,
                    const struct cadre_timetable *timetable,
                    const struct cadre_condition *conditions, size_t n,
                    struct cadre_text *lines)
{
    tell_rounds(c, timetable->wanted, lines);
    for (size_t i = 0; i < n; i++)
        tell_condition(c, &conditions[i], lines);
}
