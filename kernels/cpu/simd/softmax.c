/* softmax.c: softmax and related functions, row by row (formulas: kernel.h).
 *
 * A maximum over vectors may lose a NaN; the sum of e^(x - m) keeps it. Functions without a sum
 * search the row for a NaN, and so does logsumexp if m is infinite. */
#include "kernels/cpu/simd/lanes.h"
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vecmath.h"

typedef struct rows {
    int64_t rows, n, per;
    const float *in, *out, *dout;
    float *to;
} rows;

/* ---- parts of rows ---- */

V_INLINE float largest(int64_t n, const float *a)
{
    vf m0 = v_set(-INFINITY), m1 = m0;
    int64_t j = 0;
    for (; j + 2 * VL <= n; j += 2 * VL) {
        m0 = v_max(m0, v_load(a + j));
        m1 = v_max(m1, v_load(a + j + VL));
    }
    for (; j + VL <= n; j += VL)
        m0 = v_max(m0, v_load(a + j));
    if (j < n) m1 = v_max(m1, v_load_pad(a + j, n - j, -INFINITY));
    return v_hmax(v_max(m0, m1));
}

static bool has_nan(int64_t n, const float *a)
{
    vi any = {0};
    int64_t j = 0;
    for (; j + VL <= n; j += VL)
        any |= v_load(a + j) != v_load(a + j);
    if (j < n) any |= v_load_n(a + j, n - j) != v_load_n(a + j, n - j);
    int32_t bits = 0;
    for (int i = 0; i < VL; i++)
        bits |= any[i];
    return bits != 0;
}

/* Returns the sum of e^(a - m); writes the terms to y unless y is NULL. It sums block by block,
 * which keeps rounding errors of long rows small. */
V_INLINE float sum_exp(int64_t n, const float *a, float m, float *y)
{
    enum { BLOCK = 32 * VL };
    vf s0 = {0}, s1 = {0}, total = {0};
    int64_t j = 0;
    for (; j + 2 * VL <= n; j += 2 * VL) {
        vf u = v_exp(v_load(a + j) - m), v = v_exp(v_load(a + j + VL) - m);
        s0 += u;
        s1 += v;
        if (y) {
            v_store(y + j, u);
            v_store(y + j + VL, v);
        }
        if (j % BLOCK == 0) {
            total += s0 + s1;
            s0 = s1 = (vf){0};
        }
    }
    for (; j < n; j += VL) {
        bool full = n - j >= VL;
        vf u = v_exp((full ? v_load(a + j) : v_load_pad(a + j, n - j, -INFINITY)) - m);
        s0 += u;
        if (y) full ? v_store(y + j, u) : v_store_n(y + j, u, n - j);
    }
    return v_sum(total + (s0 + s1));
}

/* to[j] = expression for a row; AT(p) in the expression is p[j]. */
#define EACH(n, expression)                                                                    \
    for (int64_t j = 0; j < (n); j += VL) {                                                    \
        const int64_t left = (n)-j;                                                            \
        const bool full = left >= VL;                                                          \
        vf r = expression;                                                                     \
        full ? v_store(to + j, r) : v_store_n(to + j, r, left);                                \
    }
#define AT(p) (full ? v_load((p) + j) : v_load_n((p) + j, left))

static float sum_of(int64_t n, const float *a)
{
    vf s = {0};
    int64_t j = 0;
    for (; j + VL <= n; j += VL)
        s += v_load(a + j);
    if (j < n) s += v_load_n(a + j, n - j);
    return v_sum(s);
}

#define ROWS(name)                                                                             \
    static void name(void *arg, int64_t tile)                                                  \
    {                                                                                          \
        const rows *p = arg;                                                                   \
        const int64_t n = p->n, end = rows_end(p->rows, tile * p->per, p->per);                \
        for (int64_t i = tile * p->per; i < end; i++)                                          \
            name##_row(p, i, n);                                                               \
    }

static void run(const mf_kctx *x, void (*tile)(void *, int64_t), rows p)
{
    p.per = rows_per_tile(p.n);
    x->parallel(rows_tiles(p.rows, p.n), tile, &p);
}

/* ---- softmax ---- */

V_INLINE void softmax_row(const rows *p, int64_t i, int64_t n)
{
    const float *a = p->in + i * n;
    float *to = p->to + i * n;
    float m = largest(n, a), factor = 1 / sum_exp(n, a, m, to);
    EACH(n, AT(to) * factor)
}
ROWS(softmax)

/* Computes one short row with the same bits as among other rows, by adding its terms
 * in order. */
static void softmax_short(int64_t n, const float *a, float *to)
{
    float e[LANES_MOST + VL], sum = 0;
    vf m = v_set(-INFINITY);
    for (int64_t j = 0; j < n; j += VL)
        m = v_max(m, v_load_pad(a + j, n - j < VL ? n - j : VL, -INFINITY));
    const float most = v_hmax(m);
    for (int64_t j = 0; j < n; j += VL)
        v_store(e + j, v_exp(v_load_pad(a + j, n - j < VL ? n - j : VL, -INFINITY) - most));
    for (int64_t j = 0; j < n; j++)
        sum += e[j];
    for (int64_t j = 0; j < n; j++)
        to[j] = e[j] * (1 / sum);
}

static void softmax_lanes(void *arg, int64_t tile)
{
    const rows *p = arg;
    const int64_t n = p->n, end = rows_end(p->rows, tile * p->per, p->per);
    float a[LANES_MOST * VL];
    for (int64_t i = tile * p->per; i < end; i += VL) {
        const int64_t some = rows_end(end, i, VL) - i;
        vf m = v_set(-INFINITY), sum = {0};
        if (some < LANES_LEAST) {
            for (int64_t r = i; r < end; r++)
                softmax_short(n, p->in + r * n, p->to + r * n);
            break;
        }
        lanes_in(some, n, p->in + i * n, a);
        for (int64_t j = 0; j < n; j++)
            m = v_max(m, v_load(a + j * VL));
        for (int64_t j = 0; j < n; j++) {
            vf e = v_exp(v_load(a + j * VL) - m);
            v_store(a + j * VL, e);
            sum += e;
        }
        vf factor = 1 / sum;
        for (int64_t j = 0; j < n; j++)
            v_store(a + j * VL, v_load(a + j * VL) * factor);
        lanes_out(some, n, a, p->to + i * n);
    }
}

V_INLINE void softmax_grad_row(const rows *p, int64_t i, int64_t n)
{
    const float *y = p->out + i * n, *dy = p->dout + i * n;
    float *to = p->to + i * n, dot = v_dot(n, y, dy);
    EACH(n, AT(y) * (AT(dy) - dot))
}
ROWS(softmax_grad)

static void softmax_grad_lanes(void *arg, int64_t tile)
{
    const rows *p = arg;
    const int64_t n = p->n, end = rows_end(p->rows, tile * p->per, p->per);
    float y[LANES_MOST * VL], dy[LANES_MOST * VL];
    for (int64_t i = tile * p->per; i < end; i += VL) {
        const int64_t some = rows_end(end, i, VL) - i;
        vf dot = {0};
        lanes_in(some, n, p->out + i * n, y);
        lanes_in(some, n, p->dout + i * n, dy);
        for (int64_t j = 0; j < n; j++)
            dot = v_fma(v_load(y + j * VL), v_load(dy + j * VL), dot);
        for (int64_t j = 0; j < n; j++)
            v_store(dy + j * VL, v_load(y + j * VL) * (v_load(dy + j * VL) - dot));
        lanes_out(some, n, dy, p->to + i * n);
    }
}

/* ---- log_softmax ---- */

V_INLINE void log_softmax_row(const rows *p, int64_t i, int64_t n)
{
    const float *a = p->in + i * n;
    float *to = p->to + i * n;
    float m = largest(n, a), log_sum = logf(sum_exp(n, a, m, NULL));
    EACH(n, AT(a) - m - log_sum)
}
ROWS(log_softmax)

V_INLINE void log_softmax_grad_row(const rows *p, int64_t i, int64_t n)
{
    const float *y = p->out + i * n, *dy = p->dout + i * n;
    float *to = p->to + i * n, sum = sum_of(n, dy);
    EACH(n, AT(dy) - v_exp(AT(y)) * sum)
}
ROWS(log_softmax_grad)

/* ---- logsumexp ---- */

V_INLINE void logsumexp_row(const rows *p, int64_t i, int64_t n)
{
    const float *a = p->in + i * n;
    float m = largest(n, a);
    if (isinf(m))
        p->to[i] = has_nan(n, a) ? NAN : m;
    else
        p->to[i] = m + logf(sum_exp(n, a, m, NULL));
}
ROWS(logsumexp)

V_INLINE void logsumexp_grad_row(const rows *p, int64_t i, int64_t n)
{
    const float *a = p->in + i * n, y = p->out[i], dy = p->dout[i];
    float *to = p->to + i * n;
    EACH(n, v_exp(AT(a) - y) * dy)
}
ROWS(logsumexp_grad)

/* ---- row_max ---- */

V_INLINE void row_max_row(const rows *p, int64_t i, int64_t n)
{
    const float *a = p->in + i * n;
    p->to[i] = has_nan(n, a) ? NAN : largest(n, a);
}
ROWS(row_max)

V_INLINE void row_max_grad_row(const rows *p, int64_t i, int64_t n)
{
    const float *a = p->in + i * n;
    float *to = p->to + i * n, dy = p->dout[i], m = largest(n, a);
    const bool nan = has_nan(n, a);
    int64_t at = 0;
    while (nan ? a[at] == a[at] : a[at] != m)
        at++;
    memset(to, 0, (size_t)n * sizeof(*to));
    to[at] = dy;
}
ROWS(row_max_grad)

void MF_SIMD(row_map)(const mf_kctx *x, const mf_row_map_args *a)
{
    void (*const tiles[])(void *, int64_t) = {
        [MF_ROW_SOFTMAX] = a->n <= LANES_MOST ? softmax_lanes : softmax,
        [MF_ROW_LOG_SOFTMAX] = log_softmax,
        [MF_ROW_LOGSUMEXP] = logsumexp,
        [MF_ROW_MAX] = row_max,
    };
    run(x, tiles[a->fn], (rows){.rows = a->rows, .n = a->n, .in = a->in, .to = a->out});
}

void MF_SIMD(row_map_grad)(const mf_kctx *x, const mf_row_map_grad_args *a)
{
    void (*const tiles[])(void *, int64_t) = {
        [MF_ROW_SOFTMAX] = a->n <= LANES_MOST ? softmax_grad_lanes : softmax_grad,
        [MF_ROW_LOG_SOFTMAX] = log_softmax_grad,
        [MF_ROW_LOGSUMEXP] = logsumexp_grad,
        [MF_ROW_MAX] = row_max_grad,
    };
    run(x, tiles[a->fn],
        (rows){.rows = a->rows,
               .n = a->n,
               .in = a->in,
               .out = a->out,
               .dout = a->dout,
               .to = a->din});
}
