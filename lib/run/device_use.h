/* run/device_use.h: how much of a device's arithmetic and memory a run uses. */
#ifndef MF_RUN_DEVICE_USE_H
#define MF_RUN_DEVICE_USE_H

#include "run/session.h"

#define MF_DEVICE_USE_TEXT 128

typedef struct mf_device_use {
    /* model FLOPs utilization: the share of the peak that the graph's gemms and attention use,
     * without recomputed nodes; NaN: the peak of the device is unknown, or no time was
     * measured yet */
    double mfu;
    double peak;        /* FLOP per second in the type of the gemms; 0: unknown */
    bool bf16;          /* the gemms use bf16; false: f32 */
    size_t used, total; /* memory of the device in bytes, used by all processes; 0: unknown */
} mf_device_use;

/* Computes how much of the device a run uses. graph: the graph of a micro-batch. tokens: number
 * of tokens in a step of train.accumulate micro-batches, counted as for tokens_per_s. Returns
 * false if the run is on the CPU. */
bool mf_device_use_of(const mf_session *s, const mf_model_graph *graph, double tokens,
                      double tokens_per_s, mf_device_use *ret);
/* Writes "MFU 31.2 %, 4.2 of 79.6 GiB", for a line of progress. */
void mf_device_use_short(const mf_device_use *u, char text[MF_DEVICE_USE_TEXT]);
/* Writes "MFU 31.2 % of 989 TFLOP/s in bf16; 4.2 of 79.6 GiB of memory in use". The text also
 * says which values are unknown. */
void mf_device_use_text(const mf_device_use *u, char text[MF_DEVICE_USE_TEXT]);

#endif
