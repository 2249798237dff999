/* SPDX-License-Identifier: Apache-2.0 */
/* What a run's options leave open, written into them, so that config.ini is this run
 * again: in any working directory, under any file name, also where defaults change. */
#ifndef CADRE_RUN_RESOLVED_H
#define CADRE_RUN_RESOLVED_H

#include "core/config/options.h"
#include "core/model/model.h"

/* Set the shape of the model as it was made of [model], the data and, where there is
 * one, the folder `init`, and run.name = name. A key that holds its value already
 * keeps its source. [main] Errors: CADRE_E_RESOURCE. */
cadre_status cadre_resolved_values(struct cadre_options *options, const char *name,
                                   const char *init,
                                   const struct cadre_model_config *model,
                                   struct cadre_error *err);

/* Set every path of the run to its absolute form; their sources stay. One that an ini
 * file cannot hold stays as it was. [main] Errors: CADRE_E_RESOURCE. */
cadre_status cadre_resolved_paths(struct cadre_options *options,
                                  struct cadre_error *err);

#endif
