/* report/report_curves.h: inside the report: curves over the steps, collected and drawn. */
#ifndef MF_REPORT_CURVES_H
#define MF_REPORT_CURVES_H

#include "report/report_parts.h"

#define MF_CURVES_MAX 32

typedef struct mf_curves {
    mf_series s[MF_CURVES_MAX];
    int n;
} mf_curves;

/* NULL: nothing to add, or no room. */
mf_series *mf_curves_add(mf_curves *c, const char *name, mf_track t);
/* One figure; nothing without curves. caption: or NULL. */
void mf_curves_figure(const mf_report *p, const char *title, const char *caption, mf_plot plot,
                      const mf_curves *c);

/* A measure of a layer, as a pick; layer -1: the mean over the layers. */
typedef struct mf_layer_pick {
    double (*of)(const mf_layer_stats *s);
    int layer;
} mf_layer_pick;
double mf_pick_layer(const mf_metrics_record *m, const void *layer_pick);

/* Figures of what is learned of whole examples, for one run or several; none without such
 * tasks. */
void mf_report_examples(const mf_report *p);

#endif
