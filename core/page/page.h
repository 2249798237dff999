/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a page without scripts that needs no other file, well-formed as XML. Texts
 * are escaped here. Charts are chart.h's. [any thread] */
#ifndef CADRE_PAGE_PAGE_H
#define CADRE_PAGE_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/memory.h"

/* From <!DOCTYPE> to <h1>: `title` for the browser's tab, `heading` over the page. */
void cadre_page_begin(struct cadre_text *out, const char *title, const char *heading);
void cadre_page_end(struct cadre_text *out);

/* <style>: colours are Okabe and Ito's or darker, distinct with any colour vision;
 * text in and on them has a contrast of 4.5 or more, in light and in dark. */
void cadre_page_style(struct cadre_text *out);

/* <p class="CLASS">text</p> */
void cadre_page_paragraph(struct cadre_text *out, const char *class, const char *text);

/* A link to a file beside the page: `path` is relative, each character that a URL may
 * not have is encoded. */
void cadre_page_link(struct cadre_text *out, const char *path, const char *text);

/* Now, as people read it: "2026-11-23 17:28 UTC". Returns out. */
enum { CADRE_PAGE_DATE = 32 }; /* bytes of it */
const char *cadre_page_date(char out[CADRE_PAGE_DATE]);

/* A box of names and values, such as date and machine. What has an empty value or none
 * is left out. */
struct cadre_page_item {
    const char *name, *value;
};
void cadre_page_setup(struct cadre_text *out, const struct cadre_page_item *item,
                      size_t n);

/* A table that scrolls by itself where the screen is narrower. The first column names
 * its row. Texts stand at the left, numbers at the right. */
struct cadre_page_column {
    const char *head;
    bool text;
};
void cadre_page_table_begin(struct cadre_text *out, const char *caption,
                            const struct cadre_page_column *column, size_t n);
void cadre_page_row_begin(struct cadre_text *out, const char *name);
/* class: "" a number, "l" a text, "l w" one that may wrap; " good" or " bad" follow. */
void cadre_page_cell(struct cadre_text *out, const char *class, const char *text);
void cadre_page_row_end(struct cadre_text *out);
void cadre_page_table_end(struct cadre_text *out);

#endif
