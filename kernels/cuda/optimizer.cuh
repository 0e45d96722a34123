/* optimizer.cuh: steps of the optimizers, in f32. mf_update_resolve decides on the device
 * whether the step is taken, and with which values, so a recorded step can be repeated. */
#pragma once
#include "base.cuh"

/* The values of a step in f32, as far as the kernels below need them. */
typedef struct mf_step_values {
    float scale, lr, weight_decay, l2, correction1, correction2;
} mf_step_values;

MF_INLINE mf_step_values mf_step_of(const mf_fault *fault, const mf_update_args &args)
{
    mf_kctx x = {};
    x.fault = (mf_fault *)fault;
    const mf_update_factors f = mf_update_resolve(&x, &args);
    mf_step_values v;
    v.scale = (float)f.scale, v.lr = (float)f.lr, v.weight_decay = (float)f.weight_decay;
    v.l2 = (float)f.l2;
    v.correction1 = (float)(1 / f.correction1), v.correction2 = (float)(1 / f.correction2);
    return v;
}

/* AdamW for the elements first, first + stride, ... below n. */
MF_INLINE void mf_adamw_part(const mf_step_values &f, const mf_update_args &args, int64_t first,
                             int64_t stride, int64_t n, float *value, mf_bf16 *copy,
                             const float *grad, float *m, float *v)
{
    const float fresh1 = (float)(1 - args.beta1), fresh2 = (float)(1 - args.beta2);
    const float eps = (float)args.eps;
    for (int64_t i = first; f.scale != 0 && i < n; i += stride) {
        const float at = value[i], g = f.scale * grad[i] + f.l2 * at;
        const float mi = m[i] + fresh1 * (g - m[i]), vi = v[i] + fresh2 * (g * g - v[i]);
        const float step = mi * f.correction1 / (sqrtf(vi * f.correction2) + eps);
        const float next = at - f.lr * (step + f.weight_decay * at);
        m[i] = mi, v[i] = vi, value[i] = next;
        if (copy) copy[i] = mf_bf16_from_f32(next);
    }
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_adamw(const mf_fault *fault, int64_t n, mf_update_args args, float *value,
                mf_bf16 *copy, const float *grad, float *m, float *v)
{
    mf_adamw_part(mf_step_of(fault, args), args, mf_thread(), mf_threads(), n, value, copy,
                  grad, m, v);
}

/* The last range of a table that begins at or before a tile. */
MF_INLINE int64_t mf_range_of_tile(const mf_update_range *range, int64_t ranges, int64_t tile)
{
    int64_t low = 0, high = ranges;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (range[middle].tile <= tile)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* All ranges of a table: a block has tiles in turn. An element is updated as mf_cu_adamw does
 * it, so one launch has the bits of one for each range. */
__global__ void __launch_bounds__(MF_THREADS, 5)
    mf_cu_adamw_ranges(const mf_fault *fault, int64_t ranges, const mf_update_range *range,
                       mf_update_args args, float *value, mf_bf16 *copy, const float *grad,
                       float *m, float *v)
{
    mf_step_values f = {};
    int64_t now = -1;
    for (int64_t tile = blockIdx.x;; tile += gridDim.x) {
        const int64_t i = mf_range_of_tile(range, ranges, tile);
        const mf_update_range r = range[i];
        const int64_t from = (tile - r.tile) * MF_UPDATE_TILE, end = from + MF_UPDATE_TILE;
        if (from >= r.count && i == ranges - 1) return;
        if (i != now) {
            args.lr_scale = r.lr_scale, args.decay_scale = r.decay_scale;
            f = mf_step_of(fault, args);
            now = i;
        }
        mf_adamw_part(f, args, from + threadIdx.x, MF_THREADS, end < r.count ? end : r.count,
                      value + r.first, copy ? copy + r.first : NULL, grad + r.first,
                      m + r.at[0], v + r.at[1]);
    }
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_lion(const mf_fault *fault, int64_t n, mf_update_args args, float *value,
               mf_bf16 *copy, const float *grad, float *m)
{
    const mf_step_values f = mf_step_of(fault, args);
    const float fresh1 = (float)(1 - args.beta1), fresh2 = (float)(1 - args.beta2);
    for (int64_t i = mf_thread(); f.scale != 0 && i < n; i += mf_threads()) {
        const float at = value[i], g = f.scale * grad[i], old = m[i];
        const float way = old + fresh1 * (g - old);
        const float sign = way > 0 ? 1 : way < 0 ? -1 : 0;
        const float next = at - f.lr * (sign + f.weight_decay * at);
        m[i] = old + fresh2 * (g - old), value[i] = next;
        if (copy) copy[i] = mf_bf16_from_f32(next);
    }
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_momentum(const mf_fault *fault, int64_t n, mf_update_args args, const float *grad,
                   float *m, float *u)
{
    const mf_step_values f = mf_step_of(fault, args);
    const float fresh = (float)(1 - args.beta1), beta = (float)args.beta1;
    for (int64_t i = mf_thread(); f.scale != 0 && i < n; i += mf_threads()) {
        const float g = f.scale * grad[i], mi = m[i] + fresh * (g - m[i]);
        m[i] = mi;
        u[i] = g + beta * (mi - g);
    }
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_descend(const mf_fault *fault, int64_t n, mf_update_args args, float scale,
                  const float *u, float *value, mf_bf16 *copy)
{
    const mf_step_values f = mf_step_of(fault, args);
    for (int64_t i = mf_thread(); f.scale != 0 && i < n; i += mf_threads()) {
        const float at = value[i];
        const float next = at - f.lr * (scale * u[i] + f.weight_decay * at);
        value[i] = next;
        if (copy) copy[i] = mf_bf16_from_f32(next);
    }
}

/* ---- Adafactor ---- Work memory of a group: for each tile of rows partial sums of columns
 * [columns], of r, of value^2 and n^2 [2]; then the mean of r and the factor of the step. */

typedef struct mf_adafactor_shape {
    int64_t groups, rows, columns, tile; /* tile: rows in one tile */
} mf_adafactor_shape;

MF_INLINE double *mf_adafactor_part(const mf_adafactor_shape &s, double *work, int64_t e,
                                    int64_t tile)
{
    return work + e * (MF_ADAFACTOR_TILES * (s.columns + 2) + 2) + tile * (s.columns + 2);
}
MF_INLINE double *mf_adafactor_ends(const mf_adafactor_shape &s, double *work, int64_t e)
{
    return mf_adafactor_part(s, work, e, MF_ADAFACTOR_TILES);
}

/* Means of squares of rows: a block each row in turn. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_adafactor_rows(const mf_fault *fault, mf_adafactor_shape s, mf_update_args args,
                         const float *grad, float *v)
{
    const mf_step_values f = mf_step_of(fault, args);
    if (f.scale == 0) return;
    const double fresh = mf_adafactor_resolve(&args).fresh;
    for (int64_t i = blockIdx.x; i < s.groups * s.rows; i += gridDim.x) {
        const float *g = grad + i * s.columns;
        double sum = 0;
        for (int64_t j = threadIdx.x; j < s.columns; j += MF_THREADS)
            sum += (double)(f.scale * g[j]) * (f.scale * g[j]);
        sum = mf_row<MF_THREADS, mf_add>(sum);
        float *r = v + i / s.rows * (s.rows + s.columns) + i % s.rows;
        if (threadIdx.x == 0) *r = (float)(*r + fresh * (sum / (double)s.columns - *r));
    }
}

/* Partial sums of squares of columns: a thread each column of a tile. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_adafactor_columns(const mf_fault *fault, mf_adafactor_shape s, mf_update_args args,
                            const float *grad, double *work)
{
    const mf_step_values f = mf_step_of(fault, args);
    const int64_t j = mf_thread(), tile = blockIdx.y, e = blockIdx.z;
    if (f.scale == 0 || j >= s.columns) return;
    const int64_t rows = s.rows > 0 ? s.rows : 1;
    const float *g = grad + e * rows * s.columns;
    double sum = 0;
    for (int64_t i = tile * s.tile; i < (tile + 1) * s.tile && i < rows; i++)
        sum += (double)(f.scale * g[i * s.columns + j]) * (f.scale * g[i * s.columns + j]);
    mf_adafactor_part(s, work, e, tile)[j] = sum;
}

/* Means of columns, or of the elements of a vector. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_adafactor_means(const mf_fault *fault, mf_adafactor_shape s, mf_update_args args,
                          double *work, float *v)
{
    const int64_t j = mf_thread(), e = blockIdx.y;
    if (mf_step_of(fault, args).scale == 0 || j >= s.columns) return;
    double sum = 0;
    for (int64_t tile = 0; tile < MF_ADAFACTOR_TILES; tile++)
        sum += mf_adafactor_part(s, work, e, tile)[j];
    float *c = v + e * (s.rows + s.columns) + s.rows + j;
    const double rows = (double)(s.rows > 0 ? s.rows : 1);
    *c = (float)(*c + mf_adafactor_resolve(&args).fresh * (sum / rows - *c));
}

/* The mean of r: a block each group. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_adafactor_mean(const mf_fault *fault, mf_adafactor_shape s, mf_update_args args,
                         const float *v, double *work)
{
    const int64_t e = blockIdx.x;
    if (mf_step_of(fault, args).scale == 0) return;
    double mean = 0;
    for (int64_t i = threadIdx.x; i < s.rows; i += MF_THREADS)
        mean += v[e * (s.rows + s.columns) + i] / (double)s.rows;
    mean = mf_row<MF_THREADS, mf_add>(mean);
    if (threadIdx.x == 0) mf_adafactor_ends(s, work, e)[0] = mean;
}

/* n of a tile of rows, and the sums of value^2 and n^2 there: a block each tile. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_adafactor_steps(const mf_fault *fault, mf_adafactor_shape s, mf_update_args args,
                          const float *value, const float *grad, const float *v, float *u,
                          double *work)
{
    const mf_step_values f = mf_step_of(fault, args);
    const int64_t tile = blockIdx.x, e = blockIdx.y, rows = s.rows > 0 ? s.rows : 1;
    if (f.scale == 0) return;
    const float *r = v + e * (s.rows + s.columns), *c = r + s.rows;
    const int64_t first = e * rows * s.columns, last = (tile + 1) * s.tile;
    const double mean = s.rows > 0 ? mf_adafactor_ends(s, work, e)[0] : 1;
    const double floor_mean = fmax(mean, MF_ADAFACTOR_EPS1);
    double size = 0, length = 0;
    for (int64_t i = tile * s.tile * s.columns + threadIdx.x;
         i < (last < rows ? last : rows) * s.columns; i += MF_THREADS) {
        const double h = s.rows > 0 ? (double)r[i / s.columns] * c[i % s.columns] / floor_mean
                                    : (double)c[i];
        const double n = (double)f.scale * grad[first + i] /
                         sqrt(fmax(h, MF_ADAFACTOR_EPS1 * MF_ADAFACTOR_EPS1));
        size += (double)value[first + i] * value[first + i];
        length += n * n;
        u[first + i] = (float)n;
    }
    size = mf_row<MF_THREADS, mf_add>(size);
    length = mf_row<MF_THREADS, mf_add>(length);
    if (threadIdx.x > 0) return;
    double *sums = mf_adafactor_part(s, work, e, tile) + s.columns;
    sums[0] = size, sums[1] = length;
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_adafactor_finish(const mf_fault *fault, mf_adafactor_shape s, mf_update_args args,
                           float *u, double *work)
{
    const int64_t e = blockIdx.y, n = (s.rows > 0 ? s.rows : 1) * s.columns;
    if (mf_step_of(fault, args).scale == 0) return;
    double size = 0, length = 0;
    for (int64_t tile = 0; tile < MF_ADAFACTOR_TILES; tile++) {
        const double *sums = mf_adafactor_part(s, work, e, tile) + s.columns;
        size += sums[0], length += sums[1];
    }
    const double rms = sqrt(length / (double)n) / MF_ADAFACTOR_CLIP;
    const double factor = fmax(MF_ADAFACTOR_EPS2, sqrt(size / (double)n)) *
                          mf_adafactor_resolve(&args).relative / fmax(1.0, rms);
    for (int64_t i = mf_thread(); i < n; i += mf_threads())
        u[e * n + i] = (float)(factor * u[e * n + i]);
}

/* ---- launches ---- */

/* Blocks for n elements: each has some in turn, since each computes the values of the step. */
static inline dim3 mf_update_grid(int64_t n)
{
    const dim3 all = mf_grid(n, MF_THREADS);
    const unsigned most = 16u * (unsigned)mf_cuda_processors;
    return dim3(all.x < most ? all.x : most);
}

extern "C" void mf_cuda_adamw(const mf_kctx *x, const mf_adamw_args *a)
{
    const int64_t tiles = a->count / MF_UPDATE_TILE + a->ranges;
    if (a->range && a->ranges > 0)
        MF_LAUNCH(mf_cu_adamw_ranges, mf_update_grid(tiles * MF_THREADS), dim3(MF_THREADS), 0,
                  x, x->fault, a->ranges, a->range, a->update, a->value, a->copy, a->grad, a->m,
                  a->v);
    else if (a->count > 0)
        MF_LAUNCH(mf_cu_adamw, mf_update_grid(a->count), dim3(MF_THREADS), 0, x, x->fault,
                  a->count, a->update, a->value, a->copy, a->grad, a->m, a->v);
}

extern "C" void mf_cuda_lion(const mf_kctx *x, const mf_lion_args *a)
{
    if (a->count > 0)
        MF_LAUNCH(mf_cu_lion, mf_update_grid(a->count), dim3(MF_THREADS), 0, x, x->fault,
                  a->count, a->update, a->value, a->copy, a->grad, a->m);
}

extern "C" void mf_cuda_momentum(const mf_kctx *x, const mf_momentum_args *a)
{
    if (a->count > 0)
        MF_LAUNCH(mf_cu_momentum, mf_update_grid(a->count), dim3(MF_THREADS), 0, x, x->fault,
                  a->count, a->update, a->grad, a->m, a->u);
}

extern "C" void mf_cuda_descend(const mf_kctx *x, const mf_descend_args *a)
{
    if (a->count > 0)
        MF_LAUNCH(mf_cu_descend, mf_update_grid(a->count), dim3(MF_THREADS), 0, x, x->fault,
                  a->count, a->update, (float)a->scale, a->u, a->value, a->copy);
}

extern "C" void mf_cuda_adafactor(const mf_kctx *x, const mf_adafactor_args *a)
{
    const int64_t all = a->rows > 0 ? a->rows : 1;
    const mf_adafactor_shape s = {a->groups, a->rows, a->columns,
                                  (all + MF_ADAFACTOR_TILES - 1) / MF_ADAFACTOR_TILES};
    const unsigned by = mf_grid(a->columns, MF_THREADS).x, e = (unsigned)a->groups;
    double *w = (double *)a->work;
    if (a->groups * a->columns <= 0) return;
    if (a->rows > 0)
        MF_LAUNCH(mf_cu_adafactor_rows, mf_grid(a->groups * a->rows, 1), dim3(MF_THREADS), 0, x,
                  x->fault, s, a->update, a->grad, a->v);
    MF_LAUNCH(mf_cu_adafactor_columns, dim3(by, MF_ADAFACTOR_TILES, e), dim3(MF_THREADS), 0, x,
              x->fault, s, a->update, a->grad, w);
    MF_LAUNCH(mf_cu_adafactor_means, dim3(by, e), dim3(MF_THREADS), 0, x, x->fault, s,
              a->update, w, a->v);
    if (a->rows > 0)
        MF_LAUNCH(mf_cu_adafactor_mean, dim3(e), dim3(MF_THREADS), 0, x, x->fault, s, a->update,
                  (const float *)a->v, w);
    MF_LAUNCH(mf_cu_adafactor_steps, dim3(MF_ADAFACTOR_TILES, e), dim3(MF_THREADS), 0, x,
              x->fault, s, a->update, a->value, a->grad, (const float *)a->v, a->u, w);
    MF_LAUNCH(mf_cu_adafactor_finish, dim3(mf_update_grid(all * a->columns).x, e),
              dim3(MF_THREADS), 0, x, x->fault, s, a->update, a->u, w);
}
