/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of a template. */
#include <string.h>

#include "core/data/template/evaluation.h"
#include "core/data/template/value.h"

/* ---- printing ---- */

static cadre_status put(struct cadre_evaluation *e, const json_t *value, int line)
{
    const size_t before = e->out->len;
    if (!cadre_value_print(value, e->out))
        return cadre_fail(e->err, CADRE_E_UNSUPPORTED,
                          "line %d: printing %s is not done here; the filter tojson "
                          "makes a text of it",
                          line, cadre_value_type(value));
    CADRE_TRY(cadre_evaluation_spend_text(e, e->out->len - before, line));
    return e->out->failed ? cadre_no_memory(e->err, "a template's text") : CADRE_OK;
}

static cadre_status print(struct cadre_evaluation *e, const struct cadre_node *node)
{
    json_t *value = NULL;
    CADRE_TRY(cadre_evaluation_value(e, node->child[0], &value));
    const cadre_status rc = put(e, value, node->line);
    json_decref(value);
    return rc;
}

/* What the body prints, a new text, in a scope of its own. */
static cadre_status capture(struct cadre_evaluation *e, const struct cadre_node *body,
                            int line, json_t **out)
{
    struct cadre_text text = {0}, *outer = e->out;
    e->out = &text;
    cadre_status rc = cadre_evaluate_body(e, body);
    e->out = outer;
    if (rc == CADRE_OK)
        return cadre_evaluation_give_text(e, &text, line, out);
    cadre_text_fini(&text);
    return rc;
}

/* ---- set, if ---- */

/* namespace(...) stands only where a name is set to it, so that no value holds one,
 * and none can hold itself. */
static bool is_namespace(const struct cadre_node *node)
{
    return node->kind == CADRE_NODE_CALL && node->child[0]->kind == CADRE_NODE_NAME &&
           strcmp(node->child[0]->name, "namespace") == 0;
}

static cadre_status make_namespace(struct cadre_evaluation *e,
                                   const struct cadre_node *call, json_t **out)
{
    struct cadre_arguments arguments = {.n = 0};
    cadre_status rc = cadre_evaluate_arguments(e, call, 1, &arguments);
    *out = rc == CADRE_OK ? json_object() : NULL;
    for (size_t i = 0; rc == CADRE_OK && i < arguments.n; i++) {
        if (!arguments.name[i])
            rc = cadre_evaluation_fail(e, call->line,
                                       "namespace: expected names and their values");
        else if (arguments.value[i] &&
                 json_object_set(*out, arguments.name[i], arguments.value[i]) != 0)
            rc = cadre_no_memory(e->err, "a namespace");
    }
    cadre_arguments_fini(&arguments);
    if (rc == CADRE_OK)
        return cadre_evaluation_give(e, *out, call->line, out);
    json_decref(*out);
    *out = NULL;
    return rc;
}

static cadre_status set_attribute(struct cadre_evaluation *e,
                                  const struct cadre_node *node, json_t *value)
{
    struct cadre_binding *binding = cadre_names_find(e, node->name);
    if (!binding || !binding->is_namespace)
        return cadre_evaluation_fail(e, node->line,
                                     "set %s.%s: %s is no namespace, and only the "
                                     "attributes of one can be set",
                                     node->name, node->other, node->name);
    if (!value)
        json_object_del(binding->value, node->other);
    else if (json_object_set(binding->value, node->other, value) != 0)
        return cadre_no_memory(e->err, "a namespace");
    return CADRE_OK;
}

static cadre_status set(struct cadre_evaluation *e, const struct cadre_node *node)
{
    const struct cadre_node *source = node->child[0];
    const bool space = node->kind == CADRE_NODE_SET && is_namespace(source);
    json_t *value = NULL;
    if (node->kind == CADRE_NODE_SET_BODY) {
        const struct cadre_scope outer = cadre_names_open(e, false);
        const cadre_status rc = capture(e, source, node->line, &value);
        cadre_names_close(e, outer);
        CADRE_TRY(rc);
    } else if (space && node->other) {
        return cadre_evaluation_unsupported(e, node->line, "a namespace in a namespace",
                                            NULL);
    } else {
        CADRE_TRY(space ? make_namespace(e, source, &value)
                        : cadre_evaluation_value(e, source, &value));
    }
    if (node->other) {
        const cadre_status rc = set_attribute(e, node, value);
        json_decref(value);
        return rc;
    }
    return cadre_names_bind(e, &(struct cadre_binding){node->name, value, NULL, space});
}

static cadre_status choose(struct cadre_evaluation *e, const struct cadre_node *node)
{
    for (size_t i = 0; i + 1 < node->count; i += 2) {
        json_t *value = NULL;
        CADRE_TRY(cadre_evaluation_value(e, node->child[i], &value));
        const bool yes = cadre_value_truth(value);
        json_decref(value);
        if (yes)
            return cadre_evaluate_body(e, node->child[i + 1]);
    }
    return node->count % 2 ? cadre_evaluate_body(e, node->child[node->count - 1])
                           : CADRE_OK;
}

/* ---- for ---- */

static cadre_status bind(struct cadre_evaluation *e, const char *name, json_t *value)
{
    return cadre_names_bind(e, &(struct cadre_binding){name, value, NULL, false});
}

/* Bind the target or the two of a loop to a value. */
static cadre_status bind_targets(struct cadre_evaluation *e,
                                 const struct cadre_node *node, json_t *value)
{
    if (!node->other)
        return bind(e, node->name, json_incref(value));
    if (!json_is_array(value) || json_array_size(value) != 2)
        return cadre_evaluation_fail(e, node->line,
                                     "for %s, %s: expected values of two parts, found "
                                     "%s of %zu",
                                     node->name, node->other, cadre_value_type(value),
                                     json_array_size(value));
    CADRE_TRY(bind(e, node->name, json_incref(json_array_get(value, 0))));
    return bind(e, node->other, json_incref(json_array_get(value, 1)));
}

/* The values for which the loop's condition holds. */
static cadre_status select_values(struct cadre_evaluation *e,
                                  const struct cadre_node *node, json_t **values)
{
    json_t *all = *values, *kept = json_array();
    cadre_status rc = kept ? CADRE_OK : cadre_no_memory(e->err, "a loop");
    for (size_t i = 0; rc == CADRE_OK && i < json_array_size(all); i++) {
        const struct cadre_scope outer = cadre_names_open(e, false);
        json_t *holds = NULL;
        rc = bind_targets(e, node, json_array_get(all, i));
        if (rc == CADRE_OK)
            rc = cadre_evaluation_value(e, node->child[1], &holds);
        cadre_names_close(e, outer);
        if (rc == CADRE_OK && cadre_value_truth(holds) &&
            json_array_append(kept, json_array_get(all, i)) != 0)
            rc = cadre_no_memory(e->err, "a loop");
        json_decref(holds);
    }
    json_decref(all);
    *values = kept;
    return rc;
}

static json_t *loop_object(const json_t *values, size_t i, size_t n)
{
    json_t *loop = json_pack(
        "{sI sI sI sI sI sb sb}", "index", (json_int_t)i + 1, "index0", (json_int_t)i,
        "length", (json_int_t)n, "revindex", (json_int_t)(n - i), "revindex0",
        (json_int_t)(n - i - 1), "first", i == 0, "last", i + 1 == n);
    int failed = 0;
    if (loop && i > 0)
        failed |= json_object_set(loop, "previtem", json_array_get(values, i - 1));
    if (loop && i + 1 < n)
        failed |= json_object_set(loop, "nextitem", json_array_get(values, i + 1));
    if (failed) {
        json_decref(loop);
        return NULL;
    }
    return loop;
}

static cadre_status pass(struct cadre_evaluation *e, const struct cadre_node *node,
                         const json_t *values, size_t i)
{
    CADRE_TRY(cadre_evaluation_spend(e, 8, node->line)); /* the parts of `loop` */
    json_t *loop = loop_object(values, i, json_array_size(values));
    if (!loop)
        return cadre_no_memory(e->err, "a loop");
    CADRE_TRY(bind(e, "loop", loop));
    CADRE_TRY(bind_targets(e, node, json_array_get(values, i)));
    return cadre_evaluate_body(e, node->child[2]);
}

static cadre_status loop(struct cadre_evaluation *e, const struct cadre_node *node)
{
    json_t *values = NULL, *source = NULL;
    CADRE_TRY(cadre_evaluation_value(e, node->child[0], &source));
    cadre_status rc = cadre_evaluation_iterate(e, source, node->line, &values);
    json_decref(source);
    if (rc == CADRE_OK && node->child[1])
        rc = select_values(e, node, &values);
    const size_t n = json_array_size(values);
    for (size_t i = 0; rc == CADRE_OK && i < n && e->flow != CADRE_FLOW_BREAK; i++) {
        const struct cadre_scope outer = cadre_names_open(e, false);
        e->flow = CADRE_FLOW_ON;
        rc = pass(e, node, values, i);
        cadre_names_close(e, outer);
    }
    e->flow = CADRE_FLOW_ON;
    json_decref(values);
    if (rc != CADRE_OK || n > 0 || node->count < 4)
        return rc;
    const struct cadre_scope outer = cadre_names_open(e, false);
    rc = cadre_evaluate_body(e, node->child[3]);
    cadre_names_close(e, outer);
    return rc;
}

/* ---- macros ---- */

static cadre_status bind_parameters(struct cadre_evaluation *e,
                                    const struct cadre_node *macro,
                                    const struct cadre_arguments *arguments)
{
    for (size_t i = 1; i < macro->count; i++) {
        const struct cadre_node *one = macro->child[i];
        bool given = i - 1 < arguments->n && !arguments->name[i - 1];
        for (size_t a = 0; a < arguments->n; a++)
            given |= arguments->name[a] && strcmp(arguments->name[a], one->name) == 0;
        json_t *value = NULL;
        if (given)
            value = json_incref(
                (json_t *)(uintptr_t)cadre_arguments_get(arguments, i - 1, one->name));
        else if (one->count > 0)
            CADRE_TRY(cadre_evaluation_value(e, one->child[0], &value));
        CADRE_TRY(bind(e, one->name, value));
    }
    return CADRE_OK;
}

static cadre_status check_arguments(struct cadre_evaluation *e,
                                    const struct cadre_node *macro,
                                    const struct cadre_arguments *arguments, int line)
{
    const char *names[CADRE_EVALUATION_ARGUMENTS + 1] = {NULL};
    char what[80];
    if (macro->count - 1 > CADRE_EVALUATION_ARGUMENTS)
        return cadre_evaluation_unsupported(
            e, line, "a macro with so many parameters:", macro->name);
    for (size_t i = 1; i < macro->count; i++)
        names[i - 1] = macro->child[i]->name;
    snprintf(what, sizeof what, "the macro %.60s", macro->name);
    return cadre_arguments_check(e, arguments, macro->count - 1, names, line, what);
}

cadre_status cadre_evaluate_macro(struct cadre_evaluation *e,
                                  const struct cadre_node *macro,
                                  const struct cadre_arguments *arguments, int line,
                                  json_t **out)
{
    CADRE_TRY(check_arguments(e, macro, arguments, line));
    if (e->calls == CADRE_EVALUATION_CALLS)
        return cadre_fail(e->err, CADRE_E_UNSUPPORTED,
                          "line %d: the macro %s: more than %d macros in each other",
                          line, macro->name, CADRE_EVALUATION_CALLS);
    const struct cadre_scope outer = cadre_names_open(e, true);
    e->calls++;
    cadre_status rc = bind_parameters(e, macro, arguments);
    if (rc == CADRE_OK)
        rc = capture(e, macro->child[0], line, out);
    e->calls--;
    cadre_names_close(e, outer);
    return rc;
}

/* ---- bodies ---- */

static cadre_status statement(struct cadre_evaluation *e, const struct cadre_node *node)
{
    switch (node->kind) {
    case CADRE_NODE_TEXT:
        return put(e, node->value, node->line);
    case CADRE_NODE_PRINT:
        return print(e, node);
    case CADRE_NODE_IF:
        return choose(e, node);
    case CADRE_NODE_FOR:
        return loop(e, node);
    case CADRE_NODE_SET:
    case CADRE_NODE_SET_BODY:
        return set(e, node);
    case CADRE_NODE_MACRO:
        return cadre_names_bind(e,
                                &(struct cadre_binding){node->name, NULL, node, false});
    case CADRE_NODE_BREAK:
        e->flow = CADRE_FLOW_BREAK;
        return CADRE_OK;
    case CADRE_NODE_CONTINUE:
        e->flow = CADRE_FLOW_CONTINUE;
        return CADRE_OK;
    default:
        break;
    }
    const struct cadre_scope outer = cadre_names_open(e, false);
    const cadre_status rc = cadre_evaluate_body(e, node->child[0]);
    cadre_names_close(e, outer);
    return rc;
}

cadre_status cadre_evaluate_body(struct cadre_evaluation *e,
                                 const struct cadre_node *node)
{
    for (size_t i = 0; i < node->count && e->flow == CADRE_FLOW_ON; i++) {
        CADRE_TRY(cadre_evaluation_spend(e, 1, node->child[i]->line));
        CADRE_TRY(statement(e, node->child[i]));
    }
    return CADRE_OK;
}
