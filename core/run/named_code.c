/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/named_code.h"

#include <string.h>
#include <strings.h>

#include "core/base/log.h"

/* "conf/x.ini:12", where a file set the key; NULL else. */
static const char *file_that_set(const struct cadre_options *options, const char *key)
{
    const char *source = cadre_options_source(options, key);
    if (!source || strcmp(source, "default") == 0 ||
        strcmp(source, "command line") == 0 || strncmp(source, "environment", 11) == 0)
        return NULL;
    return source;
}

/* Options are not resolved yet: any word that is not a plain yes distrusts. */
static bool is_trusting(const struct cadre_options *options)
{
    static const char *const words[] = {"yes", "true", "on", "1"};
    const char *value = cadre_options_raw(options, "run.trust");
    for (size_t i = 0; value && i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return false;
}

static cadre_status tell(const struct cadre_options *options, const char *source,
                         const char *key, const char *what, struct cadre_error *err)
{
    if (!is_trusting(options))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: %s = %s runs code that the file names, and run.trust is "
                          "off: look at it, then name it on the command line (--set "
                          "%s=...)",
                          source, key, what, key);
    cadre_log(CADRE_LOG_WARN, "plugin", "%s: %s = %s: code that the file names is run",
              source, key, what);
    return CADRE_OK;
}

cadre_status cadre_named_code_check(const struct cadre_options *options,
                                    const struct cadre_stack *stack,
                                    struct cadre_error *err)
{
    const char *source = file_that_set(options, "strategy.plugin_path");
    const char *path = cadre_options_raw(options, "strategy.plugin_path");
    bool by_path = false;
    if (source && *path)
        CADRE_TRY(tell(options, source, "strategy.plugin_path", path, err));
    for (int i = 0; i < stack->n; i++)
        by_path |= stack->entry[i].path[0] != '\0';
    source = file_that_set(options, "strategy.stack");
    if (source && by_path)
        return tell(options, source, "strategy.stack",
                    cadre_options_raw(options, "strategy.stack"), err);
    return CADRE_OK;
}
