/* The model of one run: its structure, and histograms of its weights at the start and at the
 * end. For a run without a checkpoint, the structure has no parameter counts. */
#include "report/page/report_parts.h"

#include "base/error.h"
#include "base/file/io.h"
#include "run/checkpoint/weights.h"

/* Opens the list of tensors of the newest checkpoint. NULL if there is none, or if it cannot be
 * read; the report then contains a note. */
static mf_inventory *open_inventory(mf_report_run *r)
{
    mf_inventory *v = NULL;
    char *folder = mf_path_join(r->dir, "ckpt");
    if (!folder) return NULL;
    const int rc = mf_inventory_of_checkpoint(folder, &v);
    if (rc == MF_ENOTFOUND)
        mf_error_clear();
    else if (rc != MF_OK)
        mf_report_note_error(r);
    mf_free(folder);
    return v;
}

/* Reads the weights at the start. *ret stays empty if their file is missing or damaged. */
static void read_start(mf_report_run *r, mf_weights *ret)
{
    char *path = mf_path_join(r->dir, "weights.json");
    if (path && mf_exists(path) && mf_weights_read(path, ret) != MF_OK) mf_report_note_error(r);
    mf_free(path);
}

/* Makes the outline of a histogram, divided by its highest bin. Bins are joined in pairs, or
 * in threes if there are few values. Returns false if there are no values, or if memory
 * runs out. */
static bool outline(const mf_report *p, const mf_weights_group *g, mf_series *s)
{
    const int wide = g->elements < 3000 ? 3 : 2, bins = MF_WEIGHTS_BINS / wide,
              points = 2 * bins + 2;
    double *x = mf_arena_alloc(p->arena, 3 * (size_t)points * sizeof *x), top = 0,
           share[MF_WEIGHTS_BINS] = {0};
    if (!x || g->elements == 0) return false;
    double *y = x + points;
    for (int b = 0; b < MF_WEIGHTS_BINS; b++)
        share[b / wide] += g->share[b];
    for (int b = 0; b < bins; b++)
        top = fmax(top, share[b]);
    for (int i = 0; i < points; i++) {
        x[i] = g->lo + (g->hi - g->lo) * (i / 2) / bins;
        y[i] = i > 0 && i < points - 1 && top > 0 ? share[(i - 1) / 2] / top : 0;
    }
    s->n = points;
    s->x = x;
    s->y = s->hi = y;
    s->lo = y + points; /* a line of zeros */
    return true;
}

static const char *words_of(const mf_report *p, const char *when, const mf_weights_group *g)
{
    if (g->elements == 0) return "";
    return mf_report_strf(p, " %s: mean %.3g, standard deviation %.3g, from %.3g to %.3g.",
                          when, g->mean, g->sd, g->least, g->most);
}

static void histogram(const mf_report *p, mf_module module, const mf_weights_group *start,
                      const mf_weights_group *end)
{
    mf_series s[2] = {{.name = "at the start"}, {.name = "at the end"}};
    const mf_weights_group *of[] = {start, end};
    int n = 0;
    for (int i = 0; i < 2; i++) {
        const mf_series named = {.name = s[i].name, .colour = i + 1};
        s[n] = named;
        n += outline(p, of[i], &s[n]);
    }
    if (n == 0) return;
    const int64_t elements = end->elements > 0 ? end->elements : start->elements;
    mf_html_figure(p->d, mf_report_strf(p, "Weights: %s (%s)", mf_module_name(module),
                                        mf_report_count(p, (double)elements)));
    mf_svg_plot(p->d, &(mf_plot){.title = mf_module_name(module),
                                 .x_label = "value",
                                 .y_label = "frequency over the highest",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 260,
                                 .y_lo = 0,
                                 .y_hi = 1,
                                 .n_series = n,
                                 .series = s});
    mf_html_figure_end(
        p->d, mf_report_strf(p, "%s%s", words_of(p, "Start", start), words_of(p, "End", end)));
}

void mf_report_model(const mf_report *p, mf_report_run *r)
{
    mf_weights *w = mf_arena_alloc(p->arena, 2 * sizeof *w), *start = w, *end = w + 1;
    /* A failure to read the checkpoint must not replace an earlier MF_ENOMEM. */
    if (!w || mf_error_code() == MF_ENOMEM) return;
    mf_inventory *v = open_inventory(r);
    read_start(r, start);
    if (v && mf_weights_of(v, end) != MF_OK) {
        mf_report_note_error(r);
        *end = (mf_weights){0};
    }
    mf_html_section_closed(p->d, "structure", "Structure and weights");
    mf_report_structure(p, r, v);
    mf_html_figures(p->d);
    for (int i = 0; i < MF_MODEL_MODULES; i++)
        histogram(p, (mf_module)i, &start->group[i], &end->group[i]);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
    mf_inventory_free(v);
}
