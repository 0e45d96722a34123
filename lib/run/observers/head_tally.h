/* run/observers/head_tally.h: measures the attention heads of layers whose heads can be
 * switched off (model/heads.h). */
#ifndef MF_RUN_OBSERVERS_HEAD_TALLY_H
#define MF_RUN_OBSERVERS_HEAD_TALLY_H

#include "model/model.h"

/* Sums of the heads' entropies over runs. */
typedef struct mf_head_tally {
    int32_t layers, heads;
    int64_t runs;    /* number of runs that were added */
    double *entropy; /* [layers, heads] */
} mf_head_tally;
/* Allocates a tally. *ret is NULL if heads cannot be switched off. */
int mf_head_tally_new(const mf_model *m, mf_head_tally **ret);
void mf_head_tally_free(mf_head_tally *t);
void mf_head_tally_reset(mf_head_tally *t);
void mf_head_tally_add(mf_head_tally *t,
                       const mf_model_graph *mg); /* call this after a run with metrics */
/* Returns how many numbers the tally consists of; 0 if t is NULL. These functions write and add
 * the sums as numbers. */
int64_t mf_head_tally_numbers(const mf_head_tally *t);
void mf_head_tally_put(const mf_head_tally *t, double *out);
void mf_head_tally_take(mf_head_tally *t, const double *in);

/* Computes the norm of each head's gradients, times scale: out [H]. The norm covers the head's
 * parts of the query, key and value weights and biases and of the output weights. Where n
 * active heads share keys and values, each head counts 1/n of the shared squares. The result is
 * 0 for pruned heads, and for all heads if there are no gradients. */
void mf_head_gradients(const mf_model *m, int32_t layer, double scale, float *out);

/* The statistics of all layers, and the arrays to which they point. */
typedef struct mf_head_record {
    int32_t layers, heads;
    mf_head_stats *stats; /* [layers] */
    float *values; /* gate, active, entropy, grad_norm, importance: [layers, heads] each */
} mf_head_record;
/* Allocates a record. *ret is NULL if heads cannot be switched off. */
int mf_head_record_new(const mf_model *m, mf_head_record **ret);
void mf_head_record_free(mf_head_record *r);
/* Writes the present gates and active heads into the record, and the entropy from the tally,
 * which may be NULL. Gradients and importance remain absent. */
void mf_head_record_fill(mf_head_record *r, const mf_model *m, const mf_head_tally *t);
/* These functions return arrays [H] of a layer for values that the caller measures. The caller
 * sets the pointers in `stats` after it has filled the arrays. */
float *mf_head_record_gradients(const mf_head_record *r, int32_t layer);
float *mf_head_record_importance(const mf_head_record *r, int32_t layer);

#endif
