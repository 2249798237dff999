/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/format/hf_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Print a value for an error text. */
static void show(const json_t *value, char *out, size_t size)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(out, size, "%s", text ? text : "nothing");
    free(text);
}

cadre_status cadre_hf_bad_key(const struct cadre_hf_source *in, const char *key,
                              cadre_status status, const char *expected)
{
    char found[80];
    show(json_object_get(in->root, key), found, sizeof found);
    return cadre_fail(in->err, status, "%s: \"%s\": expected %s, found %s", in->path,
                      key, expected, found);
}

const json_t *cadre_hf_get(const struct cadre_hf_source *in, const char *key)
{
    const json_t *value = json_object_get(in->root, key);
    return json_is_null(value) ? NULL : value;
}

cadre_status cadre_hf_get_size(const struct cadre_hf_source *in, const char *key,
                               int64_t fallback, int64_t *out)
{
    const json_t *value = cadre_hf_get(in, key);
    *out = fallback;
    if (!value && fallback >= 0)
        return CADRE_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > INT32_MAX)
        return cadre_hf_bad_key(in, key, CADRE_E_INVALID,
                                "an integer from 1 to 2147483647");
    *out = (int64_t)json_integer_value(value);
    return CADRE_OK;
}

cadre_status cadre_hf_get_number(const struct cadre_hf_source *in, const char *key,
                                 double fallback, double *out)
{
    const json_t *value = cadre_hf_get(in, key);
    *out = fallback;
    if (!value && fallback > 0)
        return CADRE_OK;
    double number = json_number_value(value);
    if (!json_is_number(value) || !isfinite(number) || number <= 0.0)
        return cadre_hf_bad_key(in, key, CADRE_E_INVALID, "a positive number");
    *out = number;
    return CADRE_OK;
}

cadre_status cadre_hf_get_bool(const struct cadre_hf_source *in, const char *key,
                               bool fallback, bool *out)
{
    const json_t *value = cadre_hf_get(in, key);
    *out = fallback;
    if (!value)
        return CADRE_OK;
    if (!json_is_boolean(value))
        return cadre_hf_bad_key(in, key, CADRE_E_INVALID, "true or false");
    *out = json_is_true(value);
    return CADRE_OK;
}

cadre_status cadre_hf_need_bool(const struct cadre_hf_source *in, const char *key,
                                bool fallback, bool needed)
{
    bool value;
    cadre_status rc = cadre_hf_get_bool(in, key, fallback, &value);
    if (rc == CADRE_OK && value != needed)
        rc = cadre_hf_bad_key(in, key, CADRE_E_UNSUPPORTED,
                              needed ? "true (Cadre has no other form)"
                                     : "false (Cadre has no other form)");
    return rc;
}

cadre_status cadre_hf_need_absent(const struct cadre_hf_source *in, const char *key)
{
    return cadre_hf_get(in, key) ? cadre_hf_bad_key(in, key, CADRE_E_UNSUPPORTED,
                                                    "null (Cadre has no such form)")
                                 : CADRE_OK;
}

cadre_status cadre_hf_need_activation(const struct cadre_hf_source *in, const char *key,
                                      const char *name, const char *alias)
{
    const char *found = json_string_value(cadre_hf_get(in, key));
    if (!cadre_hf_get(in, key) ||
        (found && (!strcmp(found, name) || !strcmp(found, alias))))
        return CADRE_OK;
    char expected[80];
    snprintf(expected, sizeof expected, "\"%s\" (the only one that Cadre computes)",
             name);
    return cadre_hf_bad_key(in, key, CADRE_E_UNSUPPORTED, expected);
}
