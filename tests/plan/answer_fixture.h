/* SPDX-License-Identifier: Apache-2.0 */
/* The candidates of the small model on 8 ranks of the round machine. */
#ifndef CADRE_TESTS_PLAN_ANSWER_FIXTURE_H
#define CADRE_TESTS_PLAN_ANSWER_FIXTURE_H

#include "core/plan/search.h"
#include "tests/plan/plan_fixture.h"

static struct cadre_plan_search search;
static struct cadre_plan_question question;
static struct cadre_error err;

static void find_all(void)
{
    question = (struct cadre_plan_question){
        .transformer = small_model,
        .from = {.global_batch = 16, .dtype = CADRE_PLAN_BF16},
        .ranks = 8};
    if (cadre_plan_search(&search, &question, &round_machine, &err) != CADRE_OK)
        abort();
}

static void forget_all(void)
{
    cadre_plan_search_fini(&search);
}

/* What a function prints, as one text; the caller's (free). */
static FILE *opened;
static char *printed;
static size_t printed_bytes;

static FILE *begin_print(void)
{
    opened = open_memstream(&printed, &printed_bytes);
    return opened;
}

static const char *end_print(void)
{
    fclose(opened);
    return printed;
}

static void forget_print(void)
{
    free(printed);
    printed = NULL;
}

#endif
