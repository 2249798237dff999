/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USUAL = 80, LEAST = 20, MOST = 500 };

int cadre_terminal_columns(int fd)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    const long n = columns ? strtol(columns, NULL, 10) : 0;
    if (n >= LEAST && n <= MOST)
        return (int)n;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col < LEAST ? LEAST : size.ws_col;
    return USUAL;
}

int cadre_terminal_break(int fd)
{
    return isatty(fd) == 1 ? cadre_terminal_columns(fd) : 0;
}

/* Characters of n bytes: those that do not continue another. */
static int characters(const char *text, size_t n)
{
    int count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

void cadre_terminal_wrap(struct cadre_text *out, const char *first, int indent,
                         const char *text, int columns)
{
    int at = characters(first, strlen(first));
    bool begun = at >= indent && at > 0 && first[strlen(first) - 1] != ' ';
    cadre_text_printf(out, "%s", first);
    if (at < indent) {
        cadre_text_printf(out, "%*s", indent - at, "");
        at = indent;
    }
    while (*text) {
        const size_t n = strcspn(text, " \n");
        const int width = characters(text, n);
        if (n > 0 && begun && columns > 0 && at + 1 + width > columns) {
            cadre_text_printf(out, "\n%*s", indent, "");
            at = indent;
            begun = false;
        }
        if (n > 0) {
            cadre_text_printf(out, "%s%.*s", begun ? " " : "", (int)n, text);
            at += width + begun;
            begun = true;
        }
        text += n;
        if (*text == '\n') {
            cadre_text_printf(out, "\n%*s", indent, "");
            at = indent;
            begun = false;
        }
        text += *text != 0;
    }
    cadre_text_append(out, "\n", 1);
}

bool cadre_terminal_write(FILE *to, const char *first, int indent, const char *text)
{
    struct cadre_text out = {0};
    const int columns = cadre_terminal_break(fileno(to));
    if (columns == 0) /* with every blank of it */
        return fprintf(to, "%s%s\n", first, text) >= 0;
    cadre_terminal_wrap(&out, first, indent, text, columns);
    const bool written = !out.failed && fputs(cadre_text_str(&out), to) >= 0;
    cadre_text_fini(&out);
    return written;
}

bool cadre_terminal_printf(FILE *to, const char *format, ...)
{
    struct cadre_text text = {0};
    bool written;
    va_list ap;
    va_start(ap, format);
    if (cadre_terminal_break(fileno(to)) == 0) {
        written = vfprintf(to, format, ap) >= 0 && fputc('\n', to) != EOF;
    } else {
        cadre_text_vprintf(&text, format, ap);
        written =
            !text.failed && cadre_terminal_write(to, "", 0, cadre_text_str(&text));
        cadre_text_fini(&text);
    }
    va_end(ap);
    return written;
}
