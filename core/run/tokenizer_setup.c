/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/tokenizer_setup.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/data/chat/folder_template.h"

static cadre_status set(struct cadre_options *options, struct cadre_config *config,
                        const char *key, const char *value, const char *why,
                        struct cadre_error *err)
{
    char *text = cadre_format("%s=%s", key, value);
    cadre_status rc = text ? cadre_options_set(options, text, why, err)
                           : cadre_no_memory(err, "an option");
    free(text);
    CADRE_TRY(rc);
    CADRE_TRY(cadre_options_resolve(options, err));
    cadre_config_fill(config, options);
    return CADRE_OK;
}

static bool is_default(const struct cadre_options *options, const char *key)
{
    return strcmp(cadre_options_source(options, key), "default") == 0;
}

cadre_status cadre_tokenizer_setup(struct cadre_options *options,
                                   struct cadre_config *config, struct cadre_error *err)
{
    const char *init = config->model.init;
    if (*init && is_default(options, "data.tokenizer") &&
        strcmp(config->data.format, "wfdb") != 0 && cadre_tokenizer_in_folder(init))
        CADRE_TRY(
            set(options, config, "data.tokenizer", init, "found in model.init", err));
    if (strcmp(config->data.format, "instruct") == 0 &&
        is_default(options, "data.template") &&
        strcmp(config->data.tokenizer, "byte") != 0 &&
        cadre_folder_template_exists(config->data.tokenizer))
        return set(options, config, "data.template", "model",
                   "found beside the tokenizer", err);
    return CADRE_OK;
}

cadre_status cadre_tokenizer_find_marks(const char *spec,
                                        struct cadre_tokenizer_marks *marks,
                                        struct cadre_error *err)
{
    struct cadre_tokenizer *tok = NULL;
    *marks = (struct cadre_tokenizer_marks){0};
    if (!*spec || strcmp(spec, "byte") == 0)
        return CADRE_OK;
    CADRE_TRY(cadre_tokenizer_open(spec, &tok, err));
    *marks = cadre_tokenizer_marks(tok);
    cadre_tokenizer_close(tok);
    return CADRE_OK;
}
