/* lab/bench/speed.h: measures the speed of a training step, a layer, decoding, and inference
 * on batches.
 *
 * Times are measured as lab/bench/timing.h describes. The peak is measured in the same process.
 * It is the best rate of a 1024^3 gemm over several runs. So a fraction of the peak is a
 * fraction of the rate that gemms reach on this machine at present. */
#ifndef MF_LAB_SPEED_H
#define MF_LAB_SPEED_H

#include "lab/bench/timing.h"
#include "run/session.h"

typedef struct mf_speed {
    const char *what;  /* "train", "layer", "generate", "prompt", "infer" */
    char backend[32];  /* "cpu avx512" */
    const char *dtype; /* type of the gemms: "f32", "bf16" */
    int threads;
    int32_t batch, seq, dim, layers, experts, top_k, hidden; /* sizes; 0: does not apply */
    int64_t params, params_active, vocab;
    mf_timing time; /* of one step, one layer pass, one prompt, one token or one batch */
    double tokens_per_s;
    /* operations of the gemms in the time that `time` measures; generate, prompt: estimated */
    double flops;
    /* peak rate for dtype: of a 1024^3 gemm on the CPU; for a device the rate in its data
     * sheet, or NaN if no sheet is known */
    double peak_gflops;
    double device_mib;   /* used memory of the device, by all processes, MiB; 0: CPU, or
                          * not known */
    int64_t host_ops;    /* number of ops in all runs that ran on the host though the model is
                          * on a device */
    double first_step_s; /* seconds from the start of the process to the end of the
                          * first step */
    double params_mib;   /* inference: parameters in memory, MiB */
    bool real_data;      /* inference: batches come from data; otherwise from random tokens */
    double arena_mib;    /* planned memory of the graph, MiB */
    /* resident memory after the runs, and its maximum since the process began, MiB */
    double rss_mib, peak_rss_mib;
} mf_speed;

/* Times one optimizer step of the session's configuration. The session must be open
 * for training. */
int mf_speed_train(mf_session *s, const mf_timing_how *how, mf_speed *ret);
/* Times one token at a time after a prompt, with the key-value cache. */
int mf_speed_generate(mf_session *s, int prompt, int tokens, const mf_timing_how *how,
                      mf_speed *ret);
/* Times the evaluation of a prompt of `prompt` tokens, as one batch. */
int mf_speed_prompt(mf_session *s, int prompt, const mf_timing_how *how, mf_speed *ret);

/* Times the model in evaluation mode on batches of `batch` sequences of at most `seq` tokens,
 * including the copy of the inputs. The batches come in order from the validation split (from
 * the training split if the validation split is empty), padded as configured. Without data they
 * are full sequences of random tokens. */
int mf_speed_infer(mf_session *s, int32_t batch, int32_t seq, const mf_timing_how *how,
                   mf_speed *ret);

typedef struct mf_speed_layer_spec {
    /* plugins; router may have options in the form of lab/bench/router_list.h */
    const char *router, *expert;
    int32_t dim, hidden, experts, top_k, tokens;
    bool backward;
    bool bf16;
    const char *device; /* like train.device */
    bool strict;        /* like device.strict */
} mf_speed_layer_spec;
int mf_speed_layer(const mf_speed_layer_spec *spec, const mf_timing_how *how, mf_speed *ret);

#endif
