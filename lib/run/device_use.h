/* run/device_use.h: how much of a device's arithmetic and memory a run uses. */
#ifndef MF_RUN_DEVICE_USE_H
#define MF_RUN_DEVICE_USE_H

#include "run/session.h"

#define MF_DEVICE_USE_TEXT 128

typedef struct mf_device_use {
    /* model FLOPs utilization: the share of the peak that the graph's gemms and attention take,
     * without recomputed nodes; NaN: the device has no known peak, or there is no time yet */
    double mfu;
    double peak;        /* FLOP a second in the type of the gemms; 0: not known */
    bool bf16;          /* that type is bf16, else f32 */
    size_t used, total; /* memory of the device in bytes, used by whomever; 0: not known */
} mf_device_use;

/* graph: of a micro-batch. tokens: those of a step of train.accumulate of them, as tokens_per_s
 * counts them. False: the run is on the CPU. */
bool mf_device_use_of(const mf_session *s, const mf_model_graph *graph, double tokens,
                      double tokens_per_s, mf_device_use *ret);
/* "MFU 31.2 %, 4.2 of 79.6 GiB", for a line of progress. */
void mf_device_use_short(const mf_device_use *u, char text[MF_DEVICE_USE_TEXT]);
/* "MFU 31.2 % of 989 TFLOP/s in bf16; 4.2 of 79.6 GiB of memory in use", which also says what
 * is not known. */
void mf_device_use_text(const mf_device_use *u, char text[MF_DEVICE_USE_TEXT]);

#endif
