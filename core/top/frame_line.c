/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a frame: as wide as the terminal, and no more of them than it has. */
#include <stdio.h>
#include <string.h>

#include "core/base/terminal.h"
#include "core/top/frame_private.h"

/* Stands for what is cut. */
static const char cut[] = "...";
enum { CUT = sizeof cut - 1, GAP = 2 };

static const char *colour_of(enum cadre_top_colour colour)
{
    static const char *const codes[] = {"\033[0m",  "\033[1m",  "\033[2m",
                                        "\033[31m", "\033[32m", "\033[33m",
                                        "\033[34m", "\033[35m", "\033[36m"};
    return codes[colour];
}

void cadre_top_line_colour(struct cadre_top_line *line, enum cadre_top_colour colour)
{
    if (line->look->colours && !line->full)
        cadre_text_printf(line->out, "%s", colour_of(colour));
}

/* n columns of text: bytes that no terminal takes as one column are shown as '?'. */
static void put_plain(struct cadre_top_line *line, const char *text, int n)
{
    for (int i = 0; i < n && !line->full; i++) {
        const bool plain = text[i] >= 0x20 && text[i] < 0x7f;
        cadre_text_append(line->out, plain ? &text[i] : "?", 1);
        line->at++;
    }
}

static void put_blanks(struct cadre_top_line *line, int n)
{
    for (int i = 0; i < n; i++)
        put_plain(line, " ", 1);
}

void cadre_top_line_put(struct cadre_top_line *line, const char *text, int width)
{
    const int left = line->look->columns - line->at, n = (int)strlen(text);
    const int most = width < left ? width : left;
    if (n <= most)
        put_plain(line, text, n);
    else if (most > CUT)
        put_plain(line, text, most - CUT);
    if (n > most)
        put_plain(line, cut, most < CUT ? most : CUT);
    else if (width < CADRE_TOP_ANY)
        put_blanks(line, most - n);
}

void cadre_top_line_item(struct cadre_top_line *line, const char *text)
{
    const int n = (int)strlen(text);
    if (line->at > 0 && line->at + GAP + n > line->look->columns)
        cadre_top_line_end(line);
    else if (line->at > 0)
        put_blanks(line, GAP);
    cadre_top_line_put(line, text, CADRE_TOP_ANY);
}

void cadre_top_line_words(struct cadre_top_line *line, int indent, const char *text)
{
    struct cadre_text words = {0};
    const int columns = line->look->columns, room = columns - indent;
    cadre_terminal_wrap(&words, "", 0, text, room > 0 ? room : 1);
    line->out->failed = line->out->failed || words.failed;
    for (const char *at = cadre_text_str(&words); *at;) {
        const int n = (int)strcspn(at, "\n");
        const int part = room > 0 && n > room ? room : n; /* a word of several lines */
        put_blanks(line, indent - line->at);
        put_plain(line, at, part);
        cadre_top_line_end(line);
        at += part + (at[part] == '\n');
    }
    cadre_text_fini(&words);
}

bool cadre_top_line_end(struct cadre_top_line *line)
{
    if (line->full)
        return false;
    cadre_text_append(line->out, "\n", 1);
    line->at = 0;
    line->lines++;
    line->full = line->look->rows > 0 && line->lines >= line->look->rows;
    return !line->full;
}
