/* report/page/report_curves.h: curves over the steps. Only files of the report include it. */
#ifndef MF_REPORT_CURVES_H
#define MF_REPORT_CURVES_H

#include "report/page/report_parts.h"

#define MF_CURVES_MAX 32

typedef struct mf_curves {
    mf_series s[MF_CURVES_MAX];
    int n;
} mf_curves;

/* Adds a track, and returns its series. NULL if the track is empty or the figure is full. */
mf_series *mf_curves_add(mf_curves *c, const char *name, mf_track t);
/* Writes one figure, or nothing if there are no curves. plot: y axes and levels. caption may
 * be NULL. */
void mf_curves_figure(const mf_report *p, const char *title, const char *caption, mf_plot plot,
                      const mf_curves *c);

/* The argument of mf_pick_layer: a measure and a layer; layer -1: the mean over the layers. */
typedef struct mf_layer_pick {
    double (*of)(const mf_layer_stats *s);
    int layer;
} mf_layer_pick;
double mf_pick_layer(const mf_metrics_record *m, const void *layer_pick);

/* Draws figures of classification and regression, for one run or several; none without such
 * tasks. They belong to the section of mf_report_learning. */
void mf_report_examples(const mf_report *p);

/* Draws the seconds of training and of validation, in the same section. */
void mf_report_time(const mf_report *p);
/* Medians over a run's validations: seconds of training since the one before, and of the
 * validation itself. NaN if the run has none. */
void mf_report_seconds(const mf_report_run *r, double *ret_training, double *ret_validation);
/* Whether the run is validated after each epoch. */
bool mf_report_by_epoch(const mf_report_run *r);

#endif
