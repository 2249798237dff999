/* SPDX-License-Identifier: Apache-2.0 */
/* Options as text: config.ini and the reference. */
#include <errno.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/config/ini.h"
#include "core/config/option_set.h"

/* A source in a comment: truncated, without anything that the reader would refuse. */
static void put_source(FILE *file, const char *source)
{
    size_t n = strnlen(source, 400);
    fputs("# (", file);
    for (size_t i = 0; i < n;) {
        size_t step = cadre_utf8_char(source + i, n - i);
        unsigned char c = (unsigned char)source[i];
        if (step == 0 || c < 0x20 || c == 0x7f)
            fputc('?', file);
        else
            fwrite(source + i, 1, step, file);
        i += step > 0 ? step : 1;
    }
    fputs(")\n", file);
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

/* The keys of one section that nobody declared, so only an allowed one is written. */
static void put_undeclared(const struct cadre_options *options, const char *section,
                           FILE *file)
{
    size_t n = strlen(section);
    for (size_t i = 0; i < options->set.n; i++) {
        const struct assignment *a = &options->set.items[i];
        bool ours = strncmp(a->name, section, n) == 0 && a->name[n] == '.';
        if (ours && !cadre_option_find(options, a->name))
            put_value(file, a->name + n + 1, a->value, a->source);
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
                      cadre_options_source(options, o->name));
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
    fputs(
        "# Every option of this run, and who set it. Reading this file back gives the\n"
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

static void print_option(const struct option *o, FILE *file)
{
    struct cadre_text kind = {0};
    cadre_option_describe(&o->decl, &kind);
    fprintf(file, "  %-18s %s\n", o->decl.key, o->decl.help);
    fprintf(file, "  %-18s %s; default %s\n", "", cadre_text_str(&kind),
            o->decl.def[0] ? o->decl.def : "is empty");
    cadre_text_fini(&kind);
}

void cadre_options_print_reference(const struct cadre_options *options, FILE *file)
{
    for (size_t i = 0; i < options->known_n; i++) {
        if (!is_first(options, i))
            continue;
        const char *section = options->known[i].section;
        fprintf(file, "%s[%s]\n", i > 0 ? "\n" : "", section);
        for (size_t k = i; k < options->known_n; k++)
            if (strcmp(options->known[k].section, section) == 0)
                print_option(&options->known[k], file);
    }
    fputs("\n[run:NAME]\n", file);
    fprintf(file, "  %-18s another value of that option, for one run of a comparison\n",
            "section.key");
}
