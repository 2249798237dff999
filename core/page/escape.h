/* SPDX-License-Identifier: Apache-2.0 */
/* Texts in documents that are no HTML; for HTML it is cadre_chart_text. [any thread] */
#ifndef CADRE_PAGE_ESCAPE_H
#define CADRE_PAGE_ESCAPE_H

#include "core/base/memory.h"

/* In GitHub Flavored Markdown, shown as it is: what is markup, or ends a cell or a
 * line, is escaped. Brackets alone are none, only as the first part of a link. */
void cadre_escape_markdown(struct cadre_text *out, const char *text);

/* A block of code, shown and copied as it is, and an empty line; nothing for NULL. */
void cadre_escape_markdown_code(struct cadre_text *out, const char *text);

/* A cell of RFC 4180: quoted if necessary, with quotes in it doubled. A text that a
 * spreadsheet would take for a formula gets an apostrophe. */
void cadre_escape_csv(struct cadre_text *out, const char *text);

#endif
