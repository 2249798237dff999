/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/template/parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

static cadre_status body(struct cadre_parser *p, const char *const *ends,
                         struct cadre_node **out);

/* ---- tokens ---- */

bool cadre_parser_sees(const struct cadre_parser *p, enum cadre_token_kind kind,
                       const char *text)
{
    const bool named = kind == CADRE_TOKEN_NAME || kind == CADRE_TOKEN_OPERATOR;
    return p->at->kind == kind &&
           (!named || (p->at->size == strlen(text) &&
                       memcmp(p->at->text, text, p->at->size) == 0));
}

bool cadre_parser_takes(struct cadre_parser *p, enum cadre_token_kind kind,
                        const char *text)
{
    const bool sees = cadre_parser_sees(p, kind, text);
    p->at += sees;
    return sees;
}

cadre_status cadre_parser_refuse(struct cadre_parser *p, const char *what)
{
    static const char *const kinds[] = {[CADRE_TOKEN_PRINT] = "{{",
                                        [CADRE_TOKEN_PRINT_END] = "}}",
                                        [CADRE_TOKEN_BLOCK] = "{%",
                                        [CADRE_TOKEN_BLOCK_END] = "%}",
                                        [CADRE_TOKEN_END] = "the end of the template",
                                        [CADRE_TOKEN_TEXT] = "text"};
    const char *kind = kinds[p->at->kind];
    if (p->at->kind > CADRE_TOKEN_BLOCK_END && p->at->kind < CADRE_TOKEN_END)
        return cadre_fail(p->err, CADRE_E_INVALID, "line %d: expected %s, found '%.*s'",
                          p->at->line, what, (int)(p->at->size < 40 ? p->at->size : 40),
                          p->at->text);
    return cadre_fail(p->err, CADRE_E_INVALID, "line %d: expected %s, found %s",
                      p->at->line, what, kind);
}

cadre_status cadre_parser_expect(struct cadre_parser *p, enum cadre_token_kind kind,
                                 const char *text)
{
    char what[24];
    snprintf(what, sizeof what, "'%s'", text);
    return cadre_parser_takes(p, kind, text) ? CADRE_OK : cadre_parser_refuse(p, what);
}

cadre_status cadre_parser_name(struct cadre_parser *p, char **out)
{
    if (p->at->kind != CADRE_TOKEN_NAME)
        return cadre_parser_refuse(p, "a name");
    *out = cadre_strndup(p->at->text, p->at->size);
    p->at++;
    return *out ? CADRE_OK : cadre_no_memory(p->err, "a template");
}

cadre_status cadre_parser_make(struct cadre_parser *p, enum cadre_node_kind kind,
                               struct cadre_node **out)
{
    struct cadre_node *node = cadre_node_make(p->nodes, kind, p->at->line);
    if (!node)
        return cadre_no_memory(p->err, "a template");
    *out = node;
    return CADRE_OK;
}

cadre_status cadre_parser_dive(struct cadre_parser *p)
{
    if (++p->depth <= CADRE_NODE_DEPTH)
        return CADRE_OK;
    return cadre_fail(p->err, CADRE_E_UNSUPPORTED,
                      "line %d: more than %d levels of tags and expressions in each "
                      "other",
                      p->at->line, CADRE_NODE_DEPTH);
}

/* ---- statements ---- */

static cadre_status block_end(struct cadre_parser *p)
{
    return cadre_parser_expect(p, CADRE_TOKEN_BLOCK_END, "%}");
}

/* Pass `{% NAME %}`, whose begin has been passed. */
static cadre_status end_tag(struct cadre_parser *p, const char *name)
{
    CADRE_TRY(cadre_parser_expect(p, CADRE_TOKEN_NAME, name));
    return block_end(p);
}

static cadre_status add_body(struct cadre_parser *p, struct cadre_node *node,
                             const char *const *ends)
{
    struct cadre_node *part = NULL;
    CADRE_TRY(block_end(p));
    CADRE_TRY(body(p, ends, &part));
    return cadre_node_add(node, part, p->err);
}

static cadre_status add_expression(struct cadre_parser *p, struct cadre_node *node,
                                   bool several, bool choice)
{
    struct cadre_node *part = NULL;
    CADRE_TRY(several ? cadre_parser_expressions(p, choice, &part)
                      : cadre_parser_expression(p, choice, &part));
    return cadre_node_add(node, part, p->err);
}

static cadre_status if_block(struct cadre_parser *p, struct cadre_node **out)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    CADRE_TRY(cadre_parser_make(p, CADRE_NODE_IF, out));
    do {
        CADRE_TRY(add_expression(p, *out, true, true));
        CADRE_TRY(add_body(p, *out, ends));
    } while (cadre_parser_takes(p, CADRE_TOKEN_NAME, "elif"));
    if (cadre_parser_takes(p, CADRE_TOKEN_NAME, "else"))
        CADRE_TRY(add_body(p, *out, ends + 2));
    return end_tag(p, "endif");
}

static cadre_status unsupported(struct cadre_parser *p, const char *what)
{
    return cadre_fail(
        p->err, CADRE_E_UNSUPPORTED,
        "line %d: %s is not read here; see docs/fine-tuning.md for what is",
        p->at->line, what);
}

static cadre_status for_block(struct cadre_parser *p, struct cadre_node **out)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    CADRE_TRY(cadre_parser_make(p, CADRE_NODE_FOR, out));
    struct cadre_node *loop = *out;
    CADRE_TRY(cadre_parser_name(p, &loop->name));
    if (cadre_parser_takes(p, CADRE_TOKEN_OPERATOR, ","))
        CADRE_TRY(cadre_parser_name(p, &loop->other));
    CADRE_TRY(cadre_parser_expect(p, CADRE_TOKEN_NAME, "in"));
    CADRE_TRY(add_expression(p, loop, true, false));
    if (cadre_parser_takes(p, CADRE_TOKEN_NAME, "if"))
        CADRE_TRY(add_expression(p, loop, false, true));
    else
        CADRE_TRY(cadre_node_add(loop, NULL, p->err));
    if (cadre_parser_sees(p, CADRE_TOKEN_NAME, "recursive"))
        return unsupported(p, "a loop that is recursive");
    p->loops++;
    CADRE_TRY(add_body(p, loop, ends));
    p->loops--;
    if (cadre_parser_takes(p, CADRE_TOKEN_NAME, "else"))
        CADRE_TRY(add_body(p, loop, ends + 1));
    return end_tag(p, "endfor");
}

static cadre_status set_block(struct cadre_parser *p, struct cadre_node **out)
{
    static const char *const ends[] = {"endset", NULL};
    CADRE_TRY(cadre_parser_make(p, CADRE_NODE_SET, out));
    CADRE_TRY(cadre_parser_name(p, &(*out)->name));
    if (cadre_parser_takes(p, CADRE_TOKEN_OPERATOR, "."))
        CADRE_TRY(cadre_parser_name(p, &(*out)->other));
    if (cadre_parser_sees(p, CADRE_TOKEN_OPERATOR, ","))
        return unsupported(p, "set of several names at once");
    if (cadre_parser_takes(p, CADRE_TOKEN_OPERATOR, "=")) {
        CADRE_TRY(add_expression(p, *out, true, true));
        return block_end(p);
    }
    if (cadre_parser_sees(p, CADRE_TOKEN_OPERATOR, "|"))
        return unsupported(p, "set of a body with a filter");
    if ((*out)->other)
        return cadre_parser_refuse(p, "'='");
    (*out)->kind = CADRE_NODE_SET_BODY;
    CADRE_TRY(add_body(p, *out, ends));
    return end_tag(p, "endset");
}

static cadre_status parameter(struct cadre_parser *p, struct cadre_node *macro)
{
    struct cadre_node *one = NULL;
    CADRE_TRY(cadre_parser_make(p, CADRE_NODE_KEYWORD, &one));
    CADRE_TRY(cadre_parser_name(p, &one->name));
    if (cadre_parser_takes(p, CADRE_TOKEN_OPERATOR, "="))
        CADRE_TRY(add_expression(p, one, false, true));
    return cadre_node_add(macro, one, p->err);
}

static cadre_status macro_block(struct cadre_parser *p, struct cadre_node **out)
{
    static const char *const ends[] = {"endmacro", NULL};
    struct cadre_node *inside = NULL;
    const int loops = p->loops;
    CADRE_TRY(cadre_parser_make(p, CADRE_NODE_MACRO, out));
    CADRE_TRY(cadre_parser_name(p, &(*out)->name));
    CADRE_TRY(cadre_parser_expect(p, CADRE_TOKEN_OPERATOR, "("));
    CADRE_TRY(cadre_node_add(*out, NULL, p->err)); /* the body's place */
    while (!cadre_parser_takes(p, CADRE_TOKEN_OPERATOR, ")")) {
        if ((*out)->count > 1)
            CADRE_TRY(cadre_parser_expect(p, CADRE_TOKEN_OPERATOR, ","));
        CADRE_TRY(parameter(p, *out));
    }
    CADRE_TRY(block_end(p));
    p->loops = 0;
    CADRE_TRY(body(p, ends, &inside));
    p->loops = loops;
    CADRE_TRY(cadre_node_add(*out, inside, p->err)); /* for its depth */
    (*out)->child[0] = (*out)->child[--(*out)->count];
    return end_tag(p, "endmacro");
}

static cadre_status jump(struct cadre_parser *p, struct cadre_node **out)
{
    const bool breaks = cadre_parser_sees(p, CADRE_TOKEN_NAME, "break");
    if (p->loops == 0)
        return cadre_parser_refuse(p, "break and continue inside of a loop");
    p->at++;
    CADRE_TRY(
        cadre_parser_make(p, breaks ? CADRE_NODE_BREAK : CADRE_NODE_CONTINUE, out));
    return block_end(p);
}

/* {% generation %}, which transformers adds: it marks answers, and prints its body. */
static cadre_status generation(struct cadre_parser *p, struct cadre_node **out)
{
    static const char *const ends[] = {"endgeneration", NULL};
    const int loops = p->loops;
    CADRE_TRY(cadre_parser_make(p, CADRE_NODE_SCOPE, out));
    p->loops = 0;
    CADRE_TRY(add_body(p, *out, ends));
    p->loops = loops;
    return end_tag(p, "endgeneration");
}

static cadre_status block(struct cadre_parser *p, struct cadre_node **out)
{
    static const char *const others[] = {
        "raw",   "with", "filter", "call",  "include",    "import", "extends",
        "block", "from", "do",     "debug", "autoescape", "trans"};
    char what[40];
    if (cadre_parser_takes(p, CADRE_TOKEN_NAME, "if"))
        return if_block(p, out);
    if (cadre_parser_takes(p, CADRE_TOKEN_NAME, "for"))
        return for_block(p, out);
    if (cadre_parser_takes(p, CADRE_TOKEN_NAME, "set"))
        return set_block(p, out);
    if (cadre_parser_takes(p, CADRE_TOKEN_NAME, "macro"))
        return macro_block(p, out);
    if (cadre_parser_takes(p, CADRE_TOKEN_NAME, "generation"))
        return generation(p, out);
    if (cadre_parser_sees(p, CADRE_TOKEN_NAME, "break") ||
        cadre_parser_sees(p, CADRE_TOKEN_NAME, "continue"))
        return jump(p, out);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (cadre_parser_sees(p, CADRE_TOKEN_NAME, others[i])) {
            snprintf(what, sizeof what, "the block %s", others[i]);
            return unsupported(p, what);
        }
    return cadre_parser_refuse(p, "if, for, set, macro, or the end of what is open");
}

static bool sees_one(const struct cadre_parser *p, const char *const *ends)
{
    for (size_t i = 0; ends && ends[i]; i++)
        if (cadre_parser_sees(p, CADRE_TOKEN_NAME, ends[i]))
            return true;
    return false;
}

static cadre_status statement(struct cadre_parser *p, struct cadre_node **out)
{
    if (p->at->kind == CADRE_TOKEN_TEXT) {
        CADRE_TRY(cadre_parser_make(p, CADRE_NODE_TEXT, out));
        (*out)->value = json_stringn(p->at->text, p->at->size);
        p->at++;
        return (*out)->value ? CADRE_OK : cadre_no_memory(p->err, "a template");
    }
    if (cadre_parser_takes(p, CADRE_TOKEN_PRINT, NULL)) {
        CADRE_TRY(cadre_parser_make(p, CADRE_NODE_PRINT, out));
        CADRE_TRY(add_expression(p, *out, true, true));
        return cadre_parser_expect(p, CADRE_TOKEN_PRINT_END, "}}");
    }
    return block(p, out);
}

/* Statements up to `{% ` and one of `ends`, which is not passed; NULL: to the end. */
static cadre_status body(struct cadre_parser *p, const char *const *ends,
                         struct cadre_node **out)
{
    CADRE_TRY(cadre_parser_make(p, CADRE_NODE_BODY, out));
    CADRE_TRY(cadre_parser_dive(p));
    for (;;) {
        struct cadre_node *one = NULL;
        if (p->at->kind == CADRE_TOKEN_END && !ends)
            break;
        if (p->at->kind == CADRE_TOKEN_END)
            return cadre_fail(p->err, CADRE_E_INVALID,
                              "line %d: what begins here has no end", (*out)->line);
        const bool is_block = cadre_parser_takes(p, CADRE_TOKEN_BLOCK, NULL);
        if (is_block && sees_one(p, ends))
            break;
        CADRE_TRY(is_block ? block(p, &one) : statement(p, &one));
        CADRE_TRY(cadre_node_add(*out, one, p->err));
    }
    p->depth--;
    return CADRE_OK;
}

cadre_status cadre_parser_run(const struct cadre_tokens *tokens,
                              struct cadre_node **nodes, struct cadre_node **root,
                              struct cadre_error *err)
{
    struct cadre_parser p = {.at = tokens->token, .nodes = nodes, .err = err};
    return body(&p, NULL, root);
}
