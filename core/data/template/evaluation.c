/* SPDX-License-Identifier: Apache-2.0 */
/* What statements and expressions share: steps, arguments, and values in general. */
#include "core/data/template/evaluation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/data/template/characters.h"
#include "core/data/template/value.h"

/* ---- errors and steps ---- */

cadre_status cadre_evaluation_fail(struct cadre_evaluation *e, int line,
                                   const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return cadre_fail(e->err, CADRE_E_INVALID, "line %d: %s", line, text);
}

cadre_status cadre_evaluation_unsupported(struct cadre_evaluation *e, int line,
                                          const char *what, const char *name)
{
    return cadre_fail(e->err, CADRE_E_UNSUPPORTED,
                      "line %d: %s %.60s is not done here; see docs/fine-tuning.md for "
                      "what is",
                      line, what, name ? name : "");
}

cadre_status cadre_evaluation_spend(struct cadre_evaluation *e, int64_t n, int line)
{
    e->steps -= n;
    if (e->steps >= 0)
        return CADRE_OK;
    return cadre_fail(e->err, CADRE_E_UNSUPPORTED,
                      "line %d: the template takes more than %d steps", line,
                      CADRE_EVALUATION_STEPS);
}

cadre_status cadre_evaluation_spend_text(struct cadre_evaluation *e, size_t bytes,
                                         int line)
{
    return cadre_evaluation_spend(e, (int64_t)(bytes / CADRE_EVALUATION_STEP_BYTES),
                                  line);
}

/* Whether a value is too deep; *left are the parts that may still be looked at. */
static bool too_deep(const json_t *value, int depth, int64_t *left)
{
    if (depth > CADRE_VALUE_DEPTH || --*left < 0)
        return true;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (too_deep(json_array_get(value, i), depth + 1, left))
            return true;
    json_t *object = (json_t *)(uintptr_t)value; /* only read */
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at))
        if (too_deep(json_object_iter_value(at), depth + 1, left))
            return true;
    return false;
}

cadre_status cadre_evaluation_spend_value(struct cadre_evaluation *e,
                                          const json_t *value, int line)
{
    if (!value || !too_deep(value, 1, &e->steps))
        return CADRE_OK;
    return cadre_fail(e->err, CADRE_E_UNSUPPORTED,
                      "line %d: a value of more than %d levels, or more parts than the "
                      "template has steps left",
                      line, CADRE_VALUE_DEPTH);
}

cadre_status cadre_evaluation_give(struct cadre_evaluation *e, json_t *made, int line,
                                   json_t **out)
{
    *out = NULL;
    if (!made)
        return cadre_no_memory(e->err, "a template's value");
    const cadre_status rc = json_is_array(made) || json_is_object(made)
                                ? cadre_evaluation_spend_value(e, made, line)
                                : CADRE_OK;
    if (rc == CADRE_OK)
        *out = made;
    else
        json_decref(made);
    return rc;
}

cadre_status cadre_evaluation_give_text(struct cadre_evaluation *e,
                                        struct cadre_text *text, int line, json_t **out)
{
    json_t *made = text->failed ? NULL : json_stringn(cadre_text_str(text), text->len);
    const size_t bytes = text->len;
    cadre_text_fini(text);
    *out = NULL;
    if (!made)
        return cadre_no_memory(e->err, "a template's text");
    const cadre_status rc = cadre_evaluation_spend_text(e, bytes, line);
    if (rc == CADRE_OK)
        *out = made;
    else
        json_decref(made);
    return rc;
}

cadre_status cadre_evaluation_need_text(struct cadre_evaluation *e, const json_t *value,
                                        int line, const char *what)
{
    if (!json_is_string(value))
        return cadre_evaluation_fail(e, line, "%s: expected a text, found %s", what,
                                     cadre_value_type(value));
    return cadre_evaluation_spend_text(e, json_string_length(value), line);
}

/* ---- arguments ---- */

cadre_status cadre_evaluate_arguments(struct cadre_evaluation *e,
                                      const struct cadre_node *node, size_t first,
                                      struct cadre_arguments *out)
{
    if (node->count - first > CADRE_EVALUATION_ARGUMENTS)
        return cadre_fail(e->err, CADRE_E_UNSUPPORTED,
                          "line %d: a call with more than %d arguments", node->line,
                          CADRE_EVALUATION_ARGUMENTS);
    for (size_t i = first; i < node->count; i++) {
        const struct cadre_node *child = node->child[i];
        const bool named = child->kind == CADRE_NODE_KEYWORD;
        if (!named && out->n > 0 && out->name[out->n - 1])
            return cadre_evaluation_fail(e, node->line,
                                         "an argument without a name behind one that "
                                         "has one");
        out->name[out->n] = named ? child->name : NULL;
        CADRE_TRY(cadre_evaluation_value(e, named ? child->child[0] : child,
                                         &out->value[out->n]));
        out->n++;
    }
    return CADRE_OK;
}

void cadre_arguments_fini(struct cadre_arguments *arguments)
{
    for (size_t i = 0; i < arguments->n; i++)
        json_decref(arguments->value[i]);
    arguments->n = 0;
}

const json_t *cadre_arguments_get(const struct cadre_arguments *arguments, size_t place,
                                  const char *name)
{
    if (place < arguments->n && !arguments->name[place])
        return arguments->value[place];
    for (size_t i = 0; name && i < arguments->n; i++)
        if (arguments->name[i] && strcmp(arguments->name[i], name) == 0)
            return arguments->value[i];
    return NULL;
}

cadre_status cadre_arguments_check(struct cadre_evaluation *e,
                                   const struct cadre_arguments *arguments, size_t most,
                                   const char *const *names, int line, const char *what)
{
    for (size_t i = 0; i < arguments->n; i++) {
        size_t at = 0;
        if (!arguments->name[i] && i < most)
            continue;
        if (!arguments->name[i])
            return cadre_evaluation_fail(e, line,
                                         "%s: expected at most %zu arguments here, "
                                         "found %zu",
                                         what, most, arguments->n);
        while (names && names[at] && strcmp(names[at], arguments->name[i]) != 0)
            at++;
        if (!names || !names[at])
            return cadre_fail(e->err, CADRE_E_UNSUPPORTED,
                              "line %d: %s: the argument %.60s is not read here", line,
                              what, arguments->name[i]);
        if (at < i && !arguments->name[at])
            return cadre_evaluation_fail(e, line, "%s: the argument %.60s comes twice",
                                         what, arguments->name[i]);
    }
    return CADRE_OK;
}

/* ---- values ---- */

static json_t *characters(const json_t *text)
{
    const char *bytes = json_string_value(text);
    const size_t size = json_string_length(text);
    json_t *made = json_array();
    for (size_t at = 0; made && at < size;) {
        const size_t n = cadre_characters_offset(bytes + at, size - at, 1);
        if (json_array_append_new(made, json_stringn(bytes + at, n)) != 0) {
            json_decref(made);
            return NULL;
        }
        at += n;
    }
    return made;
}

static json_t *keys(const json_t *value)
{
    json_t *object = (json_t *)(uintptr_t)value; /* only read */
    json_t *made = json_array();
    for (void *at = json_object_iter(object); made && at;
         at = json_object_iter_next(object, at))
        if (json_array_append_new(made, json_stringn(json_object_iter_key(at),
                                                     json_object_iter_key_len(at))) !=
            0) {
            json_decref(made);
            return NULL;
        }
    return made;
}

cadre_status cadre_evaluation_iterate(struct cadre_evaluation *e, const json_t *value,
                                      int line, json_t **out)
{
    *out = NULL;
    CADRE_TRY(cadre_evaluation_spend(
        e, (int64_t)(json_string_length(value) + json_object_size(value)), line));
    if (json_is_array(value))
        *out = json_incref((json_t *)(uintptr_t)value);
    else if (json_is_object(value))
        *out = keys(value);
    else if (json_is_string(value))
        *out = characters(value);
    else if (!value)
        *out = json_array();
    else
        return cadre_evaluation_fail(e, line, "%s has no elements to go through",
                                     cadre_value_type(value));
    return *out ? CADRE_OK : cadre_no_memory(e->err, "a template's value");
}

cadre_status cadre_evaluation_contains(struct cadre_evaluation *e, const json_t *part,
                                       const json_t *whole, int line, bool *out)
{
    *out = false;
    if (json_is_string(whole)) {
        CADRE_TRY(cadre_evaluation_need_text(e, part, line, "in"));
        CADRE_TRY(cadre_evaluation_spend_text(e, json_string_length(whole), line));
        const size_t size = json_string_length(whole);
        *out =
            json_string_length(part) == 0 ||
            cadre_value_find(json_string_value(whole), size, 0, json_string_value(part),
                             json_string_length(part)) < size;
        return CADRE_OK;
    }
    if (json_is_object(whole)) {
        *out = cadre_value_get(whole, part) != NULL;
        return CADRE_OK;
    }
    if (whole && !json_is_array(whole))
        return cadre_evaluation_fail(e, line,
                                     "in: expected a text, list or object "
                                     "behind it, found %s",
                                     cadre_value_type(whole));
    CADRE_TRY(cadre_evaluation_spend_value(e, whole, line));
    for (size_t i = 0; i < json_array_size(whole) && !*out; i++)
        *out = cadre_value_equal(part, json_array_get(whole, i));
    return CADRE_OK;
}

cadre_status cadre_evaluation_attribute(struct cadre_evaluation *e, const json_t *of,
                                        const char *name, int line, json_t **out)
{
    *out = NULL;
    if (json_is_object(of) && cadre_method_of_object(name))
        return cadre_evaluation_unsupported(
            e, line,
            "an attribute that has the name of a method, without a call:", name);
    if (json_is_object(of))
        *out = json_incref(json_object_get(of, name));
    return CADRE_OK;
}
