/* Prints the table of a comparison as text for people. It fits the width of the terminal: a
 * wider table is printed in parts, and long names are shortened in the table and printed in
 * full below. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/text/shown.h"
#include "base/text/wrap.h"
#include "lab/compare/compare_parts.h"

/* Prints text, breaking lines at blanks. */
MF_PRINTF(3, 4)
static void wrapped(FILE *out, int columns, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mf_wrap_put(out, columns, 0, text);
}

static void number(FILE *out, double v, int width, int digits)
{
    if (isnan(v))
        fprintf(out, " %*s", width, "-");
    else
        fprintf(out, " %*.*f", width, digits, v);
}

/* Prints a difference with its interval: "+0.0123 [-0.0010,+0.0256]". */
static void difference(FILE *out, const mf_estimate *d, int width)
{
    char text[64];
    if (d->n == 0)
        snprintf(text, sizeof text, "-");
    else if (isnan(d->lo))
        snprintf(text, sizeof text, "%+.4f", d->mean);
    else
        snprintf(text, sizeof text, "%+.4f [%+.4f,%+.4f]", d->mean, d->lo, d->hi);
    fprintf(out, "  %-*s", width, text);
}

/* The width of the column of names: the length of the longest name, at most NAME_MOST. */
enum { NAME_MOST = 24 };
static int name_width(const mf_compare *c)
{
    size_t width = 6;
    for (int i = 0; i < c->n_routers; i++) {
        const size_t n = strlen(c->routers[i].name);
        if (n > width) width = n;
    }
    return width < NAME_MOST ? (int)width : NAME_MOST;
}

static void put_rank(FILE *out, const mf_compare_row *r)
{
    if (r->rank > 0)
        fprintf(out, "%4d", r->rank);
    else
        fprintf(out, "%4s", "-");
}

/* Writes a name, padded with blanks. A name that is too long is shortened. */
static void put_name(FILE *out, int width, const char *name)
{
    const char *safe = mf_shown(name);
    if (strlen(safe) <= (size_t)width) {
        fprintf(out, " %-*s", width, safe);
    } else {
        int n = width - 3;
        /* a character is never split */
        while (n > 0 && ((unsigned char)safe[n] & 0xC0) == 0x80)
            n--;
        fprintf(out, " %.*s%*s", n, safe, width - n, "...");
    }
}

/* Prints the names that the table shortens, and the files of plugins. */
static void print_names(const mf_compare_table *t, FILE *out, int width)
{
    for (int i = 0; i < t->n; i++) {
        const mf_compare_router *r = t->rows[i].router;
        const bool cut = strlen(mf_shown(r->name)) > (size_t)width;
        if (!cut && strcmp(r->name, r->entry.label) == 0) continue;
        put_rank(out, &t->rows[i]);
        fprintf(out, " = %s\n", mf_shown(r->entry.label));
    }
}

static void print_head(const mf_compare_table *t, FILE *out, int columns)
{
    const mf_compare *c = t->of;
    const mf_compare_router *base = &c->routers[c->baseline];
    const int64_t steps = base->runs[0].result.steps;
    const mf_compare_router *first;
    const int lacks = mf_compare_lacks(c, &first);
    if (lacks > 0)
        wrapped(out, columns, "INCOMPLETE: %d of %d routers without a result: %s%s, see below",
                lacks, c->n_routers, mf_shown(first->entry.label), lacks > 1 ? ", ..." : "");
    static const char *const words[] = {"task loss", "mean squared error", "accuracy",
                                        "loss in bits/byte"};
    wrapped(out, columns, "%s of the validation split, %s is better; %d seed%s, %lld steps%s",
            words[t->by], t->by == MF_QUALITY_ACCURACY ? "higher" : "lower",
            (int)c->spec->seeds, c->spec->seeds == 1 ? "" : "s",
            (long long)(steps > 0 ? steps : base->steps),
            c->spec->equal == MF_EQUAL_PARAMS ? ", equal active parameters"
            : c->spec->equal == MF_EQUAL_TIME ? " of the baseline, equal training time"
                                              : "");
    wrapped(out, columns,
            "half widths and [brackets]: 95 %%; differences from %s within seeds; p (t test) "
            "and flip (exact, by signs) after Holm over %d",
            mf_shown(base->name), t->compared);
}

/* Groups of columns. If the terminal has too few columns for all of them, each group gets a
 * table of its own. */
enum { QUALITY = 1, MARGIN = 2, TEST = 4, ROUTING = 8, ALL_PARTS = 15 };
/* Widths of texts that are aligned left. At the end of a line they are not padded. */
enum { DIFFERENCE = 26, VERDICT = 19, NEEDED = 5, RANGE = 18, CLAIM = 12 };
/* Columns of the terminal that all groups need after the names, and widths of the columns that
 * only some tables have. */
enum { ALL_COLUMNS = 148, PEARSON = 8, BEYOND_DELTA = 10, ALL_MARGIN = 47 };

static void print_titles(const mf_compare_table *t, FILE *out, int width, int parts)
{
    fprintf(out, "\nrank %-*s", width, "router");
    if (parts & QUALITY)
        fprintf(out, " %8s %7s  %-*s", "mean", "+-", parts == QUALITY ? 0 : DIFFERENCE,
                "difference");
    if (parts & MARGIN) {
        char interval[32]; /* equality is shown if this interval lies within the margin */
        snprintf(interval, sizeof interval, "%.4g %% interval", 100 * (1 - 2 * t->level));
        fprintf(out, " %6s  %-*s  %-*s %*s", "p", RANGE, interval, CLAIM, "verdict", NEEDED,
                "seeds");
    }
    if (parts & TEST)
        fprintf(out, " %6s %6s %6s  %-*s %*s", "p", "flip", "g", VERDICT,
                isnan(t->margin) ? "" : "a difference", NEEDED, "seeds");
    if (parts & ROUTING) {
        fprintf(out, " %7s %6s %5s %7s %9s %9s", "load CV", "drops", "NMI", "best", "tokens/s",
                "params");
        if (t->by == MF_QUALITY_MSE) fprintf(out, " %7s", "Pearson");
        if (!isnan(t->of->spec->delta)) fprintf(out, " %9s", "P(>delta)");
    }
    fputc('\n', out);
}

static void put_seeds(int n, FILE *out)
{
    if (n > 0)
        fprintf(out, " %*d", NEEDED, n);
    else
        fprintf(out, " %*s", NEEDED, n == 0 ? ">1000" : "-");
}

static void print_margin(const mf_compare_row *r, FILE *out, bool last)
{
    char text[64] = "-";
    if (r->baseline) {
        fprintf(out, " %6s  %-*s  %-*s", "", RANGE, "", last ? 0 : CLAIM + 1 + NEEDED,
                "baseline");
        return;
    }
    number(out, r->p_margin_holm, 6, 3);
    if (!isnan(r->equal_lo))
        snprintf(text, sizeof text, "[%+.4f,%+.4f]", r->equal_lo, r->equal_hi);
    fprintf(out, "  %-*s  %-*s", RANGE, text, CLAIM, mf_verdict_name(r->verdict));
    put_seeds(r->seeds_equal, out);
}

static void print_test(const mf_compare_row *r, FILE *out, bool last)
{
    const mf_paired *a = &r->against;
    if (r->baseline) {
        fprintf(out, " %6s %6s %6s  %-*s", "", "", "", last ? 0 : VERDICT + 1 + NEEDED,
                "baseline");
        return;
    }
    number(out, r->p_holm, 6, 3);
    number(out, r->p_flip_holm, 6, 3);
    number(out, a->g, 6, 2);
    fprintf(out, "  %-*s", VERDICT, mf_verdict_name(r->differs));
    put_seeds(r->seeds_needed, out);
}

static void print_row(const mf_compare_table *t, const mf_compare_row *r, FILE *out, int width,
                      int parts)
{
    put_rank(out, r);
    put_name(out, width, r->router->name);
    if (parts & QUALITY) {
        number(out, r->quality.mean, 8, 4);
        number(out, r->quality.hi - r->quality.mean, 7, 4);
        const int pad = parts == QUALITY ? 0 : DIFFERENCE;
        if (!r->baseline)
            difference(out, &r->against.diff, pad);
        else if (pad > 0)
            fprintf(out, "  %*s", pad, "");
    }
    if (parts & MARGIN) print_margin(r, out, parts == MARGIN);
    if (parts & TEST) print_test(r, out, parts == TEST);
    if (parts & ROUTING) {
        number(out, r->load_cv, 7, 3);
        number(out, r->drop_rate, 6, 3);
        number(out, r->nmi, 5, 3);
        number(out, r->nmi_best, 7, 3);
        number(out, r->tokens_per_s, 9, 0);
        fprintf(out, " %9lld", (long long)r->router->params);
        if (t->by == MF_QUALITY_MSE) number(out, r->pearson, 7, 4);
        if (!isnan(t->of->spec->delta)) number(out, r->p_better, 9, 3);
    }
    fputc('\n', out);
}

static void print_part(const mf_compare_table *t, FILE *out, int width, int parts)
{
    print_titles(t, out, width, parts);
    for (int rank = 1; rank <= t->n; rank++)
        for (int i = 0; i < t->n; i++)
            if (t->rows[i].rank == rank) print_row(t, &t->rows[i], out, width, parts);
    for (int i = 0; i < t->n; i++)
        if (t->rows[i].rank == 0) print_row(t, &t->rows[i], out, width, parts);
}

static void print_faults(const mf_compare_table *t, FILE *out)
{
    const mf_compare *c = t->of;
    for (int i = 0; i < c->n_routers; i++) {
        const mf_compare_router *r = &c->routers[i];
        if (r->refused)
            fprintf(out, "skipped: %s: %s\n", mf_shown(r->entry.label), mf_shown(r->refused));
        for (int32_t s = 0; !r->refused && s < c->spec->seeds; s++)
            if (r->runs[s].state == MF_RUN_FAILED)
                fprintf(out, "failed: %s: %s\n", mf_shown(r->runs[s].name),
                        mf_shown(r->runs[s].reason));
    }
}

/* Prints the level that earlier looks have used. */
static void print_looks(const mf_compare_table *t, FILE *out, int columns)
{
    const mf_compare *c = t->of;
    int earlier = 0;
    char because[1024] = "", planned[64] = "";
    for (int i = 0; i < c->n_looks; i++)
        earlier += c->looks[i].pairs != c->spec->seeds;
    if (earlier == 0 && !(c->most > c->spec->seeds)) return;
    for (int i = 0, n = 0; i < c->n_looks; i++) {
        const size_t at = strlen(because);
        if (c->looks[i].pairs == c->spec->seeds) continue;
        snprintf(because + at, sizeof because - at, "%s %d",
                 n++ > 0 ? "," : ", because the results were shown before with",
                 (int)c->looks[i].pairs);
    }
    const size_t at = strlen(because);
    if (earlier > 0)
        snprintf(because + at, sizeof because - at,
                 " seeds; all looks together find a difference in at most %.3g %% of "
                 "comparisons of equal routers",
                 100 * t->level_total);
    if (c->most > c->spec->seeds)
        snprintf(planned, sizeof planned, "; %d seeds are planned (--most-seeds)",
                 (int)c->most);
    wrapped(out, columns, "Verdicts of this look have level %.4g%s%s.", t->level, because,
            planned);
}

/* Says how often this number of seeds shows equality, if routers are equal and differences have
 * the median of the measured deviations. */
static void print_equality(const mf_compare_table *t, FILE *out, int columns)
{
    char given[MF_MARGIN_TEXT], other[MF_MARGIN_TEXT] = "";
    const int seeds = (int)t->of->spec->seeds;
    if (t->of->margin.value == 0) return;
    mf_margin_text(t->of->margin, given);
    if (isnan(t->margin)) {
        wrapped(out, columns,
                "No verdict about the margin %s: it cannot be converted into the unit of this "
                "table.",
                given);
        return;
    }
    if (seeds < MF_VERDICT_SEEDS || !(t->deviation > 0)) return;
    if (t->by == MF_QUALITY_LOSS && t->nats_per_bit > 0) {
        const bool bits = t->of->margin.unit == MF_MARGIN_BITS;
        snprintf(other, sizeof other, " = %.4g%s",
                 bits ? t->margin : t->margin / t->nats_per_bit, bits ? "nats" : "bpb");
    }
    wrapped(out, columns,
            "Verdicts are about the margin %s%s: equal is within it, better and worse are "
            "beyond it. With %d seeds, and the median deviation of a difference, %.4f, equal "
            "routers are found equal in %.0f %% of comparisons; the seeds beside the verdict "
            "find them in 4 of 5.",
            given, other, seeds, t->deviation,
            100 * mf_equal_power(t->margin / t->deviation, 0, seeds,
                                 t->level / (t->compared > 0 ? t->compared : 1)));
}

void mf_compare_print(const mf_compare_table *t, FILE *out, int columns)
{
    const int width = name_width(t->of);
    print_head(t, out, columns);
    const int parts = isnan(t->margin) ? ALL_PARTS & ~MARGIN : ALL_PARTS;
    const int all = width + ALL_COLUMNS + (t->by == MF_QUALITY_MSE ? PEARSON : 0) +
                    (isnan(t->of->spec->delta) ? 0 : BEYOND_DELTA) +
                    (parts & MARGIN ? ALL_MARGIN : 0);
    if (columns == 0 || columns >= all)
        print_part(t, out, width, parts);
    else
        for (int part = QUALITY; part < ALL_PARTS; part *= 2)
            if (parts & part) print_part(t, out, width, part);
    fputc('\n', out);
    print_names(t, out, width);
    print_faults(t, out);
    print_looks(t, out, columns);
    print_equality(t, out, columns);
    if (t->of->spec->seeds < MF_VERDICT_SEEDS)
        wrapped(out, columns,
                "With fewer than %d seeds nothing can be shown, so there is no verdict: try "
                "--seeds %d.",
                MF_VERDICT_SEEDS, MF_SEEDS_DEFAULT);
    else if (t->compared > 0)
        wrapped(
            out, columns,
            "seeds: so many show, in 4 of 5 comparisons, what 80 %% confidence leaves of the "
            "difference seen; %d show one of %.1f standard deviations.",
            (int)t->of->spec->seeds, t->detectable);
}
