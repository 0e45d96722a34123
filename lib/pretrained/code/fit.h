/* pretrained/code/fit.h: numbers that depend on a batch of B sequences of n tokens. */
#ifndef MF_PRETRAINED_CODE_FIT_H
#define MF_PRETRAINED_CODE_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* Batches from which numbers are learned, and further ones that must agree. */
enum { MF_FIT_LEARN = 4, MF_FIT_CASES = 8 };
typedef struct mf_fit_case {
    int32_t batch, seq;
} mf_fit_case;

/* step times (a + b B + c n + d B n). The sum is rounded down, and is at least 1 unless it
 * is constant. */
typedef struct mf_fit {
    bool constant; /* b, c and d are 0 */
    double at[4];  /* a, b, c, d */
    int64_t step;
} mf_fit;

/* Chooses the cases for a model with sequences of up to `seq` tokens, seq >= 3, and up to
 * `experts` experts in a layer. The first four differ in B and n. They have multiples of 100
 * experts, so that shares of the tokens that are given in hundredths are whole. */
void mf_fit_cases(int64_t seq, int64_t experts, mf_fit_case ret[MF_FIT_CASES]);
/* Finds the function with these values. experts: a step that is tried after 1, because a
 * list of the choices of all experts has that many times the choices of one. Returns false
 * if there is no such function. */
bool mf_fit_whole(const mf_fit_case *at, const int64_t value[MF_FIT_CASES], int64_t experts,
                  mf_fit *ret);
/* The same for a real number, which is not rounded; *ret_over: the function is 1 over *ret. */
bool mf_fit_real(const mf_fit_case *at, const double value[MF_FIT_CASES], mf_fit *ret,
                 bool *ret_over);

#endif
