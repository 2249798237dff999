/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/template/template.h"

#include <stdlib.h>

#include "core/data/template/evaluation.h"
#include "core/data/template/lexer.h"
#include "core/data/template/parser.h"

enum { SIZE_MAX_BYTES = 1 << 20 };

struct cadre_template {
    struct cadre_node *nodes; /* all, the last first */
    const struct cadre_node *root;
};

cadre_status cadre_template_open(const char *text, size_t size,
                                 struct cadre_template **out, struct cadre_error *err)
{
    struct cadre_tokens tokens = {0};
    struct cadre_node *root = NULL;
    if (size > SIZE_MAX_BYTES)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "the template has %zu bytes, expected at most %d", size,
                          SIZE_MAX_BYTES);
    struct cadre_template *made = calloc(1, sizeof *made);
    if (!made)
        return cadre_no_memory(err, "a template");
    cadre_status rc = cadre_tokens_init(text, size, &tokens, err);
    if (rc == CADRE_OK)
        rc = cadre_parser_run(&tokens, &made->nodes, &root, err);
    cadre_tokens_fini(&tokens);
    made->root = root;
    if (rc == CADRE_OK)
        *out = made;
    else
        cadre_template_close(made);
    return rc;
}

void cadre_template_close(struct cadre_template *template)
{
    if (!template)
        return;
    cadre_node_free_all(template->nodes);
    free(template);
}

cadre_status cadre_template_render(const struct cadre_template *template,
                                   json_t *context, const time_t *now,
                                   struct cadre_text *out, struct cadre_error *err)
{
    struct cadre_evaluation e = {
        .err = err, .now = now, .steps = CADRE_EVALUATION_STEPS, .out = out};
    cadre_status rc = CADRE_OK;
    const char *name;
    json_t *value;
    json_object_foreach(context, name, value)
    {
        const struct cadre_binding binding = {name, json_incref(value), NULL, false};
        if (rc == CADRE_OK)
            rc = cadre_names_bind(&e, &binding);
        else
            json_decref(value);
    }
    if (rc == CADRE_OK)
        rc = cadre_evaluate_body(&e, template->root);
    cadre_names_fini(&e);
    if (rc == CADRE_OK && out->failed)
        return cadre_no_memory(err, "a template's text");
    return rc;
}
