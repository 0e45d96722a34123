/* shape.c: constants, copies of elements, and sums over one dimension, which are in double, in
 * the order of that dimension. */
#include <string.h>

#include "kernels/ref/ref.h"

void mf_ref_set(const mf_kctx *x, int64_t n, float value, float *out)
{
    (void)x;
    for (int64_t i = 0; i < n; i++)
        out[i] = value;
}

void mf_ref_copy4(const mf_kctx *x, const int64_t dim[4], const int64_t stride_in[4],
                  const int64_t stride_out[4], const void *in, void *out)
{
    enum { BYTES = 4 };
    (void)x;
    for (int64_t i = 0; i < dim[0]; i++)
        for (int64_t j = 0; j < dim[1]; j++)
            for (int64_t k = 0; k < dim[2]; k++)
                for (int64_t l = 0; l < dim[3]; l++) {
                    int64_t from = i * stride_in[0] + j * stride_in[1] + k * stride_in[2] +
                                   l * stride_in[3];
                    int64_t to = i * stride_out[0] + j * stride_out[1] + k * stride_out[2] +
                                 l * stride_out[3];
                    memcpy((char *)out + BYTES * to, (const char *)in + BYTES * from, BYTES);
                }
}

void mf_ref_sum3(const mf_kctx *x, int64_t outer, int64_t n, int64_t inner, double scale,
                 const float *in, float *out, void *work)
{
    (void)x;
    (void)work;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            double sum = 0;
            for (int64_t j = 0; j < n; j++)
                sum += in[(o * n + j) * inner + i];
            out[o * inner + i] = (float)(scale * sum);
        }
}
