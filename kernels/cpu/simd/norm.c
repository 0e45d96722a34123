/* norm.c: norms of rows and their gradients (formulas: kernels/ref/norm.c).
 *
 * Gradients of weights are sums over rows. Each of at most MF_NORM_TILES tiles sums its rows in
 * work memory; then the tiles are added in order. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

typedef struct norm {
    int64_t rows, n, per; /* per: rows per tile */
    float eps;
    bool eps_outside;
    const float *a, *w, *b;
    const void *dy; /* f32 or bf16, as the tile's function expects */
    void *y;        /* result, or the gradient of a, which is f32 */
    float *dw, *db; /* [tiles,n] partial sums, or NULL */
} norm;

/* Prefetches a later row, about 4 KB ahead. During several passes over one row the processor
 * itself does not prefetch. */
V_INLINE void ask_ahead(const norm *p, int64_t i, int64_t to)
{
    const int64_t row = i + (p->n < 1024 ? 1024 / p->n : 1);
    for (int64_t j = 0; row < to && j < p->n; j += 16)
        __builtin_prefetch(p->a + row * p->n + j);
}

/* y = f w (a - mean) + b for one row. */
V_INLINE void scale_row(int64_t n, float f, float mean, const float *a, const float *w,
                        const float *b, void *y, bool bf16)
{
    int64_t j = 0;
    for (; j + VL <= n; j += VL) {
        vf v = (v_load(a + j) - mean) * f;
        if (w != NULL) v = v * v_load(w + j);
        if (b != NULL) v = v + v_load(b + j);
        v_put(y, j, v, bf16);
    }
    if (j < n) {
        vf v = (v_load_n(a + j, n - j) - mean) * f;
        if (w != NULL) v = v * v_load_n(w + j, n - j);
        if (b != NULL) v = v + v_load_n(b + j, n - j);
        v_put_n(y, j, v, n - j, bf16);
    }
}

/* Returns the sum of a row; the next function, centred_square, returns that of
 * (a - mean)^2. */
V_INLINE float sum_row(int64_t n, const float *a)
{
    vf s0 = {0}, s1 = {0};
    int64_t j = 0;
    for (; j + 2 * VL <= n; j += 2 * VL) {
        s0 += v_load(a + j);
        s1 += v_load(a + j + VL);
    }
    for (; j + VL <= n; j += VL)
        s0 += v_load(a + j);
    if (j < n) s1 += v_load_n(a + j, n - j);
    return v_sum(s0 + s1);
}

V_INLINE float centred_square(int64_t n, const float *a, float mean)
{
    vf s0 = {0}, s1 = {0};
    int64_t j = 0;
    for (; j + 2 * VL <= n; j += 2 * VL) {
        vf u = v_load(a + j) - mean, v = v_load(a + j + VL) - mean;
        s0 = v_fma(u, u, s0);
        s1 = v_fma(v, v, s1);
    }
    for (; j < n; j++) {
        float u = a[j] - mean;
        s0[j % VL] += u * u;
    }
    return v_sum(s0 + s1);
}

/* *ret_g = sum of g, *ret_ga = sum of g (a - mean), g = w dy. */
V_INLINE void gradient_sums(int64_t n, const float *a, float mean, const float *w,
                            const void *dy, float *ret_g, float *ret_ga, bool bf16)
{
    vf s = {0}, t = {0};
    int64_t j = 0;
    for (; j + VL <= n; j += VL) {
        vf g = v_get(dy, j, bf16);
        if (w != NULL) g = g * v_load(w + j);
        s += g;
        t = v_fma(g, v_load(a + j) - mean, t);
    }
    if (j < n) {
        vf g = v_get_n(dy, j, n - j, bf16);
        if (w != NULL) g = g * v_load_n(w + j, n - j);
        s += g;
        t = v_fma(g, v_load_n(a + j, n - j) - mean, t);
    }
    *ret_g = v_sum(s);
    *ret_ga = v_sum(t);
}

/* da = f (w dy) - p (a - mean) - q; adds dy (a - mean) f to dw and dy to db. */
V_INLINE void gradient_row(int64_t n, float f, float p, float q, const float *a, float mean,
                           const float *w, const void *dy, float *da, float *dw, float *db,
                           bool bf16)
{
    for (int64_t j = 0; j < n; j += VL) {
        int64_t left = n - j;
        bool full = left >= VL;
        vf g = full ? v_get(dy, j, bf16) : v_get_n(dy, j, left, bf16);
        vf c = (full ? v_load(a + j) : v_load_n(a + j, left)) - mean;
        if (dw != NULL) {
            vf d = v_fma(g, c * f, full ? v_load(dw + j) : v_load_n(dw + j, left));
            full ? v_store(dw + j, d) : v_store_n(dw + j, d, left);
        }
        if (db != NULL) {
            vf d = g + (full ? v_load(db + j) : v_load_n(db + j, left));
            full ? v_store(db + j, d) : v_store_n(db + j, d, left);
        }
        if (da != NULL) {
            if (w != NULL) g = g * (full ? v_load(w + j) : v_load_n(w + j, left));
            vf d = g * f - c * p - q;
            full ? v_store(da + j, d) : v_store_n(da + j, d, left);
        }
    }
}

static float rms_factor(const norm *p, float square)
{
    return p->eps_outside ? 1 / (sqrtf(square) + p->eps) : 1 / sqrtf(square + p->eps);
}

V_INLINE void rms_part(const norm *p, int64_t tile, bool bf16)
{
    int64_t n = p->n, from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t i = from; i < to; i++) {
        const float *a = p->a + i * n;
        scale_row(n, rms_factor(p, v_dot(n, a, a) / (float)n), 0, a, p->w, NULL,
                  v_at(p->y, i * n, bf16), bf16);
    }
}

static void rms_tile(void *arg, int64_t tile)
{
    rms_part(arg, tile, false);
}

static void rms_bf16_tile(void *arg, int64_t tile)
{
    rms_part(arg, tile, true);
}

V_INLINE void layer_part(const norm *p, int64_t tile, bool bf16)
{
    int64_t n = p->n, from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t i = from; i < to; i++) {
        const float *a = p->a + i * n;
        ask_ahead(p, i, to);
        float mean = sum_row(n, a) / (float)n;
        float f = 1 / sqrtf(centred_square(n, a, mean) / (float)n + p->eps);
        scale_row(n, f, mean, a, p->w, p->b, v_at(p->y, i * n, bf16), bf16);
    }
}

static void layer_tile(void *arg, int64_t tile)
{
    layer_part(arg, tile, false);
}

static void layer_bf16_tile(void *arg, int64_t tile)
{
    layer_part(arg, tile, true);
}

/* ---- gradients ---- */

static float *row_of(const norm *p, int64_t i)
{
    return p->y != NULL ? (float *)p->y + i * p->n : NULL;
}

static float *clear(float *part, int64_t tile, int64_t n)
{
    return part == NULL ? NULL : memset(part + tile * n, 0, (size_t)n * sizeof(float));
}

V_INLINE void rms_backward_part(const norm *p, int64_t tile, bool bf16)
{
    int64_t n = p->n, from = tile * p->per, to = rows_end(p->rows, from, p->per);
    float *dw = clear(p->dw, tile, n);
    for (int64_t i = from; i < to; i++) {
        const float *a = p->a + i * n;
        const void *dy = v_at(p->dy, i * n, bf16);
        float square = v_dot(n, a, a) / (float)n, f = rms_factor(p, square), g, ga;
        float h = !p->eps_outside ? f * f * f : square > 0 ? f * f / sqrtf(square) : 0;
        gradient_sums(n, a, 0, p->w, dy, &g, &ga, bf16);
        gradient_row(n, f, ga * h / (float)n, 0, a, 0, p->w, dy, row_of(p, i), dw, NULL, bf16);
    }
}

static void rms_backward_tile(void *arg, int64_t tile)
{
    rms_backward_part(arg, tile, false);
}

static void rms_backward_bf16_tile(void *arg, int64_t tile)
{
    rms_backward_part(arg, tile, true);
}

V_INLINE void layer_backward_part(const norm *p, int64_t tile, bool bf16)
{
    int64_t n = p->n, from = tile * p->per, to = rows_end(p->rows, from, p->per);
    float *dw = clear(p->dw, tile, n), *db = clear(p->db, tile, n);
    for (int64_t i = from; i < to; i++) {
        const float *a = p->a + i * n;
        const void *dy = v_at(p->dy, i * n, bf16);
        float mean = sum_row(n, a) / (float)n, g, ga;
        float f = 1 / sqrtf(centred_square(n, a, mean) / (float)n + p->eps);
        gradient_sums(n, a, mean, p->w, dy, &g, &ga, bf16);
        gradient_row(n, f, f * f * f * ga / (float)n, f * g / (float)n, a, mean, p->w, dy,
                     row_of(p, i), dw, db, bf16);
    }
}

static void layer_backward_tile(void *arg, int64_t tile)
{
    layer_backward_part(arg, tile, false);
}

static void layer_backward_bf16_tile(void *arg, int64_t tile)
{
    layer_backward_part(arg, tile, true);
}

static void add_tiles(int64_t tiles, int64_t n, const float *part, float *to)
{
    if (to == NULL) return;
    memset(to, 0, (size_t)n * sizeof(float));
    for (int64_t t = 0; t < tiles; t++)
        v_add_to(n, part + t * n, to);
}

static void backward(const mf_kctx *x, norm *p, void (*tile)(void *, int64_t), float *dw,
                     float *db, void *work)
{
    p->per = (p->rows + MF_NORM_TILES - 1) / MF_NORM_TILES;
    if (p->per < 8) p->per = 8;
    int64_t tiles = (p->rows + p->per - 1) / p->per;
    p->dw = dw != NULL ? work : NULL;
    p->db = db != NULL ? (float *)work + MF_NORM_TILES * p->n : NULL;
    x->parallel(tiles, tile, p);
    add_tiles(tiles, p->n, p->dw, dw);
    add_tiles(tiles, p->n, p->db, db);
}

/* ---- L2 ---- */

static void l2_tile(void *arg, int64_t tile)
{
    const norm *p = arg;
    int64_t n = p->n, from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t i = from; i < to; i++) {
        const float *a = p->a + i * n;
        float length = fmaxf(sqrtf(v_dot(n, a, a)), p->eps);
        scale_row(n, 1 / length, 0, a, NULL, NULL, row_of(p, i), false);
    }
}

static void l2_backward_tile(void *arg, int64_t tile)
{
    const norm *p = arg;
    int64_t n = p->n, from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t i = from; i < to; i++) {
        const float *a = p->a + i * n, *dy = (const float *)p->dy + i * n;
        float length = sqrtf(v_dot(n, a, a));
        if (length <= p->eps)
            scale_row(n, 1 / p->eps, 0, dy, NULL, NULL, row_of(p, i), false);
        else
            gradient_row(n, 1 / length, v_dot(n, dy, a) / length / length / length, 0, a, 0,
                         NULL, dy, row_of(p, i), NULL, NULL, false);
    }
}

/* ---- groups ---- */

/* Returns the arguments for rows from .. to - 1, with the weights of group e. */
static norm rows_of(const mf_norm_args *q, int64_t from, int64_t to, int64_t e)
{
    return (norm){.rows = to - from,
                  .n = q->n,
                  .per = rows_per_tile(q->n),
                  .eps = q->eps,
                  .eps_outside = q->eps_outside,
                  .a = q->a + from * q->n,
                  .w = q->w != NULL ? q->w + e * q->n : NULL,
                  .b = q->b != NULL ? q->b + e * q->n : NULL};
}

static void run_forward(const mf_kctx *x, const mf_norm_args *q, int64_t from, int64_t to,
                        int64_t e)
{
    const bool bf16 = q->type == MF_CAST_BF16;
    norm p = rows_of(q, from, to, e);
    if (p.rows <= 0) return;
    p.y = v_at(q->y, from * q->n, bf16);
    x->parallel(rows_tiles(p.rows, p.n),
                q->kind == MF_NORM_FN_L2      ? l2_tile
                : q->kind == MF_NORM_FN_LAYER ? (bf16 ? layer_bf16_tile : layer_tile)
                                              : (bf16 ? rms_bf16_tile : rms_tile),
                &p);
}

static void run_backward(const mf_kctx *x, const mf_norm_args *q, int64_t from, int64_t to,
                         int64_t e)
{
    const bool bf16 = q->type == MF_CAST_BF16;
    norm p = rows_of(q, from, to, e);
    p.dy = v_at(q->dy, from * q->n, bf16);
    p.y = q->da != NULL ? q->da + from * q->n : NULL;
    if (q->kind == MF_NORM_FN_L2) {
        x->parallel(rows_tiles(p.rows, p.n), l2_backward_tile, &p);
        return;
    }
    backward(x, &p,
             q->kind == MF_NORM_FN_LAYER
                 ? (bf16 ? layer_backward_bf16_tile : layer_backward_tile)
                 : (bf16 ? rms_backward_bf16_tile : rms_backward_tile),
             q->dw != NULL ? q->dw + e * q->n : NULL, q->db != NULL ? q->db + e * q->n : NULL,
             q->work);
}

/* Sets the rows before the first group and after the last group to 0. */
static void clear_rest(const mf_norm_args *q, float *a)
{
    const int64_t first = q->offset[0], end = q->offset[q->groups];
    if (a == NULL) return;
    memset(a, 0, (size_t)(first * q->n) * sizeof *a);
    memset(a + end * q->n, 0, (size_t)((q->rows - end) * q->n) * sizeof *a);
}

void MF_SIMD(norm)(const mf_kctx *x, const mf_norm_args *q)
{
    if (mf_kctx_failed(x)) return;
    if (q->offset == NULL) {
        run_forward(x, q, 0, q->rows, 0);
        return;
    }
    for (int64_t e = 0; e < q->groups; e++)
        run_forward(x, q, q->offset[e], q->offset[e + 1], e);
    clear_rest(q, q->y);
}

void MF_SIMD(norm_backward)(const mf_kctx *x, const mf_norm_args *q)
{
    if (mf_kctx_failed(x)) return;
    if (q->offset == NULL) {
        run_backward(x, q, 0, q->rows, 0);
        return;
    }
    for (int64_t e = 0; e < q->groups; e++)
        run_backward(x, q, q->offset[e], q->offset[e + 1], e);
    clear_rest(q, q->da);
}
