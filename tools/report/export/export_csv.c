/* Writes metrics as a CSV table. The whole text is in memory before writing begins, so a
 * failure leaves no partial file. */
#include "report/export/export.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/text/number.h"
#include "report/page/doc.h"
#include "report/export/flat.h"
#include "report/terminal/terminal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Writes a cell of text. Spreadsheets evaluate cells that begin with = + - or @, even within
 * quotes. An apostrophe before the text prevents this. */
static void put_text(mf_doc *d, const char *text)
{
    const bool formula = text[0] != '\0' && strchr("=+-@\t\r", text[0]);
    if (!formula && text[strcspn(text, ",\"\r\n")] == '\0') {
        mf_doc_put(d, text);
        return;
    }
    mf_doc_put(d, formula ? "\"'" : "\"");
    for (; *text != '\0'; text++)
        mf_doc_printf(d, *text == '"' ? "\"\"" : "%c", *text);
    mf_doc_put(d, "\"");
}

static void put_head(const mf_flat *f, mf_doc *d)
{
    char name[512];
    mf_doc_put(d, f->n_runs > 1 ? "run,step,split" : "step,split");
    for (int32_t i = 0; i < f->names.n; i++) {
        size_t n;
        const char *text = mf_strings_get(&f->names, i, &n);
        snprintf(name, sizeof name, "%.*s", (int)n, text);
        mf_doc_put(d, ",");
        put_text(d, name);
    }
    mf_doc_put(d, "\n");
}

static void put_row(const mf_flat *f, const mf_flat_line *l, const char *const *runs,
                    double *cells, mf_doc *d)
{
    char number[MF_NUMBER_TEXT];
    for (int32_t i = 0; i < f->names.n; i++)
        cells[i] = (double)NAN;
    for (size_t i = l->first; i < l->first + l->n; i++)
        cells[f->values[i].name] = f->values[i].value;
    if (f->n_runs > 1) {
        put_text(d, runs[l->run]);
        mf_doc_put(d, ",");
    }
    mf_doc_printf(d, "%lld,", (long long)l->step);
    put_text(d, l->split);
    for (int32_t i = 0; i < f->names.n; i++) {
        mf_doc_put(d, ",");
        if (!isnan(cells[i])) mf_doc_put(d, mf_format_f64(cells[i], number));
    }
    mf_doc_put(d, "\n");
}

static int write_table(const mf_flat *f, const char *const *runs, const char *path)
{
    mf_doc *d = mf_doc_new();
    double *cells = mf_alloc((size_t)f->names.n + 1, sizeof *cells);
    size_t n = 0;
    int rc = d && cells ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) put_head(f, d);
    for (size_t i = 0; rc == MF_OK && i < f->n_lines; i++)
        put_row(f, &f->lines[i], runs, cells, d);
    const char *text = rc == MF_OK ? mf_doc_string(d, &n) : NULL;
    if (rc == MF_OK && !text) rc = mf_fail(MF_ENOMEM, "out of memory for the table");
    if (rc == MF_OK && path)
        rc = mf_write_file_atomic(path, text, n);
    else if (rc == MF_OK) {
        mf_terminal_put(stdout, &(mf_begun_char){.n = 0}, text, n);
        if (ferror(stdout)) rc = mf_fail_errno(MF_EIO, "cannot write to standard output");
    }
    mf_free(cells);
    mf_doc_free(d);
    return rc;
}

int mf_export_csv(int n, const char *const *runs, const char *path)
{
    mf_flat f = {0};
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < n; i++) {
        rc = mf_flat_add(&f, runs[i]);
        if (rc == MF_OK) mf_flat_warn(&f, runs[i]);
    }
    if (rc == MF_OK) rc = write_table(&f, runs, path);
    mf_flat_free(&f);
    return rc;
}
