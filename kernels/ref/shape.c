/* shape.c: constants, copies of elements, and sums over one dimension, which are in double, in
 * the order of that dimension. */
#include <string.h>

#include "kernels/ref/ref.h"

void mf_ref_set(const mf_kctx *x, const mf_set_args *a)
{
    (void)x;
    for (int64_t i = 0; i < a->n; i++)
        a->out[i] = a->value;
}

void mf_ref_copy4(const mf_kctx *x, const mf_copy4_args *a)
{
    enum { BYTES = 4 };
    (void)x;
    for (int64_t i = 0; i < a->dim[0]; i++)
        for (int64_t j = 0; j < a->dim[1]; j++)
            for (int64_t k = 0; k < a->dim[2]; k++)
                for (int64_t l = 0; l < a->dim[3]; l++) {
                    int64_t from = i * a->stride_in[0] + j * a->stride_in[1] +
                                   k * a->stride_in[2] + l * a->stride_in[3];
                    int64_t to = i * a->stride_out[0] + j * a->stride_out[1] +
                                 k * a->stride_out[2] + l * a->stride_out[3];
                    memcpy((char *)a->out + BYTES * to, (const char *)a->in + BYTES * from,
                           BYTES);
                }
}

void mf_ref_sum3(const mf_kctx *x, const mf_sum3_args *a)
{
    (void)x;
    for (int64_t o = 0; o < a->outer; o++)
        for (int64_t i = 0; i < a->inner; i++) {
            double sum = 0;
            for (int64_t j = 0; j < a->n; j++)
                sum += ref_load(a->type, a->in, (o * a->n + j) * a->inner + i);
            a->out[o * a->inner + i] = (float)(a->scale * sum);
        }
}
