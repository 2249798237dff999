/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as a page. Each of its figures is a forecast, and is called predicted; what a
 * drawing of the caller's shows is called what it is there. */
#ifndef CADRE_PLAN_PLAN_PAGE_H
#define CADRE_PLAN_PLAN_PAGE_H

#include "core/base/memory.h"
#include "core/plan/search.h"

/* All borrowed; texts are escaped by the page, `drawing` is markup. */
struct cadre_plan_page {
    const struct cadre_plan_search *search;
    const struct cadre_plan_question *question;
    const struct cadre_hardware *hw;
    const struct cadre_intervals *intervals; /* NULL: not known */
    size_t top; /* candidates in the tables */
    const char *conf, *hardware, *command; /* files that were read; how it was asked */
    const char *own; /* of the file's own stack; "": nothing */
    bool asked; /* plugins were asked about the first candidates */
    const char *drawing; /* of a schedule; "": none */
    const char *drawing_note; /* what it shows, or why there is none */
};

/* Append the whole page. Where out->failed is set there was no memory. [any thread] */
void cadre_plan_page(const struct cadre_plan_page *page, struct cadre_text *out);

/* Does a file that begins with these bytes (ended by a zero) look like such a page? */
bool cadre_plan_page_is(const char *text);

#endif
