/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/tokenizer_setup.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/data/tokenizer/tokenizer.h"

cadre_status cadre_tokenizer_setup(struct cadre_options *options,
                                   struct cadre_config *config, struct cadre_error *err)
{
    const char *init = config->model.init;
    const char *source = cadre_options_source(options, "data.tokenizer");
    if (!*init || strcmp(source, "default") != 0 ||
        strcmp(config->data.format, "wfdb") == 0 || !cadre_tokenizer_in_folder(init))
        return CADRE_OK;
    char *text = cadre_format("data.tokenizer=%s", init);
    cadre_status rc = text
                          ? cadre_options_set(options, text, "found in model.init", err)
                          : cadre_no_memory(err, "an option");
    free(text);
    CADRE_TRY(rc);
    CADRE_TRY(cadre_options_resolve(options, err));
    cadre_config_fill(config, options);
    return CADRE_OK;
}
