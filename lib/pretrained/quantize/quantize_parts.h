/* pretrained/quantize/quantize_parts.h: declarations that the files of this folder share. */
#ifndef MF_QUANTIZE_PARTS_H
#define MF_QUANTIZE_PARTS_H

#include "pretrained/export_run.h"
#include "pretrained/quantize/gptq.h"
#include "pretrained/quantize/quantize.h"

typedef struct mf_quantize_work {
    const mf_quantize_options *options;
    mf_export_run x; /* the model that will be quantized */
    /* Weights stay in their files, and are rounded while the new folder is written. */
    bool streams;
    /* The model before quantization, with data if there are any. NULL with `streams`, unless
     * options change it. */
    mf_session *before;
    /* [x.record->n] quantized weights, with `streams` only their sizes at first; NULL for
     * tensors that are not quantized */
    mf_gptq **weights;
    mf_quantize_report *report;
} mf_quantize_work;

/* Quantizes all weights, block after block, and writes the rounded values into the model; with
 * `streams` finds the weights to quantize. */
int mf_quantize_weights(mf_quantize_work *w);
/* Makes w->weights[i] from its tensor, if `streams` is set. One thread writes n bytes of data
 * to `out` meanwhile; data NULL: nothing. */
int mf_quantize_stream(const mf_quantize_work *w, int64_t i, mf_st_writer *out,
                       const void *data, size_t n);
/* Measures both models on the validation split; without data the numbers are NaN. */
int mf_quantize_measure(mf_quantize_work *w);
/* Writes the model folder; it must be new. */
int mf_quantize_write(mf_quantize_work *w, const char *folder);

#endif
