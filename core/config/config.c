/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/config.h"

#include <assert.h>

#include "core/config/option_set.h"

static void fill(struct cadre_config *config, const struct cadre_config_key *key,
                 const struct cadre_option_value *value)
{
    void *field = (char *)config + key->offset;
    switch (key->field) {
    case CADRE_FIELD_BOOL:
        *(bool *)field = value->i != 0;
        break;
    case CADRE_FIELD_I64:
        *(int64_t *)field = value->i;
        break;
    case CADRE_FIELD_F64:
        *(double *)field = value->f;
        break;
    case CADRE_FIELD_TEXT:
        *(const char **)field = value->text;
        break;
    case CADRE_FIELD_CHOICE:
        *(unsigned *)field = (unsigned)value->i;
        break;
    }
}

void cadre_config_fill(struct cadre_config *config, const struct cadre_options *options)
{
    size_t n;
    const struct cadre_config_key *table = cadre_option_table(&n);
    assert(options->resolved && "options are read before resolve");
    for (size_t i = 0; i < n; i++)
        fill(config, &table[i], &options->known[i].value);
}
