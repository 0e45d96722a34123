/* Prints the table of a comparison for a paper, in LaTeX, CSV or Markdown. Rows are in the
 * order of their ranks. compare_print.c prints the same numbers for a terminal. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lab/compare/compare_parts.h"

const char *const mf_compare_forms[] = {"text", "latex", "csv", "md", NULL};

/* ---- the caption ---- */

MF_PRINTF(3, 4)
static void add(char *text, size_t size, const char *fmt, ...)
{
    const size_t at = strlen(text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + at, size - at, fmt, args);
    va_end(args);
}

/* What a table that is torn out of its page needs: metric, seeds, tests, level and looks. */
static void caption(const mf_compare_table *t, char *text, size_t size)
{
    static const char *const words[] = {"Task loss", "Mean squared error", "Accuracy",
                                        "Loss in bits per byte"};
    const mf_compare *c = t->of;
    int earlier = 0;
    text[0] = '\0';
    for (int i = 0; i < c->n_looks; i++)
        earlier += c->looks[i].pairs != c->spec->seeds;
    add(text, size,
        "%s of the validation split (%s is better), %d seeds: mean and half of the 95 %% "
        "interval; differences from %s within seeds with 95 %% intervals; p of the paired t "
        "test after Holm's correction over %d, level %.4g",
        words[t->by], t->by == MF_QUALITY_ACCURACY ? "higher" : "lower", (int)c->spec->seeds,
        c->routers[c->baseline].name, t->compared, t->level);
    if (earlier > 0)
        add(text, size, " (%d earlier look%s, level of all %.4g)", earlier,
            earlier == 1 ? "" : "s", t->level_total);
    if (!isnan(t->margin))
        add(text, size,
            "; verdicts about the margin %.4g: two one-sided tests for equality, better and "
            "worse mean by more than it",
            t->margin);
    if (c->spec->equal != MF_EQUAL_STEPS)
        add(text, size, "; equal %s", mf_equal_names[c->spec->equal]);
    if (!t->complete) add(text, size, "; not all runs have ended");
    add(text, size, ".");
}

/* ---- cells ---- */

static const char *verdict(const mf_compare_table *t, const mf_compare_row *r, char *text,
                           size_t size)
{
    snprintf(text, size, "%s", r->baseline ? "baseline" : mf_verdict_name(r->verdict));
    if (!r->baseline && r->verdict == MF_VERDICT_EQUAL)
        snprintf(text, size, "equal within %.4g", t->margin);
    return text;
}

static void put_latex(FILE *out, const char *text)
{
    for (; *text; text++)
        if (strchr("_&%$#{}", *text))
            fprintf(out, "\\%c", *text);
        else if (*text == '\\')
            fputs("\\textbackslash{}", out);
        else if (*text == '~' || *text == '^')
            fprintf(out, "\\%c{}", *text);
        else
            fputc(*text, out);
}

static void put_md(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("|\\*_`<", *text)) fputc('\\', out);
        fputc(*text == '\n' ? ' ' : *text, out);
    }
}

static void put_csv(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void csv_number(FILE *out, double v)
{
    fputc(',', out);
    if (isfinite(v)) fprintf(out, "%.9g", v);
}

/* " & 2.0043(32)": the value, and half of its interval in units of the last digit. */
static void latex_estimate(FILE *out, const mf_estimate *e)
{
    if (isnan(e->mean))
        fputs(" & {--}", out);
    else if (isnan(e->hi))
        fprintf(out, " & %.4f", e->mean);
    else
        fprintf(out, " & %.4f(%.0f)", e->mean, ceil((e->hi - e->mean) * 1e4 - 1e-6));
}

/* ---- tables ---- */

static void row_of(const mf_compare_table *t, const mf_compare_row *r, FILE *out,
                   mf_compare_form form)
{
    const mf_estimate *q = &r->quality, *d = &r->against.diff;
    char word[64];
    verdict(t, r, word, sizeof word);
    if (form == MF_FORM_LATEX) {
        put_latex(out, r->router->name);
        latex_estimate(out, q);
        if (r->baseline)
            fputs(" & {--} & {--}", out);
        else
            latex_estimate(out, d);
        if (!r->baseline)
            isnan(r->p_holm) ? fputs(" & {--}", out) : fprintf(out, " & %.3f", r->p_holm);
        fprintf(out, " & %s & %d \\\\\n", word, q->n);
    } else if (form == MF_FORM_MD) {
        fputs("| ", out);
        put_md(out, r->router->name);
        isnan(q->mean) ? fputs(" | -", out) : fprintf(out, " | %.4f", q->mean);
        if (!isnan(q->hi)) fprintf(out, " ± %.4f", q->hi - q->mean);
        if (r->baseline || isnan(d->mean))
            fputs(" | ", out);
        else if (isnan(d->lo))
            fprintf(out, " | %+.4f", d->mean);
        else
            fprintf(out, " | %+.4f [%+.4f, %+.4f]", d->mean, d->lo, d->hi);
        r->baseline || isnan(r->p_holm) ? fputs(" | ", out)
                                        : fprintf(out, " | %.3f", r->p_holm);
        fprintf(out, " | %s | %d |\n", word, q->n);
    } else {
        const double none = (double)NAN;
        put_csv(out, r->router->name);
        fputc(',', out);
        put_csv(out, r->router->entry.label);
        fprintf(out, ",%d", r->rank);
        csv_number(out, q->mean);
        csv_number(out, q->sd);
        csv_number(out, q->lo);
        csv_number(out, q->hi);
        csv_number(out, r->baseline ? none : d->mean);
        csv_number(out, r->baseline ? none : d->lo);
        csv_number(out, r->baseline ? none : d->hi);
        csv_number(out, r->baseline ? none : r->p_holm);
        csv_number(out, r->equal_lo);
        csv_number(out, r->equal_hi);
        csv_number(out, r->p_margin_holm);
        fprintf(out, ",%s,%d", word, q->n);
        csv_number(out, r->load_cv);
        csv_number(out, r->tokens_per_s);
        fprintf(out, ",%lld\n", (long long)r->router->params);
    }
}

static void rows(const mf_compare_table *t, FILE *out, mf_compare_form form)
{
    for (int rank = 1; rank <= t->n; rank++)
        for (int i = 0; i < t->n; i++)
            if (t->rows[i].rank == rank) row_of(t, &t->rows[i], out, form);
    for (int i = 0; i < t->n; i++)
        if (t->rows[i].rank == 0) row_of(t, &t->rows[i], out, form);
}

void mf_compare_format(const mf_compare_table *t, FILE *out, mf_compare_form form)
{
    static const char *const metric[] = {"Task loss", "MSE", "Accuracy", "Bits/byte"};
    char text[1024];
    caption(t, text, sizeof text);
    if (form == MF_FORM_LATEX) {
        fputs("% needs \\usepackage{booktabs,siunitx}\n\\begin{table}\n\\centering\n\\caption{",
              out);
        put_latex(out, text);
        fprintf(out,
                "}\n\\begin{tabular}{lS[table-format=2.4(4)]S[table-format=+1.4(4)]"
                "S[table-format=1.3]lr}\n\\toprule\nRouter & {%s} & {Difference} & {$p$} & "
                "Verdict & $n$ \\\\\n\\midrule\n",
                metric[t->by]);
        rows(t, out, form);
        fputs("\\bottomrule\n\\end{tabular}\n\\end{table}\n", out);
    } else if (form == MF_FORM_MD) {
        fprintf(out,
                "| Router | %s | Difference | p | Verdict | n |\n|---|---|---|---|---|---|\n",
                metric[t->by]);
        rows(t, out, form);
        fputc('\n', out);
        put_md(out, text);
        fputc('\n', out);
    } else {
        fputs("router,label,rank,mean,sd,lo95,hi95,diff,diff_lo95,diff_hi95,p_holm,equal_lo,"
              "equal_hi,p_margin_holm,verdict,n,load_cv,tokens_per_s,params\n",
              out);
        rows(t, out, form);
    }
}
