/* report/page/html.h: writes a self-contained page with inline style, inline SVG and one inline
 * script. Nothing is loaded from elsewhere.
 *
 * The script (script.js) shows values at the pointer and zooms. Without the script the page
 * contains the same information. A Content-Security-Policy in the page's head contains the hash
 * of the script and forbids everything else, as a second defence if a text were not escaped.
 * Light or dark colours follow the reader's setting. The page can be printed. All texts
 * are escaped. */
#ifndef MF_REPORT_HTML_H
#define MF_REPORT_HTML_H

#include "report/page/doc.h"

/* The lines of script.js without comments, then NULL. Every page contains this script. A
 * browser runs it only because the page's policy contains its hash. No other script on a page
 * can run. */
extern const char *const mf_html_script[];

/* refresh > 0: the browser reloads the page after this number of seconds. */
void mf_html_begin(mf_doc *d, const char *title, const char *subtitle, int refresh);
void mf_html_end(mf_doc *d, const char *footer);
/* An entry of the table of contents, which is placed before all sections. */
typedef struct mf_html_entry {
    const char *id, *title;
} mf_html_entry;
void mf_html_contents(mf_doc *d, int n, const mf_html_entry *entries);
/* Begins a section that the reader can fold. */
void mf_html_section(mf_doc *d, const char *id, const char *title);
/* Begins a section that is closed until the reader opens it, for heavy figures. */
void mf_html_section_closed(mf_doc *d, const char *id, const char *title);
void mf_html_section_end(mf_doc *d);
void mf_html_paragraph(mf_doc *d, const char *text);
void mf_html_code(mf_doc *d, const char *text); /* appends a block of commands */
/* appends a text that is shown when the reader opens it */
void mf_html_details(mf_doc *d, const char *summary, const char *text);

/* Figures between these two calls are placed side by side if the page is wide enough. */
void mf_html_figures(mf_doc *d);
void mf_html_figures_end(mf_doc *d);
void mf_html_figure(mf_doc *d, const char *title);       /* begins a figure; an <svg>
                                                          * must follow */
void mf_html_figure_end(mf_doc *d, const char *caption); /* caption NULL: no caption */

/* Cards. Each shows a large value with a label above and a note below. note NULL: none. */
void mf_html_cards(mf_doc *d);
void mf_html_card(mf_doc *d, const char *value, const char *label, const char *note);
void mf_html_cards_end(mf_doc *d);

/* Writes a table, line by line; `head` is its first line. align: one letter for each column, l
 * or r; the same string for all calls of a table. head, cells: one text for each column. head
 * must stay valid until mf_html_table_end. On a small screen a line of five or more columns
 * becomes a block. Its heading is the first text column, and each other text is below the
 * column's name. */
void mf_html_table(mf_doc *d, const char *align, const char *const *head);
void mf_html_row(mf_doc *d, const char *align, const char *const *cells);
void mf_html_table_end(mf_doc *d);

#endif
