/* SPDX-License-Identifier: Apache-2.0 */
#include "core/page/escape.h"

#include <string.h>

void cadre_escape_markdown(struct cadre_text *out, const char *text)
{
    for (char before = 0; *text; before = *text++) {
        if (strchr("\\`*_<>|&~", *text) || (*text == '(' && before == ']'))
            cadre_text_append(out, "\\", 1);
        cadre_text_append(out, (unsigned char)*text < 0x20 ? " " : text, 1);
    }
}

void cadre_escape_markdown_code(struct cadre_text *out, const char *text)
{
    if (!text)
        return;
    cadre_text_printf(out, "    ");
    for (; *text; text++)
        cadre_text_append(out, *text == '\n' ? "\n    " : text, *text == '\n' ? 5 : 1);
    cadre_text_printf(out, "\n\n");
}

void cadre_escape_csv(struct cadre_text *out, const char *text)
{
    const char *mark = *text && strchr("=+-@", *text) ? "'" : "";
    if (!strpbrk(text, ",\"\r\n")) {
        cadre_text_printf(out, "%s%s", mark, text);
        return;
    }
    cadre_text_printf(out, "\"%s", mark);
    for (; *text; text++) {
        if (*text == '"')
            cadre_text_append(out, text, 1);
        cadre_text_append(out, text, 1);
    }
    cadre_text_append(out, "\"", 1);
}
