/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of all options, as text and as JSON. */
#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/terminal.h"
#include "core/config/foreign.h"
#include "core/config/option_set.h"

enum { INDENT = 21 };

/* ---- which options ---- */

/* Equal in any case, with blanks as good as '_' and '-'? */
static bool is_alike(char a, char b)
{
    static const char between[] = " _-";
    return tolower((unsigned char)a) == tolower((unsigned char)b) ||
           (a && b && strchr(between, a) && strchr(between, b));
}

/* Is `part` in `text`? An empty one is. */
static bool is_in(const char *part, const char *text)
{
    const size_t n = strlen(part);
    for (; *text; text++) {
        size_t same = 0;
        while (same < n && is_alike(part[same], text[same]))
            same++;
        if (same == n)
            return true;
    }
    return n == 0;
}

static bool matches(const char *pattern, const char *text)
{
    return strpbrk(pattern, "*?[") ? fnmatch(pattern, text, FNM_CASEFOLD) == 0
                                   : is_in(pattern, text);
}

static bool is_shown(const struct option *o, const char *pattern)
{
    size_t n;
    const struct cadre_foreign *foreign = cadre_foreign_all(&n);
    if (!pattern || matches(pattern, o->name) || matches(pattern, o->decl.help))
        return true;
    pattern += strspn(pattern, "-");
    for (size_t i = 0; i < n; i++)
        if (strcmp(foreign[i].option, o->name) == 0 &&
            matches(pattern, foreign[i].name))
            return true;
    return false;
}

/* ---- text ---- */

/* "seq-length of Megatron-LM, block_size of nanoGPT"; nothing where nobody else has it.
 */
static void list_foreign(const struct option *o, struct cadre_text *out)
{
    size_t n;
    const struct cadre_foreign *foreign = cadre_foreign_all(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(foreign[i].option, o->name) == 0)
            cadre_text_printf(out, "%s%s%s%s", out->len ? ", " : "", foreign[i].name,
                              *foreign[i].of ? " of " : "", foreign[i].of);
}

static cadre_status print_option(const struct option *o,
                                 const struct cadre_options_view *view, FILE *file,
                                 struct cadre_error *err)
{
    const int columns = view->columns;
    struct cadre_text kind = {0}, out = {0}, elsewhere = {0};
    char first[64];
    cadre_option_describe(&o->decl, &kind);
    cadre_text_printf(&kind, "; default %s", o->decl.def[0] ? o->decl.def : "is empty");
    snprintf(first, sizeof first, "  %-18s ", o->decl.key);
    cadre_terminal_wrap(&out, first, INDENT, o->decl.help, columns);
    cadre_terminal_wrap(&out, "", INDENT, cadre_text_str(&kind), columns);
    if (view->pattern)
        list_foreign(o, &elsewhere);
    if (elsewhere.len)
        cadre_terminal_wrap(&out, "", INDENT, cadre_text_str(&elsewhere), columns);
    const bool complete = !kind.failed && !out.failed && !elsewhere.failed;
    if (complete)
        fputs(cadre_text_str(&out), file);
    cadre_text_fini(&kind);
    cadre_text_fini(&out);
    cadre_text_fini(&elsewhere);
    return complete ? CADRE_OK : cadre_no_memory(err, "the reference of %s", o->name);
}

/* Has an option before this one the same section? */
static bool section_was_before(const struct cadre_options *options, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(options->known[i].section, options->known[at].section) == 0)
            return true;
    return false;
}

cadre_status cadre_options_print_reference(const struct cadre_options *options,
                                           const struct cadre_options_view *view,
                                           FILE *file, size_t *shown,
                                           struct cadre_error *err)
{
    *shown = 0;
    for (size_t i = 0; i < options->known_n; i++) {
        const char *section = options->known[i].section;
        bool headed = false;
        for (size_t k = i; !section_was_before(options, i) && k < options->known_n;
             k++) {
            const struct option *o = &options->known[k];
            if (strcmp(o->section, section) != 0 || !is_shown(o, view->pattern))
                continue;
            if (!headed)
                fprintf(file, "%s[%s]\n", *shown ? "\n" : "", section);
            headed = true;
            ++*shown;
            CADRE_TRY(print_option(o, view, file, err));
        }
    }
    if (view->pattern)
        return CADRE_OK;
    struct cadre_text last = {0};
    cadre_terminal_wrap(&last, "  section.key        ", INDENT,
                        "another value of that option, for one run of a comparison",
                        view->columns);
    fprintf(file, "\n[run:NAME]\n%s", cadre_text_str(&last));
    const bool complete = !last.failed;
    cadre_text_fini(&last);
    return complete ? CADRE_OK : cadre_no_memory(err, "the reference of options");
}

/* ---- JSON ---- */

static void put_choices(struct cadre_json *json, const char *choices)
{
    cadre_json_begin_array(json);
    while (choices && *choices) {
        char one[64];
        const size_t n = strcspn(choices, ", ");
        snprintf(one, sizeof one, "%.*s", (int)n, choices);
        cadre_json_string(json, one);
        choices += n + strspn(choices + n, ", ");
    }
    cadre_json_end_array(json);
}

static void put_limits(struct cadre_json *json, const struct cadre_option *decl)
{
    const bool limited = decl->min != 0 || decl->max != 0;
    cadre_json_key(json, "min");
    if (limited)
        cadre_json_f64(json, decl->min);
    else
        cadre_json_null(json);
    cadre_json_key(json, "max");
    if (limited)
        cadre_json_f64(json, decl->max); /* null where there is none */
    else
        cadre_json_null(json);
}

static void put_foreign(struct cadre_json *json, const struct option *o)
{
    size_t n;
    const struct cadre_foreign *foreign = cadre_foreign_all(&n);
    cadre_json_key(json, "elsewhere");
    cadre_json_begin_array(json);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(foreign[i].option, o->name) != 0)
            continue;
        cadre_json_begin_object(json);
        cadre_json_put_string(json, "of", *foreign[i].of ? foreign[i].of : NULL);
        cadre_json_put_string(json, "name", foreign[i].name);
        cadre_json_end_object(json);
    }
    cadre_json_end_array(json);
}

static void put_option(struct cadre_json *json, const struct option *o)
{
    static const char *const types[] = {
        [CADRE_OPTION_BOOL] = "bool",   [CADRE_OPTION_I64] = "integer",
        [CADRE_OPTION_F64] = "number",  [CADRE_OPTION_BYTES] = "size",
        [CADRE_OPTION_ENUM] = "choice", [CADRE_OPTION_STR] = "text",
    };
    struct cadre_text expected = {0};
    const uint32_t type = o->decl.type;
    const bool known = type < sizeof types / sizeof types[0] && types[type];
    cadre_option_describe(&o->decl, &expected);
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "key", o->name);
    cadre_json_put_string(json, "type", known ? types[type] : "text");
    cadre_json_put_string(json, "expected", cadre_text_str(&expected));
    cadre_json_put_string(json, "default", o->decl.def);
    put_limits(json, &o->decl);
    cadre_json_key(json, "choices");
    if (type == CADRE_OPTION_ENUM)
        put_choices(json, o->decl.choices);
    else
        cadre_json_null(json);
    cadre_json_put_string(json, "help", o->decl.help);
    put_foreign(json, o);
    cadre_json_end_object(json);
    cadre_text_fini(&expected);
}

cadre_status cadre_options_print_json(const struct cadre_options *options,
                                      const struct cadre_options_view *view, FILE *file,
                                      struct cadre_error *err)
{
    struct cadre_json json;
    cadre_json_init(&json, file, true);
    cadre_json_begin_array(&json);
    for (size_t i = 0; i < options->known_n; i++)
        if (is_shown(&options->known[i], view->pattern))
            put_option(&json, &options->known[i]);
    cadre_json_end_array(&json);
    return cadre_json_finish(&json) == CADRE_OK
               ? CADRE_OK
               : cadre_fail(err, CADRE_E_IO, "cannot write the results to stdout");
}
