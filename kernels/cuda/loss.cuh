/* loss.cuh: cross-entropy, of given logits and of a linear head without a matrix of all
 * logits. */
#pragma once
#include "base.cuh"
#include "index.cuh"
#include "sum.cuh"

/* A thread has this many times four logits next to each other under way: memory that is read
 * once is fast if much of it is asked for at a time. Gradients need more registers. */
constexpr int MF_LOGITS = 4, MF_GRADIENTS = 2;

/* The largest of the logits of a thread, and the sum of e^(logit - most), in one pass: where a
 * larger logit comes, the sum so far is scaled. */
typedef struct mf_exp_sum {
    float most, sum;
} mf_exp_sum;
template <int N> MF_INLINE void mf_more_logits(mf_exp_sum *s, const float (&v)[N])
{
    float most = s->most;
    MF_UNROLL
    for (int i = 0; i < N; i++)
        most = fmaxf(most, v[i]);
    /* While all are -inf, the sum is 0: whether the whole row is so is seen at its end. */
    const float from = most == -INFINITY ? 0 : most;
    float sum = s->sum * expf(s->most - from);
    MF_UNROLL
    for (int i = 0; i < N; i++)
        sum += expf(v[i] - from);
    s->most = most, s->sum = sum;
}

/* The sums of the W threads of a row, together those of the row. wide: the row begins at a
 * multiple of 16 bytes. */
template <int W> MF_INLINE mf_exp_sum mf_exp_sum_of(const float *row, int64_t n, bool wide)
{
    const int lane = mf_my_lane<W>();
    const int64_t fours = wide ? n / 4 * 4 : 0;
    mf_exp_sum s = {-INFINITY, 0};
    for (int64_t j = 4 * lane; j < fours; j += 4 * W * MF_LOGITS) {
        float v[4 * MF_LOGITS];
        MF_UNROLL
        for (int q = 0; q < MF_LOGITS; q++) {
            float four[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
            if (j + 4 * W * q < fours) mf_get4(row + j + 4 * W * q, four);
            MF_UNROLL
            for (int i = 0; i < 4; i++)
                v[4 * q + i] = four[i];
        }
        mf_more_logits(&s, v);
    }
    for (int64_t j = fours + lane; j < n; j += W * MF_LOGITS) {
        float v[MF_LOGITS];
        MF_UNROLL
        for (int q = 0; q < MF_LOGITS; q++)
            v[q] = j + W * q < n ? row[j + W * q] : -INFINITY;
        mf_more_logits(&s, v);
    }
    return s;
}

/* lse and loss of each row: a warp or a block each. With ret_most, the largest logit goes there
 * and lse is without it: near a large lse f32 has coarse steps, which softmax would see. */
template <int W>
__global__ void __launch_bounds__(MF_THREADS, 6)
    mf_cu_row_loss(const mf_fault *fault, int64_t rows, int64_t n, const float *logits,
                   int64_t ld, bool wide, const int32_t *target, float *row_loss, float *lse,
                   float *ret_most)
{
    const int64_t r = mf_my_row<W>();
    if (r >= rows || mf_failed(fault)) return;
    const float *row = logits + r * ld;
    const mf_exp_sum mine = mf_exp_sum_of<W>(row, n, wide);
    const float most = mf_row<W, mf_most>(mine.most);
    const float sum = mf_row<W, mf_add>(mine.sum * expf(mine.most - most));
    if (mf_my_lane<W>() > 0) return;
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

/* Between reading and writing what may be the same row, by its W threads. */
template <int W> MF_INLINE void mf_row_was_read()
{
    if (W == MF_WARP)
        __syncwarp();
    else
        __syncthreads();
}

/* Writes a row, whose column j becomes value(from[j], j); behind n columns are 0. half: as
 * bf16, into the memory of the row that the values come from. What a turn writes was read in
 * that turn, before its barrier, or in an earlier one. wide: rows begin at multiples of 16
 * bytes, and so does what follows them. */
template <int W, class F>
MF_INLINE void mf_put_row(const float *from, float *row, int64_t columns, int64_t ld, bool wide,
                          bool half, F value)
{
    const int lane = mf_my_lane<W>(), n = (int)columns, end = (int)ld;
    MF_UNROLL_BY(1) /* registers are few */
    for (int first = 0; wide && first < end; first += 4 * W * MF_GRADIENTS) {
        const int at = first + 4 * lane;
        float v[MF_GRADIENTS][4];
        MF_UNROLL
        for (int q = 0; q < MF_GRADIENTS; q++) {
            const int j = at + 4 * W * q;
            if (j + 4 <= n) {
                mf_get4(from + j, v[q]);
                continue;
            }
            MF_UNROLL
            for (int i = 0; i < 4; i++)
                v[q][i] = j + i < n ? from[j + i] : 0;
        }
        MF_UNROLL
        for (int q = 0; q < MF_GRADIENTS; q++)
            MF_UNROLL
        for (int i = 0; i < 4; i++) {
            const int j = at + 4 * W * q + i;
            v[q][i] = j < n ? value(v[q][i], j) : 0;
        }
        if (half) mf_row_was_read<W>();
        MF_UNROLL
        for (int q = 0; q < MF_GRADIENTS; q++) {
            const int j = at + 4 * W * q;
            if (j >= end) continue;
            if (half)
                mf_put4((mf_bf16 *)row + j, v[q]);
            else
                mf_put4(row + j, v[q]);
        }
    }
    MF_UNROLL_BY(1)
    for (int j = lane; !wide && j - lane < end; j += W) {
        const float v = j < n ? value(from[j], j) : 0;
        if (half) mf_row_was_read<W>();
        if (j >= end) continue;
        if (half)
            ((mf_bf16 *)row)[j] = mf_bf16_from_f32(v);
        else
            row[j] = v;
    }
}

/* dlogits may be the logits. */
typedef struct mf_loss_grad {
    int64_t rows, n, ld; /* ld: distance of rows of logits and dlogits, in f32 */
    const float *logits;
    const int32_t *target;
    const float *weight, *loss, *row_loss, *lse, *dloss, *drow;
    float *dlogits, *dweight;
    const double *sums;
    bool one;          /* dloss is 1 */
    bool half;         /* dlogits replace the logits as bf16, 2 ld apart */
    bool wide;         /* rows of both begin at multiples of 16 bytes */
    const float *most; /* of mf_cu_row_loss, or NULL */
} mf_loss_grad;

template <int W>
__global__ void __launch_bounds__(MF_THREADS, 6)
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
    if (p.dweight && lane == 0)
        p.dweight[r] = target >= 0 ? (float)(each * ((double)p.row_loss[r] - *p.loss)) : 0;
    const float *row = p.logits + r * p.ld;
    if (p.dlogits)
        mf_put_row<W>(row, p.dlogits + r * p.ld, p.n, p.ld, p.wide, p.half,
                      [&](float logit, int j) {
                          const float share = expf(logit - most - lse);
                          const float hit = j == target ? 1.0f : 0.0f;
                          return target >= 0 ? g * (share - hit) : 0;
                      });
}

/* Rows of f32, ld apart, become rows of bf16 in their place, 2 ld apart. */
template <int W>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_halve(const mf_fault *fault, int64_t rows, int64_t n, int64_t ld, bool wide, float *a)
{
    const int64_t r = mf_my_row<W>();
    if (r >= rows || mf_failed(fault)) return;
    float *row = a + r * ld;
    mf_put_row<W>(row, row, n, ld, wide, true, [](float v, int) { return v; });
}

/* ---- losses and gradients of rows that shared memory holds ---- */

/* A block has rows in turn. Each thread brings its logits of a row to shared memory, four at a
 * time, and it alone uses them there: for the largest logit of the row, for e^(logit - most),
 * and for the gradients. It then brings its logits of the block's next row to their place, so
 * that loads are always under way, and each logit is read once. The gradients replace the
 * logits: all of a row were read when the first of them is written. */
constexpr int MF_KEPT_THREADS = 512, MF_KEPT_BLOCKS = 3;

MF_INLINE void mf_keep4(float *kept, const float *row, int n, int j)
{
    mf_copy16(kept + j, row + j, n - j < 4 ? 4 * (n - j) : 16);
}
/* Calls use(v, j) for this thread's logits v[4] from column j on, in turn. */
template <class F> MF_INLINE void mf_each_kept(const float *kept, int n, F use)
{
    MF_UNROLL_BY(4)
    for (int j = 4 * (int)threadIdx.x; j < n; j += 4 * MF_KEPT_THREADS) {
        float v[4];
        mf_get4(kept + j, v);
        use(v, j);
    }
}

__global__ void __launch_bounds__(MF_KEPT_THREADS, MF_KEPT_BLOCKS)
    mf_cu_kept_loss(const mf_fault *fault, mf_loss_grad p, float *row_loss)
{
    MF_SHARED_DYNAMIC(shared);
    float *const kept = (float *)shared;
    const int n = (int)p.n, last = n / 4 * 4, first = 4 * (int)threadIdx.x;
    if (mf_failed(fault)) return;
    const double each = p.sums[0] != 0 ? 1 / p.sums[0] : 0;
    for (int j = first; j < n; j += 4 * MF_KEPT_THREADS)
        mf_keep4(kept, p.logits + blockIdx.x * p.ld, n, j);
    mf_copy_commit();
    MF_UNROLL_BY(1)
    for (int64_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
        const int target = p.target[r];
        float *const row = p.dlogits + r * p.ld;
        const float *const next = r + gridDim.x < p.rows ? row + gridDim.x * p.ld : NULL;
        const float hit = first == 0 && target >= 0 ? row[target] : 0;
        mf_copy_wait<0>();
        if (last % (4 * MF_KEPT_THREADS) == first) /* behind the row */
            for (int j = n; j % 4 != 0; j++)
                kept[j] = -INFINITY;
        float most = -INFINITY, sum = 0;
        mf_each_kept(kept, n, [&](float(&v)[4], int) {
            most = fmaxf(fmaxf(most, fmaxf(v[0], v[1])), fmaxf(v[2], v[3]));
        });
        most = mf_row<MF_KEPT_THREADS, mf_most>(most);
        mf_each_kept(kept, n, [&](float(&v)[4], int j) {
            MF_UNROLL
            for (int i = 0; i < 4; i++)
                v[i] = mf_exp2((v[i] - most) * 1.44269504088896341f);
            sum += (v[0] + v[1]) + (v[2] + v[3]);
            mf_put4(kept + j, v);
        });
        sum = mf_row<MF_KEPT_THREADS, mf_add>(sum);
        if (first == 0) /* in double, as in mf_cu_row_loss */
            row_loss[r] = target >= 0 ? (float)((double)most + log((double)sum) - hit) : 0;
        const float g = (float)((p.weight ? (double)p.weight[r] : 1) * each), share = 1 / sum;
        mf_each_kept(kept, n, [&](float(&v)[4], int j) {
            MF_UNROLL
            for (int i = 0; i < 4; i++)
                v[i] = target < 0 ? 0 : g * (v[i] * share - (j + i == target ? 1.0f : 0.0f));
            uint2 halves;
            halves.x = mf_round2(v[0], v[1]), halves.y = mf_round2(v[2], v[3]);
            if (p.half)
                *(uint2 *)(void *)((mf_bf16 *)row + j) = halves;
            else
                mf_put4(row + j, v);
            if (next) mf_keep4(kept, next, n, j);
        });
        if (next) mf_copy_commit();
    }
}

/* ---- launches ---- */

/* Whether rows of f32, ld apart, begin at multiples of 16 bytes. */
static bool mf_wide_rows(int64_t ld, const void *a, const void *b = NULL)
{
    return ld % 4 == 0 && mf_aligned(MF_CAST_F32, a, b);
}

static void mf_launch_row_loss(const mf_kctx *x, int64_t rows, int64_t n, const float *logits,
                               int64_t ld, const int32_t *target, float *row_loss, float *lse,
                               float *ret_most)
{
    mf_by_width(n, [&](auto w) {
        typedef decltype(w) width;
        MF_LAUNCH(mf_cu_row_loss<width::threads>, width::grid(rows), dim3(MF_THREADS), 0, x,
                  x->fault, rows, n, logits, ld, mf_wide_rows(ld, logits), target, row_loss,
                  lse, ret_most);
    });
}
static void mf_launch_loss_grad(const mf_kctx *x, mf_loss_grad p)
{
    p.wide = mf_wide_rows(p.ld, p.logits, p.dlogits);
    mf_by_width(p.n, [&](auto w) {
        typedef decltype(w) width;
        MF_LAUNCH(mf_cu_loss_grad<width::threads>, width::grid(p.rows), dim3(MF_THREADS), 0, x,
                  x->fault, p);
    });
}
static bool mf_keeps_row(int64_t n)
{
    const int c = mf_cuda_capability;
    const int64_t kib = c >= 90 && c < 120 ? 227 : c == 80 || c == 87 ? 163 : 99;
    return mf_linear_cross_entropy_keeps(n, kib << 10);
}
/* Losses of rows, and gradients of logits in their place. */
static void mf_launch_kept_loss(const mf_kctx *x, mf_loss_grad p, float *row_loss)
{
    const int64_t most = (int64_t)mf_cuda_processors * MF_KEPT_BLOCKS;
    MF_LAUNCH(mf_cu_kept_loss, mf_grid(p.rows < most ? p.rows : most, 1), dim3(MF_KEPT_THREADS),
              (size_t)p.ld * 4, x, x->fault, p, row_loss);
}
static void mf_launch_halve(const mf_kctx *x, int64_t rows, int64_t n, int64_t ld, float *a)
{
    mf_by_width(n, [&](auto w) {
        typedef decltype(w) width;
        MF_LAUNCH(mf_cu_halve<width::threads>, width::grid(rows), dim3(MF_THREADS), 0, x,
                  x->fault, rows, n, ld, mf_wide_rows(ld, a), a);
    });
}

extern "C" void mf_cuda_cross_entropy(const mf_kctx *x, const mf_cross_entropy_args *a)
{
    if (a->rows > 0)
        mf_launch_row_loss(x, a->rows, a->n, a->logits, a->n, a->target, a->row_loss, a->lse,
                           NULL);
    MF_LAUNCH(mf_cu_loss_sums, MF_ONE_BLOCK, x, x->fault, a->rows, a->target, a->weight,
              (const float *)a->row_loss, (double *)NULL, a->loss);
}

extern "C" void mf_cuda_cross_entropy_backward(const mf_kctx *x,
                                               const mf_cross_entropy_backward_args *a)
{
    double *sums = (double *)mf_cuda_scratch(x, sizeof *sums);
    mf_loss_grad p = {};
    p.rows = a->rows, p.n = p.ld = a->n, p.logits = a->logits, p.target = a->target,
    p.weight = a->weight;
    p.loss = a->loss, p.row_loss = a->row_loss, p.lse = a->lse, p.dloss = a->dloss,
    p.drow = a->drow;
    p.dlogits = a->dlogits, p.dweight = a->dweight, p.sums = sums;
    if (a->rows <= 0) return;
    MF_LAUNCH(mf_cu_loss_sums, MF_ONE_BLOCK, x, x->fault, a->rows, a->target, a->weight,
              (const float *)NULL, sums, (float *)NULL);
    mf_launch_loss_grad(x, p);
}

/* The parts of the work memory of linear_cross_entropy. */
typedef struct mf_head_work {
    int64_t pitch;
    float *logits, *most, *lse, *row_loss; /* logits: rows `pitch` apart */
    double *sums;
    float *dbias; /* [pitch] of a chunk */
    void *sum3;
} mf_head_work;

static mf_head_work mf_head_work_of(const mf_linear_cross_entropy_args *p, int64_t chunk)
{
    char *at = (char *)p->work;
    mf_head_work w;
    w.pitch = mf_linear_cross_entropy_pitch(p->vocab);
    w.logits = (float *)at, at += mf_align64(chunk * w.pitch * 4);
    w.most = (float *)at, at += mf_align64(chunk * 4);
    w.lse = (float *)at, at += mf_align64(chunk * 4);
    w.sums = (double *)at, at += mf_align64(chunk * 4);
    w.row_loss = p->row_loss ? p->row_loss : (float *)at, at += mf_align64(p->rows * 4);
    w.dbias = (float *)at, at += mf_align64(w.pitch * 4);
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
                           int64_t rows, int64_t pitch, const float *a, float *y)
{
    mf_stored_gemm_args g = {};
    g.w = p->stored, g.back = back, g.rows = rows, g.alpha = 1;
    g.x = a, g.ldx = back ? pitch : p->d;
    g.y = y, g.ldy = back ? p->d : pitch;
    if (!back) g.bias = p->bias;
    mf_cuda_stored_gemm(x, &g);
}

/* The losses of a chunk, of whose logits gradients take the place: in f32, or, for the gemms of
 * a head in bf16, rounded to that. dbias is their sum before that. */
static void mf_head_losses(const mf_kctx *x, const mf_linear_cross_entropy_args *p,
                           const mf_head_work &w, int64_t from, int64_t rows)
{
    const bool half = p->type == MF_CAST_BF16;
    mf_loss_grad l = {};
    l.rows = rows, l.n = p->vocab, l.ld = w.pitch, l.logits = l.dlogits = w.logits;
    l.target = p->target + from, l.weight = p->weight ? p->weight + from : NULL;
    l.lse = w.lse, l.most = w.most, l.sums = w.sums, l.one = true;
    l.half = half && !p->dbias;
    const bool gradients = p->dx || p->dw || p->dbias;
    if (gradients && mf_keeps_row(p->vocab))
        mf_launch_kept_loss(x, l, w.row_loss + from);
    else
        mf_launch_row_loss(x, rows, p->vocab, w.logits, w.pitch, l.target, w.row_loss + from,
                           w.lse, w.most);
    if (gradients && !mf_keeps_row(p->vocab)) mf_launch_loss_grad(x, l);
    if (!p->dbias) return;
    MF_CUDA_RUN(x, sum3, .outer = 1, .n = rows, .inner = w.pitch, .scale = 1,
                .type = MF_CAST_F32, .in = w.logits, .out = w.dbias, .work = w.sum3);
    MF_LAUNCH(mf_cu_add, MF_EACH_OF(p->vocab), x, x->fault, p->vocab, from == 0,
              (const float *)w.dbias, p->dbias);
    if (half) mf_launch_halve(x, rows, p->vocab, w.pitch, w.logits);
}

/* One chunk of rows: logits, losses and gradients. */
static void mf_head_chunk(const mf_kctx *x, const mf_linear_cross_entropy_args *p,
                          const mf_head_work &w, int64_t from, int64_t rows)
{
    const size_t size = (size_t)mf_cast_size(p->type);
    const char *a = (const char *)p->x + (size_t)(from * p->d) * size;
    char *dx = p->dx ? (char *)p->dx + (size_t)(from * p->d) * size : NULL;
    const int64_t pitch = p->type == MF_CAST_BF16 ? 2 * w.pitch : w.pitch; /* of dlogits */
    mf_gemm g = {};
    g.m = rows, g.n = p->vocab, g.k = p->d, g.alpha = 1, g.bias = p->bias;
    g.a.data = a, g.a.type = p->type, g.a.ld = p->d;
    g.b.data = p->w, g.b.type = p->type, g.b.ld = p->d, g.b.trans = true;
    g.c.data = w.logits, g.c.ld = w.pitch;
    if (p->stored)
        mf_head_stored(x, p, false, rows, w.pitch, (const float *)a, w.logits);
    else
        mf_cuda_multiply(x, &g);
    mf_head_losses(x, p, w, from, rows);
    if (dx && p->stored) {
        mf_head_stored(x, p, true, rows, w.pitch, w.logits, (float *)dx);
    } else if (dx) {
        mf_gemm back = {};
        back.m = rows, back.n = p->d, back.k = p->vocab, back.alpha = 1;
        back.a.data = w.logits, back.a.type = p->type, back.a.ld = pitch;
        back.b.data = p->w, back.b.type = p->type, back.b.ld = p->d;
        back.c.data = dx, back.c.type = p->type, back.c.ld = p->d;
        mf_cuda_multiply(x, &back);
    }
    if (p->dw) {
        mf_gemm weights = {};
        weights.m = p->vocab, weights.n = p->d, weights.k = rows, weights.alpha = 1;
        weights.beta = from > 0 ? 1.0f : 0.0f;
        weights.a.data = w.logits, weights.a.type = p->type;
        weights.a.ld = pitch, weights.a.trans = true;
        weights.b.data = a, weights.b.type = p->type, weights.b.ld = p->d;
        weights.c.data = p->dw, weights.c.ld = p->d;
        mf_cuda_multiply(x, &weights);
    }
}

extern "C" void mf_cuda_linear_cross_entropy(const mf_kctx *x,
                                             const mf_linear_cross_entropy_args *p)
{
    const int64_t chunk = mf_linear_cross_entropy_chunk(p->rows, p->vocab, p->most_logits);
    const mf_head_work w = mf_head_work_of(p, chunk);
    if (p->rows <= 0) {
        if (p->dw) MF_CUDA_RUN(x, set, .n = p->vocab * p->d, .value = 0, .out = p->dw);
        if (p->dbias) MF_CUDA_RUN(x, set, .n = p->vocab, .value = 0, .out = p->dbias);
        MF_CUDA_RUN(x, set, .n = 1, .value = 0, .out = p->loss);
        return;
    }
    MF_LAUNCH(mf_cu_loss_sums, MF_ONE_BLOCK, x, x->fault, p->rows, p->target, p->weight,
              (const float *)NULL, w.sums, (float *)NULL);
    for (int64_t from = 0; from < p->rows; from += chunk)
        mf_head_chunk(x, p, w, from, p->rows - from < chunk ? p->rows - from : chunk);
    MF_LAUNCH(mf_cu_loss_sums, MF_ONE_BLOCK, x, x->fault, p->rows, p->target, p->weight,
              (const float *)w.row_loss, (double *)NULL, p->loss);
}
