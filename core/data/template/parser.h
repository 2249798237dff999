/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens to a tree: the grammar of Jinja 3.1 as far as chat templates use it. What is
 * outside is refused by its name and line. */
#ifndef CADRE_DATA_TEMPLATE_PARSER_H
#define CADRE_DATA_TEMPLATE_PARSER_H

#include <stdbool.h>

#include "core/data/template/lexer.h"
#include "core/data/template/node.h"

struct cadre_parser {
    const struct cadre_token *at;
    struct cadre_node **nodes; /* the list of all */
    struct cadre_error *err;
    int depth; /* of calls, bounded as the tree is */
    int loops; /* around the statement, for break and continue */
};

/* The tree of all tokens: *root is a body, of the list *nodes, which the caller frees,
 * also after a failure. [any thread] Errors: CADRE_E_INVALID, CADRE_E_UNSUPPORTED,
 * CADRE_E_RESOURCE. */
cadre_status cadre_parser_run(const struct cadre_tokens *tokens,
                              struct cadre_node **nodes, struct cadre_node **root,
                              struct cadre_error *err);

/* ---- shared by the two files of the parser ---- */

/* An expression, with `a if b else c` where `choice` is set. */
cadre_status cadre_parser_expression(struct cadre_parser *p, bool choice,
                                     struct cadre_node **out);

/* As cadre_parser_expression; several with commas between them are a list. */
cadre_status cadre_parser_expressions(struct cadre_parser *p, bool choice,
                                      struct cadre_node **out);

/* Such a token is here; the text counts for names and operators. */
bool cadre_parser_sees(const struct cadre_parser *p, enum cadre_token_kind kind,
                       const char *text);
/* Pass such a token, if it is here. */
bool cadre_parser_takes(struct cadre_parser *p, enum cadre_token_kind kind,
                        const char *text);
cadre_status cadre_parser_expect(struct cadre_parser *p, enum cadre_token_kind kind,
                                 const char *text);
/* A name; the caller frees *out. */
cadre_status cadre_parser_name(struct cadre_parser *p, char **out);
cadre_status cadre_parser_make(struct cadre_parser *p, enum cadre_node_kind kind,
                               struct cadre_node **out);
/* "line N: expected WHAT, found the token here". */
cadre_status cadre_parser_refuse(struct cadre_parser *p, const char *what);
/* One deeper, or an error; whoever dives takes one off p->depth at its end. */
cadre_status cadre_parser_dive(struct cadre_parser *p);

#endif
