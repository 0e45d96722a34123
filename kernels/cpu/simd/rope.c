/* rope.c: rotary positions. Sines and cosines are computed once for all heads of a row, in
 * double, because the angle of a late position needs more digits than a float has. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

#define MAX_PAIRS (MF_MAX_HEAD_DIM / 2)
#define DL        (VL / 2) /* number of lanes of vd */

typedef int64_t vl __attribute__((vector_size(4 * VL)));

typedef struct rope {
    mf_rope_args args;
    int64_t per; /* number of rows of a tile */
    double frequency[MAX_PAIRS + DL];
} rope;

/* Computes sine and cosine of the lanes of x, |x| < 2^31, to 1e-11; without fused multiply-adds
 * this holds only for |x| < 2^26. x = n pi/2 + r with |r| <= pi/4. Taylor series compute the
 * sine and cosine of r; n mod 4 determines whether they are exchanged, and their signs. */
V_INLINE void sin_cos(vd x, vd *ret_sin, vd *ret_cos)
{
    const double shift = 6755399441055744.0; /* 1.5 2^52: adding it rounds to an integer */
    vd t = v_fmad(x, v_setd(0.6366197723675814), v_setd(shift));
    vl n = (vl)t;
    vd k = t - shift;
    /* pi/2 in two parts; the first has 27 bits, so k times it is exact if k < 2^26 */
    vd r = v_fmad(k, v_setd(-1.570796325802803), x);
    r = v_fmad(k, v_setd(-9.920935796805404e-10), r);
    vd q = r * r;
    vd s = v_setd(-1.0 / 39916800), c = v_setd(1.0 / 479001600);
    s = v_fmad(s, q, v_setd(1.0 / 362880));
    s = v_fmad(s, q, v_setd(-1.0 / 5040));
    s = v_fmad(s, q, v_setd(1.0 / 120));
    s = v_fmad(s, q, v_setd(-1.0 / 6));
    s = v_fmad(s * q, r, r);
    c = v_fmad(c, q, v_setd(-1.0 / 3628800));
    c = v_fmad(c, q, v_setd(1.0 / 40320));
    c = v_fmad(c, q, v_setd(-1.0 / 720));
    c = v_fmad(c, q, v_setd(1.0 / 24));
    c = v_fmad(c, q, v_setd(-0.5));
    c = v_fmad(c, q, v_setd(1.0));
    vl swap = -(n & 1);
    vd u = (vd)((swap & (vl)c) | (~swap & (vl)s)), v = (vd)((swap & (vl)s) | (~swap & (vl)c));
    *ret_sin = (vd)((vl)u ^ ((n & 2) << 62));
    *ret_cos = (vd)((vl)v ^ (((n + 1) & 2) << 62));
}

static void angles(const rope *p, int32_t position, float *c, float *s)
{
    for (int64_t i = 0; i < p->args.turned / 2; i += DL) {
        vd f, vs, vc;
        memcpy(&f, p->frequency + i, sizeof(f));
        sin_cos(f * (double)position, &vs, &vc);
        for (int j = 0; j < DL; j++) {
            c[i + j] = (float)(p->args.magnitude * vc[j]);
            s[i + j] = (float)(p->args.magnitude * (p->args.inverse ? -vs[j] : vs[j]));
        }
    }
}

V_INLINE void turn_halves(int64_t pairs, const float *c, const float *s, const float *a,
                          float *y)
{
    int64_t i = 0;
    for (; i + VL <= pairs; i += VL) {
        vf u = v_load(a + i), v = v_load(a + pairs + i), vc = v_load(c + i), vs = v_load(s + i);
        v_store(y + i, u * vc - v * vs);
        v_store(y + pairs + i, u * vs + v * vc);
    }
    for (; i < pairs; i++) {
        float u = a[i], v = a[pairs + i];
        y[i] = u * c[i] - v * s[i];
        y[pairs + i] = u * s[i] + v * c[i];
    }
}

static void rope_tile(void *arg, int64_t tile)
{
    const rope *job = arg;
    const mf_rope_args *p = &job->args;
    float c[MAX_PAIRS + DL], s[MAX_PAIRS + DL];
    int64_t from = tile * job->per, to = rows_end(p->rows, from, job->per);
    int64_t pairs = p->turned / 2, heads = p->n_heads * p->head_dim;
    const bool part = p->turned < p->head_dim;
    for (int64_t r = from; r < to; r++) {
        const float *a = p->a + r * p->width;
        float *y = p->y + r * p->width;
        if (r == from || p->position[r] != p->position[r - 1])
            angles(job, p->position[r], c, s);
        if (p->y != p->a && part)
            memcpy(y, a, (size_t)p->width * sizeof(float));
        else if (p->y != p->a)
            memcpy(y + heads, a + heads, (size_t)(p->width - heads) * sizeof(float));
        a += p->first, y += p->first;
        for (int64_t h = 0; h < p->n_heads; h++, a += p->head_dim, y += p->head_dim) {
            if (p->half) {
                turn_halves(pairs, c, s, a, y);
                continue;
            }
            for (int64_t i = 0; i < pairs; i++) {
                float u = a[2 * i], v = a[2 * i + 1];
                y[2 * i] = u * c[i] - v * s[i];
                y[2 * i + 1] = u * s[i] + v * c[i];
            }
        }
    }
}

void MF_SIMD(rope)(const mf_kctx *x, const mf_rope_args *args)
{
    rope p = {.args = *args, .per = rows_per_tile(args->width)};
    for (int64_t i = 0; i < args->turned / 2; i++) {
        p.frequency[i] = pow(args->theta, -2.0 * (double)i / (double)args->turned);
        if (args->factor != NULL) p.frequency[i] *= (double)args->factor[i];
    }
    x->parallel(rows_tiles(args->rows, args->width), rope_tile, &p);
}
