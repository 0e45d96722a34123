/* pretrained/quantize/gptq.h: rounds a matrix to b = 4 or 8 bits in the layout GPTQ, version 1
 * (packed.h), with zeros in the middle: W = scale (q - 2^(b-1)), q = 0 .. 2^b - 1, scales in
 * f16.
 *
 * GPTQ (Frantar et al. 2022, algorithm 1): inputs are rounded one after another. The inputs
 * that follow compensate the error of each, by the inverse of H = sum of x x^T over inputs x of
 * the calibration. */
#ifndef MF_QUANTIZE_GPTQ_H
#define MF_QUANTIZE_GPTQ_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_gptq {
    int bits;          /* 4 or 8 */
    int64_t out, in;   /* both divisible by 8 */
    int64_t group;     /* number of inputs that share a scale */
    int64_t groups;    /* number of groups; the last group may be shorter */
    uint32_t *words;   /* [in bits / 32, out] q of 32 / bits inputs per word */
    uint32_t *zeros;   /* [groups, out bits / 32] */
    uint16_t *scales;  /* [groups, out] f16 */
    int32_t *group_of; /* [in] group of each input */
} mf_gptq;

/* Returns a matrix without values; NULL: not enough memory. The caller frees it
 * with mf_gptq_free. */
mf_gptq *mf_gptq_new(int bits, int64_t out, int64_t in, int64_t group);
void mf_gptq_free(mf_gptq *w); /* w may be NULL */
/* mf_gptq_new in two steps: only the sizes, then the memory for values. */
mf_gptq *mf_gptq_plan(int bits, int64_t out, int64_t in, int64_t group);
int mf_gptq_make(mf_gptq *w); /* MF_ENOMEM */
/* Frees everything except the scales. */
void mf_gptq_forget(mf_gptq *w);

/* Rounds each value to the nearest. values [out,in] become the rounded values. Returns false,
 * and w has no meaning, if a value is not finite, or if there is not enough memory. */
bool mf_gptq_round(mf_gptq *w, float *values);

/* Functions of this type write rows o .. o + n - 1 of a matrix to `to`, ld values apart. Any
 * thread may call them. They return false if they fail. */
typedef bool mf_gptq_rows(void *arg, int64_t o, int64_t n, float *to, int64_t ld);
/* What one thread does meanwhile. */
typedef void mf_gptq_beside(void *arg);
/* The same for values that `rows` reads. Returns false also if a call of `rows` failed. beside:
 * called once, or NULL. */
bool mf_gptq_round_rows(mf_gptq *w, mf_gptq_rows *rows, mf_gptq_beside *beside, void *arg);

/* The data derived from the inputs' H that GPTQ needs. */
typedef struct mf_gptq_inputs {
    int64_t in;
    int32_t *order; /* [in] inputs in the order in which they are rounded */
    float *upper;   /* [in,in] U, inverse of H = U^T U; rows and columns in that order */
} mf_gptq_inputs;

/* Computes *ret from H [in,in]. Only the lower half of H is read; the function overwrites H.
 * damp: share of the mean of the diagonal that is added to the diagonal. act_order: inputs with
 * the largest H[i,i] come first, so the inputs of a group are not neighbours. MF_ENONFINITE: H
 * has no inverse; MF_ENOMEM. The caller frees *ret with mf_gptq_inputs_free. */
int mf_gptq_inputs_of(int64_t in, double *h, double damp, bool act_order, mf_gptq_inputs *ret);
void mf_gptq_inputs_free(mf_gptq_inputs *x);
/* Rounds by GPTQ; otherwise the same as mf_gptq_round. MF_ENOMEM. */
int mf_gptq_compensate(mf_gptq *w, const mf_gptq_inputs *x, float *values);

#endif
