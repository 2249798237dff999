/* SPDX-License-Identifier: Apache-2.0 */
/* The rotary positions of a config.json: `rope_theta` with `rope_scaling`, or since
 * version 5 of transformers both in `rope_parameters`. The kind is `rope_type`, or
 * `type` in older files. */
#include "core/checkpoint/format/hf_private.h"

#include <stdio.h>
#include <string.h>

static const char expected_kind[] =
    "\"default\", \"linear\" or \"llama3\" (Cadre has no other rotary positions)";

/* "", for none. Two names of the kind must agree. */
static cadre_status read_kind(const struct cadre_hf_source *in, const char **kind)
{
    const json_t *name = cadre_hf_get(in, "rope_type");
    const json_t *legacy = cadre_hf_get(in, "type");
    if (name && legacy && !json_equal(name, legacy))
        return cadre_hf_bad_key(in, "type", CADRE_E_INVALID, "what \"rope_type\" says");
    const char *key = name ? "rope_type" : "type";
    const json_t *value = name ? name : legacy;
    *kind = value ? json_string_value(value) : "";
    return *kind ? CADRE_OK
                 : cadre_hf_bad_key(in, key, CADRE_E_UNSUPPORTED, expected_kind);
}

static cadre_status check_known(const struct cadre_hf_source *in,
                                enum cadre_rotary_scaling scaling)
{
    static const struct {
        const char *key;
        enum cadre_rotary_scaling from; /* the scalings that read it */
    } known[] = {
        {"rope_type", CADRE_ROTARY_PLAIN},
        {"type", CADRE_ROTARY_PLAIN},
        {"rope_theta", CADRE_ROTARY_PLAIN},
        {"factor", CADRE_ROTARY_LINEAR},
        {"low_freq_factor", CADRE_ROTARY_LLAMA3},
        {"high_freq_factor", CADRE_ROTARY_LLAMA3},
        /* of the others it is a note */
        {"original_max_position_embeddings", CADRE_ROTARY_PLAIN},
    };
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)in->root, key, value)
    {
        bool found = json_is_null(value);
        if (strcmp(key, "partial_rotary_factor") == 0)
            found = json_is_number(value) && json_number_value(value) == 1.0;
        for (size_t i = 0; i < sizeof known / sizeof known[0] && !found; i++)
            found = strcmp(key, known[i].key) == 0 && known[i].from <= scaling;
        if (!found)
            return cadre_hf_bad_key(in, key, CADRE_E_UNSUPPORTED,
                                    "no such key with this kind of rotary positions "
                                    "(Cadre would not use it)");
    }
    return CADRE_OK;
}

static cadre_status read_parameters(const struct cadre_hf_source *in,
                                    struct cadre_rotary *rotary)
{
    const char *kind = "";
    CADRE_TRY(read_kind(in, &kind));
    if (*kind == '\0' || strcmp(kind, "default") == 0)
        rotary->scaling = CADRE_ROTARY_PLAIN;
    else if (strcmp(kind, "linear") == 0)
        rotary->scaling = CADRE_ROTARY_LINEAR;
    else if (strcmp(kind, "llama3") == 0)
        rotary->scaling = CADRE_ROTARY_LLAMA3;
    else
        return cadre_hf_bad_key(in,
                                cadre_hf_get(in, "rope_type") ? "rope_type" : "type",
                                CADRE_E_UNSUPPORTED, expected_kind);
    CADRE_TRY(check_known(in, rotary->scaling));
    CADRE_TRY(cadre_hf_get_number(in, "rope_theta", rotary->theta, &rotary->theta));
    if (rotary->scaling == CADRE_ROTARY_PLAIN)
        return CADRE_OK;
    CADRE_TRY(cadre_hf_get_number(in, "factor", 0, &rotary->factor));
    if (rotary->scaling == CADRE_ROTARY_LINEAR)
        return CADRE_OK;
    CADRE_TRY(cadre_hf_get_number(in, "low_freq_factor", 0, &rotary->low));
    CADRE_TRY(cadre_hf_get_number(in, "high_freq_factor", 0, &rotary->high));
    if (rotary->high <= rotary->low)
        return cadre_hf_bad_key(in, "high_freq_factor", CADRE_E_INVALID,
                                "more than low_freq_factor");
    return cadre_hf_get_size(in, "original_max_position_embeddings", -1,
                             &rotary->original);
}

cadre_status cadre_hf_read_rope(const struct cadre_hf_source *in,
                                struct cadre_rotary *rotary)
{
    const json_t *now = cadre_hf_get(in, "rope_parameters");
    const json_t *before = cadre_hf_get(in, "rope_scaling");
    const char *key = now ? "rope_parameters" : "rope_scaling";
    char path[512];
    const struct cadre_hf_source inner = {path, now ? now : before, in->err};
    *rotary = (struct cadre_rotary){0};
    snprintf(path, sizeof path, "%s: \"%s\"", in->path, key);
    CADRE_TRY(cadre_hf_get_number(in, "rope_theta", 10000.0, &rotary->theta));
    if (!now && !before)
        return CADRE_OK;
    if (!json_is_object(inner.root))
        return cadre_hf_bad_key(in, key, CADRE_E_INVALID, "an object");
    if (now && before && !json_equal(now, before))
        return cadre_hf_bad_key(in, "rope_scaling", CADRE_E_INVALID,
                                "null, or what \"rope_parameters\" says");
    return read_parameters(&inner, rotary);
}
