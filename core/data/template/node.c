/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/template/node.h"

#include <stdlib.h>

#include "core/base/memory.h"

struct cadre_node *cadre_node_make(struct cadre_node **last, enum cadre_node_kind kind,
                                   int line)
{
    struct cadre_node *node = cadre_calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->kind = kind;
    node->line = line;
    node->depth = 1;
    node->made_before = *last;
    *last = node;
    return node;
}

cadre_status cadre_node_add(struct cadre_node *node, struct cadre_node *child,
                            struct cadre_error *err)
{
    if (node->count == node->capacity) {
        const size_t capacity = 2 * node->capacity + 2;
        struct cadre_node **grown =
            cadre_realloc(node->child, capacity, sizeof(struct cadre_node *));
        if (!grown)
            return cadre_no_memory(err, "a template");
        node->child = grown;
        node->capacity = capacity;
    }
    node->child[node->count++] = child;
    if (child && child->depth >= node->depth)
        node->depth = child->depth + 1;
    if (node->depth > CADRE_NODE_DEPTH)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "line %d: more than %d levels of tags and expressions in "
                          "each other",
                          node->line, CADRE_NODE_DEPTH);
    return CADRE_OK;
}

void cadre_node_free_all(struct cadre_node *last)
{
    while (last) {
        struct cadre_node *before = last->made_before;
        free(last->name);
        free(last->other);
        json_decref(last->value);
        free(last->child);
        free(last);
        last = before;
    }
}
