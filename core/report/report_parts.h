/* report/report_parts.h: inside the report: its sections. Each appends what the runs hold and
 * nothing where they hold none. */
#ifndef MF_REPORT_PARTS_H
#define MF_REPORT_PARTS_H

#include "report/html.h"
#include "report/report_data.h"
#include "report/svg.h"
#include "train/inventory.h"

typedef struct mf_report {
    mf_doc *d;
    mf_report_run **runs;
    int n;
    mf_arena *arena;
} mf_report;

/* Formatted text from the report's arena; "" when memory runs out. */
const char *mf_report_strf(const mf_report *p, const char *fmt, ...) MF_PRINTF(2, 3);
/* "1.2345" with so many digits; "-" for NaN. */
const char *mf_report_num(const mf_report *p, int digits, double v);

/* What a run's loss is taken in: "nats a token", "mean squared error". */
const char *mf_report_loss_unit(const mf_report_run *r);
/* "4.83 M"; "-" for NaN. */
const char *mf_report_count(const mf_report *p, double n);

/* For one run or several. */
void mf_report_learning(const mf_report *p); /* loss, accuracy, learning rate, speed */
void mf_report_balance(const mf_report *p);  /* entropy, load CV, drop rate */
void mf_report_skew(const mf_report *p); /* does uneven use of experts go with quality? */
/* For one run. */
void mf_report_modules(const mf_report *p,
                       const mf_report_run *r); /* parameters, loaded and active */
void mf_report_tasks(const mf_report *p, const mf_report_run *r);
void mf_report_load(const mf_report *p, const mf_report_run *r);
void mf_report_topics(const mf_report *p, const mf_report_run *r);
void mf_report_routing(const mf_report *p, const mf_report_run *r);
void mf_report_steps(const mf_report *p, const mf_report_run *r); /* at several evaluations */
void mf_report_attention(const mf_report *p, const mf_report_run *r);
void mf_report_heads(const mf_report *p, const mf_report_run *r);
void mf_report_model(const mf_report *p, mf_report_run *r); /* structure and weights */
void mf_report_turns(const mf_report *p, const mf_report_run *r);
void mf_report_repeat(const mf_report *p);

/* Measures of layers, with the words for their figures. */
typedef struct mf_measure {
    double (*of)(const mf_layer_stats *s);
    const char *title, *y_label, *caption;
    bool from_zero, hide_zero; /* hide_zero: no figure when it is 0 throughout */
} mf_measure;
extern const mf_measure mf_report_measures[]; /* ends with a NULL title */
/* Picks; the first takes NULL, the second a mf_measure and gives the mean over the layers. */
double mf_report_pick_loss(const mf_metrics_record *m, const void *arg);
double mf_report_pick_measure(const mf_metrics_record *m, const void *measure);

/* One figure each; nothing when the run lacks what it shows. layer: index among MoE layers. */
void mf_report_load_heat(const mf_report *p, const mf_report_run *r, int layer,
                         const char *title);
void mf_report_router_heat(const mf_report *p, const mf_report_run *r, int layer,
                           const char *title);
void mf_report_topic_matrix(const mf_report *p, const mf_report_run *r, int layer,
                            const char *title);
void mf_report_head_states(const mf_report *p, const mf_report_run *r);
/* v: the run's parameters, or NULL: then nothing is counted. */
void mf_report_structure(const mf_report *p, const mf_report_run *r, const mf_inventory *v);
void mf_report_gate_table(const mf_report *p, const mf_sample *s, int layer);
/* names, layers: [n_runs]. */
void mf_report_gate_histogram(const mf_report *p, int n_runs, mf_report_run *const *runs,
                              const int *layers, const char *const *names);
/* "0", "1", ...: names of n experts. */
const char *const *mf_report_token_names(const mf_report *p, const mf_sample *s, int n);
const char *const *mf_report_numbers(const mf_report *p, int n);

bool mf_report_has_layers(const mf_report *p);
bool mf_report_has_topics(const mf_report_run *r);
bool mf_report_has_modules(const mf_report_run *r);
bool mf_report_has_turns(const mf_report_run *r);
bool mf_report_has_heads(const mf_report_run *r);
bool mf_report_has_tasks(const mf_report_run *r);
bool mf_report_has_steps(const mf_report_run *r);
bool mf_report_has_attention(const mf_report_run *r);

#endif
