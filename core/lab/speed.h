/* lab/speed.h: how fast the whole thing is: a training step, a layer, decoding, a batch of
 * answers.
 *
 * Times are taken as lab/timing.h says, on arenas whose pages were touched. peak is
 * measured in the same process: the best rate of a 1024^3 product over several tries, so that a
 * fraction means "of what this machine's products give right now".
 */
#ifndef MF_LAB_SPEED_H
#define MF_LAB_SPEED_H

#include "lab/timing.h"
#include "train/session.h"

typedef struct mf_speed {
    const char *what; /* "train", "layer", "generate", "infer" */
    char backend[32]; /* "cpu avx512" */
    const char *dtype; /* of products */
    int threads;
    int32_t batch, seq, dim, layers, experts, top_k, hidden; /* 0: does not apply */
    int64_t params, params_active, vocab;
    mf_timing time; /* of one step, one layer pass, one prompt, one token, one batch */
    double tokens_per_s;
    double flops; /* of products, in one step (pass, token) */
    double peak_gflops;
    double first_step_s; /* from the start of the process to the end of the first step */
    double params_mib;   /* inference: parameters as they lie in memory */
    bool real_data;      /* inference: batches are of data, not drawn */
    double arena_mib;    /* planned memory of the graph */
    double rss_mib, peak_rss_mib; /* resident after the runs, and at most, reading files
                                     included */
} mf_speed;

double mf_speed_peak(void); /* GFLOP/s */
/* One optimizer step of the session's configuration. The session is open for training. */
int mf_speed_train(mf_session *s, const mf_timing_how *how, mf_speed *ret);
/* One token at a time behind a prompt, with the cache. */
int mf_speed_generate(mf_session *s, int prompt, int tokens, const mf_timing_how *how,
                      mf_speed *ret);
/* A prompt of so many tokens as one batch. */
int mf_speed_prompt(mf_session *s, int prompt, const mf_timing_how *how, mf_speed *ret);

/* One batch of `batch` sequences of at most `seq` tokens through the model as evaluation runs
 * it, filling the inputs included: batches of the validation split (of the training split where
 * that is empty) in turn, padded as the configuration says, or without data full rows of drawn
 * tokens. */
int mf_speed_infer(mf_session *s, int32_t batch, int32_t seq, const mf_timing_how *how,
                   mf_speed *ret);

typedef struct mf_speed_layer_spec {
    const char *router, *expert; /* plugins; router with options as in lab/router_list */
    int32_t dim, hidden, experts, top_k, tokens;
    bool backward;
    bool bf16;
} mf_speed_layer_spec;
int mf_speed_layer(const mf_speed_layer_spec *spec, const mf_timing_how *how, mf_speed *ret);

#endif
