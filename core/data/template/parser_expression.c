/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions, from what binds least to what binds most, in Jinja's order. */
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/data/template/parser.h"

static cadre_status unary(struct cadre_parser *p, bool filters,
                          struct cadre_node **out);
static cadre_status postfix(struct cadre_parser *p, struct cadre_node **out);
static cadre_status primary(struct cadre_parser *p, struct cadre_node **out);

static bool operator_is(const struct cadre_parser *p, const char *text)
{
    return cadre_parser_sees(p, CADRE_TOKEN_OPERATOR, text);
}

static bool takes_operator(struct cadre_parser *p, const char *text)
{
    return cadre_parser_takes(p, CADRE_TOKEN_OPERATOR, text);
}

static bool takes_word(struct cadre_parser *p, const char *text)
{
    return cadre_parser_takes(p, CADRE_TOKEN_NAME, text);
}

/* *out becomes the first child of a new node. */
static cadre_status wrap(struct cadre_parser *p, enum cadre_node_kind kind,
                         struct cadre_node **out)
{
    struct cadre_node *node = NULL;
    CADRE_TRY(cadre_parser_make(p, kind, &node));
    node->line = *out ? (*out)->line : p->at->line;
    CADRE_TRY(cadre_node_add(node, *out, p->err));
    *out = node;
    return CADRE_OK;
}

static cadre_status add(struct cadre_parser *p, struct cadre_node *node,
                        cadre_status (*parse)(struct cadre_parser *p,
                                              struct cadre_node **out))
{
    struct cadre_node *child = NULL;
    CADRE_TRY(parse(p, &child));
    return cadre_node_add(node, child, p->err);
}

static cadre_status constant(struct cadre_parser *p, json_t *value,
                             struct cadre_node **out)
{
    cadre_status rc = value ? cadre_parser_make(p, CADRE_NODE_CONSTANT, out)
                            : cadre_no_memory(p->err, "a template");
    if (rc == CADRE_OK)
        (*out)->value = value;
    else
        json_decref(value);
    return rc;
}

/* ---- what binds least ---- */

static cadre_status whole(struct cadre_parser *p, struct cadre_node **out)
{
    return cadre_parser_expression(p, true, out);
}

static cadre_status power(struct cadre_parser *p, struct cadre_node **out)
{
    CADRE_TRY(unary(p, true, out));
    if (operator_is(p, "**"))
        return cadre_fail(p->err, CADRE_E_UNSUPPORTED,
                          "line %d: the operator ** is not read here", p->at->line);
    return CADRE_OK;
}

struct binary {
    const char *text;
    enum cadre_operator operation;
};

/* Operators of one strength, from the left. */
static cadre_status binary(struct cadre_parser *p, const struct binary *table, size_t n,
                           cadre_status (*parse)(struct cadre_parser *p,
                                                 struct cadre_node **out),
                           struct cadre_node **out)
{
    CADRE_TRY(parse(p, out));
    for (size_t i = 0; i < n;) {
        if (!takes_operator(p, table[i].text)) {
            i++;
            continue;
        }
        CADRE_TRY(wrap(p, CADRE_NODE_ARITHMETIC, out));
        (*out)->operation = table[i].operation;
        CADRE_TRY(add(p, *out, parse));
        i = 0;
    }
    return CADRE_OK;
}

static cadre_status product(struct cadre_parser *p, struct cadre_node **out)
{
    static const struct binary table[] = {{"*", CADRE_OPERATOR_MULTIPLY},
                                          {"//", CADRE_OPERATOR_DIVIDE},
                                          {"%", CADRE_OPERATOR_REMAINDER}};
    CADRE_TRY(binary(p, table, 3, power, out));
    if (operator_is(p, "/"))
        return cadre_fail(p->err, CADRE_E_UNSUPPORTED,
                          "line %d: the operator / is not read here, // is",
                          p->at->line);
    return CADRE_OK;
}

static cadre_status joined(struct cadre_parser *p, struct cadre_node **out)
{
    CADRE_TRY(product(p, out));
    if (!operator_is(p, "~"))
        return CADRE_OK;
    CADRE_TRY(wrap(p, CADRE_NODE_JOIN, out));
    while (takes_operator(p, "~"))
        CADRE_TRY(add(p, *out, product));
    return CADRE_OK;
}

static cadre_status sum(struct cadre_parser *p, struct cadre_node **out)
{
    static const struct binary table[] = {{"+", CADRE_OPERATOR_ADD},
                                          {"-", CADRE_OPERATOR_SUBTRACT}};
    return binary(p, table, 2, joined, out);
}

static bool takes_comparison(struct cadre_parser *p, enum cadre_operator *operation)
{
    static const struct binary table[] = {
        {"==", CADRE_OPERATOR_EQUAL},         {"!=", CADRE_OPERATOR_UNEQUAL},
        {"<=", CADRE_OPERATOR_LESS_EQUAL},    {"<", CADRE_OPERATOR_LESS},
        {">=", CADRE_OPERATOR_GREATER_EQUAL}, {">", CADRE_OPERATOR_GREATER}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (takes_operator(p, table[i].text)) {
            *operation = table[i].operation;
            return true;
        }
    *operation = CADRE_OPERATOR_IN;
    if (takes_word(p, "in"))
        return true;
    *operation = CADRE_OPERATOR_NOT_IN;
    if (!cadre_parser_sees(p, CADRE_TOKEN_NAME, "not"))
        return false;
    p->at++; /* the last token is no name: there is one behind */
    if (takes_word(p, "in"))
        return true;
    p->at--;
    return false;
}

static cadre_status comparison(struct cadre_parser *p, struct cadre_node **out)
{
    enum cadre_operator operation;
    bool first = true;
    CADRE_TRY(sum(p, out));
    while (takes_comparison(p, &operation)) {
        struct cadre_node *operand = NULL;
        if (first)
            CADRE_TRY(wrap(p, CADRE_NODE_COMPARE, out));
        first = false;
        CADRE_TRY(cadre_parser_make(p, CADRE_NODE_OPERAND, &operand));
        operand->operation = operation;
        CADRE_TRY(add(p, operand, sum));
        CADRE_TRY(cadre_node_add(*out, operand, p->err));
    }
    return CADRE_OK;
}

static cadre_status negation(struct cadre_parser *p, struct cadre_node **out)
{
    if (!takes_word(p, "not"))
        return comparison(p, out);
    CADRE_TRY(cadre_parser_dive(p));
    CADRE_TRY(negation(p, out));
    p->depth--;
    return wrap(p, CADRE_NODE_NOT, out);
}

static cadre_status conjunction(struct cadre_parser *p, struct cadre_node **out)
{
    CADRE_TRY(negation(p, out));
    while (takes_word(p, "and")) {
        CADRE_TRY(wrap(p, CADRE_NODE_AND, out));
        CADRE_TRY(add(p, *out, negation));
    }
    return CADRE_OK;
}

static cadre_status disjunction(struct cadre_parser *p, struct cadre_node **out)
{
    CADRE_TRY(conjunction(p, out));
    while (takes_word(p, "or")) {
        CADRE_TRY(wrap(p, CADRE_NODE_OR, out));
        CADRE_TRY(add(p, *out, conjunction));
    }
    return CADRE_OK;
}

cadre_status cadre_parser_expression(struct cadre_parser *p, bool choice,
                                     struct cadre_node **out)
{
    struct cadre_node *then = NULL, *other = NULL;
    CADRE_TRY(cadre_parser_dive(p));
    CADRE_TRY(disjunction(p, out));
    while (choice && takes_word(p, "if")) {
        then = *out;
        CADRE_TRY(disjunction(p, out));
        CADRE_TRY(wrap(p, CADRE_NODE_CHOICE, out));
        CADRE_TRY(cadre_node_add(*out, then, p->err));
        other = NULL;
        if (takes_word(p, "else"))
            CADRE_TRY(whole(p, &other));
        CADRE_TRY(cadre_node_add(*out, other, p->err));
    }
    p->depth--;
    return CADRE_OK;
}

cadre_status cadre_parser_expressions(struct cadre_parser *p, bool choice,
                                      struct cadre_node **out)
{
    CADRE_TRY(cadre_parser_expression(p, choice, out));
    if (!operator_is(p, ","))
        return CADRE_OK;
    CADRE_TRY(wrap(p, CADRE_NODE_LIST, out));
    while (takes_operator(p, ",")) {
        struct cadre_node *one = NULL;
        if (operator_is(p, ")") || p->at->kind == CADRE_TOKEN_BLOCK_END ||
            p->at->kind == CADRE_TOKEN_PRINT_END)
            break;
        CADRE_TRY(cadre_parser_expression(p, choice, &one));
        CADRE_TRY(cadre_node_add(*out, one, p->err));
    }
    return CADRE_OK;
}

/* ---- what binds most ---- */

static cadre_status list(struct cadre_parser *p, struct cadre_node **out)
{
    CADRE_TRY(cadre_parser_make(p, CADRE_NODE_LIST, out));
    while (!takes_operator(p, "]")) {
        if ((*out)->count > 0)
            CADRE_TRY(cadre_parser_expect(p, CADRE_TOKEN_OPERATOR, ","));
        if (takes_operator(p, "]"))
            break;
        CADRE_TRY(add(p, *out, whole));
    }
    return CADRE_OK;
}

static cadre_status object(struct cadre_parser *p, struct cadre_node **out)
{
    CADRE_TRY(cadre_parser_make(p, CADRE_NODE_OBJECT, out));
    while (!takes_operator(p, "}")) {
        if ((*out)->count > 0)
            CADRE_TRY(cadre_parser_expect(p, CADRE_TOKEN_OPERATOR, ","));
        if (takes_operator(p, "}"))
            break;
        CADRE_TRY(add(p, *out, whole));
        CADRE_TRY(cadre_parser_expect(p, CADRE_TOKEN_OPERATOR, ":"));
        CADRE_TRY(add(p, *out, whole));
    }
    return CADRE_OK;
}

static cadre_status text(struct cadre_parser *p, struct cadre_node **out)
{
    struct cadre_text whole_text = {0};
    while (p->at->kind == CADRE_TOKEN_STRING) { /* neighbours are one */
        cadre_text_append(&whole_text, p->at->text, p->at->size);
        p->at++;
    }
    json_t *value = whole_text.failed
                        ? NULL
                        : json_stringn(cadre_text_str(&whole_text), whole_text.len);
    cadre_text_fini(&whole_text);
    return constant(p, value, out);
}

static cadre_status word(struct cadre_parser *p, struct cadre_node **out)
{
    static const char *const reserved[] = {"and", "or", "not", "in",
                                           "is",  "if", "else"};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (cadre_parser_sees(p, CADRE_TOKEN_NAME, reserved[i]))
            return cadre_parser_refuse(p, "an expression");
    if (takes_word(p, "true") || takes_word(p, "True"))
        return constant(p, json_true(), out);
    if (takes_word(p, "false") || takes_word(p, "False"))
        return constant(p, json_false(), out);
    if (takes_word(p, "none") || takes_word(p, "None"))
        return constant(p, json_null(), out);
    CADRE_TRY(cadre_parser_make(p, CADRE_NODE_NAME, out));
    return cadre_parser_name(p, &(*out)->name);
}

static cadre_status primary(struct cadre_parser *p, struct cadre_node **out)
{
    if (p->at->kind == CADRE_TOKEN_NAME)
        return word(p, out);
    if (p->at->kind == CADRE_TOKEN_STRING)
        return text(p, out);
    if (p->at->kind == CADRE_TOKEN_INTEGER)
        return constant(p, json_integer((p->at++)->value), out);
    if (takes_operator(p, "[")) /* depth: expressions inside dive */
        return list(p, out);
    if (takes_operator(p, "{"))
        return object(p, out);
    if (!takes_operator(p, "("))
        return cadre_parser_refuse(p, "an expression");
    if (takes_operator(p, ")"))
        return cadre_parser_make(p, CADRE_NODE_LIST, out);
    CADRE_TRY(cadre_parser_expressions(p, true, out));
    return cadre_parser_expect(p, CADRE_TOKEN_OPERATOR, ")");
}

/* Arguments, behind "(", become children. */
static cadre_status arguments(struct cadre_parser *p, struct cadre_node *node)
{
    for (bool first = true; !takes_operator(p, ")"); first = false) {
        struct cadre_node *keyword = NULL;
        if (!first)
            CADRE_TRY(cadre_parser_expect(p, CADRE_TOKEN_OPERATOR, ","));
        if (takes_operator(p, ")"))
            break;
        if (operator_is(p, "*") || operator_is(p, "**"))
            return cadre_fail(p->err, CADRE_E_UNSUPPORTED,
                              "line %d: arguments with * are not read here",
                              p->at->line);
        const bool named = p->at->kind == CADRE_TOKEN_NAME &&
                           p->at[1].kind == CADRE_TOKEN_OPERATOR &&
                           p->at[1].size == 1 && *p->at[1].text == '=';
        if (!named) {
            CADRE_TRY(add(p, node, whole));
            continue;
        }
        CADRE_TRY(cadre_parser_make(p, CADRE_NODE_KEYWORD, &keyword));
        CADRE_TRY(cadre_parser_name(p, &keyword->name));
        p->at++;
        CADRE_TRY(add(p, keyword, whole));
        CADRE_TRY(cadre_node_add(node, keyword, p->err));
    }
    return CADRE_OK;
}

/* Behind "[": a key, or start:stop:step. */
static cadre_status subscript(struct cadre_parser *p, struct cadre_node **out)
{
    struct cadre_node *part[4] = {NULL, NULL, NULL, NULL};
    int colons = 0;
    while (!takes_operator(p, "]")) {
        if (operator_is(p, ",") || (operator_is(p, ":") && colons == 2))
            return cadre_parser_refuse(p, "']'");
        if (takes_operator(p, ":"))
            colons++;
        else if (part[colons])
            return cadre_parser_refuse(p, "']'");
        else
            CADRE_TRY(whole(p, &part[colons]));
    }
    if (colons == 0 && !part[0])
        return cadre_parser_refuse(p, "a key before it");
    CADRE_TRY(wrap(p, colons > 0 ? CADRE_NODE_SLICE : CADRE_NODE_ITEM, out));
    for (int i = 0; i < (colons > 0 ? 3 : 1); i++)
        CADRE_TRY(cadre_node_add(*out, part[i], p->err));
    return CADRE_OK;
}

static cadre_status attribute(struct cadre_parser *p, struct cadre_node **out)
{
    struct cadre_node *key = NULL;
    if (p->at->kind != CADRE_TOKEN_INTEGER) {
        CADRE_TRY(wrap(p, CADRE_NODE_ATTRIBUTE, out));
        return cadre_parser_name(p, &(*out)->name);
    }
    CADRE_TRY(primary(p, &key));
    CADRE_TRY(wrap(p, CADRE_NODE_ITEM, out));
    return cadre_node_add(*out, key, p->err);
}

static cadre_status call(struct cadre_parser *p, struct cadre_node **out)
{
    CADRE_TRY(wrap(p, CADRE_NODE_CALL, out));
    return arguments(p, *out);
}

static cadre_status postfix(struct cadre_parser *p, struct cadre_node **out)
{
    for (;;) {
        if (takes_operator(p, "."))
            CADRE_TRY(attribute(p, out));
        else if (takes_operator(p, "["))
            CADRE_TRY(subscript(p, out));
        else if (takes_operator(p, "("))
            CADRE_TRY(call(p, out));
        else
            return CADRE_OK;
    }
}

/* Whether a test has an argument without brackets: `x is divisibleby 3`. */
static bool sees_argument(const struct cadre_parser *p)
{
    const bool ends = cadre_parser_sees(p, CADRE_TOKEN_NAME, "else") ||
                      cadre_parser_sees(p, CADRE_TOKEN_NAME, "or") ||
                      cadre_parser_sees(p, CADRE_TOKEN_NAME, "and") ||
                      cadre_parser_sees(p, CADRE_TOKEN_NAME, "is");
    return !ends &&
           (p->at->kind == CADRE_TOKEN_NAME || p->at->kind == CADRE_TOKEN_STRING ||
            p->at->kind == CADRE_TOKEN_INTEGER || operator_is(p, "[") ||
            operator_is(p, "{"));
}

static cadre_status test(struct cadre_parser *p, struct cadre_node **out)
{
    const bool negated = takes_word(p, "not");
    struct cadre_node *argument = NULL;
    CADRE_TRY(wrap(p, CADRE_NODE_TEST, out));
    CADRE_TRY(cadre_parser_name(p, &(*out)->name));
    if (takes_operator(p, "(")) {
        CADRE_TRY(arguments(p, *out));
    } else if (sees_argument(p)) {
        CADRE_TRY(primary(p, &argument));
        CADRE_TRY(postfix(p, &argument));
        CADRE_TRY(cadre_node_add(*out, argument, p->err));
    }
    return negated ? wrap(p, CADRE_NODE_NOT, out) : CADRE_OK;
}

static cadre_status filter(struct cadre_parser *p, struct cadre_node **out)
{
    CADRE_TRY(wrap(p, CADRE_NODE_FILTER, out));
    CADRE_TRY(cadre_parser_name(p, &(*out)->name));
    return takes_operator(p, "(") ? arguments(p, *out) : CADRE_OK;
}

static cadre_status unary(struct cadre_parser *p, bool filters, struct cadre_node **out)
{
    CADRE_TRY(cadre_parser_dive(p));
    if (takes_operator(p, "-")) {
        CADRE_TRY(unary(p, false, out));
        CADRE_TRY(wrap(p, CADRE_NODE_NEGATIVE, out));
    } else if (operator_is(p, "+")) {
        return cadre_parser_refuse(p, "an expression");
    } else {
        CADRE_TRY(primary(p, out));
    }
    CADRE_TRY(postfix(p, out));
    while (filters) {
        if (takes_operator(p, "|"))
            CADRE_TRY(filter(p, out));
        else if (takes_word(p, "is"))
            CADRE_TRY(test(p, out));
        else if (takes_operator(p, "("))
            CADRE_TRY(call(p, out));
        else
            break;
    }
    p->depth--;
    return CADRE_OK;
}
