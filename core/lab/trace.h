/* lab/trace.h: recorded routing, read back, and what differs between two recordings.
 *
 * moefw-trace(5) describes the file, train/trace.h writes it. Opening judges names, types and
 * shapes, so that tensors of an open trace can be used as they are; numbers in them (ids,
 * experts) are judged by whoever uses them as an index.
 */
#ifndef MF_LAB_TRACE_H
#define MF_LAB_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include "data/safetensors.h"
#include "model/config.h"

/* Tensors that a trace may lack are NULL. Tokens are counted through the trace: T of them. */
typedef struct mf_trace_layer {
    int32_t layer;   /* block index */
    int32_t experts; /* E */
    int32_t top_k;   /* rows a token; 0: rows are a list, with a token each */
    int64_t rows;    /* of the whole trace: T top_k, or the length of the list */
    const mf_st_tensor *chosen, *gate;         /* [T,k] or [rows] */
    const mf_st_tensor *admitted;              /* NULL: as chosen */
    const mf_st_tensor *token;                 /* [rows]; NULL unless a list */
    const mf_st_tensor *logits, *prob, *score; /* [T,E] */
    const mf_st_tensor *margin;                /* [T] */
    const mf_st_tensor *x;                     /* [T,d] */
} mf_trace_layer;

/* One task of sequences, [batches rows]; both NULL: not in the trace, or the first task's
 * classes, which are the targets. */
typedef struct mf_trace_task {
    int32_t *classes; /* -1: none */
    float *values;    /* NaN: none */
} mf_trace_task;

typedef struct mf_trace {
    mf_st_file *file;
    int64_t step, seed;
    int64_t batches;
    int32_t rows, seq; /* of a batch; T = batches rows seq */
    int64_t tokens;    /* T, padding included */
    bool wide;         /* a choice can touch its whole batch, not only later tokens */
    int n_layers;
    mf_trace_layer *layers;       /* in order of block index */
    int32_t *token;               /* [T] id, -1: padding */
    int32_t *position, *sequence; /* [T] */
    int32_t *target;              /* [T]; by_row: [batches rows], the class of each sequence */
    bool by_row;
    mf_trace_task tasks[1 + MF_TASKS_MAX];
    int32_t *label; /* [T] or NULL */
    struct mf_arena *arena;
} mf_trace;

/* MF_EINPUT naming file and tensor when it is no trace, or a damaged one. */
int mf_trace_open(const char *path, mf_trace **ret);
void mf_trace_close(mf_trace *t);
/* A text of the metadata: "run", "kernels", ...; "" when there is none. */
const char *mf_trace_text(const mf_trace *t, const char *key);
/* All of a tensor in fresh memory (mf_free); NULL for NULL. */
int mf_trace_read(const mf_trace *t, const mf_st_tensor *tensor, void **ret);

/* ---- two recordings of the same tokens ----
 *
 * Choices are compared as sets: the order within a token's k does not count. Where the sets
 * differ, the gap is how far the swapped experts were apart in the scores of either trace, the
 * larger of the two. Where the numbers of experts differ it is the smaller margin, but at least
 * what the scores differ by; where experts choose tokens, how far the token was from being
 * left, or taken.
 *   tie     the gap is below the tolerance
 *   after   an earlier layer has already parted for this token or, in the same sequence, for
 *           one before it (in the same batch where the trace is wide): a consequence, which
 *           says nothing of this layer; there are none where a choice was forced (replay)
 *   real    all others
 */
typedef enum mf_trace_why { MF_TRACE_TIE, MF_TRACE_AFTER, MF_TRACE_REAL } mf_trace_why;
const char *mf_trace_why_name(mf_trace_why why); /* "tie" */

typedef struct mf_trace_parting {
    mf_trace_why why;
    int32_t layer; /* block index */
    int64_t token; /* in the trace */
    double gap;    /* NaN: unknown */
    double margin_a, margin_b;
    int32_t n_a, n_b;
    int32_t *a, *b; /* chosen experts, rising */
} mf_trace_parting;

typedef struct mf_trace_layer_diff {
    int32_t layer;
    int64_t tokens;                    /* compared: padding left out */
    int64_t differ, ties, after, real; /* tokens; differ = ties + after + real */
    double overlap;        /* mean over tokens of |A and B| / |A or B|, 1 for two empty sets */
    double prob, prob_all; /* largest |difference| of probabilities: of tokens that no earlier
                             * parting touches; of all. NaN: not comparable */
    double gate;           /* of gates, where the same experts are chosen and nothing parted
                             * before */
} mf_trace_layer_diff;

typedef struct mf_trace_diff {
    double tolerance;
    int n_layers;
    mf_trace_layer_diff *layers;
    int64_t differ, ties, after, real; /* over all layers */
    /* In order of computation: batch, layer, token; those that are consequences are left
     * out. */
    mf_trace_parting *partings;
    int64_t n_partings, cap_partings;
    struct mf_arena *arena;
} mf_trace_diff;

/* MF_EINPUT when the traces cannot be compared: the message says what differs. */
int mf_trace_compare(const mf_trace *a, const mf_trace *b, double tolerance,
                     mf_trace_diff **ret);
void mf_trace_diff_free(mf_trace_diff *d);

/* ---- recorded activations ---- */

/* What one layer's router was given, token by token, padding left out. */
typedef struct mf_activations {
    float *x;              /* [rows,dim] */
    int32_t *ids, *labels; /* [rows]; labels NULL without */
    int64_t rows;
    int32_t layer, dim, experts, top_k, n_labels;
} mf_activations;

/* text: "FILE" (the first layer with activations) or "FILE:LAYER". MF_EINPUT when the trace was
 * recorded without, naming the layers that have them. */
int mf_activations_read(const char *text, mf_activations *ret);
void mf_activations_free(mf_activations *a);

#endif
