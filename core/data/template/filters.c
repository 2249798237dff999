/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of a template: what may stand behind `|`. */
#include <stdlib.h>
#include <string.h>

#include "core/data/template/characters.h"
#include "core/data/template/evaluation.h"
#include "core/data/template/value.h"

struct call {
    struct cadre_evaluation *e;
    const char *name;
    const json_t *value;
    const struct cadre_arguments *arguments;
    int line;
};

static json_t *same(const json_t *value)
{
    return json_incref((json_t *)(uintptr_t)value);
}

static const json_t *argument(const struct call *c, size_t place, const char *name)
{
    return cadre_arguments_get(c->arguments, place, name);
}

static cadre_status not_for(const struct call *c)
{
    return cadre_evaluation_fail(c->e, c->line, "the filter %s: not for %s", c->name,
                                 cadre_value_type(c->value));
}

/* ---- texts ---- */

/* Filters of texts take other values as printing shows them. */
static cadre_status as_text(const struct call *c, json_t **out)
{
    struct cadre_text text = {0};
    if (json_is_string(c->value)) {
        *out = same(c->value);
        return CADRE_OK;
    }
    if (!cadre_value_print(c->value, &text))
        return not_for(c);
    return cadre_evaluation_give_text(c->e, &text, c->line, out);
}

static cadre_status text_filter(const struct call *c, json_t **out)
{
    json_t *text = NULL;
    int64_t most = -1;
    const json_t *count = argument(c, 2, "count");
    CADRE_TRY(as_text(c, &text));
    cadre_status rc = CADRE_OK;
    if (strcmp(c->name, "trim") == 0)
        rc = cadre_template_trim(c->e, text, argument(c, 0, "chars"), true, true,
                                 c->line, out);
    else if (strcmp(c->name, "replace") != 0)
        rc = strcmp(c->name, "string") == 0
                 ? cadre_evaluation_give(c->e, same(text), c->line, out)
                 : cadre_template_case(c->e, text, *c->name, c->line, out);
    else if (count && !json_is_null(count) && !cadre_value_integer(count, &most))
        rc = cadre_evaluation_fail(c->e, c->line,
                                   "the filter replace: count: expected a number");
    else
        rc = cadre_template_replace(c->e, text, argument(c, 0, "old"),
                                    argument(c, 1, "new"), most, c->line, out);
    json_decref(text);
    return rc;
}

/* Lines behind the first get `width` blanks, but empty ones. */
static cadre_status indent(const struct call *c, json_t **out)
{
    struct cadre_text text = {0};
    int64_t width = 4;
    const json_t *given = argument(c, 0, "width"), *first = argument(c, 1, "first");
    CADRE_TRY(cadre_evaluation_need_text(c->e, c->value, c->line, "indent"));
    if (given && (!cadre_value_integer(given, &width) || width < 0 || width > 64))
        return cadre_evaluation_fail(c->e, c->line,
                                     "the filter indent: expected a width up to 64");
    const char *bytes = json_string_value(c->value);
    const size_t size = json_string_length(c->value);
    if (cadre_value_truth(first))
        cadre_text_printf(&text, "%*s", (int)width, "");
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)bytes[i];
        if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte >= 0x80) {
            cadre_text_fini(&text); /* some end lines in Python */
            return cadre_evaluation_unsupported(
                c->e, c->line, "the filter indent of other characters than ASCII",
                NULL);
        }
        cadre_text_append(&text, bytes + i, 1);
        if (bytes[i] == '\n' && i + 1 < size && bytes[i + 1] != '\n')
            cadre_text_printf(&text, "%*s", (int)width, "");
    }
    CADRE_TRY(cadre_evaluation_spend(c->e, (int64_t)size, c->line));
    return cadre_evaluation_give_text(c->e, &text, c->line, out);
}

static cadre_status to_json(const struct call *c, json_t **out)
{
    struct cadre_text text = {0};
    int64_t indent = -1;
    const json_t *given = argument(c, 0, "indent");
    if (c->arguments->n > 0 && !c->arguments->name[0])
        return cadre_evaluation_unsupported(
            c->e, c->line, "the filter tojson with an argument without a name", NULL);
    if (given && !json_is_null(given) &&
        (!cadre_value_integer(given, &indent) || indent < 0 || indent > 64))
        return cadre_evaluation_fail(c->e, c->line,
                                     "the filter tojson: indent: expected 0 to 64");
    CADRE_TRY(cadre_evaluation_spend_value(c->e, c->value, c->line));
    if (cadre_value_json(c->value, (int)indent, &text))
        return cadre_evaluation_give_text(c->e, &text, c->line, out);
    const bool failed = text.failed;
    cadre_text_fini(&text);
    return failed ? cadre_no_memory(c->e->err, "a template's text") : not_for(c);
}

/* ---- any values ---- */

static cadre_status length(const struct call *c, json_t **out)
{
    int64_t n = 0;
    if (json_is_string(c->value)) {
        CADRE_TRY(
            cadre_evaluation_spend_text(c->e, json_string_length(c->value), c->line));
        n = cadre_characters_count(json_string_value(c->value),
                                   json_string_length(c->value));
    } else if (json_is_array(c->value) || json_is_object(c->value)) {
        n = (int64_t)(json_array_size(c->value) + json_object_size(c->value));
    } else if (c->value) {
        return not_for(c);
    }
    return cadre_evaluation_give(c->e, json_integer(n), c->line, out);
}

static cadre_status otherwise(const struct call *c, json_t **out)
{
    const bool any = cadre_value_truth(argument(c, 1, "boolean"));
    const bool keeps = any ? cadre_value_truth(c->value) : c->value != NULL;
    const json_t *given = argument(c, 0, "default_value");
    *out = keeps ? same(c->value) : same(given);
    if (!keeps && !given)
        return cadre_evaluation_give(c->e, json_string(""), c->line, out);
    return CADRE_OK;
}

static cadre_status ends(const struct call *c, json_t **out)
{
    json_t *list = NULL;
    CADRE_TRY(cadre_evaluation_iterate(c->e, c->value, c->line, &list));
    *out = cadre_value_at(list, *c->name == 'f' ? 0 : -1);
    json_decref(list);
    return CADRE_OK;
}

static cadre_status whole(const struct call *c, json_t **out)
{
    int64_t number = 0;
    char *end = NULL;
    const char *text = json_string_value(c->value);
    if (c->arguments->n > 0)
        return cadre_evaluation_unsupported(c->e, c->line,
                                            "the filter int with arguments", NULL);
    if (text) {
        number = strtoll(text, &end, 10);
        const size_t n = strlen(text);
        if (n == 0 || n > 18 || strspn(text, "-0123456789") != n || *end)
            return cadre_evaluation_fail(c->e, c->line,
                                         "the filter int: expected decimal digits");
    } else if (!cadre_value_integer(c->value, &number)) {
        return not_for(c);
    }
    return cadre_evaluation_give(c->e, json_integer(number), c->line, out);
}

static cadre_status reverse(const struct call *c, json_t **out)
{
    if (!json_is_array(c->value) && !json_is_string(c->value))
        return not_for(c);
    CADRE_TRY(cadre_evaluation_spend(
        c->e, (int64_t)(json_array_size(c->value) + json_string_length(c->value)),
        c->line));
    return cadre_evaluation_give(c->e, cadre_value_slice(c->value, NULL, NULL, -1),
                                 c->line, out);
}

static cadre_status items(const struct call *c, json_t **out)
{
    static const struct cadre_arguments none = {.n = 0};
    if (!c->value)
        return cadre_evaluation_give(c->e, json_array(), c->line, out);
    if (!json_is_object(c->value))
        return not_for(c);
    return cadre_method_call(c->e, c->value, "items", &none, c->line, out);
}

/* ---- each element ---- */

/* map of an attribute, or of a filter by its name. */
static cadre_status map_one(const struct call *c, const json_t *one, json_t **out)
{
    const char *by = json_string_value(argument(c, 9, "attribute"));
    const char *filter = json_string_value(argument(c, 0, NULL));
    struct cadre_arguments rest = {.n = 0};
    if (by && !strchr(by, '.'))
        return cadre_evaluation_attribute(c->e, one, by, c->line, out);
    if (!filter)
        return cadre_evaluation_unsupported(
            c->e, c->line, "map without a filter's name, or by a path", NULL);
    for (size_t i = 1; i < c->arguments->n; i++) {
        rest.value[rest.n] = c->arguments->value[i]; /* borrowed */
        rest.name[rest.n++] = c->arguments->name[i];
    }
    return cadre_filter_apply(c->e, filter, one, &rest, c->line, out);
}

/* select and reject by a test, selectattr and rejectattr by one of an attribute. */
static cadre_status keeps(const struct call *c, const json_t *one, bool *out)
{
    const bool of_attribute = strstr(c->name, "attr") != NULL;
    const char *name = json_string_value(argument(c, of_attribute, NULL));
    const char *attribute = json_string_value(argument(c, 0, NULL));
    struct cadre_arguments rest = {.n = 0};
    json_t *value = NULL;
    if (of_attribute && (!attribute || strchr(attribute, '.')))
        return cadre_evaluation_unsupported(
            c->e, c->line, "selectattr and rejectattr without a name, or by a path",
            NULL);
    if (of_attribute)
        CADRE_TRY(cadre_evaluation_attribute(c->e, one, attribute, c->line, &value));
    else
        value = same(one);
    for (size_t i = of_attribute + 1u; i < c->arguments->n; i++)
        rest.value[rest.n++] = c->arguments->value[i]; /* borrowed */
    cadre_status rc = CADRE_OK;
    if (name)
        rc = cadre_test_apply(c->e, name, value, &rest, c->line, out);
    else
        *out = cadre_value_truth(value);
    *out = *out == (*c->name == 's');
    json_decref(value);
    return rc;
}

static cadre_status each(const struct call *c, json_t **out)
{
    json_t *list = NULL, *made = json_array();
    const bool maps = strcmp(c->name, "map") == 0;
    cadre_status rc = made ? cadre_evaluation_iterate(c->e, c->value, c->line, &list)
                           : cadre_no_memory(c->e->err, "a list");
    for (size_t i = 0; rc == CADRE_OK && i < json_array_size(list); i++) {
        json_t *one = json_array_get(list, i), *result = NULL;
        bool kept = true;
        rc = cadre_evaluation_spend(c->e, 1, c->line);
        if (rc == CADRE_OK)
            rc = maps ? map_one(c, one, &result) : keeps(c, one, &kept);
        if (rc == CADRE_OK && maps && !result)
            rc = cadre_evaluation_fail(c->e, c->line,
                                       "the filter map: an element has no such "
                                       "attribute");
        if (rc == CADRE_OK && kept && json_array_append(made, maps ? result : one) != 0)
            rc = cadre_no_memory(c->e->err, "a list");
        json_decref(result);
    }
    json_decref(list);
    if (rc == CADRE_OK)
        return cadre_evaluation_give(c->e, made, c->line, out);
    json_decref(made);
    return rc;
}

static cadre_status list(const struct call *c, json_t **out)
{
    return cadre_evaluation_iterate(c->e, c->value, c->line, out);
}

static cadre_status join(const struct call *c, json_t **out)
{
    return cadre_template_join(c->e, c->value, argument(c, 0, "d"), c->line, out);
}

/* ---- all filters ---- */

static const struct {
    const char *name;
    cadre_status (*apply)(const struct call *c, json_t **out);
    size_t arguments; /* by place */
    const char *names[4];
} table[] = {
    {"trim", text_filter, 1, {"chars"}},
    {"upper", text_filter, 0, {NULL}},
    {"lower", text_filter, 0, {NULL}},
    {"capitalize", text_filter, 0, {NULL}},
    {"title", text_filter, 0, {NULL}},
    {"string", text_filter, 0, {NULL}},
    {"replace", text_filter, 3, {"old", "new", "count"}},
    {"indent", indent, 2, {"width", "first"}},
    {"tojson", to_json, 1, {"indent"}},
    {"length", length, 0, {NULL}},
    {"count", length, 0, {NULL}},
    {"default", otherwise, 2, {"default_value", "boolean"}},
    {"d", otherwise, 2, {"default_value", "boolean"}},
    {"first", ends, 0, {NULL}},
    {"last", ends, 0, {NULL}},
    {"int", whole, 0, {NULL}},
    {"reverse", reverse, 0, {NULL}},
    {"items", items, 0, {NULL}},
    {"list", list, 0, {NULL}},
    {"join", join, 1, {"d"}},
    {"map", each, 4, {"attribute"}},
    {"select", each, 4, {NULL}},
    {"reject", each, 4, {NULL}},
    {"selectattr", each, 4, {NULL}},
    {"rejectattr", each, 4, {NULL}},
};

static size_t place(const char *name)
{
    size_t at = 0;
    while (at < sizeof table / sizeof *table && strcmp(name, table[at].name) != 0)
        at++;
    return at;
}

cadre_status cadre_filter_apply(struct cadre_evaluation *e, const char *name,
                                const json_t *value,
                                const struct cadre_arguments *arguments, int line,
                                json_t **out)
{
    const size_t at = place(name);
    char what[80];
    const struct call c = {e, name, value, arguments, line};
    snprintf(what, sizeof what, "the filter %.60s", name);
    *out = NULL;
    if (at == sizeof table / sizeof *table)
        return cadre_evaluation_unsupported(e, line, "the filter", name);
    CADRE_TRY(cadre_arguments_check(e, arguments, table[at].arguments, table[at].names,
                                    line, what));
    return table[at].apply(&c, out);
}
