/* report/page/report_parts.h: sections and figures of a run's report, and the functions that
 * they share. A section or figure appends nothing if the runs have no data for it. Only the
 * files of report include it. */
#ifndef MF_REPORT_PARTS_H
#define MF_REPORT_PARTS_H

#include "report/page/html.h"
#include "report/page/report_data.h"
#include "report/svg/svg.h"
#include "run/checkpoint/inventory.h"

typedef struct mf_report {
    mf_doc *d;
    mf_report_run **runs;
    int n;
    mf_arena *arena;
    int refresh; /* seconds after which a browser reloads the page; 0: never */
} mf_report;

/* The meaning of the colours in maps of shares (mf_heat.even), as a text for the page. */
#define MF_SHARE_COLOURS                                                                       \
    "Maps of shares and probabilities of experts have one scale of colours: pale is the even " \
    "share 1 / E, blue is less, down to a quarter of it or below, brown is more, up to 4 "     \
    "times or above. Maps of gates are pale at the even gate of the chosen experts."

/* Formatted text in the report's arena, cut to 1023 bytes; "" if memory runs out. */
const char *mf_report_strf(const mf_report *p, const char *fmt, ...) MF_PRINTF(2, 3);
/* v with that many significant digits, such as "1.2345"; "-" if v is NaN. */
const char *mf_report_num(const mf_report *p, int digits, double v);

/* Unit of a run's loss, such as "nats/token" or "mean squared error". */
const char *mf_report_loss_unit(const mf_report_run *r);
/* Whether the losses per token of the runs are not comparable, and bits per byte replace them.
 * This is so if tokens of different tokenizers contain different numbers of bytes on average,
 * and all losses are known in bits per byte. */
bool mf_report_by_bits(const mf_report *p);
/* A rounded count, such as "4.83 M"; "-" if n is NaN. */
const char *mf_report_count(const mf_report *p, double n);

/* Sections for one run or for several runs. */
void mf_report_differences(const mf_report *p); /* differences of configurations; only for
                                                 * several runs */
void mf_report_learning(const mf_report *p);    /* loss, scores, learning rate, speed, memory */
void mf_report_balance(const mf_report *p);     /* entropies, load CV, drop rate, NMI, ... */
void mf_report_skew(const mf_report *p);        /* correlation of expert balance with quality */
/* Sections for one run only. */
/* numbers of parameters: existing, and used by a token */
void mf_report_modules(const mf_report *p, const mf_report_run *r);
void mf_report_tasks(const mf_report *p, const mf_report_run *r);
void mf_report_load(const mf_report *p, const mf_report_run *r);
void mf_report_labels(const mf_report *p, const mf_report_run *r);
void mf_report_routing(const mf_report *p, const mf_report_run *r);
/* gates of one text at several evaluations */
void mf_report_steps(const mf_report *p, const mf_report_run *r);
void mf_report_attention(const mf_report *p, const mf_report_run *r);
void mf_report_heads(const mf_report *p, const mf_report_run *r);
/* Draws loss and speed of several runs against their shares of pruned heads, in the section of
 * mf_report_learning; nothing if all shares are equal. */
void mf_report_pruned_runs(const mf_report *p);
void mf_report_model(const mf_report *p, mf_report_run *r); /* structure of the model, and
                                                             * its weights */
void mf_report_changes(const mf_report *p, const mf_report_run *r);

/* A measure of a layer, with the titles of its figure. */
typedef struct mf_measure {
    double (*of)(const mf_layer_stats *s);
    const char *title, *y_label, *caption;
    bool from_zero, hide_zero; /* hide_zero: the figure is omitted if all values are 0 */
} mf_measure;
extern const mf_measure mf_report_measures[]; /* ends with an entry whose title is NULL */
/* Functions for mf_report_track. The first two ignore arg. mf_report_pick_measure expects an
 * mf_measure as arg, and returns its mean over the layers. */
double mf_report_pick_loss(const mf_metrics_record *m, const void *arg);
double mf_report_pick_bits(const mf_metrics_record *m, const void *arg); /* bits per byte */
double mf_report_pick_measure(const mf_metrics_record *m, const void *measure);

/* Each of these functions writes one figure, or nothing if the run has no data for it. layer:
 * index among the MoE layers. */
void mf_report_load_heat(const mf_report *p, const mf_report_run *r, int layer,
                         const char *title);
void mf_report_router_heat(const mf_report *p, const mf_report_run *r, int layer,
                           const char *title);
void mf_report_label_matrix(const mf_report *p, const mf_report_run *r, int layer,
                            const char *title);
void mf_report_head_states(const mf_report *p, const mf_report_run *r);
/* Draws the structure of the model. v: the parameters of the run's checkpoint; NULL: parameters
 * are not counted. */
void mf_report_structure(const mf_report *p, const mf_report_run *r, const mf_inventory *v);
void mf_report_gate_table(const mf_report *p, const mf_sample *s, int layer);
/* Draws a histogram of gates. runs, layers, names: [n_runs]. At most 32 runs are shown. */
void mf_report_gate_histogram(const mf_report *p, int n_runs, mf_report_run *const *runs,
                              const int *layers, const char *const *names);
/* Labels of the first n tokens; NULL if memory runs out. */
const char *const *mf_report_token_names(const mf_report *p, const mf_sample *s, int n);
/* The labels "0" to "n-1", for experts, layers or heads; NULL if memory runs out. */
const char *const *mf_report_numbers(const mf_report *p, int n);

bool mf_report_has_labels(const mf_report_run *r);
bool mf_report_has_modules(const mf_report_run *r);
bool mf_report_has_changes(const mf_report_run *r);
bool mf_report_has_heads(const mf_report_run *r);
bool mf_report_has_tasks(const mf_report_run *r);
bool mf_report_has_steps(const mf_report_run *r);
bool mf_report_has_attention(const mf_report_run *r);

#endif
