/* SPDX-License-Identifier: Apache-2.0 */
#include "core/page/page.h"

#include <string.h>
#include <time.h>

#include "core/page/chart.h"

void cadre_page_begin(struct cadre_text *out, const char *title, const char *heading)
{
    cadre_text_printf(out,
                      "<!DOCTYPE html>\n<html lang=\"en\" "
                      "xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
                      "<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
                      "content=\"width=device-width, initial-scale=1\"/>\n<title>");
    cadre_chart_text(out, title);
    cadre_text_printf(out, "</title>\n");
    cadre_page_style(out);
    cadre_text_printf(out, "</head>\n<body>\n<h1>");
    cadre_chart_text(out, heading);
    cadre_text_printf(out, "</h1>\n");
}

void cadre_page_end(struct cadre_text *out)
{
    cadre_text_printf(out, "</body>\n</html>\n");
}

const char *cadre_page_date(char out[CADRE_PAGE_DATE])
{
    struct tm utc;
    time_t now = time(NULL);
    memset(out, 0, CADRE_PAGE_DATE);
    if (gmtime_r(&now, &utc))
        strftime(out, CADRE_PAGE_DATE, "%Y-%m-%d %H:%M UTC", &utc);
    return out;
}

void cadre_page_paragraph(struct cadre_text *out, const char *class, const char *text)
{
    cadre_text_printf(out, "<p class=\"%s\">", class);
    cadre_chart_text(out, text);
    cadre_text_printf(out, "</p>\n");
}

void cadre_page_link(struct cadre_text *out, const char *path, const char *text)
{
    cadre_text_printf(out, "<a href=\"");
    for (const char *at = path; *at; at++)
        if (strchr("%\"#?&<>'\\:", *at) || (unsigned char)*at <= 0x20 || *at & 0x80)
            cadre_text_printf(out, "%%%02X", (unsigned)(unsigned char)*at);
        else
            cadre_text_append(out, at, 1);
    cadre_text_printf(out, "\">");
    cadre_chart_text(out, text);
    cadre_text_printf(out, "</a>");
}

enum { LONG = 48 }; /* characters of a value that takes two places */

void cadre_page_setup(struct cadre_text *out, const struct cadre_page_item *item,
                      size_t n)
{
    cadre_text_printf(out, "<dl class=\"setup\">\n");
    for (size_t i = 0; i < n; i++) {
        if (!item[i].value || !*item[i].value)
            continue;
        cadre_text_printf(out, "<div%s><dt>%s</dt><dd>",
                          strlen(item[i].value) > LONG ? " class=\"long\"" : "",
                          item[i].name);
        cadre_chart_text(out, item[i].value);
        cadre_text_printf(out, "</dd></div>\n");
    }
    cadre_text_printf(out, "</dl>\n");
}

/* ---- tables ---- */

void cadre_page_table_begin(struct cadre_text *out, const char *caption,
                            const struct cadre_page_column *column, size_t n)
{
    cadre_text_printf(out, "<div class=\"wide\"><table>\n<caption>");
    cadre_chart_text(out, caption);
    cadre_text_printf(out, "</caption>\n<thead><tr>");
    for (size_t i = 0; i < n; i++) {
        cadre_text_printf(out, "<th%s scope=\"col\">",
                          column[i].text ? " class=\"l\"" : "");
        cadre_chart_text(out, column[i].head);
        cadre_text_printf(out, "</th>");
    }
    cadre_text_printf(out, "</tr></thead>\n<tbody>\n");
}

void cadre_page_row_begin(struct cadre_text *out, const char *name)
{
    cadre_text_printf(out, "<tr><th class=\"l\" scope=\"row\">");
    cadre_chart_text(out, name);
    cadre_text_printf(out, "</th>");
}

void cadre_page_cell(struct cadre_text *out, const char *class, const char *text)
{
    cadre_text_printf(out, *class ? "<td class=\"%s\">" : "<td>", class);
    cadre_chart_text(out, text);
    cadre_text_printf(out, "</td>");
}

void cadre_page_row_end(struct cadre_text *out)
{
    cadre_text_printf(out, "</tr>\n");
}

void cadre_page_table_end(struct cadre_text *out)
{
    cadre_text_printf(out, "</tbody></table></div>\n");
}
