/* train/trace.h: writing down how batches were routed; moefw-trace(5) describes the file.
 *
 * A recorder collects batches in memory and writes them as one safetensors file, whole or not
 * at all. What it holds of a layer: logits, probabilities, the scores that core selected by
 * where these are not the probabilities, chosen and admitted experts, gates, margins, and on
 * request the router's input. Where a choice was forced (model/moe.h) it holds the router's
 * own.
 */
#ifndef MF_TRAIN_TRACE_H
#define MF_TRAIN_TRACE_H

#include "train/session.h"

#define MF_TRACE_FORMAT  "moefw-trace"
#define MF_TRACE_VERSION "1"

typedef struct mf_trace_about {
    const char *run;    /* what was recorded: a run's path, for the reader */
    const char *split;  /* "val" */
    const char *forced; /* the trace whose choices were followed; NULL: none */
    bool activations;   /* with the routers' input */
} mf_trace_about;

typedef struct mf_trace_recorder mf_trace_recorder;

/* The texts of about are copied. The session must outlive the recorder. */
int mf_trace_recorder_new(const mf_session *s, const mf_trace_about *about,
                          mf_trace_recorder **ret);
void mf_trace_recorder_free(mf_trace_recorder *r);
/* After a run of a graph that was built with want_trace. index: the batch's number in its
 * split. All batches must be of one shape. */
int mf_trace_recorder_add(mf_trace_recorder *r, int64_t index, const mf_batch *b,
                          const mf_model_graph *mg);
int64_t mf_trace_recorder_batches(const mf_trace_recorder *r);
/* Writes what was collected, of weights after `step` updates, and forgets it. A file at path is
 * replaced; folders are made. MF_EINPUT when nothing was collected. */
int mf_trace_recorder_write(mf_trace_recorder *r, const char *path, int64_t step);

/* Difference between the k-th and the (k+1)-th largest of n scores: how far a choice of k was
 * from another one. Infinite when there is no (k+1)-th, or it is closed (minus infinity). */
float mf_trace_margin(const float *score, int32_t n, int32_t k);

#endif
