/* SPDX-License-Identifier: Apache-2.0 */
/* Strictness in one place: no trailing text, no octal, no hexadecimal, no overflow, no
 * NaN, no locale. A grammar check comes first, so strtoll and strtod see decimal
 * numbers only. */
#include "core/config/option_value.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/nearest.h"

static bool has_limits(const struct cadre_option_spec *spec)
{
    return spec->min < spec->max;
}

static void describe_limits(const struct cadre_option_spec *spec,
                            struct cadre_text *out)
{
    if (!has_limits(spec))
        return;
    if (isinf(spec->max))
        cadre_text_printf(out, " of at least %.12g", spec->min);
    else if (isinf(spec->min))
        cadre_text_printf(out, " of at most %.12g", spec->max);
    else
        cadre_text_printf(out, " from %.12g to %.12g", spec->min, spec->max);
}

void cadre_option_describe(const struct cadre_option_spec *spec, struct cadre_text *out)
{
    switch (spec->type) {
    case CADRE_OPT_BOOL:
        cadre_text_printf(out, "yes or no");
        break;
    case CADRE_OPT_I64:
        cadre_text_printf(out, "a whole number");
        describe_limits(spec, out);
        break;
    case CADRE_OPT_F64:
        cadre_text_printf(out, "a number");
        describe_limits(spec, out);
        break;
    case CADRE_OPT_BYTES:
        cadre_text_printf(out, "a size such as 4096, 64k, 25M or 1G");
        describe_limits(spec, out);
        break;
    case CADRE_OPT_ENUM:
        cadre_text_printf(out, "one of %s", spec->choices);
        break;
    default:
        cadre_text_printf(out, "text");
        break;
    }
}

static cadre_status refuse(const struct cadre_option_spec *spec, const char *text,
                           const char *hint, struct cadre_error *err)
{
    struct cadre_text expected = {0};
    cadre_option_describe(spec, &expected);
    cadre_fail(err, CADRE_E_INVALID, "%s.%s: expected %s, found '%.100s'%s%s%s",
               spec->section, spec->key, cadre_text_str(&expected), text,
               hint ? " (" : "", hint ? hint : "", hint ? ")" : "");
    cadre_text_fini(&expected);
    return CADRE_E_INVALID;
}

static const char *skip_digits(const char *p)
{
    while (isdigit((unsigned char)*p))
        p++;
    return p;
}

/* The end of [+-]digits where those have no leading zero, else NULL. */
static const char *whole_end(const char *text)
{
    const char *digits = text + (*text == '+' || *text == '-');
    const char *end = skip_digits(digits);
    if (end == digits || (*digits == '0' && end > digits + 1))
        return NULL;
    return end;
}

/* The end of [+-]digits[.digits][e[+-]digits], else NULL. */
static const char *number_end(const char *text)
{
    const char *p = text + (*text == '+' || *text == '-');
    const char *end = skip_digits(p);
    bool has_digits = end > p;
    if (*end == '.') {
        p = end + 1;
        end = skip_digits(p);
        has_digits = has_digits || end > p;
    }
    if (!has_digits)
        return NULL;
    if (*end == 'e' || *end == 'E') {
        p = end + 1 + (end[1] == '+' || end[1] == '-');
        end = skip_digits(p);
        if (end == p)
            return NULL;
    }
    return end;
}

static bool in_limits(const struct cadre_option_spec *spec, double value)
{
    return !has_limits(spec) || (value >= spec->min && value <= spec->max);
}

static cadre_status parse_whole(const struct cadre_option_spec *spec, const char *text,
                                int64_t *out, struct cadre_error *err)
{
    const char *end = whole_end(text);
    if (!end || *end)
        return refuse(spec, text, NULL, err);
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno == ERANGE)
        return refuse(spec, text, "it does not fit in 64 bits", err);
    if (!in_limits(spec, (double)value))
        return refuse(spec, text, "out of range", err);
    *out = value;
    return CADRE_OK;
}

static cadre_status parse_number(const struct cadre_option_spec *spec, const char *text,
                                 double *out, struct cadre_error *err)
{
    const char *end = number_end(text);
    if (!end || *end)
        return refuse(spec, text, NULL, err);
    errno = 0;
    double value = strtod(text, NULL);
    if (errno == ERANGE)
        return refuse(spec, text, "it does not fit in a double", err);
    if (!in_limits(spec, value))
        return refuse(spec, text, "out of range", err);
    *out = value;
    return CADRE_OK;
}

static cadre_status parse_bytes(const struct cadre_option_spec *spec, const char *text,
                                int64_t *out, struct cadre_error *err)
{
    static const char units[] = "kmgt";
    const char *end = whole_end(text);
    if (!end || *text == '-')
        return refuse(spec, text, NULL, err);
    int shift = 0;
    if (*end) {
        const char *unit = strchr(units, tolower((unsigned char)*end));
        if (!unit || end[1])
            return refuse(spec, text, NULL, err);
        shift = 10 * (int)(unit - units + 1);
    }
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno == ERANGE || value > INT64_MAX >> shift)
        return refuse(spec, text, "it does not fit in 64 bits", err);
    value <<= shift;
    if (!in_limits(spec, (double)value))
        return refuse(spec, text, "out of range", err);
    *out = value;
    return CADRE_OK;
}

static cadre_status parse_bool(const struct cadre_option_spec *spec, const char *text,
                               bool *out, struct cadre_error *err)
{
    static const char *const words[] = {"no",  "yes", "false", "true",
                                        "off", "on",  "0",     "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *out = i % 2 == 1;
            return CADRE_OK;
        }
    return refuse(spec, text, NULL, err);
}

static cadre_status parse_choice(const struct cadre_option_spec *spec, const char *text,
                                 struct cadre_error *err)
{
    char choice[64], nearest_name[64] = "", hint[96];
    struct cadre_nearest nearest = {0};
    for (const char *p = spec->choices; *p;) {
        size_t n = strcspn(p, ", ");
        snprintf(choice, sizeof choice, "%.*s", (int)n, p);
        if (n > 0 && strcmp(choice, text) == 0)
            return CADRE_OK;
        const size_t before = nearest.name ? nearest.distance : SIZE_MAX;
        cadre_nearest_offer(&nearest, text, choice);
        if (nearest.name && nearest.distance < before)
            memcpy(nearest_name, choice, sizeof nearest_name);
        p += n;
        p += strspn(p, ", ");
    }
    snprintf(hint, sizeof hint, "nearest: %s", nearest_name);
    return refuse(spec, text, nearest.name ? hint : NULL, err);
}

cadre_status cadre_option_parse(const struct cadre_option_spec *spec, const char *text,
                                union cadre_option_parsed *out, struct cadre_error *err)
{
    switch (spec->type) {
    case CADRE_OPT_BOOL:
        return parse_bool(spec, text, &out->b, err);
    case CADRE_OPT_I64:
        return parse_whole(spec, text, &out->i, err);
    case CADRE_OPT_F64:
        return parse_number(spec, text, &out->f, err);
    case CADRE_OPT_BYTES:
        return parse_bytes(spec, text, &out->i, err);
    case CADRE_OPT_ENUM:
        return parse_choice(spec, text, err);
    case CADRE_OPT_STR:
        return CADRE_OK;
    default:
        return cadre_fail(err, CADRE_E_INVALID, "%s.%s: %d is not an option type",
                          spec->section, spec->key, spec->type);
    }
}
