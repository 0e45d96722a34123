/* Areas stacked on one another over a numeric axis. Each area is between two running sums, so
 * neighbouring areas share an edge. */
#include "base/mem.h"
#include "report/svg/svg_parts.h"

#define MAX_SERIES 16

static void put_area(mf_doc *d, const mf_scale *x, const mf_scale *y, const mf_stack *s,
                     const double *below, const double *above, int area)
{
    mf_doc_put(d, "<path d=\"");
    for (int i = 0; i < 2 * s->n; i++) {
        const int k = i < s->n ? i : 2 * s->n - 1 - i; /* the second half goes backwards along
                                                        * the lower edge */
        mf_doc_put(d, i == 0 ? "M" : "L");
        mf_doc_number(d, mf_scale_position(x, s->x[k]));
        mf_doc_put(d, " ");
        mf_doc_number(d, mf_scale_position(y, i < s->n ? above[k] : below[k]));
    }
    mf_doc_printf(d, "Z\" fill=\"%s\" fill-opacity=\".8\">", mf_colour(area));
    const double last = s->n > 0 ? s->values[area * s->n + s->n - 1] : 0;
    mf_svg_tip(d, s->names[area], "%s %.5g at the end", s->y_label ? s->y_label : "", last);
    mf_doc_put(d, "</path>\n");
}

void mf_svg_stack(mf_doc *d, const mf_stack *s)
{
    const double width = s->width > 0 ? s->width : 640,
                 height = s->height > 0 ? s->height : 300;
    mf_legend_item legend[MAX_SERIES];
    const int series = s->n_series < MAX_SERIES ? s->n_series : MAX_SERIES;
    double *edge = mf_alloc(2 * (size_t)s->n + 1, sizeof *edge);
    for (int i = 0; i < series; i++)
        legend[i] = (mf_legend_item){s->names[i], mf_colour(i), false, true};
    mf_scale x =
        mf_scale_make((mf_range){s->n > 0 ? s->x[0] : 0, s->n > 0 ? s->x[s->n - 1] : 1}, false,
                      true, true, 6);
    mf_scale y = mf_scale_make((mf_range){0, s->top}, false, true, true, 5);
    mf_box b = {13 + mf_ticks_width(&y) + (s->y_label ? MF_LINE : 0), 10, width - 14,
                height - 8 - 2 * MF_LINE};
    b.top += mf_svg_legend(NULL, 0, 0, b.right - b.left, series, legend);
    x.from = b.left;
    x.to = b.right;
    y.from = b.bottom;
    y.to = b.top;
    mf_svg_begin(d, width, height, s->title);
    mf_svg_legend(d, b.left, 2, b.right - b.left, series, legend);
    for (int i = 0; edge && i < series; i++) {
        double *below = edge + (i % 2) * s->n, *above = edge + (1 - i % 2) * s->n;
        for (int k = 0; k < s->n; k++)
            above[k] = (i > 0 ? below[k] : (below[k] = 0)) + s->values[i * s->n + k];
        put_area(d, &x, &y, s, below, above, i);
    }
    mf_svg_axis_y(d, &b, &y, s->y_label);
    mf_svg_axis_x(d, &b, &x, s->x_label);
    mf_svg_end(d);
    mf_free(edge);
}
