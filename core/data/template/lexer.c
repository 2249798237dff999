/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/template/lexer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/utf8.h"
#include "core/data/template/characters.h"

enum { DEPTH_MAX = 128 };

struct lexer {
    struct cadre_tokens *out;
    struct cadre_error *err;
    const char *source;
    size_t size, at;
    size_t counted; /* lines are counted up to here */
    int line;
    bool line_starts; /* the tag before ended with a line break */
    char open[DEPTH_MAX]; /* the brackets that wait for their end */
    int depth;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int line_at(struct lexer *lex, size_t at)
{
    for (; lex->counted < at; lex->counted++)
        lex->line += lex->source[lex->counted] == '\n';
    return lex->line;
}

static bool sees(const struct lexer *lex, const char *text)
{
    const size_t n = strlen(text);
    return lex->size - lex->at >= n && memcmp(lex->source + lex->at, text, n) == 0;
}

static cadre_status push(struct lexer *lex, enum cadre_token_kind kind, size_t from,
                         size_t to)
{
    struct cadre_tokens *out = lex->out;
    if (out->count == out->capacity) {
        const size_t capacity = 2 * out->capacity + 64;
        struct cadre_token *grown =
            cadre_realloc(out->token, capacity, sizeof *out->token);
        if (!grown)
            return cadre_no_memory(lex->err, "a template");
        out->token = grown;
        out->capacity = capacity;
    }
    out->token[out->count++] = (struct cadre_token){
        .kind = kind,
        .line = line_at(lex, from),
        .text = out->source + from,
        .size = to - from,
    };
    return CADRE_OK;
}

/* ---- strings and numbers ---- */

static int hex(char c)
{
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* UTF-8 of a code point; 0 for what is none. */
static size_t put_point(char *to, uint32_t point)
{
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        to[0] = (char)(0xc0 | point >> 6);
        to[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return 0;
    const bool wide = point >= 0x10000;
    size_t n = 0;
    to[n++] = (char)(wide ? 0xf0 | point >> 18 : 0xe0 | point >> 12);
    if (wide)
        to[n++] = (char)(0x80 | (point >> 12 & 0x3f));
    to[n++] = (char)(0x80 | (point >> 6 & 0x3f));
    to[n++] = (char)(0x80 | (point & 0x3f));
    return n;
}

static cadre_status refuse_escape(struct lexer *lex, char c)
{
    return cadre_fail(lex->err, CADRE_E_UNSUPPORTED,
                      "line %d: the escape \\%c of a text is not read here",
                      line_at(lex, lex->at), c);
}

/* The escape at *from, behind the backslash, to `to`, which gets *n bytes: never more
 * than the escape has. */
static cadre_status escape(struct lexer *lex, const char **from, const char *end,
                           char *to, size_t *n)
{
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    const char *at = *from;
    const char c = *at++;
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t point = 0;
    if (c == 'N' || is_digit(c))
        return refuse_escape(lex, c);
    for (int i = 0; i < digits; i++, at++) {
        if (at >= end || hex(*at) < 0 || point > 0x10ffff)
            return refuse_escape(lex, c);
        point = point * 16 + (uint32_t)hex(*at);
    }
    *n = 0;
    *from = at;
    if (digits > 0) {
        *n = put_point(to, point);
        return *n > 0 ? CADRE_OK : refuse_escape(lex, c);
    }
    if (c == '\n')
        return CADRE_OK;
    for (size_t i = 0; i + 1 < sizeof plain; i += 2)
        if (plain[i] == c)
            to[(*n)++] = plain[i + 1];
    if (*n == 0) { /* Python keeps what is no escape */
        to[(*n)++] = '\\';
        to[(*n)++] = c;
    }
    return CADRE_OK;
}

static cadre_status string(struct lexer *lex)
{
    const size_t from = lex->at;
    const char quote = lex->source[from];
    size_t end = from + 1;
    while (end < lex->size && lex->source[end] != quote)
        end += lex->source[end] == '\\' ? 2 : 1;
    if (end >= lex->size)
        return cadre_fail(lex->err, CADRE_E_INVALID, "line %d: a text has no end",
                          line_at(lex, from));
    CADRE_TRY(push(lex, CADRE_TOKEN_STRING, from + 1, end));
    line_at(lex, end); /* its lines, before they are resolved */
    char *to = lex->out->source + from + 1;
    const char *at = to, *last = lex->source + end;
    while (at < last) {
        size_t n = 1;
        if (*at == '\\') {
            at++;
            CADRE_TRY(escape(lex, &at, last, to, &n));
        } else {
            *to = *at++;
        }
        to += n;
    }
    struct cadre_token *token = &lex->out->token[lex->out->count - 1];
    token->size = (size_t)(to - token->text);
    lex->at = end + 1;
    return CADRE_OK;
}

static cadre_status integer(struct lexer *lex)
{
    const size_t from = lex->at;
    int64_t value = 0;
    bool fits = true;
    for (; lex->at < lex->size && is_digit(lex->source[lex->at]); lex->at++) {
        const int digit = lex->source[lex->at] - '0';
        fits = fits && value <= (INT64_MAX - digit) / 10;
        value = fits ? value * 10 + digit : value;
    }
    const char next = lex->at < lex->size ? lex->source[lex->at] : ' ';
    const char then = lex->at + 1 < lex->size ? lex->source[lex->at + 1] : ' ';
    if (!fits || is_name(next) || (next == '.' && is_digit(then)) ||
        (lex->source[from] == '0' && lex->at - from > 1))
        return cadre_fail(lex->err, CADRE_E_UNSUPPORTED,
                          "line %d: the number %.*s: only whole numbers of 64 bits, "
                          "with decimal digits, are read here",
                          line_at(lex, from), (int)(lex->at - from + 1),
                          lex->source + from);
    CADRE_TRY(push(lex, CADRE_TOKEN_INTEGER, from, lex->at));
    lex->out->token[lex->out->count - 1].value = value;
    return CADRE_OK;
}

/* ---- inside of a tag ---- */

static cadre_status bracket(struct lexer *lex, char c)
{
    if (strchr("([{", c)) {
        if (lex->depth == DEPTH_MAX)
            return cadre_fail(lex->err, CADRE_E_UNSUPPORTED,
                              "line %d: more than %d brackets in each other",
                              line_at(lex, lex->at), DEPTH_MAX);
        lex->open[lex->depth++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c)) {
        if (lex->depth == 0 || lex->open[--lex->depth] != c)
            return cadre_fail(lex->err, CADRE_E_INVALID,
                              "line %d: a '%c' that nothing has opened",
                              line_at(lex, lex->at), c);
    }
    return CADRE_OK;
}

static cadre_status operator_or_name(struct lexer *lex)
{
    static const char *const operators[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
    const size_t from = lex->at;
    if (is_name(lex->source[from])) {
        while (lex->at < lex->size &&
               (is_name(lex->source[lex->at]) || is_digit(lex->source[lex->at])))
            lex->at++;
        return push(lex, CADRE_TOKEN_NAME, from, lex->at);
    }
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!sees(lex, operators[i]))
            continue;
        CADRE_TRY(bracket(lex, lex->source[from]));
        lex->at += strlen(operators[i]);
        return push(lex, CADRE_TOKEN_OPERATOR, from, lex->at);
    }
    const size_t bytes = cadre_utf8_char(lex->source + from, lex->size - from);
    return cadre_fail(lex->err, CADRE_E_INVALID,
                      "line %d: the character '%.*s' is not expected in a tag",
                      line_at(lex, from), (int)bytes, lex->source + from);
}

/* Pass the end of the tag, if it is here. */
static bool tag_ends(struct lexer *lex, bool block)
{
    const char sign = lex->source[lex->at];
    const bool signed_end = sign == '-' || (sign == '+' && block);
    if (lex->depth > 0)
        return false;
    lex->at += signed_end;
    if (!sees(lex, block ? "%}" : "}}")) {
        lex->at -= signed_end;
        return false;
    }
    lex->at += 2;
    if (sign == '-')
        lex->at = cadre_characters_skip_space(lex->source, lex->size, lex->at);
    else if (block && sign != '+' && sees(lex, "\n"))
        lex->at++;
    return true;
}

static cadre_status tag(struct lexer *lex, bool block, size_t from)
{
    CADRE_TRY(push(lex, block ? CADRE_TOKEN_BLOCK : CADRE_TOKEN_PRINT, from, from + 2));
    lex->depth = 0;
    for (;;) {
        lex->at = cadre_characters_skip_space(lex->source, lex->size, lex->at);
        if (lex->at >= lex->size)
            return cadre_fail(lex->err, CADRE_E_INVALID,
                              "line %d: the template ends inside of a tag",
                              line_at(lex, lex->size));
        const char c = lex->source[lex->at];
        const size_t here = lex->at;
        if (tag_ends(lex, block))
            return push(lex, block ? CADRE_TOKEN_BLOCK_END : CADRE_TOKEN_PRINT_END,
                        here, here + 2);
        CADRE_TRY(c == '"' || c == '\'' ? string(lex)
                  : is_digit(c)         ? integer(lex)
                                        : operator_or_name(lex));
    }
}

static cadre_status comment(struct lexer *lex, size_t from)
{
    const size_t begin = lex->at;
    while (lex->at < lex->size && !sees(lex, "#}"))
        lex->at++;
    if (lex->at >= lex->size)
        return cadre_fail(lex->err, CADRE_E_INVALID, "line %d: a comment has no end",
                          line_at(lex, from));
    const char sign = lex->at > begin ? lex->source[lex->at - 1] : ' ';
    lex->at += 2;
    if (sign == '-')
        lex->at = cadre_characters_skip_space(lex->source, lex->size, lex->at);
    else if (sign != '+' && sees(lex, "\n"))
        lex->at++;
    return CADRE_OK;
}

/* ---- between tags ---- */

/* The end of the text before a tag, without the white space that goes. */
static size_t text_end(const struct lexer *lex, size_t from, size_t to, char sign,
                       bool prints)
{
    size_t line = to;
    if (sign == '-')
        return from + cadre_characters_trim_end(lex->source + from, to - from);
    if (sign == '+' || prints)
        return to;
    while (line > from && lex->source[line - 1] != '\n')
        line--;
    if ((line == from && !lex->line_starts) ||
        cadre_characters_skip_space(lex->source, to, line) < to)
        return to;
    return line;
}

static cadre_status next(struct lexer *lex)
{
    const size_t from = lex->at;
    size_t to = from;
    while (to < lex->size &&
           !(lex->source[to] == '{' && to + 1 < lex->size &&
             (lex->source[to + 1] == '{' || lex->source[to + 1] == '%' ||
              lex->source[to + 1] == '#')))
        to++;
    if (to >= lex->size) {
        lex->at = lex->size;
        return to > from ? push(lex, CADRE_TOKEN_TEXT, from, to) : CADRE_OK;
    }
    const char kind = lex->source[to + 1];
    char sign = to + 2 < lex->size ? lex->source[to + 2] : ' ';
    sign = sign == '-' || sign == '+' ? sign : ' ';
    const size_t end = text_end(lex, from, to, sign, kind == '{');
    if (end > from)
        CADRE_TRY(push(lex, CADRE_TOKEN_TEXT, from, end));
    lex->at = to + 2 + (sign != ' ');
    CADRE_TRY(kind == '#' ? comment(lex, to) : tag(lex, kind == '%', to));
    lex->line_starts = lex->source[lex->at - 1] == '\n';
    return CADRE_OK;
}

/* A copy with line breaks as Jinja has them, without the last one. */
static cadre_status copy(const char *text, size_t size, struct cadre_tokens *out,
                         struct cadre_error *err)
{
    for (size_t i = 0; i < size;) {
        const size_t bytes = cadre_utf8_char(text + i, size - i);
        if (bytes == 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "expected UTF-8, found the byte 0x%02x at %zu",
                              (unsigned char)text[i], i);
        i += bytes;
    }
    out->source = cadre_calloc(size + 1, 1);
    if (!out->source)
        return cadre_no_memory(err, "a template");
    for (size_t i = 0; i < size; i++) {
        const bool returns = text[i] == '\r';
        out->source[out->size++] = text[i];
        if (returns)
            out->source[out->size - 1] = '\n';
        if (returns && i + 1 < size && text[i + 1] == '\n')
            i++;
    }
    if (out->size > 0 && out->source[out->size - 1] == '\n')
        out->size--;
    return CADRE_OK;
}

cadre_status cadre_tokens_init(const char *text, size_t size, struct cadre_tokens *out,
                               struct cadre_error *err)
{
    *out = (struct cadre_tokens){0};
    CADRE_TRY(copy(text, size, out, err));
    struct lexer lex = {.out = out,
                        .err = err,
                        .source = out->source,
                        .size = out->size,
                        .line = 1,
                        .line_starts = true};
    while (lex.at < lex.size)
        CADRE_TRY(next(&lex));
    return push(&lex, CADRE_TOKEN_END, lex.size, lex.size);
}

void cadre_tokens_fini(struct cadre_tokens *tokens)
{
    free(tokens->source);
    free(tokens->token);
    *tokens = (struct cadre_tokens){0};
}
