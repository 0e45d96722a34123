/* bf16.c: kernels on bf16 arrays: the f32 reference, an element at a time, on what was widened;
 * its result rounded. */
#include "kernels/ref/ref.h"

void mf_ref_map1_bf16(const mf_kctx *x, int fn, int64_t n, float a, float b, const mf_bf16 *in,
                      mf_bf16 *out)
{
    for (int64_t i = 0; i < n; i++) {
        float v = mf_ref_widen(in[i]), y;
        mf_ref_map1(x, fn, 1, a, b, &v, &y);
        out[i] = mf_ref_round(y);
    }
}

void mf_ref_map1_grad_bf16(const mf_kctx *x, int fn, int64_t n, float a, float b,
                           const mf_bf16 *in, const mf_bf16 *out, const mf_bf16 *dout,
                           mf_bf16 *din)
{
    for (int64_t i = 0; i < n; i++) {
        float v = in != NULL ? mf_ref_widen(in[i]) : 0,
              y = out != NULL ? mf_ref_widen(out[i]) : 0;
        float dy = mf_ref_widen(dout[i]), dv;
        mf_ref_map1_grad(x, fn, 1, a, b, in != NULL ? &v : NULL, out != NULL ? &y : NULL, &dy,
                         &dv);
        din[i] = mf_ref_round(dv);
    }
}

void mf_ref_map2_bf16(const mf_kctx *x, int fn, const int64_t dim[4], const int64_t stride_a[4],
                      const int64_t stride_b[4], const mf_bf16 *a, const mf_bf16 *b,
                      mf_bf16 *out)
{
    const int64_t one[4] = {1, 1, 1, 1}, step[4] = {0};
    for (int64_t i = 0; i < dim[0]; i++)
        for (int64_t j = 0; j < dim[1]; j++)
            for (int64_t k = 0; k < dim[2]; k++)
                for (int64_t l = 0; l < dim[3]; l++) {
                    int64_t at_a =
                        i * stride_a[0] + j * stride_a[1] + k * stride_a[2] + l * stride_a[3];
                    int64_t at_b =
                        i * stride_b[0] + j * stride_b[1] + k * stride_b[2] + l * stride_b[3];
                    float u = mf_ref_widen(a[at_a]), v = mf_ref_widen(b[at_b]), y;
                    mf_ref_map2(x, fn, one, step, step, &u, &v, &y);
                    *out++ = mf_ref_round(y);
                }
}

void mf_ref_swiglu_bf16(const mf_kctx *x, int64_t rows, int64_t n, const mf_bf16 *a,
                        int64_t lda, const mf_bf16 *b, int64_t ldb, const float *gate,
                        mf_bf16 *y)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            float u = mf_ref_widen(a[i * lda + j]), v = mf_ref_widen(b[i * ldb + j]), out;
            mf_ref_swiglu(x, 1, 1, &u, 1, &v, 1, gate != NULL ? gate + i : NULL, &out);
            y[i * n + j] = mf_ref_round(out);
        }
}

void mf_ref_swiglu_bf16_backward(const mf_kctx *x, int64_t rows, int64_t n, const mf_bf16 *a,
                                 int64_t lda, const mf_bf16 *b, int64_t ldb, const float *gate,
                                 const mf_bf16 *dy, mf_bf16 *da, mf_bf16 *db, float *dgate,
                                 mf_bf16 *y)
{
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            float u = mf_ref_widen(a[i * lda + j]), v = mf_ref_widen(b[i * ldb + j]);
            float g = mf_ref_widen(dy[i * n + j]), du, dv, part, out;
            mf_ref_swiglu_backward(x, 1, 1, &u, 1, &v, 1, gate != NULL ? gate + i : NULL, &g,
                                   &du, &dv, &part, &out);
            sum += part;
            if (da != NULL) da[i * lda + j] = mf_ref_round(du);
            if (db != NULL) db[i * ldb + j] = mf_ref_round(dv);
            if (y != NULL) y[i * n + j] = mf_ref_round(out);
        }
        if (dgate != NULL) dgate[i] = (float)sum;
    }
}

void mf_ref_gather_rows_bf16(const mf_kctx *x, int64_t m, int64_t d, const mf_bf16 *in,
                             const int32_t *index, mf_bf16 *out)
{
    (void)x;
    for (int64_t i = 0; i < m; i++)
        for (int64_t c = 0; c < d; c++)
            out[i * d + c] = index[i] < 0 ? 0 : in[index[i] * d + c];
}

void mf_ref_sum_rows_bf16(const mf_kctx *x, int64_t n, int64_t d, int64_t k,
                          const int32_t *offset, const int32_t *list, const int32_t *place,
                          const float *gate, const mf_bf16 *in, float *out, mf_bf16 *half)
{
    (void)x;
    for (int64_t t = 0; t < n; t++) {
        int64_t from = offset ? offset[t] : t * k, to = offset ? offset[t + 1] : (t + 1) * k;
        for (int64_t c = 0; c < d; c++) {
            double sum = 0;
            for (int64_t q = from; q < to; q++) {
                int64_t r = list ? list[q] : q, p = place ? place[r] : r;
                if (p >= 0) sum += (gate ? (double)gate[r] : 1) * mf_ref_widen(in[p * d + c]);
            }
            if (out != NULL)
                out[t * d + c] = (float)sum;
            else
                half[t * d + c] = mf_ref_round((float)sum);
        }
    }
}

void mf_ref_combine_grad_bf16(const mf_kctx *x, int64_t rows, int64_t k, int64_t d,
                              const mf_bf16 *y, const float *gate, const int32_t *place,
                              const int32_t *token, const float *dout, mf_bf16 *dy,
                              float *dgate)
{
    int64_t placed = 0;
    (void)x;
    for (int64_t r = 0; r < rows; r++) {
        int64_t t = token ? token[r] : r / k, p = place[r];
        double dot = 0;
        for (int64_t c = 0; p >= 0 && c < d; c++) {
            float from = t >= 0 ? dout[t * d + c] : 0;
            if (dgate && t >= 0) dot += (double)mf_ref_widen(y[p * d + c]) * from;
            if (dy) dy[p * d + c] = mf_ref_round(t >= 0 ? (gate ? gate[r] : 1) * from : 0);
        }
        if (dgate) dgate[r] = (float)dot;
        placed += p >= 0;
    }
    for (int64_t i = placed * d; dy && i < rows * d; i++)
        dy[i] = 0;
}

void mf_ref_group_sum_bf16(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                           const int32_t *offset, const mf_bf16 *a, float *y)
{
    (void)x, (void)rows;
    for (int64_t e = 0; e < groups; e++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t r = offset[e]; r < offset[e + 1]; r++)
                sum += mf_ref_widen(a[r * n + j]);
            y[e * n + j] = (float)sum;
        }
}

void mf_ref_adamw_bf16(const mf_kctx *x, int64_t count, const mf_adamw_args *args, float *value,
                       mf_bf16 *half, const float *grad, float *m, float *v)
{
    mf_ref_adamw(x, count, args, value, grad, m, v);
    for (int64_t i = 0; i < count; i++)
        half[i] = mf_ref_round(value[i]);
}
