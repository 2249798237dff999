/* SPDX-License-Identifier: Apache-2.0 */
/* A template's tree at work: names, steps that are left, and what has been printed.
 * Included by the files of this folder only. */
#ifndef CADRE_DATA_TEMPLATE_EVALUATION_H
#define CADRE_DATA_TEMPLATE_EVALUATION_H

#include <jansson.h>
#include <stdbool.h>
#include <time.h>

#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/data/template/node.h"

enum {
    CADRE_EVALUATION_ARGUMENTS = 8, /* of a call */
    CADRE_EVALUATION_CALLS = 16, /* macros in each other */
};

/* Whatever a template does, it ends: a step for each node that is walked, and for each
 * CADRE_EVALUATION_STEP_BYTES bytes of a text that is made. */
#define CADRE_EVALUATION_STEPS 2000000
#define CADRE_EVALUATION_STEP_BYTES 16

/* What a name stands for: a macro, a namespace, or else a value. */
struct cadre_binding {
    const char *name; /* borrowed, of a node or of the context */
    json_t *value; /* owned; of a namespace its object; NULL: not defined */
    const struct cadre_node *macro;
    bool is_namespace;
};

enum cadre_flow { CADRE_FLOW_ON, CADRE_FLOW_BREAK, CADRE_FLOW_CONTINUE };

struct cadre_evaluation {
    struct cadre_error *err;
    const time_t *now; /* NULL: strftime_now is not defined */
    int64_t steps; /* that are left */
    struct cadre_binding *binding; /* (count), owned; inner scopes last */
    size_t count, capacity;
    size_t scope; /* where the innermost scope begins */
    size_t globals; /* the outermost scope ends here, once there is another */
    size_t barrier; /* a macro sees what is above it, and the outermost scope */
    int scopes, calls;
    struct cadre_text *out;
    enum cadre_flow flow;
};

struct cadre_arguments {
    json_t *value[CADRE_EVALUATION_ARGUMENTS]; /* owned; NULL: not defined */
    const char *name[CADRE_EVALUATION_ARGUMENTS]; /* NULL: by place */
    size_t n;
};

/* ---- evaluate.c: statements ---- */

cadre_status cadre_evaluate_body(struct cadre_evaluation *e,
                                 const struct cadre_node *node);

/* What the macro prints, a new text. */
cadre_status cadre_evaluate_macro(struct cadre_evaluation *e,
                                  const struct cadre_node *macro,
                                  const struct cadre_arguments *arguments, int line,
                                  json_t **out);

/* ---- names.c ---- */

/* The binding that a name has here; NULL for none. Valid until the next bind. */
struct cadre_binding *cadre_names_find(const struct cadre_evaluation *e,
                                       const char *name);

/* Bind in the innermost scope; binding.value becomes the evaluation's, also after a
 * failure. */
cadre_status cadre_names_bind(struct cadre_evaluation *e,
                              const struct cadre_binding *binding);

struct cadre_scope {
    size_t scope, barrier;
};
struct cadre_scope cadre_names_open(struct cadre_evaluation *e, bool is_macro);
void cadre_names_close(struct cadre_evaluation *e, struct cadre_scope outer);
void cadre_names_fini(struct cadre_evaluation *e);

/* ---- evaluate_expression.c ---- */

/* *out: a new reference, NULL where it is not defined. */
cadre_status cadre_evaluation_value(struct cadre_evaluation *e,
                                    const struct cadre_node *node, json_t **out);

/* The children from `first` on as arguments; the caller frees, also after a failure. */
cadre_status cadre_evaluate_arguments(struct cadre_evaluation *e,
                                      const struct cadre_node *node, size_t first,
                                      struct cadre_arguments *out);
void cadre_arguments_fini(struct cadre_arguments *arguments);

/* The argument at a place, or by a name; borrowed, NULL where it is not given. */
const json_t *cadre_arguments_get(const struct cadre_arguments *arguments, size_t place,
                                  const char *name);

/* Refuse more than `most` arguments, and names that are not in the list, which ends
 * with NULL. `what` is for the error, as "the filter join". */
cadre_status cadre_arguments_check(struct cadre_evaluation *e,
                                   const struct cadre_arguments *arguments, size_t most,
                                   const char *const *names, int line,
                                   const char *what);

/* Count `n` steps. Errors: CADRE_E_UNSUPPORTED when there are no more. */
cadre_status cadre_evaluation_spend(struct cadre_evaluation *e, int64_t n, int line);

/* Count for a text of so many bytes. */
cadre_status cadre_evaluation_spend_text(struct cadre_evaluation *e, size_t bytes,
                                         int line);

/* Count a step for each part of a value, however deep. */
cadre_status cadre_evaluation_spend_value(struct cadre_evaluation *e,
                                          const json_t *value, int line);

/* *out = made, whose reference is given: no memory where it is NULL; too deep. */
cadre_status cadre_evaluation_give(struct cadre_evaluation *e, json_t *made, int line,
                                   json_t **out);

/* *out = the text, which is emptied. */
cadre_status cadre_evaluation_give_text(struct cadre_evaluation *e,
                                        struct cadre_text *text, int line,
                                        json_t **out);

/* Where a text is needed: "line N: WHAT: expected a text, found a list". */
cadre_status cadre_evaluation_need_text(struct cadre_evaluation *e, const json_t *value,
                                        int line, const char *what);

cadre_status cadre_evaluation_fail(struct cadre_evaluation *e, int line,
                                   const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
cadre_status cadre_evaluation_unsupported(struct cadre_evaluation *e, int line,
                                          const char *what, const char *name);

/* A list of what iterating gives: elements, keys, characters; of what is not defined,
 * none. A new reference. */
cadre_status cadre_evaluation_iterate(struct cadre_evaluation *e, const json_t *value,
                                      int line, json_t **out);

/* a in b */
cadre_status cadre_evaluation_contains(struct cadre_evaluation *e, const json_t *part,
                                       const json_t *whole, int line, bool *out);

/* of.name, or of['name']; a new reference, NULL where there is none. */
cadre_status cadre_evaluation_attribute(struct cadre_evaluation *e, const json_t *of,
                                        const char *name, int line, json_t **out);

/* ---- filters.c, methods.c, tests.c ---- */

cadre_status cadre_filter_apply(struct cadre_evaluation *e, const char *name,
                                const json_t *value,
                                const struct cadre_arguments *arguments, int line,
                                json_t **out);

cadre_status cadre_method_call(struct cadre_evaluation *e, const json_t *of,
                               const char *name,
                               const struct cadre_arguments *arguments, int line,
                               json_t **out);
/* Whether an object's attribute of this name would be its method in Python. */
bool cadre_method_of_object(const char *name);

cadre_status cadre_test_apply(struct cadre_evaluation *e, const char *name,
                              const json_t *value,
                              const struct cadre_arguments *arguments, int line,
                              bool *out);

/* The functions of transformers and Jinja: raise_exception, range, strftime_now. */
cadre_status cadre_function_call(struct cadre_evaluation *e, const char *name,
                                 const struct cadre_arguments *arguments, int line,
                                 json_t **out);
bool cadre_function_exists(const struct cadre_evaluation *e, const char *name);

/* ---- text_functions.c: what filters and methods do to texts ---- */

/* Without what is of `chars` (NULL: white space) at the ends, left and right as set. */
cadre_status cadre_template_trim(struct cadre_evaluation *e, const json_t *text,
                                 const json_t *chars, bool left, bool right, int line,
                                 json_t **out);
cadre_status cadre_template_replace(struct cadre_evaluation *e, const json_t *text,
                                    const json_t *from, const json_t *to, int64_t most,
                                    int line, json_t **out);
/* how: 'u' upper, 'l' lower, 'c' capitalize, 't' title as Jinja's filter */
cadre_status cadre_template_case(struct cadre_evaluation *e, const json_t *text,
                                 char how, int line, json_t **out);
cadre_status cadre_template_split(struct cadre_evaluation *e, const json_t *text,
                                  const json_t *by, int64_t most, int line,
                                  json_t **out);
cadre_status cadre_template_join(struct cadre_evaluation *e, const json_t *parts,
                                 const json_t *between, int line, json_t **out);

#endif
