/* train/metrics/metrics.h: metrics.jsonl, written by the training loop and read by reports.
 *
 * One object a line; every line has step, split, dtype, loss, task_loss, lr, grad_norm, tokens,
 * tokens_per_s and wall_s (null where there is no value); the rest when present. Of
 * all that tokens_per_s and wall_s alone depend on the machine: runs of one configuration and
 * seed have the same file but for them. What else is measured of it has a file of its own
 * (train/metrics/memory.h).
 *
 * Writing:  mf_metrics_record r; mf_metrics_record_init(&r); fill; mf_metrics_put(log, &r);
 * Nothing is kept of r after the call.
 */
#ifndef MF_TRAIN_METRICS_H
#define MF_TRAIN_METRICS_H

#include "base/text/json.h"
#include "plugin/instance.h"
#include "train/metrics/step_file.h"

typedef struct mf_named_value {
    const char *name; /* NULL: not written */
    double value;     /* NaN becomes null */
} mf_named_value;

/* What one controller reports: controllers: {NAME: {value...}}. */
typedef struct mf_controller_record {
    const char *name;
    int n;
    const mf_named_value *values;
} mf_controller_record;

/* Of one task, where there are several: tasks: {NAME: {...}}. */
typedef struct mf_task_score {
    const char *name;
    bool number;                   /* regress, else classify */
    double weight, loss;           /* loss: before the weight */
    int64_t rows;                  /* that have a label */
    double accuracy, macro_f1;     /* classify */
    double mse, pearson, spearman; /* regress; NaN: not written */
} mf_task_score;

/* Changes (mf_change of plugin/instance.h) become turns: [{step, option, from, to, by,
 * reason}]. Log a line for the step in which one happens, even if log_every would not. */

typedef struct mf_metrics_record {
    int64_t step;
    const char *split;           /* "train", "val", "test" */
    const char *dtype;           /* of products, "f32" or "bf16"; NULL: not written */
    double loss, task_loss;      /* nats a token; loss includes regularizers */
    double lr, grad_norm;        /* NaN where there is none (val) */
    int64_t tokens;              /* trained on so far; for other splits: evaluated */
    double tokens_per_s, wall_s; /* wall_s: since the run began, resumed parts included */
    double ppl, bits_per_byte;   /* language models; NaN: not written. ppl = exp(task_loss) */
    double ppl_batch_mean;       /* evaluations of language models: mean over batches of exp of
                                    the batch's task loss, never below ppl where batches have
                                    as many targets; NaN: not written */
    double accuracy, macro_f1;   /* classifiers; NaN: not written */
    double mse, pearson, spearman;     /* regress, with rmse beside mse; NaN: not written */
    double train_loss, train_accuracy; /* val: means over the steps since the last val line;
                                          NaN: * not written */
    double gap_loss, gap_accuracy; /* val: loss less that in training, and accuracy in training
                                      less this; NaN: not written */
    double drop_rate, reassigned;  /* under a capacity; train: since the last line of train.
                                   * Rows dropped / tokens, and rows reassigned, over all
                                   * layers; NaN: not written */
    double floor;                  /* val: lowest loss that the corpus allows; NaN: not
                                     written */
    int n_regularizers, n_controllers, n_layers, n_metrics, n_turns, n_tasks;
    const mf_task_score *tasks;         /* the first is model.task, whose figures stand above as
                                     well */
    const mf_named_value *regularizers; /* name: label of the section; value: unweighted */
    const mf_controller_record *controllers;
    const mf_layer_stats *layers;  /* moe: [...]; each of size layers[0].size */
    const mf_named_value *metrics; /* what plugins report: plugin_metrics: {NAME: value} */
    const mf_change *turns;
    int64_t params_active;             /* val: parameters that a token uses; 0: not written */
    int64_t heads_active, heads_total; /* heads_total 0: not gated, not written */
    const mf_head_stats *heads;        /* each of size heads[0].size */
    int n_head_layers;
} mf_metrics_record;

/* Parameter efficiency of a language model: 1 / perplexity, which is the mean probability
 * (geometric) of the right token, for each million of the parameters that a token uses. The
 * same for each attention head in use, where heads are gated. NaN: not known. */
double mf_metrics_efficiency(const mf_metrics_record *r);
double mf_metrics_head_efficiency(const mf_metrics_record *r);

/* All numbers NaN or 0, split "train". */
void mf_metrics_record_init(mf_metrics_record *r);
/* The record as one JSON object (what `eval --json` prints). */
void mf_metrics_json(mf_jw *w, const mf_metrics_record *r);

/* Accuracy to Spearman's rho as they stand in the record: those of the only task, or of the
 * first. */
mf_task_score mf_metrics_one_task(const mf_metrics_record *r);
/* What it says of answers, for people: "accuracy 0.6720, macro F1 0.6701", "RMSE 0.91, Pearson
 * 0.42, Spearman 0.40", of several tasks "main: ...; NAME: ..."; "" without. Returns out. */
const char *mf_metrics_predictions(const mf_metrics_record *r, char *out, size_t size);

/* How far shares [n] are from even: sum u ln(n u), nats, or the Euclidean distance. NaN without
 * shares. */
double mf_from_even(int n, const float *share, bool kl);

/* ---- writing ---- */
/* Appends it; what opens, syncs and closes the file is in train/metrics/step_file.h. */
int mf_metrics_put(mf_step_file *log, const mf_metrics_record *r);

/* ---- reading ---- */
typedef struct mf_metrics_history {
    mf_metrics_record *records; /* in file order; numbers that are absent are NaN or 0 */
    int n;
    mf_step_damage damage;
    struct mf_arena *arena; /* owns everything above */
} mf_metrics_history;
/* A missing file is MF_EINPUT; damaged lines are counted, not failures. */
int mf_metrics_read(const char *path, mf_metrics_history **ret);
void mf_metrics_history_free(mf_metrics_history *h);

#endif
