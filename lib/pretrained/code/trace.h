/* pretrained/code/trace.h: the graph of a model in evaluation, as data that hold for every
 * batch of sequences. */
#ifndef MF_PRETRAINED_CODE_TRACE_H
#define MF_PRETRAINED_CODE_TRACE_H

#include "graph/graph.h"
#include "io/json.h"
#include "model/model.h"

/* Number of leaves and nodes on which the logits depend, and the number of the logits. */
typedef struct mf_code_trace mf_code_trace;

/* Traces the graph that computes the logits of every token. Whole numbers in it, such as
 * sizes of shapes, become functions of the batch. `knows` tells whether an op can be
 * written. MF_EINPUT, with the part of the model named: the graph reads labels, draws
 * random numbers or writes a buffer; it has an op that is not known; a number of it depends
 * on the batch in another way; the model is too short to show this; MF_ENOMEM; errors of
 * building graphs. The model must outlive *ret, which the caller frees. */
int mf_code_trace_new(mf_model *m, bool (*knows)(void *arg, const char *op), void *arg,
                      mf_code_trace **ret);
void mf_code_trace_free(mf_code_trace *t);

/* Writes the graph as a JSON value (share/code/modeling_moefw.py describes its form).
 * Tables of more than MF_CODE_TABLE elements are tensors, named "tables.N". */
void mf_code_trace_put(const mf_code_trace *t, mf_jw *w);
enum { MF_CODE_TABLE = 64 };

/* A tensor that the graph reads. */
typedef struct mf_code_tensor {
    char name[128];
    mf_dtype dtype; /* MF_F32 or MF_I32 */
    mf_shape shape;
    mf_param *param;   /* the parameter whose values it has; NULL: a table */
    const void *table; /* values of a table */
} mf_code_tensor;
/* Returns the number of tensors, and tensor i. */
int mf_code_tensors(const mf_code_trace *t);
mf_code_tensor mf_code_tensor_at(const mf_code_trace *t, int i);

#endif
