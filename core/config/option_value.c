/* SPDX-License-Identifier: Apache-2.0 */
/* All strict parsing is here: no trailing text, no octal, no hexadecimal, no overflow,
 * no NaN, no locale. A grammar check comes first, so strtoll and strtod see decimal
 * numbers only. */
#include "core/config/option_value.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/nearest.h"

static bool has_limits(const struct cadre_option *option)
{
    return option->min < option->max;
}

static void describe_limits(const struct cadre_option *option, struct cadre_text *out)
{
    if (!has_limits(option))
        return;
    if (isinf(option->max))
        cadre_text_printf(out, " of at least %.12g", option->min);
    else if (isinf(option->min))
        cadre_text_printf(out, " of at most %.12g", option->max);
    else
        cadre_text_printf(out, " from %.12g to %.12g", option->min, option->max);
}

void cadre_option_describe(const struct cadre_option *option, struct cadre_text *out)
{
    switch (option->type) {
    case CADRE_OPTION_BOOL:
        cadre_text_printf(out, "yes or no");
        break;
    case CADRE_OPTION_I64:
        cadre_text_printf(out, "a whole number");
        describe_limits(option, out);
        break;
    case CADRE_OPTION_F64:
        cadre_text_printf(out, "a number");
        describe_limits(option, out);
        break;
    case CADRE_OPTION_BYTES:
        cadre_text_printf(out, "a size such as 4096, 64k, 25M or 1G");
        describe_limits(option, out);
        break;
    case CADRE_OPTION_ENUM:
        cadre_text_printf(out, "one of %s", option->choices);
        break;
    default:
        cadre_text_printf(out, "text");
        break;
    }
}

/* One text as it is read. */
struct reading {
    const char *section;
    const struct cadre_option *option;
    struct cadre_option_value value;
    struct cadre_error *err;
};

static cadre_status refuse(const struct reading *r, const char *hint)
{
    struct cadre_text expected = {0};
    cadre_option_describe(r->option, &expected);
    cadre_fail(r->err, CADRE_E_INVALID, "%s.%s: expected %s, found '%.100s'%s%s%s",
               r->section, r->option->key, cadre_text_str(&expected), r->value.text,
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

static cadre_status check_limits(const struct reading *r, double value)
{
    const struct cadre_option *option = r->option;
    if (has_limits(option) && (value < option->min || value > option->max))
        return refuse(r, "out of range");
    return CADRE_OK;
}

static cadre_status parse_whole(struct reading *r)
{
    const char *end = whole_end(r->value.text);
    if (!end || *end)
        return refuse(r, NULL);
    errno = 0;
    r->value.i = strtoll(r->value.text, NULL, 10);
    if (errno == ERANGE)
        return refuse(r, "it does not fit in 64 bits");
    return check_limits(r, (double)r->value.i);
}

static cadre_status parse_number(struct reading *r)
{
    const char *end = number_end(r->value.text);
    if (!end || *end)
        return refuse(r, NULL);
    errno = 0;
    r->value.f = strtod(r->value.text, NULL);
    if (errno == ERANGE)
        return refuse(r, "it does not fit in a double");
    return check_limits(r, r->value.f);
}

static cadre_status parse_bytes(struct reading *r)
{
    static const char units[] = "kmgt";
    const char *end = whole_end(r->value.text);
    if (!end || *r->value.text == '-')
        return refuse(r, NULL);
    int shift = 0;
    if (*end) {
        const char *unit = strchr(units, tolower((unsigned char)*end));
        if (!unit || end[1])
            return refuse(r, NULL);
        shift = 10 * (int)(unit - units + 1);
    }
    errno = 0;
    long long value = strtoll(r->value.text, NULL, 10);
    if (errno == ERANGE || value > INT64_MAX >> shift)
        return refuse(r, "it does not fit in 64 bits");
    r->value.i = value << shift;
    return check_limits(r, (double)r->value.i);
}

static cadre_status parse_bool(struct reading *r)
{
    static const char *const words[] = {"no",  "yes", "false", "true",
                                        "off", "on",  "0",     "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(r->value.text, words[i]) == 0) {
            r->value.i = i % 2;
            return CADRE_OK;
        }
    return refuse(r, NULL);
}

static cadre_status parse_choice(struct reading *r)
{
    char choice[64], nearest_name[64] = "", hint[96];
    struct cadre_nearest nearest = {0};
    int64_t index = 0;
    for (const char *p = r->option->choices; *p; index++) {
        size_t n = strcspn(p, ", ");
        snprintf(choice, sizeof choice, "%.*s", (int)n, p);
        if (n > 0 && strcmp(choice, r->value.text) == 0) {
            r->value.i = index;
            return CADRE_OK;
        }
        const size_t before = nearest.name ? nearest.distance : SIZE_MAX;
        cadre_nearest_offer(&nearest, r->value.text, choice);
        if (nearest.name && nearest.distance < before)
            memcpy(nearest_name, choice, sizeof nearest_name);
        p += n;
        p += strspn(p, ", ");
    }
    snprintf(hint, sizeof hint, "nearest: %s", nearest_name);
    return refuse(r, nearest.name ? hint : NULL);
}

struct cadre_option cadre_option_at(const struct cadre_option *table, size_t i,
                                    size_t stride)
{
    struct cadre_option option = {0};
    memcpy(&option, (const char *)table + i * stride,
           stride < sizeof option ? stride : sizeof option);
    return option;
}

static cadre_status parse(struct reading *r)
{
    switch (r->option->type) {
    case CADRE_OPTION_BOOL:
        return parse_bool(r);
    case CADRE_OPTION_I64:
        return parse_whole(r);
    case CADRE_OPTION_F64:
        return parse_number(r);
    case CADRE_OPTION_BYTES:
        return parse_bytes(r);
    case CADRE_OPTION_ENUM:
        return parse_choice(r);
    case CADRE_OPTION_STR:
        return CADRE_OK;
    default:
        return cadre_fail(r->err, CADRE_E_INVALID, "%s.%s: %u is not an option type",
                          r->section, r->option->key, r->option->type);
    }
}

cadre_status cadre_option_parse(const char *section, const struct cadre_option *option,
                                const char *text, struct cadre_option_value *out,
                                struct cadre_error *err)
{
    struct reading r = {section, option, {.type = option->type, .text = text}, err};
    cadre_status rc = parse(&r);
    if (rc == CADRE_OK)
        *out = r.value;
    return rc;
}
