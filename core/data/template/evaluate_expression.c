/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of a template. */
#include <string.h>

#include "core/data/template/evaluation.h"
#include "core/data/template/value.h"

/* ---- names and parts ---- */

static cadre_status undefined(struct cadre_evaluation *e, const struct cadre_node *node)
{
    return cadre_evaluation_fail(e, node->line, "%s%s is undefined, and is used",
                                 node->kind == CADRE_NODE_ATTRIBUTE ? "the attribute "
                                                                    : "",
                                 node->name ? node->name : "a value");
}

static cadre_status name(struct cadre_evaluation *e, const struct cadre_node *node,
                         json_t **out)
{
    const struct cadre_binding *binding = cadre_names_find(e, node->name);
    if (binding && (binding->is_namespace || binding->macro))
        return cadre_evaluation_unsupported(e, node->line,
                                            binding->macro ? "a macro as a value:"
                                                           : "a namespace as a value:",
                                            node->name);
    if (!binding && cadre_function_exists(e, node->name))
        return cadre_evaluation_unsupported(e, node->line,
                                            "a function as a value:", node->name);
    *out = binding ? json_incref(binding->value) : NULL;
    return CADRE_OK;
}

/* The object of a namespace that a node names; NULL for other nodes. */
static json_t *space_of(const struct cadre_evaluation *e, const struct cadre_node *node)
{
    const struct cadre_binding *binding =
        node->kind == CADRE_NODE_NAME ? cadre_names_find(e, node->name) : NULL;
    return binding && binding->is_namespace ? binding->value : NULL;
}

static cadre_status attribute(struct cadre_evaluation *e, const struct cadre_node *node,
                              json_t **out)
{
    const json_t *space = space_of(e, node->child[0]);
    json_t *of = NULL;
    if (space) {
        *out = json_incref(json_object_get(space, node->name));
        return CADRE_OK;
    }
    CADRE_TRY(cadre_evaluation_value(e, node->child[0], &of));
    const cadre_status rc =
        of ? cadre_evaluation_attribute(e, of, node->name, node->line, out)
           : undefined(e, node->child[0]);
    json_decref(of);
    return rc;
}

static cadre_status get(struct cadre_evaluation *e, const json_t *of, const json_t *key,
                        int line, json_t **out)
{
    int64_t index;
    if (json_is_object(of)) {
        *out = json_incref(cadre_value_get(of, key));
        return CADRE_OK;
    }
    if ((json_is_array(of) || json_is_string(of)) && cadre_value_integer(key, &index)) {
        *out = cadre_value_at(of, index);
        return CADRE_OK;
    }
    if (json_is_string(key)) {
        *out = NULL; /* as Jinja: no such key, no such attribute */
        return CADRE_OK;
    }
    return cadre_evaluation_fail(e, line, "%s has no element by %s",
                                 cadre_value_type(of), cadre_value_type(key));
}

static cadre_status item(struct cadre_evaluation *e, const struct cadre_node *node,
                         json_t **out)
{
    json_t *of = json_incref(space_of(e, node->child[0])), *key = NULL;
    cadre_status rc = of ? CADRE_OK : cadre_evaluation_value(e, node->child[0], &of);
    if (rc == CADRE_OK && !of)
        rc = undefined(e, node->child[0]);
    if (rc == CADRE_OK)
        rc = cadre_evaluation_value(e, node->child[1], &key);
    if (rc == CADRE_OK)
        rc = get(e, of, key, node->line, out);
    if (rc == CADRE_OK && json_is_string(of))
        rc = cadre_evaluation_spend_text(e, json_string_length(of), node->line);
    json_decref(key);
    json_decref(of);
    return rc;
}

/* *given: whether a bound of a slice is there. */
static cadre_status bound(struct cadre_evaluation *e, const struct cadre_node *node,
                          int64_t *out, bool *given)
{
    json_t *value = NULL;
    *given = node != NULL;
    if (!node)
        return CADRE_OK;
    CADRE_TRY(cadre_evaluation_value(e, node, &value));
    const bool whole = cadre_value_integer(value, out);
    *given = !json_is_null(value);
    const cadre_status rc =
        whole || !*given ? CADRE_OK
                         : cadre_evaluation_fail(e, node->line,
                                                 "a slice: expected whole numbers, "
                                                 "found %s",
                                                 cadre_value_type(value));
    json_decref(value);
    return rc;
}

static cadre_status slice(struct cadre_evaluation *e, const struct cadre_node *node,
                          json_t **out)
{
    int64_t at[3] = {0, 0, 1};
    bool given[3];
    json_t *of = NULL;
    for (int i = 0; i < 3; i++)
        CADRE_TRY(bound(e, node->child[i + 1], &at[i], &given[i]));
    if (given[2] && at[2] == 0)
        return cadre_evaluation_fail(e, node->line, "a slice: its step is 0");
    CADRE_TRY(cadre_evaluation_value(e, node->child[0], &of));
    cadre_status rc = CADRE_OK;
    if (!json_is_array(of) && !json_is_string(of))
        rc = cadre_evaluation_fail(e, node->line,
                                   "a slice of %s: expected a list or a text",
                                   cadre_value_type(of));
    if (rc == CADRE_OK)
        rc = cadre_evaluation_spend(
            e, (int64_t)(json_array_size(of) + json_string_length(of)), node->line);
    if (rc == CADRE_OK)
        rc = cadre_evaluation_give(e,
                                   cadre_value_slice(of, given[0] ? &at[0] : NULL,
                                                     given[1] ? &at[1] : NULL, at[2]),
                                   node->line, out);
    json_decref(of);
    return rc;
}

/* ---- lists and objects ---- */

static cadre_status list(struct cadre_evaluation *e, const struct cadre_node *node,
                         json_t **out)
{
    json_t *made = json_array();
    cadre_status rc = made ? CADRE_OK : cadre_no_memory(e->err, "a list");
    for (size_t i = 0; rc == CADRE_OK && i < node->count; i++) {
        json_t *one = NULL;
        rc = cadre_evaluation_value(e, node->child[i], &one);
        if (rc == CADRE_OK && !one)
            rc = undefined(e, node->child[i]);
        else if (rc == CADRE_OK && json_array_append_new(made, one) != 0)
            rc = cadre_no_memory(e->err, "a list");
    }
    if (rc == CADRE_OK)
        return cadre_evaluation_give(e, made, node->line, out);
    json_decref(made);
    return rc;
}

static cadre_status put(struct cadre_evaluation *e, json_t *object,
                        const struct cadre_node *node, size_t i)
{
    json_t *key = NULL, *value = NULL;
    cadre_status rc = cadre_evaluation_value(e, node->child[i], &key);
    if (rc == CADRE_OK)
        rc = cadre_evaluation_need_text(e, key, node->line, "the key of an object");
    if (rc == CADRE_OK)
        rc = cadre_evaluation_value(e, node->child[i + 1], &value);
    if (rc == CADRE_OK && !value)
        rc = undefined(e, node->child[i + 1]);
    if (rc == CADRE_OK && json_object_setn(object, json_string_value(key),
                                           json_string_length(key), value) != 0)
        rc = cadre_no_memory(e->err, "an object");
    json_decref(key);
    json_decref(value);
    return rc;
}

static cadre_status object(struct cadre_evaluation *e, const struct cadre_node *node,
                           json_t **out)
{
    json_t *made = json_object();
    cadre_status rc = made ? CADRE_OK : cadre_no_memory(e->err, "an object");
    for (size_t i = 0; rc == CADRE_OK && i < node->count; i += 2)
        rc = put(e, made, node, i);
    if (rc == CADRE_OK)
        return cadre_evaluation_give(e, made, node->line, out);
    json_decref(made);
    return rc;
}

/* ---- calls, filters, tests ---- */

static cadre_status method(struct cadre_evaluation *e, const struct cadre_node *callee,
                           const struct cadre_arguments *arguments, json_t **out)
{
    json_t *of = NULL;
    if (space_of(e, callee->child[0]))
        return cadre_evaluation_unsupported(e, callee->line, "a namespace's method",
                                            callee->name);
    CADRE_TRY(cadre_evaluation_value(e, callee->child[0], &of));
    const cadre_status rc =
        of ? cadre_method_call(e, of, callee->name, arguments, callee->line, out)
           : undefined(e, callee->child[0]);
    json_decref(of);
    return rc;
}

static cadre_status call(struct cadre_evaluation *e, const struct cadre_node *node,
                         json_t **out)
{
    const struct cadre_node *callee = node->child[0];
    struct cadre_arguments arguments = {.n = 0};
    const struct cadre_binding *binding =
        callee->kind == CADRE_NODE_NAME ? cadre_names_find(e, callee->name) : NULL;
    const struct cadre_node *macro = binding ? binding->macro : NULL;
    cadre_status rc = cadre_evaluate_arguments(e, node, 1, &arguments);
    if (rc != CADRE_OK)
        ;
    else if (macro)
        rc = cadre_evaluate_macro(e, macro, &arguments, node->line, out);
    else if (callee->kind == CADRE_NODE_ATTRIBUTE)
        rc = method(e, callee, &arguments, out);
    else if (callee->kind == CADRE_NODE_NAME && !binding)
        rc = cadre_function_call(e, callee->name, &arguments, node->line, out);
    else
        rc = cadre_evaluation_fail(e, node->line, "%s is called, but is no function",
                                   callee->name ? callee->name : "a value");
    cadre_arguments_fini(&arguments);
    return rc;
}

static cadre_status filter(struct cadre_evaluation *e, const struct cadre_node *node,
                           json_t **out)
{
    struct cadre_arguments arguments = {.n = 0};
    json_t *value = NULL;
    cadre_status rc = cadre_evaluation_value(e, node->child[0], &value);
    if (rc == CADRE_OK)
        rc = cadre_evaluate_arguments(e, node, 1, &arguments);
    if (rc == CADRE_OK)
        rc = cadre_filter_apply(e, node->name, value, &arguments, node->line, out);
    cadre_arguments_fini(&arguments);
    json_decref(value);
    return rc;
}

/* Whether a name that is no value is defined all the same. */
static bool is_callable(const struct cadre_evaluation *e, const struct cadre_node *node)
{
    if (node->kind != CADRE_NODE_NAME)
        return false;
    const struct cadre_binding *binding = cadre_names_find(e, node->name);
    return binding ? binding->is_namespace || binding->macro
                   : cadre_function_exists(e, node->name);
}

static cadre_status test(struct cadre_evaluation *e, const struct cadre_node *node,
                         json_t **out)
{
    struct cadre_arguments arguments = {.n = 0};
    json_t *value = NULL;
    bool holds = false;
    const bool asks =
        strcmp(node->name, "defined") == 0 || strcmp(node->name, "undefined") == 0;
    if (asks && is_callable(e, node->child[0])) {
        *out = json_boolean(*node->name == 'd');
        return CADRE_OK;
    }
    cadre_status rc = cadre_evaluation_value(e, node->child[0], &value);
    if (rc == CADRE_OK)
        rc = cadre_evaluate_arguments(e, node, 1, &arguments);
    if (rc == CADRE_OK)
        rc = cadre_test_apply(e, node->name, value, &arguments, node->line, &holds);
    cadre_arguments_fini(&arguments);
    json_decref(value);
    *out = json_boolean(holds);
    return rc;
}

/* ---- operators ---- */

static cadre_status not_for(struct cadre_evaluation *e, const struct cadre_node *node,
                            const json_t *a, const json_t *b)
{
    static const char *const signs[] = {
        "+", "-", "*", "//", "%", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    return cadre_evaluation_fail(e, node->line, "%s: not for %s and %s",
                                 signs[node->operation], cadre_value_type(a),
                                 cadre_value_type(b));
}

/* Python's // and %, which round down. False where there is no such number of 64 bits.
 */
static bool calculate(enum cadre_operator operation, int64_t a, int64_t b, int64_t *out)
{
    switch (operation) {
    case CADRE_OPERATOR_ADD:
        return !__builtin_add_overflow(a, b, out);
    case CADRE_OPERATOR_SUBTRACT:
        return !__builtin_sub_overflow(a, b, out);
    case CADRE_OPERATOR_MULTIPLY:
        return !__builtin_mul_overflow(a, b, out);
    default:
        break;
    }
    if (b == 0 || (a == INT64_MIN && b == -1))
        return false;
    const int64_t down = a % b != 0 && (a < 0) != (b < 0);
    *out = operation == CADRE_OPERATOR_DIVIDE ? a / b - down : a % b + down * b;
    return true;
}

static cadre_status concatenate(struct cadre_evaluation *e,
                                const struct cadre_node *node, const json_t *a,
                                const json_t *b, json_t **out)
{
    struct cadre_text text = {0};
    if (json_is_string(a)) {
        cadre_value_print(a, &text);
        cadre_value_print(b, &text);
        return cadre_evaluation_give_text(e, &text, node->line, out);
    }
    json_t *made = json_copy((json_t *)(uintptr_t)a);
    if (made && json_array_extend(made, (json_t *)(uintptr_t)b) != 0) {
        json_decref(made);
        made = NULL;
    }
    return cadre_evaluation_give(e, made, node->line, out);
}

static cadre_status apply(struct cadre_evaluation *e, const struct cadre_node *node,
                          const json_t *a, const json_t *b, json_t **out)
{
    int64_t left, right, result;
    const bool adds = node->operation == CADRE_OPERATOR_ADD;
    if (cadre_value_integer(a, &left) && cadre_value_integer(b, &right)) {
        if (calculate(node->operation, left, right, &result))
            return cadre_evaluation_give(e, json_integer(result), node->line, out);
        return cadre_evaluation_fail(e, node->line,
                                     "the result is no whole number of 64 bits");
    }
    if (adds && ((json_is_string(a) && json_is_string(b)) ||
                 (json_is_array(a) && json_is_array(b)))) {
        CADRE_TRY(cadre_evaluation_spend(
            e, (int64_t)(json_array_size(a) + json_array_size(b)), node->line));
        return concatenate(e, node, a, b, out);
    }
    return not_for(e, node, a, b);
}

static cadre_status arithmetic(struct cadre_evaluation *e,
                               const struct cadre_node *node, json_t **out)
{
    json_t *a = NULL, *b = NULL;
    cadre_status rc = cadre_evaluation_value(e, node->child[0], &a);
    if (rc == CADRE_OK && !a)
        rc = undefined(e, node->child[0]);
    if (rc == CADRE_OK)
        rc = cadre_evaluation_value(e, node->child[1], &b);
    if (rc == CADRE_OK && !b)
        rc = undefined(e, node->child[1]);
    if (rc == CADRE_OK)
        rc = apply(e, node, a, b, out);
    json_decref(a);
    json_decref(b);
    return rc;
}

static cadre_status join(struct cadre_evaluation *e, const struct cadre_node *node,
                         json_t **out)
{
    struct cadre_text text = {0};
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; rc == CADRE_OK && i < node->count; i++) {
        json_t *one = NULL;
        rc = cadre_evaluation_value(e, node->child[i], &one);
        if (rc == CADRE_OK && !cadre_value_print(one, &text))
            rc = cadre_fail(e->err, CADRE_E_UNSUPPORTED,
                            "line %d: ~ of %s is not done here; the filter tojson "
                            "makes a text of it",
                            node->line, cadre_value_type(one));
        json_decref(one);
    }
    if (rc == CADRE_OK)
        return cadre_evaluation_give_text(e, &text, node->line, out);
    cadre_text_fini(&text);
    return rc;
}

static cadre_status compare(struct cadre_evaluation *e,
                            const struct cadre_node *operand, const json_t *a,
                            const json_t *b, bool *holds)
{
    int order = 0;
    switch (operand->operation) {
    case CADRE_OPERATOR_EQUAL:
    case CADRE_OPERATOR_UNEQUAL:
        CADRE_TRY(cadre_evaluation_spend_text(e, json_string_length(a), operand->line));
        CADRE_TRY(cadre_evaluation_spend_value(e, a, operand->line));
        *holds =
            cadre_value_equal(a, b) == (operand->operation == CADRE_OPERATOR_EQUAL);
        return CADRE_OK;
    case CADRE_OPERATOR_IN:
    case CADRE_OPERATOR_NOT_IN:
        CADRE_TRY(cadre_evaluation_contains(e, a, b, operand->line, holds));
        *holds = *holds == (operand->operation == CADRE_OPERATOR_IN);
        return CADRE_OK;
    default:
        break;
    }
    if (!cadre_value_order(a, b, &order))
        return not_for(e, operand, a, b);
    *holds = operand->operation == CADRE_OPERATOR_LESS         ? order < 0
             : operand->operation == CADRE_OPERATOR_LESS_EQUAL ? order <= 0
             : operand->operation == CADRE_OPERATOR_GREATER    ? order > 0
                                                               : order >= 0;
    return CADRE_OK;
}

/* a < b < c is a < b and b < c. */
static cadre_status comparison(struct cadre_evaluation *e,
                               const struct cadre_node *node, json_t **out)
{
    json_t *a = NULL, *b = NULL;
    bool holds = true;
    cadre_status rc = cadre_evaluation_value(e, node->child[0], &a);
    for (size_t i = 1; rc == CADRE_OK && holds && i < node->count; i++) {
        rc = cadre_evaluation_value(e, node->child[i]->child[0], &b);
        if (rc == CADRE_OK)
            rc = compare(e, node->child[i], a, b, &holds);
        json_decref(a);
        a = b;
        b = NULL;
    }
    json_decref(a);
    *out = json_boolean(holds);
    return rc;
}

/* `and` and `or` give one of their values, as in Python. */
static cadre_status either(struct cadre_evaluation *e, const struct cadre_node *node,
                           json_t **out)
{
    json_t *left = NULL;
    CADRE_TRY(cadre_evaluation_value(e, node->child[0], &left));
    if (cadre_value_truth(left) == (node->kind == CADRE_NODE_OR)) {
        *out = left;
        return CADRE_OK;
    }
    json_decref(left);
    return cadre_evaluation_value(e, node->child[1], out);
}

static cadre_status choice(struct cadre_evaluation *e, const struct cadre_node *node,
                           json_t **out)
{
    json_t *holds = NULL;
    CADRE_TRY(cadre_evaluation_value(e, node->child[0], &holds));
    const struct cadre_node *then = node->child[cadre_value_truth(holds) ? 1 : 2];
    json_decref(holds);
    *out = NULL;
    return then ? cadre_evaluation_value(e, then, out) : CADRE_OK;
}

static cadre_status sign(struct cadre_evaluation *e, const struct cadre_node *node,
                         json_t **out)
{
    json_t *value = NULL;
    int64_t number = 0;
    CADRE_TRY(cadre_evaluation_value(e, node->child[0], &value));
    const bool negates = node->kind == CADRE_NODE_NEGATIVE;
    const bool yes = cadre_value_truth(value);
    const bool whole = cadre_value_integer(value, &number) && number != INT64_MIN;
    const char *type = cadre_value_type(value);
    json_decref(value);
    if (!negates) {
        *out = json_boolean(!yes);
        return CADRE_OK;
    }
    if (!whole)
        return cadre_evaluation_fail(e, node->line, "-: not for %s", type);
    return cadre_evaluation_give(e, json_integer(-number), node->line, out);
}

cadre_status cadre_evaluation_value(struct cadre_evaluation *e,
                                    const struct cadre_node *node, json_t **out)
{
    *out = NULL;
    CADRE_TRY(cadre_evaluation_spend(e, 1, node->line));
    switch (node->kind) {
    case CADRE_NODE_CONSTANT:
        *out = json_incref(node->value);
        return CADRE_OK;
    case CADRE_NODE_NAME:
        return name(e, node, out);
    case CADRE_NODE_ATTRIBUTE:
        return attribute(e, node, out);
    case CADRE_NODE_ITEM:
        return item(e, node, out);
    case CADRE_NODE_SLICE:
        return slice(e, node, out);
    case CADRE_NODE_LIST:
        return list(e, node, out);
    case CADRE_NODE_OBJECT:
        return object(e, node, out);
    case CADRE_NODE_CALL:
        return call(e, node, out);
    case CADRE_NODE_FILTER:
        return filter(e, node, out);
    case CADRE_NODE_TEST:
        return test(e, node, out);
    case CADRE_NODE_NOT:
    case CADRE_NODE_NEGATIVE:
        return sign(e, node, out);
    case CADRE_NODE_AND:
    case CADRE_NODE_OR:
        return either(e, node, out);
    case CADRE_NODE_ARITHMETIC:
        return arithmetic(e, node, out);
    case CADRE_NODE_JOIN:
        return join(e, node, out);
    case CADRE_NODE_COMPARE:
        return comparison(e, node, out);
    case CADRE_NODE_CHOICE:
        return choice(e, node, out);
    default:
        break;
    }
    return cadre_fail(e->err, CADRE_E_INTERNAL, "line %d: no expression", node->line);
}
