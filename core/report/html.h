/* report/html.h: one self-contained page: inline style, inline SVG, no script, nothing remote.
 *
 * A policy in the page's head forbids everything else, so that text which slipped through
 * escaping could do nothing. Light and dark follow the reader's setting; prints well.
 */
#ifndef MF_REPORT_HTML_H
#define MF_REPORT_HTML_H

#include "report/doc.h"

void mf_html_begin(mf_doc *d, const char *title, const char *subtitle);
void mf_html_end(mf_doc *d, const char *footer);
/* Sections are listed at the top: give all of them first. */
typedef struct mf_html_entry {
    const char *id, *title;
} mf_html_entry;
void mf_html_contents(mf_doc *d, int n, const mf_html_entry *entries);
void mf_html_section(mf_doc *d, const char *id, const char *title);
void mf_html_section_end(mf_doc *d);
void mf_html_paragraph(mf_doc *d, const char *text);
void mf_html_code(mf_doc *d, const char *text); /* a block of commands */
void mf_html_details(mf_doc *d, const char *summary, const char *text); /* folded text */

/* Figures stand side by side where there is room. */
void mf_html_figures(mf_doc *d);
void mf_html_figures_end(mf_doc *d);
void mf_html_figure(mf_doc *d, const char *title);       /* then one <svg> */
void mf_html_figure_end(mf_doc *d, const char *caption); /* NULL: none */

/* Large numbers with a word each. */
void mf_html_cards(mf_doc *d);
void mf_html_card(mf_doc *d, const char *value, const char *label, const char *note);
void mf_html_cards_end(mf_doc *d);

/* Rows of cells; the first row is the head. align: a letter a column, l or r; it must be the
 * same for all rows. */
void mf_html_table(mf_doc *d, const char *align, const char *const *head);
void mf_html_row(mf_doc *d, const char *align, const char *const *cells);
void mf_html_table_end(mf_doc *d);

#endif
