/* loss.cuh: cross-entropy, of given logits and of a linear head without a matrix of all
 * logits. */
#pragma once
#include "base.cuh"
#include "index.cuh"
#include "sum.cuh"

/* lse and loss of each row: a warp or a block each. With ret_most, the largest logit goes there
 * and lse is without it: near a large lse f32 has coarse steps, which softmax would see. */
template <int W>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_row_loss(const mf_fault *fault, int64_t rows, int64_t n, const float *logits,
                   const int32_t *target, float *row_loss, float *lse, float *ret_most)
{
    const int64_t r = mf_my_row<W>();
    const int lane = mf_my_lane<W>();
    if (r >= rows || mf_failed(fault)) return;
    const float *row = logits + r * n;
    float most = -INFINITY, sum = 0;
    for (int64_t j = lane; j < n; j += W)
        most = fmaxf(most, row[j]);
    most = mf_row<W, mf_most>(most);
    for (int64_t j = lane; j < n; j += W)
        sum += expf(row[j] - most);
    sum = mf_row<W, mf_add>(sum);
    if (lane > 0) return;
    /* In double: a loss near 0 is the difference of two numbers that are not. */
    const double rest = log((double)sum), l = (double)most + rest;
    lse[r] = (float)(ret_most ? rest : l);
    if (ret_most) ret_most[r] = most;
    row_loss[r] = target[r] >= 0 ? (float)(l - row[target[r]]) : 0;
}

/* One block: sums[0] = sum of weights of rows that count, sums[1] = their weighted loss. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_loss_sums(const mf_fault *fault, int64_t rows, const int32_t *target,
                    const float *weight, const float *row_loss, double *sums, float *loss)
{
    double weights = 0, total = 0;
    if (mf_failed(fault)) return;
    for (int64_t r = threadIdx.x; r < rows; r += MF_THREADS) {
        if (target[r] < 0) continue;
        const double w = weight ? weight[r] : 1;
        weights += w;
        if (row_loss) total += w * row_loss[r];
    }
    weights = mf_row<MF_THREADS, mf_add>(weights);
    total = mf_row<MF_THREADS, mf_add>(total);
    if (threadIdx.x > 0) return;
    if (sums) sums[0] = weights;
    if (loss) *loss = weights != 0 ? (float)(total / weights) : 0;
}

typedef struct mf_loss_grad {
    int64_t rows, n;
    const float *logits;
    const int32_t *target;
    const float *weight, *loss, *row_loss, *lse, *dloss, *drow;
    float *dlogits, *dweight;
    const double *sums;
    bool one;          /* dloss is 1 */
    const float *most; /* of mf_cu_row_loss, or NULL */
} mf_loss_grad;

template <int W>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_loss_grad(const mf_fault *fault, mf_loss_grad p)
{
    const int64_t r = mf_my_row<W>();
    const int lane = mf_my_lane<W>();
    if (r >= p.rows || mf_failed(fault)) return;
    const int32_t target = p.target[r];
    const double weights = p.sums[0];
    const double dloss = p.one ? 1 : p.dloss ? (double)*p.dloss : 0;
    const double each = weights != 0 ? dloss / weights : 0;
    const float g = target >= 0 ? (float)((p.weight ? (double)p.weight[r] : 1) * each +
                                          (p.drow ? (double)p.drow[r] : 0))
                                : 0;
    const float lse = p.lse[r], most = p.most ? p.most[r] : 0;
    for (int64_t j = lane; p.dlogits && j < p.n; j += W) {
        const float v = p.logits[r * p.n + j];
        p.dlogits[r * p.n + j] =
            target >= 0 ? g * (expf(v - most - lse) - (j == target ? 1.0f : 0.0f)) : 0;
    }
    if (p.dweight && lane == 0)
        p.dweight[r] = target >= 0 ? (float)(each * ((double)p.row_loss[r] - *p.loss)) : 0;
}

/* ---- launches ---- */

static void mf_launch_row_loss(const mf_kctx *x, int64_t rows, int64_t n, const float *logits,
                               const int32_t *target, float *row_loss, float *lse,
                               float *ret_most)
{
    mf_by_width(n, [&](auto w) {
        typedef decltype(w) width;
        MF_LAUNCH(mf_cu_row_loss<width::threads>, width::grid(rows), dim3(MF_THREADS), 0, x,
                  x->fault, rows, n, logits, target, row_loss, lse, ret_most);
    });
}
static void mf_launch_loss_grad(const mf_kctx *x, const mf_loss_grad &p)
{
    mf_by_width(p.n, [&](auto w) {
        typedef decltype(w) width;
        MF_LAUNCH(mf_cu_loss_grad<width::threads>, width::grid(p.rows), dim3(MF_THREADS), 0, x,
                  x->fault, p);
    });
}

extern "C" void mf_cuda_cross_entropy(const mf_kctx *x, int64_t rows, int64_t n,
                                      const float *logits, const int32_t *target,
                                      const float *weight, float *loss, float *row_loss,
                                      float *lse)
{
    if (rows > 0) mf_launch_row_loss(x, rows, n, logits, target, row_loss, lse, NULL);
    MF_LAUNCH(mf_cu_loss_sums, MF_ONE_BLOCK, x, x->fault, rows, target, weight,
              (const float *)row_loss, (double *)NULL, loss);
}

extern "C" void mf_cuda_cross_entropy_backward(const mf_kctx *x, int64_t rows, int64_t n,
                                               const float *logits, const int32_t *target,
                                               const float *weight, const float *loss,
                                               const float *row_loss, const float *lse,
                                               const float *dloss, const float *drow,
                                               float *dlogits, float *dweight)
{
    double *sums = (double *)mf_cuda_scratch(x, sizeof *sums);
    const mf_loss_grad p = {rows,  n,    logits,  target,  weight, loss,  row_loss, lse,
                            dloss, drow, dlogits, dweight, sums,   false, NULL};
    if (rows <= 0) return;
    MF_LAUNCH(mf_cu_loss_sums, MF_ONE_BLOCK, x, x->fault, rows, target, weight,
              (const float *)NULL, sums, (float *)NULL);
    mf_launch_loss_grad(x, p);
}

/* The parts of the work memory of linear_cross_entropy. */
typedef struct mf_head_work {
    float *logits, *most, *lse, *row_loss;
    double *sums;
    float *dbias; /* of a chunk */
    void *sum3;
} mf_head_work;

static mf_head_work mf_head_work_of(const mf_linear_cross_entropy_args *p, int64_t chunk)
{
    char *at = (char *)p->work;
    mf_head_work w;
    w.logits = (float *)at, at += mf_align64(chunk * p->vocab * 4);
    w.most = (float *)at, at += mf_align64(chunk * 4);
    w.lse = (float *)at, at += mf_align64(chunk * 4);
    w.sums = (double *)at, at += mf_align64(chunk * 4);
    w.row_loss = p->row_loss ? p->row_loss : (float *)at, at += mf_align64(p->rows * 4);
    w.dbias = (float *)at, at += mf_align64(p->vocab * 4);
    w.sum3 = at;
    return w;
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_add(const mf_fault *fault, int64_t n, bool first, const float *a, float *to)
{
    if (mf_failed(fault)) return;
    for (int64_t i = mf_thread(); i < n; i += mf_threads())
        to[i] = first ? a[i] : to[i] + a[i];
}

/* y = x W^T + bias, or y = x W, of rows of f32, if the weight is stored. */
static void mf_head_stored(const mf_kctx *x, const mf_linear_cross_entropy_args *p, bool back,
                           int64_t rows, const float *a, float *y)
{
    mf_stored_gemm_args g = {};
    g.w = p->stored, g.back = back, g.rows = rows, g.alpha = 1;
    g.x = a, g.ldx = back ? p->vocab : p->d;
    g.y = y, g.ldy = back ? p->d : p->vocab;
    if (!back) g.bias = p->bias;
    mf_cuda_stored_gemm(x, &g);
}

/* One chunk of rows: logits, losses and gradients, for which dlogits replace the logits. */
static void mf_head_chunk(const mf_kctx *x, const mf_linear_cross_entropy_args *p,
                          const mf_head_work &w, int64_t from, int64_t rows)
{
    const size_t size = (size_t)mf_cast_size(p->type);
    const char *a = (const char *)p->x + (size_t)(from * p->d) * size;
    mf_gemm g = {};
    g.m = rows, g.n = p->vocab, g.k = p->d, g.alpha = 1, g.bias = p->bias;
    g.a.data = a, g.a.type = p->type, g.a.ld = p->d;
    g.b.data = p->w, g.b.type = p->type, g.b.ld = p->d, g.b.trans = true;
    g.c.data = w.logits, g.c.ld = p->vocab;
    if (p->stored)
        mf_head_stored(x, p, false, rows, (const float *)a, w.logits);
    else
        mf_cuda_multiply(x, &g);
    mf_launch_row_loss(x, rows, p->vocab, w.logits, p->target + from, w.row_loss + from, w.lse,
                       w.most);
    if (!p->dx && !p->dw && !p->dbias) return;
    mf_loss_grad l = {};
    l.rows = rows, l.n = p->vocab, l.logits = w.logits, l.target = p->target + from;
    l.weight = p->weight ? p->weight + from : NULL, l.lse = w.lse, l.most = w.most,
    l.dlogits = w.logits;
    l.sums = w.sums, l.one = true;
    mf_launch_loss_grad(x, l);
    if (p->dx && p->stored) {
        mf_head_stored(x, p, true, rows, w.logits, (float *)p->dx + from * p->d);
    } else if (p->dx) {
        mf_gemm back = {};
        back.m = rows, back.n = p->d, back.k = p->vocab, back.alpha = 1;
        back.a.data = w.logits, back.a.ld = p->vocab;
        back.b.data = p->w, back.b.type = p->type, back.b.ld = p->d;
        back.c.data = (char *)p->dx + (size_t)(from * p->d) * size;
        back.c.type = p->type, back.c.ld = p->d;
        mf_cuda_multiply(x, &back);
    }
    if (p->dw) {
        mf_gemm weights = {};
        weights.m = p->vocab, weights.n = p->d, weights.k = rows, weights.alpha = 1;
        weights.beta = from > 0 ? 1.0f : 0.0f;
        weights.a.data = w.logits, weights.a.ld = p->vocab, weights.a.trans = true;
        weights.b.data = a, weights.b.type = p->type, weights.b.ld = p->d;
        weights.c.data = p->dw, weights.c.ld = p->d;
        mf_cuda_multiply(x, &weights);
    }
    if (p->dbias) {
        mf_cuda_sum3(x, 1, rows, p->vocab, 1, w.logits, w.dbias, w.sum3);
        MF_LAUNCH(mf_cu_add, MF_EACH_OF(p->vocab), x, x->fault, p->vocab, from == 0,
                  (const float *)w.dbias, p->dbias);
    }
}

extern "C" void mf_cuda_linear_cross_entropy(const mf_kctx *x,
                                             const mf_linear_cross_entropy_args *p)
{
    const int64_t chunk = mf_linear_cross_entropy_chunk(p->rows, p->vocab);
    const mf_head_work w = mf_head_work_of(p, chunk);
    if (p->rows <= 0) {
        if (p->dw) mf_cuda_set(x, p->vocab * p->d, 0, p->dw);
        if (p->dbias) mf_cuda_set(x, p->vocab, 0, p->dbias);
        mf_cuda_set(x, 1, 0, p->loss);
        return;
    }
    MF_LAUNCH(mf_cu_loss_sums, MF_ONE_BLOCK, x, x->fault, p->rows, p->target, p->weight,
              (const float *)NULL, w.sums, (float *)NULL);
    for (int64_t from = 0; from < p->rows; from += chunk)
        mf_head_chunk(x, p, w, from, p->rows - from < chunk ? p->rows - from : chunk);
    MF_LAUNCH(mf_cu_loss_sums, MF_ONE_BLOCK, x, x->fault, p->rows, p->target, p->weight,
              (const float *)w.row_loss, (double *)NULL, p->loss);
}
