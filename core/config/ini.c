/* SPDX-License-Identifier: Apache-2.0 */
/* The pass over the text accepts less than iniparser does: exactly those lines whose
 * meaning a reader cannot mistake. What it accepts it then compares with iniparser's
 * own reading, so a difference between the two is an error and never a silent value. */
#include "core/config/ini.h"

#include <ctype.h>
#include <errno.h>
#include <iniparser/iniparser.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/base/utf8.h"

static const size_t FILE_BYTES = (size_t)1 << 20;
static const size_t ROOM_BYTES = (size_t)1 << 16; /* what iniparser begins with */

struct scan {
    struct cadre_ini *ini;
    const char *path;
    int line;
    bool by_default; /* what the line above says of this one */
    const char *section; /* borrowed from the entries' texts; NULL before the first */
    struct cadre_error *err;
};

__attribute__((format(printf, 2, 3))) static cadre_status refuse(struct scan *scan,
                                                                 const char *fmt, ...)
{
    char why[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return cadre_fail(scan->err, CADRE_E_INVALID, "%s:%d: %s", scan->path, scan->line,
                      why);
}

static cadre_status no_memory(struct cadre_error *err, const char *path)
{
    return cadre_fail(err, CADRE_E_RESOURCE, "out of memory reading '%s'", path);
}

/* Takes the four texts' bytes by copy; entries own theirs. */
static cadre_status add_entry(struct scan *scan, const char *section, const char *key,
                              const char *value)
{
    struct cadre_ini *ini = scan->ini;
    void *grown = cadre_realloc(ini->entries, ini->n + 1, sizeof *ini->entries);
    if (!grown)
        return no_memory(scan->err, scan->path);
    ini->entries = grown;
    struct cadre_ini_entry *e = &ini->entries[ini->n++];
    e->section = cadre_strdup(section);
    e->key = cadre_strdup(key);
    e->value = cadre_strdup(value);
    e->line = scan->line;
    e->by_default = scan->by_default;
    if (!e->section || (key && !e->key) || (value && !e->value))
        return no_memory(scan->err, scan->path);
    return CADRE_OK;
}

static void lower(char *text)
{
    for (; *text; text++)
        *text = (char)tolower((unsigned char)*text);
}

/* Letters, digits, _ . - + @ and, in sections, : */
static bool is_name(const char *text, bool section)
{
    if (*text == 0)
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("_.-+@", *text) &&
            !(section && *text == ':'))
            return false;
    return true;
}

bool cadre_ini_is_key(const char *text)
{
    return is_name(text, false);
}

/* Control bytes (a tab and the return of CR LF are blanks) and invalid UTF-8. */
static cadre_status check_bytes(struct scan *scan, const char *line, size_t n)
{
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)line[i];
        size_t step = cadre_utf8_char(line + i, n - i);
        bool line_end = c == '\r' && i + 1 == n;
        if ((c < 0x20 && c != '\t' && !line_end) || c == 0x7f)
            return refuse(
                scan,
                "control byte 0x%02x in column %zu, expected text: is this an "
                "ini file?",
                c, i + 1);
        if (step == 0)
            return refuse(
                scan, "byte 0x%02x in column %zu is not UTF-8: save the file as UTF-8",
                c, i + 1);
        i += step;
    }
    return CADRE_OK;
}

static cadre_status scan_section(struct scan *scan, char *line)
{
    char *end = strchr(line, ']');
    if (!end)
        return refuse(scan, "'%s' has no closing ], expected [section]", line);
    if (end[1] != 0)
        return refuse(
            scan,
            "'%s' after [section]: expected nothing else on this line, put it "
            "on its own",
            cadre_strip(end + 1));
    *end = 0;
    char *name = cadre_strip(line + 1);
    if (!is_name(name, true))
        return refuse(scan,
                      "[%s] is not a section name: expected letters, digits, _ . - @ "
                      "or run:NAME",
                      name);
    lower(name);
    cadre_status rc = add_entry(scan, name, NULL, NULL);
    if (rc == CADRE_OK)
        scan->section = scan->ini->entries[scan->ini->n - 1].section;
    return rc;
}

static cadre_status scan_quoted(struct scan *scan, const char *key, char **value)
{
    char *text = *value;
    char *end = strchr(text + 1, text[0]);
    if (!end)
        return refuse(scan, "%s: the quote %c is never closed: close it on this line",
                      key, text[0]);
    char *rest = cadre_strip(end + 1);
    if (*rest && *rest != ';' && *rest != '#')
        return refuse(scan,
                      "%s: '%s' after the closing quote would be lost: put all of the "
                      "value in the quotes, or use the other kind of quotes",
                      key, rest);
    *end = 0;
    *value = text + 1;
    return CADRE_OK;
}

static cadre_status scan_value(struct scan *scan, const char *key, char **value)
{
    char *text = *value;
    if (*text == '"' || *text == '\'')
        return scan_quoted(scan, key, value);
    size_t kept = strcspn(text, ";#");
    if (text[kept])
        return refuse(
            scan,
            "%s: an unquoted %c would truncate the value to '%.*s': put the value in "
            "double quotes, or the comment on a line of its own",
            key, text[kept], (int)kept, text);
    return CADRE_OK;
}

static cadre_status check_first_use(struct scan *scan, const char *key)
{
    const struct cadre_ini *ini = scan->ini;
    for (size_t i = 0; i < ini->n; i++) {
        const struct cadre_ini_entry *e = &ini->entries[i];
        if (e->key && strcmp(e->key, key) == 0 &&
            strcmp(e->section, scan->section) == 0)
            return refuse(
                scan, "%s in [%s] is set twice, first on line %d: remove one of them",
                key, scan->section, e->line);
    }
    return CADRE_OK;
}

static cadre_status scan_pair(struct scan *scan, char *line)
{
    char *equals = strchr(line, '=');
    char *colon = strchr(line, ':');
    if (!equals || (colon && colon < equals))
        return refuse(scan, "'%.60s' is not understood, expected key = value%s", line,
                      colon ? " (with =, not :)" : "");
    *equals = 0;
    char *key = cadre_strip(line);
    char *value = cadre_strip(equals + 1);
    if (!cadre_ini_is_key(key))
        return refuse(scan, "'%.60s' is not a key: expected letters, digits, _ . or -",
                      key);
    lower(key);
    if (!scan->section)
        return refuse(scan, "%s stands before any [section]: put it under its section",
                      key);
    CADRE_TRY(scan_value(scan, key, &value));
    if (strlen(value) > CADRE_INI_VALUE_BYTES)
        return refuse(scan,
                      "%s: the value has %zu bytes, expected at most %d: shorten it",
                      key, strlen(value), CADRE_INI_VALUE_BYTES);
    CADRE_TRY(check_first_use(scan, key));
    return add_entry(scan, scan->section, key, value);
}

/* `line` is n bytes and a zero, without its line break. */
static cadre_status scan_line(struct scan *scan, char *line, size_t n)
{
    if (n > CADRE_INI_LINE_BYTES)
        return refuse(scan, "the line has %zu bytes, expected at most %d: shorten it",
                      n, CADRE_INI_LINE_BYTES);
    CADRE_TRY(check_bytes(scan, line, n));
    char *text = cadre_strip(line);
    size_t len = strlen(text);
    if (len > 0 && text[len - 1] == '\\')
        return refuse(scan,
                      "the line ends in a backslash, which would join it with the next "
                      "one: write it on one line");
    cadre_status rc = CADRE_OK;
    if (text[0] == '[')
        rc = scan_section(scan, text);
    else if (len > 0 && text[0] != '#' && text[0] != ';')
        rc = scan_pair(scan, text);
    scan->by_default =
        strcmp(text, CADRE_INI_SOURCE_BEGIN CADRE_INI_DEFAULT CADRE_INI_SOURCE_END) ==
        0;
    return rc;
}

static cadre_status scan_text(struct scan *scan, char *text, size_t bytes)
{
    cadre_status rc = CADRE_OK;
    scan->line = 1;
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return refuse(scan, "the file starts with a byte-order mark: save it as UTF-8 "
                            "without one");
    for (size_t at = 0; at < bytes && rc == CADRE_OK; scan->line++) {
        char *end = memchr(text + at, '\n', bytes - at);
        size_t n = end ? (size_t)(end - text) - at : bytes - at;
        text[at + n] = 0;
        rc = scan_line(scan, text + at, n);
        at += n + 1;
    }
    return rc;
}

/* ---- iniparser's reading ---- */

static int silent(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int silent(const char *fmt, ...)
{
    (void)fmt;
    return 0;
}

/* To iniparser the section [run:exact] and the key exact of [run] are one name, of
 * which it keeps what stands last; our entries have both. */
static bool is_section(const struct cadre_ini *ini, const char *name)
{
    for (size_t i = 0; i < ini->n; i++)
        if (!ini->entries[i].key && strcmp(ini->entries[i].section, name) == 0)
            return true;
    return false;
}

/* The value that iniparser has for an entry must be ours. */
static cadre_status compare_value(const struct cadre_ini *ini,
                                  const struct cadre_ini_entry *e, const char *path,
                                  const dictionary *values, struct cadre_error *err)
{
    char *name = cadre_format("%s:%s", e->section, e->key);
    if (!name)
        return no_memory(err, path);
    const char *value = iniparser_getstring(values, name, NULL);
    const bool hidden = !value && is_section(ini, name);
    free(name);
    if (hidden || (value && strcmp(value, e->value) == 0))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s:%d: %s is ambiguous, '%.80s' or '%.80s': put the value "
                      "in double quotes",
                      path, e->line, e->key, e->value, value ? value : "nothing");
}

/* Without memory for an entry iniparser writes through a null pointer or leaves it out:
 * there is room first, as much as it can take. NULL with errno 0: it does not
 * understand the file. */
static dictionary *load(const char *path, size_t bytes)
{
    void *room = malloc(ROOM_BYTES + 8 * bytes);
    errno = ENOMEM;
    if (!room)
        return NULL;
    free(room);
    iniparser_set_error_callback(silent);
    errno = 0;
    dictionary *values = iniparser_load(path);
    const int why = errno;
    iniparser_set_error_callback(NULL);
    if (values && why) { /* it takes a failed read for the end of the file */
        iniparser_freedict(values);
        values = NULL;
    }
    errno = why;
    return values;
}

static cadre_status compare(const struct cadre_ini *ini, const char *path, size_t bytes,
                            struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    dictionary *values = load(path, bytes);
    if (!values && errno == ENOMEM)
        return no_memory(err, path);
    if (!values && errno)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read '%s'", path);
    if (!values)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is not an ini file: expected [section] and key = value "
                          "lines",
                          path);
    for (size_t i = 0; i < ini->n && rc == CADRE_OK; i++)
        if (ini->entries[i].key)
            rc = compare_value(ini, &ini->entries[i], path, values, err);
    iniparser_freedict(values);
    return rc;
}

cadre_status cadre_ini_load(struct cadre_ini *ini, const char *path,
                            struct cadre_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    struct scan scan = {.ini = ini, .path = path, .err = err};
    memset(ini, 0, sizeof *ini);
    cadre_status rc = cadre_path_read_file(path, FILE_BYTES, &text, &bytes, err);
    if (rc == CADRE_OK)
        rc = scan_text(&scan, text, bytes);
    if (rc == CADRE_OK)
        rc = compare(ini, path, bytes, err);
    free(text);
    if (rc != CADRE_OK)
        cadre_ini_fini(ini);
    return rc;
}

void cadre_ini_fini(struct cadre_ini *ini)
{
    for (size_t i = 0; i < ini->n; i++) {
        free(ini->entries[i].section);
        free(ini->entries[i].key);
        free(ini->entries[i].value);
    }
    free(ini->entries);
    memset(ini, 0, sizeof *ini);
}

int cadre_ini_quote(const char *value)
{
    size_t n = strlen(value);
    if (n > CADRE_INI_VALUE_BYTES)
        return -1;
    for (size_t i = 0; i < n;) {
        size_t step = cadre_utf8_char(value + i, n - i);
        unsigned char c = (unsigned char)value[i];
        if (step == 0 || (c < 0x20 && c != '\t') || c == 0x7f)
            return -1;
        i += step;
    }
    bool bare = n > 0 && !strpbrk(value, ";#") && value[0] != '"' && value[0] != '\'' &&
                value[n - 1] != '\\' && !isspace((unsigned char)value[0]) &&
                !isspace((unsigned char)value[n - 1]);
    if (bare)
        return 0;
    if (!strchr(value, '"'))
        return '"';
    return strchr(value, '\'') ? -1 : '\'';
}
