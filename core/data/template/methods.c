/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of texts and objects, and the functions that a template may call. */
#include <string.h>
#include <time.h>

#include "core/data/template/characters.h"
#include "core/data/template/evaluation.h"
#include "core/data/template/value.h"

struct call {
    struct cadre_evaluation *e;
    const json_t *of;
    const struct cadre_arguments *arguments;
    int line;
};

static const json_t *argument(const struct call *c, size_t place)
{
    return cadre_arguments_get(c->arguments, place, NULL);
}

/* A whole number that may be given. */
static cadre_status number(const struct call *c, const json_t *value, int64_t otherwise,
                           int64_t *out)
{
    *out = otherwise;
    if (!value || cadre_value_integer(value, out))
        return CADRE_OK;
    return cadre_evaluation_fail(c->e, c->line, "expected a whole number, found %s",
                                 cadre_value_type(value));
}

/* ---- texts ---- */

static cadre_status starts(const struct call *c, bool at_end, json_t **out)
{
    const json_t *part = argument(c, 0);
    CADRE_TRY(cadre_evaluation_need_text(c->e, part, c->line, "startswith, endswith"));
    const size_t n = json_string_length(part), size = json_string_length(c->of);
    const char *from = json_string_value(c->of) + (at_end && n <= size ? size - n : 0);
    *out = json_boolean(n <= size && memcmp(from, json_string_value(part), n) == 0);
    return CADRE_OK;
}

static cadre_status find(const struct call *c, json_t **out)
{
    const json_t *part = argument(c, 0);
    CADRE_TRY(cadre_evaluation_need_text(c->e, part, c->line, "find"));
    const char *text = json_string_value(c->of);
    const size_t size = json_string_length(c->of), n = json_string_length(part);
    const size_t at = cadre_value_find(text, size, 0, json_string_value(part), n);
    const bool found = n == 0 || at < size;
    return cadre_evaluation_give(
        c->e, json_integer(found ? cadre_characters_count(text, at) : -1), c->line,
        out);
}

static cadre_status text_method(const struct call *c, const char *name, json_t **out)
{
    static const char *const trims[] = {"strip", "lstrip", "rstrip"};
    static const char *const cases[] = {"upper", "lower", "capitalize"};
    int64_t most;
    CADRE_TRY(cadre_evaluation_spend_text(c->e, json_string_length(c->of), c->line));
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, trims[i]) == 0)
            return cadre_template_trim(c->e, c->of, argument(c, 0), i != 2, i != 1,
                                       c->line, out);
        if (strcmp(name, cases[i]) == 0)
            return cadre_template_case(c->e, c->of, *name, c->line, out);
    }
    if (strcmp(name, "startswith") == 0 || strcmp(name, "endswith") == 0)
        return starts(c, *name == 'e', out);
    if (strcmp(name, "find") == 0)
        return find(c, out);
    if (strcmp(name, "join") == 0)
        return cadre_template_join(c->e, argument(c, 0), c->of, c->line, out);
    if (strcmp(name, "replace") == 0) {
        CADRE_TRY(number(c, argument(c, 2), -1, &most));
        return cadre_template_replace(c->e, c->of, argument(c, 0), argument(c, 1), most,
                                      c->line, out);
    }
    if (strcmp(name, "split") == 0) {
        CADRE_TRY(number(c, argument(c, 1), -1, &most));
        return cadre_template_split(c->e, c->of, argument(c, 0), most, c->line, out);
    }
    return cadre_evaluation_unsupported(c->e, c->line, "the method", name);
}

/* ---- objects ---- */

bool cadre_method_of_object(const char *name)
{
    static const char *const names[] = {"items",   "keys",     "values",    "get",
                                        "pop",     "update",   "copy",      "clear",
                                        "popitem", "fromkeys", "setdefault"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Lists of keys ('k'), values ('v') or both ('i'). */
static cadre_status entries(const struct call *c, char what, json_t **out)
{
    json_t *object = (json_t *)(uintptr_t)c->of; /* only read */
    json_t *list = json_array();
    CADRE_TRY(cadre_evaluation_spend(c->e, (int64_t)json_object_size(object), c->line));
    for (void *at = json_object_iter(object); list && at;
         at = json_object_iter_next(object, at)) {
        json_t *key =
            json_stringn(json_object_iter_key(at), json_object_iter_key_len(at));
        json_t *value = json_object_iter_value(at);
        json_t *one = what == 'k'   ? json_incref(key)
                      : what == 'v' ? json_incref(value)
                                    : json_pack("[OO]", key, value);
        json_decref(key);
        if (json_array_append_new(list, one) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return cadre_evaluation_give(c->e, list, c->line, out);
}

static cadre_status object_method(const struct call *c, const char *name, json_t **out)
{
    if (strcmp(name, "items") == 0 || strcmp(name, "keys") == 0 ||
        strcmp(name, "values") == 0) {
        if (c->arguments->n > 0)
            return cadre_evaluation_fail(c->e, c->line, "%s: expected no arguments",
                                         name);
        return entries(c, *name, out);
    }
    if (strcmp(name, "get") != 0)
        return cadre_evaluation_unsupported(c->e, c->line, "the method", name);
    CADRE_TRY(cadre_evaluation_need_text(c->e, argument(c, 0), c->line, "get"));
    const json_t *found = cadre_value_get(c->of, argument(c, 0));
    if (!found && c->arguments->n > 1)
        found = argument(c, 1);
    *out = found || c->arguments->n > 1 ? json_incref((json_t *)(uintptr_t)found)
                                        : json_null();
    return CADRE_OK;
}

cadre_status cadre_method_call(struct cadre_evaluation *e, const json_t *of,
                               const char *name,
                               const struct cadre_arguments *arguments, int line,
                               json_t **out)
{
    const struct call c = {e, of, arguments, line};
    char what[80];
    snprintf(what, sizeof what, "the method %.60s", name);
    *out = NULL;
    CADRE_TRY(cadre_arguments_check(e, arguments, 3, NULL, line, what));
    if (json_is_string(of))
        return text_method(&c, name, out);
    if (json_is_object(of))
        return object_method(&c, name, out);
    return cadre_fail(e->err, CADRE_E_UNSUPPORTED,
                      "line %d: the method %.60s of %s is not done here", line, name,
                      cadre_value_type(of));
}

/* ---- functions ---- */

static cadre_status raise(const struct call *c)
{
    const json_t *message = argument(c, 0);
    struct cadre_text text = {0};
    if (!cadre_value_print(message, &text))
        cadre_text_printf(&text, "%s", cadre_value_type(message));
    const cadre_status rc =
        cadre_fail(c->e->err, CADRE_E_INVALID, "line %d: the template says: %.400s",
                   c->line, cadre_text_str(&text));
    cadre_text_fini(&text);
    return rc;
}

static cadre_status range(const struct call *c, json_t **out)
{
    int64_t from = 0, to, step;
    const bool one = c->arguments->n < 2;
    if (c->arguments->n == 0)
        return cadre_evaluation_fail(c->e, c->line, "range: expected an argument");
    CADRE_TRY(number(c, argument(c, one ? 0 : 1), 0, &to));
    if (!one)
        CADRE_TRY(number(c, argument(c, 0), 0, &from));
    CADRE_TRY(number(c, argument(c, 2), 1, &step));
    const int64_t limit = 100000; /* the sandbox's MAX_RANGE */
    if (step == 0 || from < -limit || from > limit || to < -limit || to > limit)
        return cadre_evaluation_fail(c->e, c->line,
                                     "range: expected numbers up to %lld, and a step "
                                     "that is not 0",
                                     (long long)limit);
    step = step > 2 * limit ? 2 * limit + 1 : step < -2 * limit ? -2 * limit - 1 : step;
    json_t *list = json_array();
    for (int64_t i = from; list && (step > 0 ? i < to : i > to); i += step)
        if (json_array_append_new(list, json_integer(i)) != 0) {
            json_decref(list);
            list = NULL;
        }
    return cadre_evaluation_give(c->e, list, c->line, out);
}

static cadre_status date(const struct call *c, json_t **out)
{
    char text[256];
    struct tm local;
    CADRE_TRY(
        cadre_evaluation_need_text(c->e, argument(c, 0), c->line, "strftime_now"));
    localtime_r(c->e->now, &local);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the template's, to strftime */
    const size_t n =
        strftime(text, sizeof text, json_string_value(argument(c, 0)), &local);
#pragma GCC diagnostic pop
    return cadre_evaluation_give(c->e, json_stringn(text, n), c->line, out);
}

bool cadre_function_exists(const struct cadre_evaluation *e, const char *name)
{
    return strcmp(name, "raise_exception") == 0 || strcmp(name, "range") == 0 ||
           strcmp(name, "namespace") == 0 || strcmp(name, "dict") == 0 ||
           (e->now && strcmp(name, "strftime_now") == 0);
}

cadre_status cadre_function_call(struct cadre_evaluation *e, const char *name,
                                 const struct cadre_arguments *arguments, int line,
                                 json_t **out)
{
    const struct call c = {e, NULL, arguments, line};
    char what[80];
    snprintf(what, sizeof what, "the function %.60s", name);
    *out = NULL;
    if (strcmp(name, "namespace") == 0)
        return cadre_evaluation_unsupported(
            e, line, "namespace(), but where a name is set to it,", NULL);
    CADRE_TRY(cadre_arguments_check(e, arguments, 3, NULL, line, what));
    if (strcmp(name, "raise_exception") == 0)
        return raise(&c);
    if (strcmp(name, "range") == 0)
        return range(&c, out);
    if (strcmp(name, "strftime_now") == 0 && e->now)
        return date(&c, out);
    return cadre_evaluation_unsupported(e, line, "the function", name);
}
