/* report/compare/compare_data.h: the data of a comparison's report: its table and its runs.
 * Only the files of report/compare include it. */
#ifndef MF_REPORT_COMPARE_DATA_H
#define MF_REPORT_COMPARE_DATA_H

#include "report/page/report_parts.h"

typedef struct mf_cmp_row {
    const char *router, *verdict; /* router: the label as it was given */
    const char *shown; /* for tables: the label, with the plugin's name instead of its file */
    const char *name;  /* for figures: the same text, or a shorter one */
    bool baseline;
    int rank, n, failed;
    double params, params_router, mean, lo, hi, diff, diff_lo, diff_hi, p_holm;
    /* with a margin: whether a difference is shown, and the interval that shows equality if it
     * lies within the margin */
    const char *difference;
    double equal_lo, equal_hi, p_margin;
    double p_flip, p_better; /* p_flip: p of the sign-flip test after Holm's correction; both
                              * are NaN if not known */
    double load_cv, drop_rate, nmi, nmi_best, tokens_per_s;
    double nmi_lo, nmi_hi; /* lowest and highest nmi_best of the runs */
    mf_report_run **runs;  /* runs that could be opened */
    /* layer: index of the MoE layer that is shown. It is the layer of runs[0] with the highest
     * NMI, or the last layer if NMI is unknown; -1: the run has no MoE layer */
    int n_runs, layer;
} mf_cmp_row;

typedef struct mf_comparison {
    mf_report page; /* document and arena; its list of runs is empty */
    const char *folder, *name;
    mf_json *json;
    char *plan; /* text of plan.json, or NULL */
    const char *metric, *equal;
    const char *baseline; /* label of the baseline, as shown */
    bool higher_is_better, complete;
    int64_t seeds, steps;
    double level, level_total; /* level of this look, and of all looks; NaN: not known */
    double floor;              /* entropy floor; NaN: not known */
    double margin;             /* of the verdicts, in the unit of metric; NaN: none */
    int n, n_skipped;
    mf_cmp_row *rows; /* sorted, best first */
} mf_comparison;

/* Reads the comparison in `folder`. This text must outlive the comparison. Fails like
 * mf_report_comparison. The caller frees it with mf_comparison_close. */
int mf_comparison_open(const char *folder, mf_comparison **ret);
void mf_comparison_close(mf_comparison *c);

/* These functions write the sections with figures. */
void mf_cmp_quality(const mf_comparison *c); /* figures of quality against cost,
                                              * differences, balance */
void mf_cmp_curves(const mf_comparison *c);  /* curves of means over seeds, with bands */
/* Whether one of the shown runs has a corpus with labels. */
bool mf_cmp_has_labels(const mf_comparison *c);
void mf_cmp_pictures(const mf_comparison *c); /* figures of routing and load of each router */

/* With a margin, writes its section: verdicts, intervals, and a figure of all differences. */
void mf_cmp_margin(const mf_comparison *c);
const char *mf_cmp_metric_label(const mf_comparison *c);

/* Writes the trials of a search if the comparison compares the winners of a search. */
void mf_cmp_search(const mf_comparison *c);

#endif
