/* run/sample/trace.h: records the routing of batches in a file that moefw-trace(5) describes.
 *
 * A recorder collects batches in memory and writes one safetensors file, completely or not at
 * all. For each layer the file contains logits, probabilities, chosen and admitted experts,
 * gates and margins. It also contains the scores for selection if they differ from the
 * probabilities, and on request the router's input. If routing was forced (model/moe.h), the
 * file contains the router's own choice. */
#ifndef MF_RUN_TRACE_H
#define MF_RUN_TRACE_H

#include "run/session.h"

#define MF_TRACE_FORMAT  "moefw-trace"
#define MF_TRACE_VERSION "1"

typedef struct mf_trace_about {
    const char *run;    /* path of the recorded run; only for information */
    const char *split;  /* name of the split, for example "val" */
    const char *forced; /* trace whose choices were forced; NULL: the routers decided */
    bool activations;   /* also record the routers' inputs */
} mf_trace_about;

typedef struct mf_trace_recorder mf_trace_recorder;

/* Makes a recorder. Texts of `about` are copied. The session must outlive the recorder. */
int mf_trace_recorder_new(const mf_session *s, const mf_trace_about *about,
                          mf_trace_recorder **ret);
void mf_trace_recorder_free(mf_trace_recorder *r);
/* Adds a batch after a run of its graph, which was built with want_trace. index: number of the
 * batch in its split. MF_EINVAL if the batch has another shape than the first batch; MF_EINPUT
 * if the trace would have more than INT32_MAX tokens. */
int mf_trace_recorder_add(mf_trace_recorder *r, int64_t index, const mf_batch *b,
                          const mf_model_graph *mg);
int64_t mf_trace_recorder_batches(const mf_trace_recorder *r);
/* Writes the collected batches and removes them from the recorder. step: number of updates of
 * the weights. Replaces a file at path, whose folder must exist. MF_EINPUT if there are no
 * batches, MF_EUSAGE if path is a directory. */
int mf_trace_recorder_write(mf_trace_recorder *r, const char *path, int64_t step);

/* Returns the k-th largest of n scores minus the (k+1)-th largest. A small margin means that
 * another choice was close. Infinite if there is no (k+1)-th score or if it is infinite; NaN if
 * scores are NaN. */
float mf_trace_margin(const float *score, int32_t n, int32_t k);

#endif
