/* The HTML elements of a report page. Text that does not come from this program is escaped
 * (mf_doc_text). Only markup of this program is appended unchanged. */
#include "report/page/html.h"

#include "base/sha256.h"

#include <string.h>

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--ground:#fff;--card:#f6f8fa;"
    "--edge:#d1d9e0;--link:#0b62c4}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8ea;--soft:#9aa4ae;--ground:#15181c;"
    "--card:#1d2126;--edge:#343a41;--link:#6cb0ff}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 "
    "system-ui,sans-serif}\n"
    "main,header,footer{max-width:1180px;margin:0 auto;padding:0 20px}\n"
    "header{padding-top:28px}\n"
    "h1{font-size:26px;margin:0;line-height:1.25;overflow-wrap:anywhere}\n"
    "h2{display:inline;font-size:19px}section>details>summary{margin-bottom:8px}\n"
    "a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}\n"
    ".soft,figcaption,footer{color:var(--soft)}\n"
    "nav{margin:14px 0 0;display:flex;flex-wrap:wrap;gap:4px 16px}\n"
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px;"
    "margin:20px 0}\n"
    ".card{background:var(--card);border:1px solid var(--edge);border-radius:8px;padding:12px "
    "14px}\n"
    ".card b{display:block;font-size:23px;line-height:1.3;font-variant-numeric:tabular-nums}\n"
    ".card small{display:block;color:var(--soft);font-size:12.5px;line-height:1.4}\n"
    ".figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr));"
    "gap:20px 24px}\n"
    "figure{margin:0;min-width:0;break-inside:avoid}\n"
    "section>details>figure{margin:14px 0}\n"
    "section>details{margin:28px 0 0}section>details>summary{color:var(--ink)}\n"
    "figure h3{font-size:14.5px;margin:0 0 4px;font-weight:600}\n"
    "svg{font:12px system-ui,sans-serif}svg text:not([fill]){fill:currentColor}\n"
    /* numbers in cells of a map are black or white, depending on the cell, not on the
     * page's colours */
    "svg g[fill^=\"#\"] text:not([fill]){fill:inherit}\n"
    "figure svg{width:100%;max-width:420px;height:auto;display:block;color:var(--ink)}\n"
    ".plan svg{max-width:400px}\n"
    "figcaption{font-size:13px;margin-top:2px}\n"
    ".scroll{overflow-x:auto}\n"
    ".filter{display:flex;flex-wrap:wrap;gap:6px "
    "10px;align-items:center;font-size:14px;margin:10px "
    "0}.filter[hidden]{display:none}\n"
    ".filter input{font:inherit;padding:3px 6px;max-width:100%;box-sizing:border-box}"
    ".filter button{font:inherit;font-size:13px;padding:3px 8px}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px;margin:"
    "8px 0}\n"
    "th,td{padding:5px 9px;border-bottom:1px solid "
    "var(--edge);text-align:left;vertical-align:top}\n"
    "td{overflow-wrap:anywhere;min-width:13ch}td.h{min-width:19ch}th{font-weight:600;color:var("
    "--soft)}\n"
    ".n{text-align:right}td.n{white-space:nowrap;min-width:0}\n"
    "@media(min-width:601px){.wide td.h{min-width:13ch}}\n"
    "pre{background:var(--card);border:1px solid var(--edge);border-radius:8px;padding:12px "
    "14px;"
    "overflow-x:auto;font:13px/1.5 ui-monospace,monospace;margin:8px 0}\n"
    "details{margin:8px 0}summary{cursor:pointer;color:var(--link)}\n"
    "p{margin:8px 0;max-width:75ch;overflow-wrap:anywhere}\n"
    "footer{margin-top:40px;padding-bottom:32px;font-size:13px}\n"
    "@media(max-width:600px){main,header,footer{padding:0 10px}th,td{padding:4px 6px}"
    "table{font-size:13px}td,td.h{min-width:0}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    ".wide,.wide tbody{display:block}.wide tr:first-child{display:none}"
    ".wide tr{display:grid;grid-template-columns:repeat(auto-fill,minmax(105px,1fr));"
    "gap:3px 10px;padding:7px 0;border-bottom:1px solid var(--edge)}"
    ".wide td{border:0;padding:0;min-width:0;text-align:left;white-space:normal}"
    ".wide td:empty{display:none}"
    ".wide td[data-c]::before{content:attr(data-c);display:block;font-size:11px;"
    "line-height:1.3;color:var(--soft)}"
    ".wide .h{grid-column:1/-1;order:-1;font-weight:600}}\n"
    ".tip{position:fixed;z-index:9;pointer-events:none;max-width:290px;padding:4px 8px;"
    "background:var(--card);color:var(--ink);border:1px solid var(--edge);border-radius:6px;"
    "font-size:12.5px;line-height:1.4;font-variant-numeric:tabular-nums}\n"
    ".tip i{display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:5px}"
    ".tip .b{font-weight:600}\n"
    ".tools{display:flex;gap:4px;align-items:center;font-size:12px;color:var(--soft)}\n"
    ".tools button{font:inherit;color:var(--soft);background:none;cursor:pointer;"
    "border:1px solid var(--edge);border-radius:5px;padding:1px 7px}\n"
    ".tools button[aria-pressed=true]{color:var(--ground);background:var(--soft)}\n"
    ".tools input{width:64px;vertical-align:middle;accent-color:var(--soft)}\n"
    ".live{cursor:crosshair;touch-action:pan-y}.drag{fill:var(--link);fill-opacity:.15}"
    ".dot{pointer-events:none}[hidden]{display:none!important}\n"
    "@media print{.tools{display:none}body{background:#fff;color:#000}nav{display:none}}\n";

static void put_script(mf_doc *d)
{
    for (int i = 0; mf_html_script[i]; i++)
        mf_doc_put(d, mf_html_script[i]);
}

static void put_policy(mf_doc *d)
{
    char hash[45] = "";
    size_t n;
    mf_doc *code = mf_doc_new();
    if (code) {
        put_script(code);
        const char *text = mf_doc_string(code, &n);
        if (text) mf_sha256_base64(text, n, hash);
        mf_doc_free(code);
    }
    mf_doc_printf(d,
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                  "style-src 'unsafe-inline'; script-src 'sha256-%s'\">\n",
                  hash);
}

static void element(mf_doc *d, const char *tag, const char *text)
{
    mf_doc_printf(d, "<%s>", tag);
    mf_doc_text(d, text);
    mf_doc_printf(d, "</%s>", tag);
}

void mf_html_begin(mf_doc *d, const char *title, const char *subtitle, int refresh)
{
    mf_doc_put(d, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    put_policy(d);
    mf_doc_put(d, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                  "<meta name=\"generator\" content=\"moefw\">\n");
    if (refresh > 0)
        mf_doc_printf(d, "<meta http-equiv=\"refresh\" content=\"%d\">\n", refresh);
    mf_doc_put(d, "<title>");
    mf_doc_text(d, title);
    mf_doc_put(d, "</title>\n<style>\n");
    mf_doc_put(d, style);
    mf_doc_put(d, "</style>\n</head>\n<body>\n<header>\n");
    element(d, "h1", title);
    if (subtitle) {
        mf_doc_put(d, "\n<div class=\"soft\">");
        mf_doc_text(d, subtitle);
        mf_doc_put(d, "</div>");
    }
    mf_doc_put(d, "\n</header>\n<main>\n");
}

void mf_html_end(mf_doc *d, const char *footer)
{
    mf_doc_put(d, "</main>\n<footer>");
    mf_doc_text(d, footer);
    mf_doc_put(d, "</footer>\n<script>");
    put_script(d);
    mf_doc_put(d, "</script>\n</body>\n</html>\n");
}

void mf_html_contents(mf_doc *d, int n, const mf_html_entry *entries)
{
    mf_doc_put(d, "<nav>");
    for (int i = 0; i < n; i++) {
        mf_doc_printf(d, "<a href=\"#%s\">", entries[i].id);
        mf_doc_text(d, entries[i].title);
        mf_doc_put(d, "</a>");
    }
    mf_doc_put(d, "</nav>\n");
}

static void section(mf_doc *d, const char *id, const char *title, const char *open)
{
    mf_doc_printf(d, "<section id=\"%s\">\n<details%s><summary>", id, open);
    element(d, "h2", title);
    mf_doc_put(d, "</summary>\n");
}

void mf_html_section(mf_doc *d, const char *id, const char *title)
{
    section(d, id, title, " open=\"open\"");
}

void mf_html_section_closed(mf_doc *d, const char *id, const char *title)
{
    section(d, id, title, "");
}

void mf_html_section_end(mf_doc *d)
{
    mf_doc_put(d, "</details></section>\n");
}

void mf_html_paragraph(mf_doc *d, const char *text)
{
    element(d, "p", text);
    mf_doc_put(d, "\n");
}

void mf_html_code(mf_doc *d, const char *text)
{
    element(d, "pre", text);
    mf_doc_put(d, "\n");
}

void mf_html_details(mf_doc *d, const char *summary, const char *text)
{
    mf_doc_put(d, "<details>");
    element(d, "summary", summary);
    element(d, "pre", text);
    mf_doc_put(d, "</details>\n");
}

void mf_html_figures(mf_doc *d)
{
    mf_doc_put(d, "<div class=\"figures\">\n");
}

void mf_html_figures_end(mf_doc *d)
{
    mf_doc_put(d, "</div>\n");
}

void mf_html_figure(mf_doc *d, const char *title)
{
    mf_doc_put(d, "<figure>");
    element(d, "h3", title);
    mf_doc_put(d, "\n");
}

void mf_html_figure_end(mf_doc *d, const char *caption)
{
    if (caption) element(d, "figcaption", caption);
    mf_doc_put(d, "</figure>\n");
}

void mf_html_cards(mf_doc *d)
{
    mf_doc_put(d, "<div class=\"cards\">\n");
}

void mf_html_card(mf_doc *d, const char *value, const char *label, const char *note)
{
    mf_doc_put(d, "<div class=\"card\"><small>");
    mf_doc_text(d, label);
    mf_doc_put(d, "</small><b>");
    mf_doc_text(d, value);
    mf_doc_put(d, "</b><small>");
    mf_doc_text(d, note ? note : "");
    mf_doc_put(d, "</small></div>\n");
}

void mf_html_cards_end(mf_doc *d)
{
    mf_doc_put(d, "</div>\n");
}

#define WIDE 5 /* number of columns from which a table is too wide for a telephone */

static void cell(mf_doc *d, const char *tag, const char *kind, const char *column,
                 const char *text)
{
    mf_doc_printf(d, "<%s", tag);
    if (kind) mf_doc_printf(d, " class=\"%s\"", kind);
    if (column) {
        mf_doc_put(d, " data-c=\"");
        mf_doc_text(d, column);
        mf_doc_put(d, "\"");
    }
    mf_doc_put(d, ">");
    mf_doc_text(d, text);
    mf_doc_printf(d, "</%s>", tag);
}

/* Writes a line of a table. columns: the column names that a small screen shows beside the
 * texts; NULL: none. */
static void cells(mf_doc *d, const char *tag, const char *align, const char *const *texts,
                  const char *const *columns)
{
    const int heading = (int)strcspn(align, "l");
    mf_doc_put(d, "<tr>");
    for (int i = 0; align[i] != '\0'; i++)
        if (columns && i == heading)
            cell(d, tag, "h", NULL, texts[i]);
        else
            cell(d, tag, align[i] == 'r' ? "n" : NULL, columns ? columns[i] : NULL, texts[i]);
    mf_doc_put(d, "</tr>\n");
}

void mf_html_table(mf_doc *d, const char *align, const char *const *head)
{
    const bool wide = strlen(align) >= WIDE;
    mf_doc_printf(d, "<div class=\"scroll\"><table%s>\n", wide ? " class=\"wide\"" : "");
    cells(d, "th", align, head, NULL);
    mf_doc_set_names(d, wide ? head : NULL);
}

void mf_html_row(mf_doc *d, const char *align, const char *const *texts)
{
    cells(d, "td", align, texts, mf_doc_names(d));
}

void mf_html_table_end(mf_doc *d)
{
    mf_doc_set_names(d, NULL);
    mf_doc_put(d, "</table></div>\n");
}
