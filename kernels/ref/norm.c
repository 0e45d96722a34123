/* norm.c: norms of rows.
 *
 * Gradients of RMS and L2: y = w a f, where f is a function of a . a. With g = w dy,
 *
 *     da = f g + 2 a (g . a) df/d(a . a)
 *
 * Each function below has the result for its own f. */
#include <math.h>

#include "kernels/ref/ref.h"

static double weight(const float *w, int64_t j)
{
    return w != NULL ? w[j] : 1.0;
}

static double mean_square(int64_t n, const float *a)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (double)a[j] * a[j];
    return sum / (double)n;
}

static double rms_factor(double square, double eps, bool eps_outside)
{
    return eps_outside ? 1 / (sqrt(square) + eps) : 1 / sqrt(square + eps);
}

static void rmsnorm(int64_t rows, int64_t n, float eps, bool eps_outside, const float *a,
                    const float *w, void *y, int type)
{
    for (int64_t i = 0; i < rows; i++, a += n) {
        double f = rms_factor(mean_square(n, a), eps, eps_outside);
        for (int64_t j = 0; j < n; j++)
            ref_store(type, y, i * n + j, (float)(weight(w, j) * a[j] * f));
    }
}

/* da = f g - a (g . a) h / n with h = f^3, or h = f^2 / sqrt(mean(a^2)) if eps is outside the
 * root. If eps is outside, h is set to 0 for a row of zeros, whose gradient is g / eps. */
static void rmsnorm_backward(int64_t rows, int64_t n, float eps, bool eps_outside,
                             const float *a, const float *w, const void *dy, float *da,
                             float *dw, int type)
{
    for (int64_t j = 0; j < n && dw != NULL; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += ref_load(type, dy, i * n + j) * a[i * n + j] *
                   rms_factor(mean_square(n, a + i * n), eps, eps_outside);
        dw[j] = (float)sum;
    }
    for (int64_t i = 0; i < rows && da != NULL; i++) {
        const float *ai = a + i * n;
        double square = mean_square(n, ai), f = rms_factor(square, eps, eps_outside), dot = 0;
        double h = !eps_outside ? f * f * f : square > 0 ? f * f / sqrt(square) : 0;
        for (int64_t j = 0; j < n; j++)
            dot += weight(w, j) * ref_load(type, dy, i * n + j) * ai[j];
        for (int64_t j = 0; j < n; j++)
            da[i * n + j] = (float)(f * weight(w, j) * ref_load(type, dy, i * n + j) -
                                    ai[j] * dot * h / (double)n);
    }
}

static void moments(int64_t n, const float *a, double eps, double *mean, double *factor)
{
    double sum = 0, square = 0;
    for (int64_t j = 0; j < n; j++)
        sum += a[j];
    sum /= (double)n;
    for (int64_t j = 0; j < n; j++)
        square += (a[j] - sum) * (a[j] - sum);
    *mean = sum;
    *factor = 1 / sqrt(square / (double)n + eps);
}

static void layernorm(int64_t rows, int64_t n, float eps, const float *a, const float *w,
                      const float *b, void *y, int type)
{
    for (int64_t i = 0; i < rows; i++, a += n) {
        double mean, f;
        moments(n, a, eps, &mean, &f);
        for (int64_t j = 0; j < n; j++)
            ref_store(type, y, i * n + j,
                      (float)((a[j] - mean) * f * weight(w, j) + (b != NULL ? b[j] : 0)));
    }
}

/* With c = (a - mean) f: da = f (g - mean(g) - c mean(g c)). */
static void layernorm_backward(int64_t rows, int64_t n, float eps, const float *a,
                               const float *w, const void *dy, float *da, float *dw, float *db,
                               int type)
{
    for (int64_t j = 0; j < n && (dw != NULL || db != NULL); j++) {
        double sum_w = 0, sum_b = 0;
        for (int64_t i = 0; i < rows; i++) {
            double mean, f;
            moments(n, a + i * n, eps, &mean, &f);
            sum_w += ref_load(type, dy, i * n + j) * (a[i * n + j] - mean) * f;
            sum_b += ref_load(type, dy, i * n + j);
        }
        if (dw != NULL) dw[j] = (float)sum_w;
        if (db != NULL) db[j] = (float)sum_b;
    }
    for (int64_t i = 0; i < rows && da != NULL; i++) {
        const float *ai = a + i * n;
        double mean, f, g = 0, gc = 0;
        moments(n, ai, eps, &mean, &f);
        for (int64_t j = 0; j < n; j++) {
            double gj = weight(w, j) * ref_load(type, dy, i * n + j);
            g += gj;
            gc += gj * (ai[j] - mean) * f;
        }
        g /= (double)n;
        gc /= (double)n;
        for (int64_t j = 0; j < n; j++)
            da[i * n + j] = (float)(f * (weight(w, j) * ref_load(type, dy, i * n + j) - g -
                                         (ai[j] - mean) * f * gc));
    }
}

static void l2_normalize(int64_t rows, int64_t n, float eps, const float *a, float *y)
{
    for (int64_t i = 0; i < rows; i++, a += n, y += n) {
        double length = fmax(sqrt(mean_square(n, a) * (double)n), eps);
        for (int64_t j = 0; j < n; j++)
            y[j] = (float)(a[j] / length);
    }
}

/* da = (dy - a (dy . a) / |a|^2) / |a|; dy / eps if |a| <= eps. */
static void l2_normalize_backward(int64_t rows, int64_t n, float eps, const float *a,
                                  const float *dy, float *da)
{
    for (int64_t i = 0; i < rows; i++, a += n, dy += n, da += n) {
        double length = sqrt(mean_square(n, a) * (double)n), dot = 0;
        for (int64_t j = 0; j < n; j++)
            dot += (double)dy[j] * a[j];
        bool longer = !(length <= eps); /* a NaN is then treated like a long row, and
                                         * stays NaN */
        for (int64_t j = 0; j < n; j++)
            da[j] = longer ? (float)((dy[j] - a[j] * dot / (length * length)) / length)
                           : dy[j] / eps;
    }
}

/* ---- groups ---- */

/* Computes rows from .. to - 1 with the weights of group e. */
static void forward(const mf_norm_args *p, int64_t from, int64_t to, int64_t e)
{
    const float *a = p->a + from * p->n, *w = p->w ? p->w + e * p->n : NULL;
    const float *b = p->b ? p->b + e * p->n : NULL;
    void *y = (char *)p->y + from * p->n * mf_cast_size((int)p->type);
    if (p->kind == MF_NORM_FN_RMS)
        rmsnorm(to - from, p->n, p->eps, p->eps_outside, a, w, y, (int)p->type);
    else if (p->kind == MF_NORM_FN_LAYER)
        layernorm(to - from, p->n, p->eps, a, w, b, y, (int)p->type);
    else
        l2_normalize(to - from, p->n, p->eps, a, y);
}

static void backward(const mf_norm_args *p, int64_t from, int64_t to, int64_t e)
{
    const float *a = p->a + from * p->n, *w = p->w ? p->w + e * p->n : NULL;
    const void *dy = (const char *)p->dy + from * p->n * mf_cast_size((int)p->type);
    float *da = p->da ? p->da + from * p->n : NULL;
    float *dw = p->dw ? p->dw + e * p->n : NULL, *db = p->db ? p->db + e * p->n : NULL;
    if (p->kind == MF_NORM_FN_RMS)
        rmsnorm_backward(to - from, p->n, p->eps, p->eps_outside, a, w, dy, da, dw,
                         (int)p->type);
    else if (p->kind == MF_NORM_FN_LAYER)
        layernorm_backward(to - from, p->n, p->eps, a, w, dy, da, dw, db, (int)p->type);
    else
        l2_normalize_backward(to - from, p->n, p->eps, a, dy, da);
}

static bool grouped_nowhere(const mf_norm_args *p, int64_t row)
{
    return row < p->offset[0] || row >= p->offset[p->groups];
}

void mf_ref_norm(const mf_kctx *x, const mf_norm_args *p)
{
    if (mf_kctx_failed(x)) return;
    if (!p->offset) forward(p, 0, p->rows, 0);
    for (int64_t i = 0; p->wide && i < p->rows * p->n; i++)
        p->wide[i] = ref_load((int)p->type, p->y, i);
    for (int64_t e = 0; p->offset && e < p->groups; e++)
        forward(p, p->offset[e], p->offset[e + 1], e);
    for (int64_t i = 0; p->offset && i < p->rows * p->n; i++)
        if (grouped_nowhere(p, i / p->n)) ref_store((int)p->type, p->y, i, 0);
}

void mf_ref_norm_backward(const mf_kctx *x, const mf_norm_args *p)
{
    if (mf_kctx_failed(x)) return;
    if (!p->offset) backward(p, 0, p->rows, 0);
    for (int64_t e = 0; p->offset && e < p->groups; e++)
        backward(p, p->offset[e], p->offset[e + 1], e);
    for (int64_t i = 0; (p->add || p->copy) && i < p->rows * p->n; i++) {
        if (p->add) p->da[i] += p->add[i];
        if (p->copy) p->copy[i] = mf_bf16_from_f32(p->da[i]);
    }
    for (int64_t j = 0; p->sum && j < p->n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < p->rows; i++)
            sum += (double)p->da[i * p->n + j];
        p->sum[j] = (float)sum;
    }
    for (int64_t i = 0; p->offset && p->da && i < p->rows * p->n; i++)
        if (grouped_nowhere(p, i / p->n)) p->da[i] = 0;
}
