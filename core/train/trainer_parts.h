/* train/trainer_parts.h: what the files of the trainer share; nobody else includes it.
 *   trainer.c        the loop
 *   trainer_heads.c  what is measured of attention heads
 *   trainer_log.c    from a step's numbers to records
 *   trainer_sample.c how a stretch of text is routed, for pictures
 *   trainer_save.c   checkpoints: what is saved, and going on
 */
#ifndef MF_TRAIN_TRAINER_PARTS_H
#define MF_TRAIN_TRAINER_PARTS_H

#include "model/heads.h"
#include "train/answers.h"
#include "train/ladder.h"
#include "train/optim.h"
#include "train/past.h"
#include "train/trainer.h"

/* The newest value that a controller gave to an option. */
typedef struct mf_knob {
    int controller; /* index */
    const char *option;
    double value;
} mf_knob;

/* Sums over steps. */
typedef struct mf_trainer_sums {
    double steps, loss, rows, hits; /* rows, hits: of a classifier */
} mf_trainer_sums;

struct mf_trainer {
    mf_session *session;
    mf_rundir *dir;
    mf_observer observer;
    mf_ladder *ladder;
    mf_model_graph *graph; /* of the step at hand, and its batch; the ladder's */
    mf_batch *batch;
    mf_optim *optim;
    mf_evaluator *evaluator;     /* NULL without a val split */
    mf_evaluator *on_train;      /* of the training data; NULL unless asked for */
    mf_trace_recorder *recorder; /* NULL unless trace.every is set */
    mf_step_file *log, *memory;  /* metrics.jsonl, memory.jsonl */
    mf_past *past;
    /* position: all that changes from step to step, beside parameters and moments */
    int64_t step;                  /* updates done */
    int64_t tokens;                /* trained on */
    double wall_before;            /* seconds in earlier parts of the run */
    double val_loss;               /* last evaluation; NaN before the first */
    double best;                   /* of them by train.best_by; NaN before the first */
    double lr, weight_decay, clip; /* live */
    int64_t skipped;               /* updates left out in a row for NaN */
    /* measurements of the step at hand */
    double started, lap_started; /* clock */
    int64_t lap_tokens;
    /* since the last line of the log; saved */
    double seen, dropped, moved; /* tokens; rows of all layers */
    double loss, task_loss, grad_norm, lr_now, tokens_per_s;
    mf_answers *answers;       /* of this step; NULL unless one is asked of each example */
    mf_trainer_sums since;     /* the last evaluation; saved */
    mf_moe_tally **tallies;    /* [n_moe] */
    mf_layer_stats *stats;     /* [n_moe] */
    float *shares;             /* [n_moe][MF_MOE_SHARES][E] */
    mf_head_tally *head_tally; /* this and below: NULL unless heads are gated */
    mf_head_record *head_record;
    mf_model_graph *probe; /* leaves heads out, to see what they are worth; made when asked */
    double *worse;         /* [layers, heads] what leaving one out costs; made with probe */
    bool importance_known; /* of this step */
    mf_named_value *regularizers; /* [n] */
    mf_knob *knobs;
    int n_knobs, cap_knobs;
    mf_named_value *knob_values;       /* [cap_knobs] */
    mf_controller_record *controllers; /* [n] */
    mf_named_value plugin_metrics[64];
    mf_train_result result;
    int stopped_by; /* signal */
};

/* Layer statistics of the step from the tallies. */
void mf_trainer_stats(mf_trainer *t);
/* The same of attention heads: gates, entropy, gradients. */
void mf_trainer_head_stats(mf_trainer *t);
/* Fits mf_plughost_set_importance; arg: the trainer. */
int mf_trainer_importance(void *arg, int32_t n, float *out, int32_t *ret_n);
/* The optimizer follows what was pruned, and the heads' learning rates. */
int mf_trainer_head_rates(mf_trainer *t);
void mf_trainer_forget_probe(mf_trainer *t); /* the structure changed */
/* Remembers the turns since the last step, for `controllers` in the records. */
int mf_trainer_note_turns(mf_trainer *t);
int mf_trainer_note_turn(mf_trainer *t, const mf_turn *turn);
/* Record of the step that was just done; points into the trainer. */
void mf_trainer_record(mf_trainer *t, bool with_layers, mf_metrics_record *r);

/* The run directory of a new run: config.ini, tokenizer, manifest. */
int mf_trainer_begin(mf_trainer *t);
/* Graphs and optimizer anew, after parameters were frozen or the structure changed. */
int mf_trainer_rebuild(mf_trainer *t);
int mf_trainer_sync(mf_trainer *t); /* the lines of both files are on disk */
int mf_trainer_save(mf_trainer *t);
int mf_trainer_save_best(mf_trainer *t); /* into RUN/best */
/* Start values from the run that train.from names. */
int mf_trainer_start_from(mf_trainer *t);
/* From the last checkpoint that verifies. MF_ECHECKPOINT if there is none. */
int mf_trainer_resume(mf_trainer *t);
/* routing_sample.json from the start of the val split. */
int mf_trainer_sample(mf_trainer *t);
/* After an evaluation on the way: the routing alone into samples/, if this one is to be
 * pictured. */
int mf_trainer_sample_here(mf_trainer *t);
/* Removes those of later steps than this: they come again. */
int mf_trainer_cut_samples(const mf_trainer *t);

#endif
