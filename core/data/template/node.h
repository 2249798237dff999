/* SPDX-License-Identifier: Apache-2.0 */
/* A template as a tree, made by the parser and walked by the evaluation. */
#ifndef CADRE_DATA_TEMPLATE_NODE_H
#define CADRE_DATA_TEMPLATE_NODE_H

#include <jansson.h>
#include <stddef.h>

#include "core/base/error.h"

/* No tree is deeper, so that walking it needs a bounded stack. */
enum { CADRE_NODE_DEPTH = 200 };

enum cadre_node_kind {
    /* statements */
    CADRE_NODE_BODY, /* children: statements */
    CADRE_NODE_TEXT, /* value: a string */
    CADRE_NODE_PRINT, /* [expression] */
    CADRE_NODE_IF, /* [condition, body]... and perhaps the body of else */
    CADRE_NODE_FOR, /* name, other: targets; [values, condition or NULL, body, else] */
    CADRE_NODE_SET, /* name, other: the attribute or NULL; [expression] */
    CADRE_NODE_SET_BODY, /* name; [body] */
    CADRE_NODE_MACRO, /* name; [body, then its parameters as KEYWORD] */
    CADRE_NODE_BREAK,
    CADRE_NODE_CONTINUE,
    CADRE_NODE_SCOPE, /* [body], which sets nothing outside */
    /* expressions */
    CADRE_NODE_CONSTANT, /* value */
    CADRE_NODE_NAME, /* name */
    CADRE_NODE_LIST, /* children: elements */
    CADRE_NODE_OBJECT, /* [key, value]... */
    CADRE_NODE_ATTRIBUTE, /* name; [of what] */
    CADRE_NODE_ITEM, /* [of what, key] */
    CADRE_NODE_SLICE, /* [of what, start, stop, step], the last three may be NULL */
    CADRE_NODE_CALL, /* [what, then arguments] */
    CADRE_NODE_FILTER, /* name; [of what, then arguments] */
    CADRE_NODE_TEST, /* name; [of what, then arguments] */
    CADRE_NODE_KEYWORD, /* name; [expression, or none where a parameter has no default]
                         */
    CADRE_NODE_NOT, /* [expression] */
    CADRE_NODE_NEGATIVE, /* [expression] */
    CADRE_NODE_AND, /* [left, right] */
    CADRE_NODE_OR, /* [left, right] */
    CADRE_NODE_ARITHMETIC, /* operator; [left, right] */
    CADRE_NODE_JOIN, /* children, with ~ between them */
    CADRE_NODE_COMPARE, /* [first, then operands] */
    CADRE_NODE_OPERAND, /* operator: of a comparison; [expression] */
    CADRE_NODE_CHOICE, /* [condition, then, else or NULL] */
};

enum cadre_operator {
    CADRE_OPERATOR_ADD,
    CADRE_OPERATOR_SUBTRACT,
    CADRE_OPERATOR_MULTIPLY,
    CADRE_OPERATOR_DIVIDE, /* rounding down: // */
    CADRE_OPERATOR_REMAINDER,
    CADRE_OPERATOR_EQUAL,
    CADRE_OPERATOR_UNEQUAL,
    CADRE_OPERATOR_LESS,
    CADRE_OPERATOR_LESS_EQUAL,
    CADRE_OPERATOR_GREATER,
    CADRE_OPERATOR_GREATER_EQUAL,
    CADRE_OPERATOR_IN,
    CADRE_OPERATOR_NOT_IN,
};

struct cadre_node {
    enum cadre_node_kind kind;
    enum cadre_operator operation;
    int line;
    int depth; /* of the tree below, 1 for a leaf */
    char *name, *other; /* owned; NULL where the kind has none */
    json_t *value; /* owned */
    struct cadre_node **child; /* (count), themselves owned by the list of all */
    size_t count, capacity;
    struct cadre_node *made_before;
};

/* A new node in the list *last of all nodes; NULL where there is no memory. */
struct cadre_node *cadre_node_make(struct cadre_node **last, enum cadre_node_kind kind,
                                   int line);

/* Add a child, which may be NULL. Errors: CADRE_E_RESOURCE; CADRE_E_UNSUPPORTED too
 * deep. */
cadre_status cadre_node_add(struct cadre_node *node, struct cadre_node *child,
                            struct cadre_error *err);

/* Free all nodes of a list; NULL is accepted. */
void cadre_node_free_all(struct cadre_node *last);

#endif
