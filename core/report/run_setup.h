/* SPDX-License-Identifier: Apache-2.0 */
/* What a run was, as names and values: machine, model, data, options, what it cost. */
#ifndef CADRE_REPORT_RUN_SETUP_H
#define CADRE_REPORT_RUN_SETUP_H

#include "core/page/page.h"
#include "core/report/run_data.h"

enum { CADRE_RUN_SETUP_ITEMS = 36, CADRE_RUN_SETUP_TEXT = 320 };

struct cadre_run_setup {
    struct cadre_page_item item[CADRE_RUN_SETUP_ITEMS]; /* names are constants */
    char text[CADRE_RUN_SETUP_ITEMS][CADRE_RUN_SETUP_TEXT];
    size_t n;
};

/* All that is known of the run; what is not has the value "". */
void cadre_run_setup_fill(const struct cadre_run_data *data,
                          struct cadre_run_setup *setup);

/* One more; NULL and "-": not known. Nothing where it is full. */
void cadre_run_setup_add(struct cadre_run_setup *setup, const char *name,
                         const char *value);

/* The value of `name`, "" where there is none. */
const char *cadre_run_setup_value(const struct cadre_run_setup *setup,
                                  const char *name);

#endif
