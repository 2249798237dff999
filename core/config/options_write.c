/* SPDX-License-Identifier: Apache-2.0 */
/* Options as text: config.ini. */
#include <errno.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/config/ini.h"
#include "core/config/option_set.h"

/* Who set what stands behind --set. */
static const char COMMAND_LINE[] = "command line";

/* A source in a comment: truncated, without anything that the reader would refuse. */
static void put_source(FILE *file, const char *source)
{
    size_t n = strnlen(source, 400);
    fputs(CADRE_INI_SOURCE_BEGIN, file);
    for (size_t i = 0; i < n;) {
        size_t step = cadre_utf8_char(source + i, n - i);
        unsigned char c = (unsigned char)source[i];
        if (step == 0 || c < 0x20 || c == 0x7f)
            fputc('?', file);
        else
            fwrite(source + i, 1, step, file);
        i += step > 0 ? step : 1;
    }
    fputs(CADRE_INI_SOURCE_END "\n", file);
}

static void put_value(FILE *file, const char *key, const char *value,
                      const char *source)
{
    int quote = cadre_ini_quote(value);
    put_source(file, source);
    if (quote > 0)
        fprintf(file, "%s = %c%s%c\n", key, quote, value, quote);
    else
        fprintf(file, "%s = %s\n", key, value);
}

/* Is it the default, or the default path as a run makes it absolute? */
static bool is_default(const char *value, const char *def)
{
    const size_t n = strlen(value), length = strlen(def);
    return strcmp(value, def) == 0 ||
           (*value == '/' && *def && n > length && value[n - length - 1] == '/' &&
            strcmp(value + n - length, def) == 0);
}

/* Who set it. A default of a config.ini that was read stays one, but not where somebody
 * wrote another value there, or where the default is another by now. */
static const char *source_of(const struct cadre_options *options, const char *name)
{
    const struct assignment *a = cadre_assignment_of(options, name);
    const struct option *o = cadre_option_find(options, name);
    if (a && a->by_default && (!o || is_default(a->value, o->decl.def)))
        return CADRE_INI_DEFAULT;
    return a ? a->source : CADRE_INI_DEFAULT;
}

/* The keys of one section that nobody declared, so only an allowed one is written. */
static void put_undeclared(const struct cadre_options *options, const char *section,
                           FILE *file)
{
    size_t n = strlen(section);
    for (size_t i = 0; i < options->set.n; i++) {
        const struct assignment *a = &options->set.items[i];
        bool ours = strncmp(a->name, section, n) == 0 && a->name[n] == '.';
        if (ours && !cadre_option_find(options, a->name))
            put_value(file, a->name + n + 1, a->value, source_of(options, a->name));
    }
}

/* Is this the first key of its section in the table? */
static bool is_first(const struct cadre_options *options, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(options->known[i].section, options->known[at].section) == 0)
            return false;
    return true;
}

/* run.extends means nothing outside of its file. */
static void put_section(const struct cadre_options *options, const char *section,
                        FILE *file)
{
    fprintf(file, "\n[%s]\n", section);
    for (size_t i = 0; i < options->known_n; i++) {
        const struct option *o = &options->known[i];
        if (strcmp(o->section, section) == 0 && strcmp(o->name, "run.extends") != 0)
            put_value(file, o->decl.key, cadre_options_raw(options, o->name),
                      source_of(options, o->name));
    }
    put_undeclared(options, section, file);
}

void cadre_options_each(const struct cadre_options *options,
                        void (*each)(void *arg, const char *section,
                                     const struct cadre_option *option,
                                     const char *value),
                        void *arg)
{
    for (size_t i = 0; i < options->known_n; i++) {
        const struct option *o = &options->known[i];
        each(arg, o->section, &o->decl, cadre_options_raw(options, o->name));
    }
}

/* Is this the first assignment of its section? */
static bool opens_section(const struct cadre_options *options, size_t at,
                          const char *section)
{
    size_t n = strlen(section);
    for (size_t i = 0; i < at; i++) {
        const char *name = options->set.items[i].name;
        if (strncmp(name, section, n) == 0 && name[n] == '.')
            return false;
    }
    return true;
}

/* Sections of instances that other runs of a comparison have: any = "ddp@". Of those
 * that a stack named before another one took its place, the file says nothing. */
static void put_instances(const struct cadre_options *options, const char *any,
                          FILE *file)
{
    char section[128];
    for (size_t i = 0; i < options->set.n; i++) {
        const char *name = options->set.items[i].name;
        snprintf(section, sizeof section, "%.*s", (int)strcspn(name, "."), name);
        if (strncmp(section, any, strlen(any)) == 0 &&
            !cadre_section_declared(options, section) &&
            cadre_instance_elsewhere(options, section, false) &&
            opens_section(options, i, section))
            put_section(options, section, file);
    }
}

static void put_allowed(const struct cadre_options *options, const char *section,
                        FILE *file)
{
    if (strchr(section, '@'))
        put_instances(options, section, file);
    else if (!cadre_section_declared(options, section))
        put_section(options, section, file);
}

void cadre_options_write_values(const struct cadre_options *options, FILE *file)
{
    for (size_t i = 0; i < options->known_n; i++)
        if (is_first(options, i))
            put_section(options, options->known[i].section, file);
    for (size_t i = 0; i < options->allowed.n; i++)
        put_allowed(options, options->allowed.items[i].name, file);
}

cadre_status cadre_options_write(const struct cadre_options *options, FILE *file,
                                 struct cadre_error *err)
{
    fputs(CADRE_OPTIONS_HEAD " Reading this file back gives the\n"
                             "# same run.\n",
          file);
    cadre_options_write_values(options, file);
    for (size_t i = 0; i < options->runs_n; i++) {
        const struct run *run = &options->runs[i];
        fprintf(file, "\n[run:%s]\n", run->name);
        for (size_t k = 0; k < run->set.n; k++)
            put_value(file, run->set.items[k].name, run->set.items[k].value,
                      run->set.items[k].source);
    }
    if (fflush(file) != 0 || ferror(file))
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write config.ini");
    return CADRE_OK;
}

/* ---- what was set ---- */

static bool is_by_hand(const struct assignment *a)
{
    return a && strcmp(a->source, COMMAND_LINE) == 0;
}

const char *cadre_options_idle(const struct cadre_options *options, size_t *at)
{
    while (options->runs_n == 0 && *at < options->set.n) {
        const struct assignment *a = &options->set.items[(*at)++];
        if (is_by_hand(a) && !cadre_option_find(options, a->name))
            return a->name;
    }
    return NULL;
}

/* The assignments of the section that the one at `at` opens. */
static void put_set(const struct cadre_options *options, size_t at, FILE *file)
{
    char section[128];
    const int n = snprintf(section, sizeof section, "%.*s",
                           (int)strcspn(options->set.items[at].name, "."),
                           options->set.items[at].name);
    if (!opens_section(options, at, section))
        return;
    fprintf(file, "\n[%s]\n", section);
    for (size_t i = at; i < options->set.n; i++) {
        const struct assignment *a = &options->set.items[i];
        if (strncmp(a->name, section, (size_t)n) == 0 && a->name[n] == '.' &&
            strcmp(a->name, "run.extends") != 0)
            put_value(file, a->name + n + 1, a->value, source_of(options, a->name));
    }
}

cadre_status cadre_options_write_set(const struct cadre_options *options, FILE *file,
                                     struct cadre_error *err)
{
    for (size_t i = 0; i < options->set.n; i++)
        put_set(options, i, file);
    for (size_t i = 0; i < options->runs_n; i++) {
        const struct run *run = &options->runs[i];
        fprintf(file, "\n[run:%s]\n", run->name);
        for (size_t k = 0; k < run->set.n; k++) {
            const struct assignment *a = &run->set.items[k];
            if (!is_by_hand(cadre_assignment_find(&options->set, a->name)))
                put_value(file, a->name, a->value, a->source);
        }
    }
    if (fflush(file) != 0 || ferror(file))
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write the options");
    return CADRE_OK;
}
