/* run/metrics/metrics.h: metrics.jsonl, written by the training loop and read by reports.
 *
 * Each line is one object. Every line has step, split, dtype, loss, task_loss, lr, grad_norm,
 * tokens, tokens_per_s and wall_s (null if there is no value), and regularizers, controllers
 * and moe (perhaps empty); other keys are present if they have a value. Only tokens_per_s and
 * wall_s depend on the machine: apart from them, runs with the same configuration and seed
 * write the same file. The memory of the process is in memory.jsonl (run/metrics/memory.h).
 *
 * Writing:  mf_metrics_record r; mf_metrics_record_init(&r); fill it; mf_metrics_put(log, &r);
 *
 * mf_metrics_put keeps no pointer to r. */
#ifndef MF_RUN_METRICS_H
#define MF_RUN_METRICS_H

#include "base/named_value.h"
#include "io/json.h"
#include "plugin/instance.h"
#include "run/metrics/step_file.h"

/* The latest values that one controller set for options: "controllers": {NAME: {option:
 * value, ...}}. */
typedef struct mf_controller_record {
    const char *name;
    int n;
    const mf_named_value *values;
} mf_controller_record;

/* TensorBoard and MLflow show the numbers of a final validation under this split. Under
 * `val` they show the numbers of its first batches, which can be compared with
 * earlier validations. */
#define MF_SPLIT_FINAL "final"

/* Scores of one task, written if there are several tasks: "tasks": {NAME: {...}}. */
typedef struct mf_task_score {
    const char *name;
    bool number;                   /* true: regress; false: classify */
    double weight, loss;           /* loss: not multiplied by the weight */
    int64_t rows;                  /* number of examples that have a label */
    double accuracy, macro_f1;     /* for classify */
    double mse, pearson, spearman; /* for regress; NaN: not written */
} mf_task_score;

/* Changes (mf_change of plugin/live.h) are written as "turns": [{step, option, from, to, by,
 * reason}]. A step with a change must have a record, even if log_every does not select it. */

/* The evaluation at the end may use more batches than the evaluations by train.eval_every. It
 * then also measures the batches of the latter, and writes "curve_loss", "curve_task_loss" and
 * so on. These can be compared with the earlier results. */
typedef struct mf_metrics_curve {
    int64_t batches, tokens; /* batches 0: not measured, not written */
    double loss, task_loss, ppl, bits_per_byte, accuracy, macro_f1, mse, pearson, spearman;
} mf_metrics_curve;

typedef struct mf_metrics_record {
    int64_t step;
    const char *split; /* "train", "val", "test", "train_eval" */
    const char *dtype; /* type that gemms read, "f32" or "bf16"; NULL: not written */
    /* nats per token, or per example for classifiers; squared error for regress; loss includes
     * the regularizers */
    double loss, task_loss;
    double lr, grad_norm; /* NaN: no value (in evaluations) */
    int64_t tokens;       /* training: number of tokens so far; other splits: number of
                           * targets evaluated */
    int64_t batches;      /* evaluations: number of batches; 0: unknown, not written */
    bool final;           /* val: after the last step of training; false: not written */
    /* val: a final validation with fewer batches than earlier ones, so that the two cannot be
     * compared; not written */
    bool apart;
    /* wall_s: seconds that all parts of the run took, without the pauses before a resume */
    double tokens_per_s, wall_s;
    double ppl, bits_per_byte; /* for language models; NaN: not written. ppl = exp(task_loss) */
    /* Evaluations of language models: mean over batches of exp(task loss of the batch). It is
     * never below ppl if all batches have equally many targets. NaN: not written. */
    double ppl_batch_mean;
    double accuracy, macro_f1;     /* for classifiers; NaN: not written */
    double mse, pearson, spearman; /* for regress; rmse is written beside mse; NaN:
                                    * not written */
    /* val: means over the training steps since the last val line; NaN: not written */
    double train_loss, train_accuracy;
    /* val: loss minus training loss, and training accuracy minus accuracy; NaN: not written */
    double gap_loss, gap_accuracy;
    /* With a capacity, over all layers: assignments dropped / tokens, and assignments
     * reassigned. In training both count since the last training record. NaN: not written. The
     * drop_rate of a layer is another number: dropped / chosen assignments. */
    double dropped_per_token, reassigned;
    /* evaluations: the floor of the evaluated tokens, in windows of the model (mf_batcher_floor
     * in data/batch.h); NaN: unknown, not written */
    double floor;
    mf_metrics_curve curve;
    int n_regularizers, n_controllers, n_layers, n_metrics, n_turns, n_tasks;
    /* scores of each task if there are several tasks; the fields above are those
     * of model.task */
    const mf_task_score *tasks;
    const mf_named_value *regularizers; /* name: label of the section; value:
                                         * unweighted value */
    const mf_controller_record *controllers;
    const mf_layer_stats *layers;  /* written as "moe": [...]; each element has
                                    * layers[0].size bytes */
    const mf_named_value *metrics; /* metrics of plugins, "plugin_metrics": {NAME: value} */
    const mf_change *turns;
    int64_t params_active; /* val: parameters that one token uses; 0: not written */
    /* heads_total 0: heads cannot be switched off; not written */
    int64_t heads_active, heads_total;
    const mf_head_stats *heads; /* each element has heads[0].size bytes */
    int n_head_layers;
} mf_metrics_record;

/* Parameter efficiency of a language model: 1 / perplexity (the geometric mean of the
 * probability of the right token) per million parameters that a token uses; and per active
 * attention head, if heads can be switched off. NaN: unknown. */
double mf_metrics_efficiency(const mf_metrics_record *r);
double mf_metrics_head_efficiency(const mf_metrics_record *r);

/* Sets all numbers to NaN or 0 and split to "train". */
void mf_metrics_record_init(mf_metrics_record *r);
/* Whether record i of [n], in the order of a run, can be compared with the validations
 * before it. It must have used the same batches, or must also have measured those batches
 * (`curve`). Old records do not contain their number of batches; the numbers of tokens are
 * then compared. */
bool mf_metrics_compares(int n, const mf_metrics_record *records, int i);
/* Returns the record with the numbers of `curve` instead of its own, and without layers,
 * regularizers and heads, which are measured over all batches. Returns the record itself if it
 * has no `curve`. */
mf_metrics_record mf_metrics_like(const mf_metrics_record *r);
/* The index of the best validation among those that can be compared: the lowest task loss, or
 * the highest accuracy if the accuracy is known; -1: there are fewer than two. */
int mf_metrics_best(int n, const mf_metrics_record *records);
/* Writes the record as one JSON object. `eval --json` prints this object. */
void mf_metrics_json(mf_jw *w, const mf_metrics_record *r);

/* Returns the scores in the fields accuracy .. spearman of the record, which are those of the
 * only task, or of the first task. */
mf_task_score mf_metrics_one_task(const mf_metrics_record *r);
/* Writes scores of predictions as text for people: "accuracy 0.6720, macro F1 0.6701"; "RMSE
 * 0.9100, Pearson 0.4200, Spearman 0.4000"; for several tasks "main: ...; NAME: ..."; "" if
 * there are none. out has `size` bytes. Returns out. */
const char *mf_metrics_predictions(const mf_metrics_record *r, char *out, size_t size);

/* Computes the distance of shares [n] from the uniform distribution. If kl, it is the sum of u
 * ln(n u) over the shares u, in nats; else the Euclidean distance. NaN without shares. */
double mf_from_even(int n, const float *share, bool kl);

/* ---- writing ---- */
/* Appends the record to the file. run/metrics/step_file.h opens, syncs and closes it. */
int mf_metrics_put(mf_step_file *log, const mf_metrics_record *r);

/* ---- reading ---- */
typedef struct mf_metrics_history {
    mf_metrics_record *records; /* in file order; missing numbers are NaN or 0 */
    int n;
    mf_step_damage damage;
    struct mf_arena *arena; /* owner of all memory to which the records point */
} mf_metrics_history;
/* Reads a file. MF_EINPUT if the file is missing. Damaged lines are skipped and counted; they
 * are not an error. */
int mf_metrics_read(const char *path, mf_metrics_history **ret);
/* Reads only the fields of a validation that mf_metrics_best needs, from the JSON of
 * its line. */
void mf_metrics_read_quality(const mf_json *line, mf_metrics_record *ret);
void mf_metrics_history_free(mf_metrics_history *h);

#endif
