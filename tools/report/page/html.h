/* report/page/html.h: one self-contained page: inline style, inline SVG, one inline script,
 * nothing loaded from elsewhere.
 *
 * The script (script.js) shows values at the pointer and zooms; without it the page says the
 * same. A Content-Security-Policy in the page's head names its hash and forbids everything
 * else, as a second defence if text were not escaped. Light or dark follows the reader's
 * setting; the page can be printed. All texts are escaped. */
#ifndef MF_REPORT_HTML_H
#define MF_REPORT_HTML_H

#include "report/page/doc.h"

/* The script of every page, script.js without comments: its lines, then NULL. A browser runs it
 * only because the page's policy has its hash; nothing else on a page can run. */
extern const char *const mf_html_script[];

/* refresh > 0: the reader's browser loads the page again after so many seconds. */
void mf_html_begin(mf_doc *d, const char *title, const char *subtitle, int refresh);
void mf_html_end(mf_doc *d, const char *footer);
/* An entry of the table of contents, which comes before all sections. */
typedef struct mf_html_entry {
    const char *id, *title;
} mf_html_entry;
void mf_html_contents(mf_doc *d, int n, const mf_html_entry *entries);
/* A section that the reader can fold. */
void mf_html_section(mf_doc *d, const char *id, const char *title);
/* The same, for heavy figures: closed until the reader opens it. */
void mf_html_section_closed(mf_doc *d, const char *id, const char *title);
void mf_html_section_end(mf_doc *d);
void mf_html_paragraph(mf_doc *d, const char *text);
void mf_html_code(mf_doc *d, const char *text); /* a block of commands */
/* a text that is shown when the reader opens it */
void mf_html_details(mf_doc *d, const char *summary, const char *text);

/* Figures between these two calls stand side by side if the page is wide enough. */
void mf_html_figures(mf_doc *d);
void mf_html_figures_end(mf_doc *d);
void mf_html_figure(mf_doc *d, const char *title);       /* an <svg> follows */
void mf_html_figure_end(mf_doc *d, const char *caption); /* caption NULL: none */

/* Cards: a large value with a label above it and a note below it. note NULL: none. */
void mf_html_cards(mf_doc *d);
void mf_html_card(mf_doc *d, const char *value, const char *label, const char *note);
void mf_html_cards_end(mf_doc *d);

/* A table, line by line; `head` is its first line. align: one letter for each column, l or r;
 * the same string for all calls of one table. head, cells: one text for each column; head
 * must stay valid until mf_html_table_end. On a small screen a line of five or more columns
 * becomes a block, with its first text column as heading and each other text below the
 * column's name. */
void mf_html_table(mf_doc *d, const char *align, const char *const *head);
void mf_html_row(mf_doc *d, const char *align, const char *const *cells);
void mf_html_table_end(mf_doc *d);

#endif
