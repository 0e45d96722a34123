/* norm.c: norms of rows.
 *
 * Gradients. With y = w a f, f a function of the row alone, and g = w dy: da = f g + a (g . a)
 * df/d(a.a) 2; each kernel below says what that becomes.
 */
#include <math.h>

#include "kernels/ref/ref.h"

static double weight(const float *w, int64_t j)
{
    return w != NULL ? w[j] : 1.0;
}

/* Element i of what is f32 or bf16. */
static double get(const void *p, int64_t i, bool bf16)
{
    return bf16 ? mf_ref_widen(((const mf_bf16 *)p)[i]) : ((const float *)p)[i];
}

static void put(void *p, int64_t i, double value, bool bf16)
{
    if (bf16)
        ((mf_bf16 *)p)[i] = mf_ref_round((float)value);
    else
        ((float *)p)[i] = (float)value;
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
                    const float *w, void *y, bool bf16)
{
    for (int64_t i = 0; i < rows; i++, a += n) {
        double f = rms_factor(mean_square(n, a), eps, eps_outside);
        for (int64_t j = 0; j < n; j++)
            put(y, i * n + j, weight(w, j) * a[j] * f, bf16);
    }
}

void mf_ref_rmsnorm(const mf_kctx *x, int64_t rows, int64_t n, float eps, bool eps_outside,
                    const float *a, const float *w, float *y)
{
    (void)x;
    rmsnorm(rows, n, eps, eps_outside, a, w, y, false);
}

void mf_ref_rmsnorm_bf16(const mf_kctx *x, int64_t rows, int64_t n, float eps, bool eps_outside,
                         const float *a, const float *w, mf_bf16 *y)
{
    (void)x;
    rmsnorm(rows, n, eps, eps_outside, a, w, y, true);
}

/* da = f g - a (g . a) h / n with h = f^3, or f^2 / sqrt(mean(a^2)) where eps is outside (0 for
 * a row of zeros, where that gradient is taken as g / eps). */
static void rmsnorm_backward(int64_t rows, int64_t n, float eps, bool eps_outside,
                             const float *a, const float *w, const void *dy, float *da,
                             float *dw, bool bf16)
{
    for (int64_t j = 0; j < n && dw != NULL; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += get(dy, i * n + j, bf16) * a[i * n + j] *
                   rms_factor(mean_square(n, a + i * n), eps, eps_outside);
        dw[j] = (float)sum;
    }
    for (int64_t i = 0; i < rows && da != NULL; i++) {
        const float *ai = a + i * n;
        double square = mean_square(n, ai), f = rms_factor(square, eps, eps_outside), dot = 0;
        double h = !eps_outside ? f * f * f : square > 0 ? f * f / sqrt(square) : 0;
        for (int64_t j = 0; j < n; j++)
            dot += weight(w, j) * get(dy, i * n + j, bf16) * ai[j];
        for (int64_t j = 0; j < n; j++)
            da[i * n + j] = (float)(f * weight(w, j) * get(dy, i * n + j, bf16) -
                                    ai[j] * dot * h / (double)n);
    }
}

void mf_ref_rmsnorm_backward(const mf_kctx *x, int64_t rows, int64_t n, float eps,
                             bool eps_outside, const float *a, const float *w, const float *dy,
                             float *da, float *dw, void *work)
{
    (void)x, (void)work;
    rmsnorm_backward(rows, n, eps, eps_outside, a, w, dy, da, dw, false);
}

void mf_ref_rmsnorm_bf16_backward(const mf_kctx *x, int64_t rows, int64_t n, float eps,
                                  bool eps_outside, const float *a, const float *w,
                                  const mf_bf16 *dy, float *da, float *dw, void *work)
{
    (void)x, (void)work;
    rmsnorm_backward(rows, n, eps, eps_outside, a, w, dy, da, dw, true);
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
                      const float *b, void *y, bool bf16)
{
    for (int64_t i = 0; i < rows; i++, a += n) {
        double mean, f;
        moments(n, a, eps, &mean, &f);
        for (int64_t j = 0; j < n; j++)
            put(y, i * n + j, (a[j] - mean) * f * weight(w, j) + (b != NULL ? b[j] : 0), bf16);
    }
}

void mf_ref_layernorm(const mf_kctx *x, int64_t rows, int64_t n, float eps, const float *a,
                      const float *w, const float *b, float *y)
{
    (void)x;
    layernorm(rows, n, eps, a, w, b, y, false);
}

void mf_ref_layernorm_bf16(const mf_kctx *x, int64_t rows, int64_t n, float eps, const float *a,
                           const float *w, const float *b, mf_bf16 *y)
{
    (void)x;
    layernorm(rows, n, eps, a, w, b, y, true);
}

/* With c = (a - mean) f: da = f (g - mean(g) - c mean(g c)). */
static void layernorm_backward(int64_t rows, int64_t n, float eps, const float *a,
                               const float *w, const void *dy, float *da, float *dw, float *db,
                               bool bf16)
{
    for (int64_t j = 0; j < n && (dw != NULL || db != NULL); j++) {
        double sum_w = 0, sum_b = 0;
        for (int64_t i = 0; i < rows; i++) {
            double mean, f;
            moments(n, a + i * n, eps, &mean, &f);
            sum_w += get(dy, i * n + j, bf16) * (a[i * n + j] - mean) * f;
            sum_b += get(dy, i * n + j, bf16);
        }
        if (dw != NULL) dw[j] = (float)sum_w;
        if (db != NULL) db[j] = (float)sum_b;
    }
    for (int64_t i = 0; i < rows && da != NULL; i++) {
        const float *ai = a + i * n;
        double mean, f, g = 0, gc = 0;
        moments(n, ai, eps, &mean, &f);
        for (int64_t j = 0; j < n; j++) {
            double gj = weight(w, j) * get(dy, i * n + j, bf16);
            g += gj;
            gc += gj * (ai[j] - mean) * f;
        }
        g /= (double)n;
        gc /= (double)n;
        for (int64_t j = 0; j < n; j++)
            da[i * n + j] = (float)(f * (weight(w, j) * get(dy, i * n + j, bf16) - g -
                                         (ai[j] - mean) * f * gc));
    }
}

void mf_ref_layernorm_backward(const mf_kctx *x, int64_t rows, int64_t n, float eps,
                               const float *a, const float *w, const float *dy, float *da,
                               float *dw, float *db, void *work)
{
    (void)x, (void)work;
    layernorm_backward(rows, n, eps, a, w, dy, da, dw, db, false);
}

void mf_ref_layernorm_bf16_backward(const mf_kctx *x, int64_t rows, int64_t n, float eps,
                                    const float *a, const float *w, const mf_bf16 *dy,
                                    float *da, float *dw, float *db, void *work)
{
    (void)x, (void)work;
    layernorm_backward(rows, n, eps, a, w, dy, da, dw, db, true);
}

void mf_ref_l2_normalize(const mf_kctx *x, int64_t rows, int64_t n, float eps, const float *a,
                         float *y)
{
    (void)x;
    for (int64_t i = 0; i < rows; i++, a += n, y += n) {
        double length = fmax(sqrt(mean_square(n, a) * (double)n), eps);
        for (int64_t j = 0; j < n; j++)
            y[j] = (float)(a[j] / length);
    }
}

/* da = (dy - a (dy . a) / |a|^2) / |a|; dy / eps where |a| <= eps. */
void mf_ref_l2_normalize_backward(const mf_kctx *x, int64_t rows, int64_t n, float eps,
                                  const float *a, const float *dy, float *da)
{
    (void)x;
    for (int64_t i = 0; i < rows; i++, a += n, dy += n, da += n) {
        double length = sqrt(mean_square(n, a) * (double)n), dot = 0;
        for (int64_t j = 0; j < n; j++)
            dot += (double)dy[j] * a[j];
        bool longer = !(length <= eps); /* NaN stays NaN */
        for (int64_t j = 0; j < n; j++)
            da[j] = longer ? (float)((dy[j] - a[j] * dot / (length * length)) / length)
                           : dy[j] / eps;
    }
}
