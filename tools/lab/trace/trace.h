/* lab/trace/trace.h: reads recorded routing, and compares two recordings.
 *
 * moefw-trace(5) describes the file; run/sample/trace.h writes it. Opening checks names, types
 * and shapes, so the tensors of an open trace can be used without checks. Their values (ids,
 * experts) are not checked: code that uses them as indices must check them. */
#ifndef MF_LAB_TRACE_H
#define MF_LAB_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include "data/safetensors/safetensors.h"
#include "run/run_config.h"

/* Tensors that are missing in a trace are NULL. Tokens are numbered from 0 to T - 1 through the
 * whole trace. */
typedef struct mf_trace_layer {
    int32_t layer;   /* block index */
    int32_t experts; /* number of experts E */
    int32_t top_k;   /* assignments per token; 0: the assignments are a list, with a token
                      * for each */
    int64_t rows;    /* number of assignments of the whole trace: T top_k, or the length of
                      * the list */
    const mf_st_tensor *chosen, *gate; /* [T,k] or [rows]; gate NULL: an import has none */
    const mf_st_tensor *admitted;      /* whether an assignment is admitted; NULL: all are */
    /* [rows]; NULL unless the assignments are a list */
    const mf_st_tensor *token;
    const mf_st_tensor *logits, *prob, *score; /* [T,E] */
    const mf_st_tensor *margin;                /* [T] */
    const mf_st_tensor *x;                     /* [T,d] */
} mf_trace_layer;

/* Labels of one task on examples, [batches x rows]. Both pointers are NULL if the task is not
 * in the trace, or if it is the first task with classes, whose labels are the targets. */
typedef struct mf_trace_task {
    int32_t *classes; /* -1: the example has no class */
    float *values;    /* NaN: the example has no value */
} mf_trace_task;

typedef struct mf_trace {
    mf_st_file *file;
    int64_t step, seed;
    int64_t batches;
    int32_t rows, seq; /* rows: sequences of a batch; seq: tokens of a sequence; T = batches x
                        * rows x seq */
    int64_t tokens;    /* number of tokens T, including padding */
    bool wide;         /* a choice can affect its whole batch, not only later tokens */
    int n_layers;
    mf_trace_layer *layers;       /* in order of block index */
    int32_t *token;               /* [T] token id, -1: padding */
    int32_t *position, *sequence; /* [T] */
    /* [T]; if by_row: [batches x rows], the class of each example */
    int32_t *target;
    bool by_row;
    mf_trace_task tasks[1 + MF_TASKS_MAX];
    int32_t *label; /* [T] or NULL */
    struct mf_arena *arena;
} mf_trace;

/* Opens a trace. Fails with MF_EINPUT, naming file and tensor, if the file is not a trace or is
 * damaged; else like mf_st_open. Close with mf_trace_close. */
int mf_trace_open(const char *path, mf_trace **ret);
void mf_trace_close(mf_trace *t);
/* Makes an empty temporary file, in TMPDIR or /tmp, for a trace that is not kept. The caller
 * removes the file and frees its path with mf_free. MF_EIO, MF_ENOMEM. */
int mf_trace_scratch(char **ret);
/* A string of the metadata: "run", "kernels", ...; "" if the file has no such string. */
const char *mf_trace_text(const mf_trace *t, const char *key);
/* Reads a number of the i-th recorded layer: from the list KEY_by_layer, or else the metadata
 * KEY, which then holds for all layers. MF_EINPUT if it is not a number from lo to hi. */
int mf_trace_of_layer(const mf_trace *t, const char *key, int i, int64_t lo, int64_t hi,
                      int64_t *ret);
/* Reads a whole tensor into new memory, which the caller frees with mf_free. tensor NULL: *ret
 * is NULL. */
int mf_trace_read(const mf_trace *t, const mf_st_tensor *tensor, void **ret);

/* ---- comparison of two recordings of the same tokens ----
 *
 * Choices are compared as sets: the order of a token's k experts does not matter. If the sets
 * differ, the gap is the difference between the scores of the swapped experts, read from the
 * trace in which it is larger. If the numbers of experts differ, the gap is the smaller margin,
 * but at least the largest difference of a score between the traces. If experts choose tokens,
 * the gap is the largest distance of the token's score from the bound between the tokens that
 * an expert took and those that it dropped.
 *
 *   tie     the gap is below the tolerance
 *   after   an earlier layer differs for this token or for an earlier token of its sequence; if
 *           a trace is wide, for any token of its batch. Such a difference is a consequence and
 *           says nothing about this layer. It does not occur if choices were forced (replay)
 *   real    all other differences */
typedef enum mf_trace_why { MF_TRACE_TIE, MF_TRACE_AFTER, MF_TRACE_REAL } mf_trace_why;
const char *mf_trace_why_name(mf_trace_why why); /* Name of a reason, such as "tie". */

typedef struct mf_trace_parting {
    mf_trace_why why;
    int32_t layer; /* block index */
    int64_t token; /* index of the token in the trace */
    double gap;    /* NaN: unknown */
    double margin_a, margin_b;
    int32_t n_a, n_b;
    int32_t *a, *b; /* chosen experts, in increasing order */
} mf_trace_parting;

typedef struct mf_trace_layer_diff {
    int32_t layer;
    int64_t tokens;                    /* number of compared tokens, without padding */
    int64_t differ, ties, after, real; /* numbers of tokens; differ = ties + after + real */
    double overlap; /* mean over tokens of |A and B| / |A or B|, 1 for two empty sets */
    /* largest |difference| of probabilities. prob: of tokens without an earlier difference;
     * prob_all: of all tokens. NaN: not comparable */
    double prob, prob_all;
    /* largest |difference| of gates, if the same experts are chosen and no earlier
     * layer differs */
    double gate;
} mf_trace_layer_diff;

typedef struct mf_trace_diff {
    double tolerance;
    int n_layers;
    mf_trace_layer_diff *layers;
    int64_t differ, ties, after, real; /* sums over all layers */
    /* All ties and real differences, in the order of computation: batch, layer, token. */
    mf_trace_parting *partings;
    int64_t n_partings, cap_partings;
    struct mf_arena *arena;
} mf_trace_diff;

/* Compares two traces. Fails with MF_EINPUT, naming the reason, if they cannot be compared. */
int mf_trace_compare(const mf_trace *a, const mf_trace *b, double tolerance,
                     mf_trace_diff **ret);
void mf_trace_diff_free(mf_trace_diff *d);

/* ---- recorded activations ---- */

/* The inputs of one layer's router, token by token. */
typedef struct mf_activations {
    float *x;              /* [rows,dim] */
    int32_t *ids, *labels; /* [rows]; labels may be NULL */
    int64_t rows;
    int32_t layer, dim, experts, top_k, n_labels; /* experts and top_k 0: unknown */
} mf_activations;

/* Reads activations. text: "FILE" (the first layer that has recorded inputs) or "FILE:LAYER" of
 * a trace, or "FILE:TENSOR", an F32 tensor [...,dim] of any safetensors file. If such a file
 * has tensors input_ids and attention_mask, ids and padding are read from them. padding: also
 * reads positions of padding, which a trace does not contain. Fails with MF_EUSAGE if the text
 * after the colon is neither, and with MF_EINPUT if the layer has no recorded inputs; the
 * message then names the layers that have some. */
int mf_activations_read(const char *text, bool padding, mf_activations *ret);
void mf_activations_free(mf_activations *a);

#endif
