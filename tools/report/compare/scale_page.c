/* report/compare/scale_page.c: the curves of routers over compute. What was measured stands
 * first; the common form only where the seeds determine it; what lies beyond the largest size
 * is dashed, has its interval, and is called extrapolated. */
#include "report/compare/scale_page.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/text/shown.h"
#include "base/text/wrap.h"
#include "report/page/report_parts.h"
#include <moefw/version.h>

/* ---- text ---- */

static const char *range_text(char *out, size_t size, mf_scale_range v, const char *form,
                              const char *mark)
{
    char one[32], lo[32], hi[32];
    if (isnan(v.value)) {
        snprintf(out, size, "-");
        return out;
    }
    /* the forms are constants of this file */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(one, sizeof one, form, v.value);
    snprintf(lo, sizeof lo, form, v.lo);
    snprintf(hi, sizeof hi, form, v.hi);
#pragma GCC diagnostic pop
    if (isnan(v.lo))
        snprintf(out, size, "%s%s", one, mark);
    else
        snprintf(out, size, "%s%s [%s, %s]", one, mark, lo, hi);
    return out;
}

static void form_text(const mf_scaling *s, char *out, size_t size)
{
    char a[112], c[112];
    if (s->identified)
        snprintf(out, size, "L = a + b C^-c with a %s, c %s (90 %%)",
                 range_text(a, sizeof a, s->a, "%.3f", ""),
                 range_text(c, sizeof c, s->c, "%.3f", ""));
    else
        snprintf(out, size, "a and c of L = a + b C^-c are not identified: %s", s->why);
}

void mf_scale_print(const mf_scaling *s, const mf_scale_view *v, FILE *out)
{
    char form[320], diff[112], speed[112];
    const int n = s->data.sizes, R = s->data.routers, base = s->data.baseline;
    fprintf(out,
            "%d sizes, %d seeds, %g tokens for each active parameter, train.lr %g at all\n", n,
            s->data.seeds, v->ratio, v->lr);
    fprintf(out, "%-18s %6s %8s  %-26s %s\n", "router", "dim", "loss", "difference",
            "speed-up (90 %)");
    for (int r = 0; r < R; r++) {
        const mf_scale_router *x = &s->router[r];
        for (int i = 0; i < n; i++) {
            fprintf(out, "%-18.18s %6lld %8.4f", mf_shown(i == 0 ? v->names[r] : ""),
                    (long long)v->width[i], x->loss[i]);
            if (r == base)
                fprintf(out, "  baseline, slope %.3f\n", s->slope[i]);
            else
                fprintf(out, "  %-26s %s\n",
                        range_text(diff, sizeof diff, x->diff[i], "%+.4f", ""),
                        range_text(speed, sizeof speed, x->speed[i], "%.2f",
                                   x->beyond[i] ? "*" : ""));
        }
        if (r != base)
            fprintf(out, "%-18s slope of ln speed-up over ln C: %s\n", "",
                    range_text(diff, sizeof diff, x->trend, "%+.3f", ""));
        if (r != base && s->identified)
            fprintf(out, "%-18s speed-up by the common form: %s\n", "",
                    range_text(speed, sizeof speed, x->joint, "%.2f", ""));
        if (s->identified)
            fprintf(out, "%-18s extrapolated to %d C: %s\n", "", (int)MF_SCALE_REACH,
                    range_text(diff, sizeof diff, x->ahead, "%.4f", ""));
    }
    form_text(s, form, sizeof form);
    mf_wrap_line(out, 2, "%s", form);
    mf_wrap_line(out, 2,
                 "slope: nats that the baseline gains by each factor e of compute; *: "
                 "beyond its measured curve, by its last piece");
}

/* ---- JSON ---- */

static void put_range(mf_jw *w, const char *key, mf_scale_range v)
{
    mf_jw_key(w, key);
    mf_jw_array(w);
    mf_jw_real(w, v.value);
    mf_jw_real(w, v.lo);
    mf_jw_real(w, v.hi);
    mf_jw_end(w);
}

void mf_scale_json(mf_jw *w, const mf_scaling *s, const mf_scale_view *v)
{
    const mf_scale_data *d = &s->data;
    mf_jw_object(w);
    mf_jw_kv_string(w, "baseline", v->names[d->baseline]);
    mf_jw_kv_int(w, "seeds", d->seeds);
    mf_jw_kv_real(w, "tokens_per_parameter", v->ratio);
    mf_jw_kv_real(w, "lr", v->lr);
    mf_jw_kv_bool(w, "identified", s->identified);
    if (s->why) mf_jw_kv_string(w, "why", s->why);
    if (s->identified) put_range(w, "a", s->a);
    if (s->identified) put_range(w, "c", s->c);
    mf_jw_kv_real(w, "p_line", s->p_line);
    mf_jw_kv_real(w, "p_form", s->p_form);
    mf_jw_key(w, "routers");
    mf_jw_array(w);
    for (int r = 0; r < d->routers; r++) {
        const mf_scale_router *x = &s->router[r];
        mf_jw_object(w);
        mf_jw_kv_string(w, "router", v->names[r]);
        mf_jw_kv_real(w, "b", x->b);
        put_range(w, "speed_up", x->joint);
        put_range(w, "trend", x->trend);
        put_range(w, "extrapolated", x->ahead);
        mf_jw_key(w, "sizes");
        mf_jw_array(w);
        for (int i = 0; i < d->sizes; i++) {
            mf_jw_object(w);
            mf_jw_kv_int(w, "dim", v->width[i]);
            mf_jw_kv_int(w, "steps", v->steps[i]);
            mf_jw_kv_real(w, "compute", d->compute[i * d->routers + r]);
            mf_jw_kv_real(w, "loss", x->loss[i]);
            mf_jw_kv_real(w, "slope", s->slope[i]);
            put_range(w, "difference", x->diff[i]);
            put_range(w, "speed_up", x->speed[i]);
            mf_jw_kv_bool(w, "beyond", x->beyond[i]);
            mf_jw_end(w);
        }
        mf_jw_end(w);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_end(w);
}

/* ---- page ---- */

enum { CURVE = 40, SHOWN = 6 };

/* Points of each router, its curve by the common form, and what is extrapolated of it. */
static void curves(const mf_report *p, const mf_scaling *s, const mf_scale_view *v)
{
    const mf_scale_data *d = &s->data;
    const int n = d->sizes, R = d->routers < SHOWN ? d->routers : SHOWN;
    static double x[SHOWN][MF_SCALE_SIZES], y[SHOWN][MF_SCALE_SIZES], cx[SHOWN][CURVE],
        cy[SHOWN][CURVE], ax[SHOWN][2], ay[SHOWN][2], lo[SHOWN], hi[SHOWN];
    mf_series series[4 * SHOWN];
    int count = 0;
    for (int r = 0; r < R; r++) {
        const double first = d->compute[r], last = d->compute[(n - 1) * d->routers + r];
        for (int i = 0; i < n; i++) {
            x[r][i] = d->compute[i * d->routers + r];
            y[r][i] = s->router[r].loss[i];
        }
        series[count++] = (mf_series){
            .name = v->names[r], .n = n, .x = x[r], .y = y[r], .points = true, .colour = r + 1};
        if (!s->identified) continue;
        for (int i = 0; i < CURVE; i++) {
            cx[r][i] = first * pow(last / first, (double)i / (CURVE - 1));
            cy[r][i] = s->a.value + s->router[r].b * pow(cx[r][i] / s->middle, -s->c.value);
        }
        series[count++] =
            (mf_series){.n = CURVE, .x = cx[r], .y = cy[r], .thin = true, .colour = r + 1};
        ax[r][0] = last;
        ax[r][1] = MF_SCALE_REACH * last;
        ay[r][0] = cy[r][CURVE - 1];
        ay[r][1] = s->router[r].ahead.value;
        lo[r] = s->router[r].ahead.lo;
        hi[r] = s->router[r].ahead.hi;
        series[count++] = (mf_series){
            .n = 2, .x = ax[r], .y = ay[r], .thin = true, .dashed = true, .colour = r + 1};
        series[count++] = (mf_series){.n = 1,
                                      .x = &ax[r][1],
                                      .y = &ay[r][1],
                                      .lo = &lo[r],
                                      .hi = &hi[r],
                                      .points = true,
                                      .colour = r + 1};
    }
    mf_html_figure(p->d, "Loss over compute");
    mf_svg_plot(p->d, &(mf_plot){.title = "Loss over compute",
                                 .x_label = "6 x active parameters x tokens, FLOP",
                                 .y_label = "validation loss",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 320,
                                 .log_x = true,
                                 .n_series = count,
                                 .series = series});
    mf_html_figure_end(
        p->d,
        s->identified
            ? "Points: means over seeds. Lines: the common form. Dashed, with "
              "its 90 % interval: extrapolated to 4 times the compute."
            : mf_report_strf(p, "Points: means over seeds. No form is drawn: %s.", s->why));
}

static void speeds(const mf_report *p, const mf_scaling *s, const mf_scale_view *v)
{
    const mf_scale_data *d = &s->data;
    static double x[SHOWN][MF_SCALE_SIZES], y[SHOWN][MF_SCALE_SIZES], lo[SHOWN][MF_SCALE_SIZES],
        hi[SHOWN][MF_SCALE_SIZES];
    static const mf_level one = {1, "as the baseline"};
    mf_series series[SHOWN];
    int count = 0;
    for (int r = 0; r < d->routers && count < SHOWN; r++) {
        if (r == d->baseline) continue;
        for (int i = 0; i < d->sizes; i++) {
            const mf_scale_range *k = &s->router[r].speed[i];
            x[count][i] = d->compute[i * d->routers + r];
            y[count][i] = k->value;
            lo[count][i] = isnan(k->lo) ? k->value : k->lo;
            hi[count][i] = isnan(k->hi) ? k->value : k->hi;
        }
        series[count] = (mf_series){.name = v->names[r],
                                    .n = d->sizes,
                                    .x = x[count],
                                    .y = y[count],
                                    .lo = lo[count],
                                    .hi = hi[count],
                                    .points = true,
                                    .colour = r + 1};
        count++;
    }
    if (count == 0) return;
    mf_html_figure(p->d, "Speed-up over compute");
    mf_svg_plot(p->d, &(mf_plot){.title = "Speed-up over compute",
                                 .x_label = "6 x active parameters x tokens, FLOP",
                                 .y_label = "compute of the baseline / compute",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 320,
                                 .log_x = true,
                                 .log_y = true,
                                 .n_series = count,
                                 .series = series,
                                 .n_levels = 1,
                                 .levels = &one});
    mf_html_figure_end(p->d,
                       "How much more compute the baseline needs for the same loss, on its "
                       "measured curve; 90 % intervals.");
}

static void table(const mf_report *p, const mf_scaling *s, const mf_scale_view *v)
{
    static const char align[] = "lrrrrr";
    static const char *const head[] = {"router", "dim",        "steps",
                                       "loss",   "difference", "speed-up"};
    char diff[112], speed[112];
    mf_html_table(p->d, align, head);
    for (int r = 0; r < s->data.routers; r++)
        for (int i = 0; i < s->data.sizes; i++) {
            const mf_scale_router *x = &s->router[r];
            const bool base = r == s->data.baseline;
            const char *const cells[] = {
                v->names[r],
                mf_report_strf(p, "%lld", (long long)v->width[i]),
                mf_report_strf(p, "%lld", (long long)v->steps[i]),
                mf_report_strf(p, "%.4f", x->loss[i]),
                base ? "baseline"
                     : mf_report_strf(p, "%s",
                                      range_text(diff, sizeof diff, x->diff[i], "%+.4f", "")),
                base ? ""
                     : mf_report_strf(p, "%s",
                                      range_text(speed, sizeof speed, x->speed[i], "%.2f",
                                                 x->beyond[i] ? "*" : ""))};
            mf_html_row(p->d, align, cells);
        }
    mf_html_table_end(p->d);
}

static void trends(const mf_report *p, const mf_scaling *s, const mf_scale_view *v)
{
    static const char align[] = "lrrr";
    static const char *const head[] = {"router", "slope of ln speed-up over ln C",
                                       "speed-up by the form", "extrapolated to 4 C"};
    char trend[112], joint[112], ahead[112];
    mf_html_table(p->d, align, head);
    for (int r = 0; r < s->data.routers; r++) {
        const mf_scale_router *x = &s->router[r];
        const bool base = r == s->data.baseline;
        const char *const cells[] = {
            v->names[r], base ? "" : range_text(trend, sizeof trend, x->trend, "%+.3f", ""),
            base ? "" : range_text(joint, sizeof joint, x->joint, "%.2f", ""),
            range_text(ahead, sizeof ahead, x->ahead, "%.4f", "")};
        mf_html_row(p->d, align, cells);
    }
    mf_html_table_end(p->d);
}

static void page(const mf_report *p, const mf_scaling *s, const mf_scale_view *v)
{
    char form[320];
    form_text(s, form, sizeof form);
    mf_html_begin(p->d, "Routers over scale",
                  mf_report_strf(p, "%d sizes, %d seeds, baseline %s", s->data.sizes,
                                 s->data.seeds, v->names[s->data.baseline]),
                  0);
    mf_html_section(p->d, "measured", "Measured");
    mf_html_paragraph(
        p->d, mf_report_strf(p,
                             "Each size was trained on %g tokens for each of its active "
                             "parameters, with the learning rate %g at all sizes. "
                             "Intervals hold 90 %% of a bootstrap over seeds.",
                             v->ratio, v->lr));
    mf_html_figures(p->d);
    curves(p, s, v);
    speeds(p, s, v);
    mf_html_figures_end(p->d);
    if (s->data.routers > SHOWN)
        mf_html_paragraph(p->d, "The figures show the first 6 routers.");
    table(p, s, v);
    mf_html_paragraph(p->d,
                      "* The loss lies beyond the measured curve of the baseline; its last "
                      "piece is continued.");
    mf_html_section_end(p->d);
    mf_html_section(p->d, "form", "The common form");
    mf_html_paragraph(p->d, form);
    trends(p, s, v);
    mf_html_section_end(p->d);
    mf_html_end(p->d, "moefw " MOEFW_VERSION ". One file, nothing loaded from elsewhere.");
}

int mf_report_scale(const mf_scaling *s, const mf_scale_view *v, const char *out)
{
    mf_report p = {.arena = mf_arena_new(), .d = mf_doc_new()};
    size_t n;
    int rc = p.arena && p.d ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) {
        page(&p, s, v);
        const char *text = mf_doc_string(p.d, &n);
        rc = text ? mf_write_file_atomic(out, text, n) : MF_ENOMEM;
    }
    mf_doc_free(p.d);
    mf_arena_free(p.arena);
    return rc;
}
