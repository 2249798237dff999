/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of a template: what may stand behind `is`. */
#include <string.h>

#include "core/data/template/characters.h"
#include "core/data/template/evaluation.h"
#include "core/data/template/value.h"

enum kind {
    DEFINED,
    UNDEFINED,
    NONE,
    STRING,
    NUMBER,
    INTEGER,
    BOOLEAN,
    TRUE,
    FALSE,
    MAPPING,
    SEQUENCE,
    ITERABLE,
    ODD,
    EVEN,
    DIVISIBLE,
    EQUAL,
    UNEQUAL,
    IN,
};

static const struct {
    const char *name;
    enum kind kind;
    size_t arguments;
} table[] = {
    {"defined", DEFINED, 0},
    {"undefined", UNDEFINED, 0},
    {"none", NONE, 0},
    {"string", STRING, 0},
    {"number", NUMBER, 0},
    {"integer", INTEGER, 0},
    {"boolean", BOOLEAN, 0},
    {"true", TRUE, 0},
    {"false", FALSE, 0},
    {"mapping", MAPPING, 0},
    {"sequence", SEQUENCE, 0},
    {"iterable", ITERABLE, 0},
    {"odd", ODD, 0},
    {"even", EVEN, 0},
    {"divisibleby", DIVISIBLE, 1},
    {"equalto", EQUAL, 1},
    {"eq", EQUAL, 1},
    {"ne", UNEQUAL, 1},
    {"in", IN, 1},
};

static const size_t count = sizeof table / sizeof *table;

static bool holds(enum kind kind, const json_t *value)
{
    const bool parts = json_is_array(value) || json_is_object(value) ||
                       json_is_string(value) || !value;
    switch (kind) {
    case DEFINED:
        return value != NULL;
    case UNDEFINED:
        return value == NULL;
    case NONE:
        return json_is_null(value);
    case STRING:
        return json_is_string(value);
    case NUMBER:
        return json_is_number(value) || json_is_boolean(value);
    case INTEGER:
        return json_is_integer(value);
    case BOOLEAN:
        return json_is_boolean(value);
    case TRUE:
        return json_is_true(value);
    case FALSE:
        return json_is_false(value);
    case MAPPING:
        return json_is_object(value);
    default:
        return parts; /* SEQUENCE, ITERABLE */
    }
}

/* Whether a number leaves `rest` by `by`. */
static cadre_status divides(struct cadre_evaluation *e, const char *name,
                            const json_t *value, int64_t by, int64_t rest, int line,
                            bool *out)
{
    int64_t number;
    if (!cadre_value_integer(value, &number) || by == 0)
        return cadre_evaluation_fail(e, line, "the test %s: not of %s", name,
                                     cadre_value_type(value));
    *out = (by == -1 ? 0 : number % by) == (number < 0 ? -rest : rest);
    return CADRE_OK;
}

cadre_status cadre_test_apply(struct cadre_evaluation *e, const char *name,
                              const json_t *value,
                              const struct cadre_arguments *arguments, int line,
                              bool *out)
{
    size_t at = 0;
    int64_t by = 2;
    char what[80];
    snprintf(what, sizeof what, "the test %.60s", name);
    while (at < count && strcmp(name, table[at].name) != 0)
        at++;
    if (at == count)
        return cadre_evaluation_unsupported(e, line, "the test", name);
    CADRE_TRY(
        cadre_arguments_check(e, arguments, table[at].arguments, NULL, line, what));
    if (arguments->n < table[at].arguments)
        return cadre_evaluation_fail(e, line, "%s: expected an argument", what);
    const json_t *given = cadre_arguments_get(arguments, 0, NULL);
    if (table[at].kind == EQUAL || table[at].kind == UNEQUAL)
        CADRE_TRY(cadre_evaluation_spend_value(e, value, line));
    switch (table[at].kind) {
    case DIVISIBLE:
        if (!cadre_value_integer(given, &by))
            by = 0;
        return divides(e, name, value, by, 0, line, out);
    case ODD:
        return divides(e, name, value, 2, 1, line, out);
    case EVEN:
        return divides(e, name, value, 2, 0, line, out);
    case EQUAL:
        *out = cadre_value_equal(value, given);
        return CADRE_OK;
    case UNEQUAL:
        *out = !cadre_value_equal(value, given);
        return CADRE_OK;
    case IN:
        return cadre_evaluation_contains(e, value, given, line, out);
    default:
        *out = holds(table[at].kind, value);
        return CADRE_OK;
    }
}
