/* lab/check/gradcheck.c: compares a graph's gradients with central differences; gradcheck.h
 * describes the method. Only look, measure_noise and measure_rounding change values of a
 * tensor, and each function restores them. */
#include "lab/check/gradcheck.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "graph/internal.h"
#include "graph/shape.h"
#include "kernels/kernel.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 5 }; /* number of step sizes; each step is a quarter of the previous one */
/* relative rounding error of an output, including the error of its inputs */
#define ROUNDING (4 * 0x1p-24)

typedef struct checker {
    mf_graph *g;
    mf_gradcheck_options o;
    mf_run run;
    int n_out, n_in;
    mf_tensor *const *out, *const *in;
    float **weight; /* [output] weights of its values in f */
    float **before; /* [output] its values one step to the right */
    float **grad;   /* [input] copy of its gradient, since later runs reuse the memory */
    /* The kept values of the forward pass through which a gradient flows. The two buffers hold,
     * for the elements of all these values together, the gradient of f, and the values at
     * another point. They are allocated when a spot first needs them. */
    mf_tensor **inner;
    int n_inner;
    int64_t inner_count;
    float *adjoint, *room;
    double each;      /* number of operations of a forward pass */
    double worst;     /* largest error of the tensor that is being checked */
    char unseen[256]; /* message about the first tensor that could not be checked; "": none */
    mf_gradcheck_report *report;
} checker;

/* A point of a tensor, and the direction in which it is checked. */
typedef struct spot {
    mf_tensor *x;
    const float *grad;
    int64_t index;   /* index of one element; -1: all elements, each moves up or down */
    uint64_t stream; /* random stream of the signs; 0: the signs of the gradient */
    double scale;    /* a large slope of the tensor; tiny slopes are compared relative to it */
    double step;     /* the largest step, relative to max(1, |x|) */
    /* Values of the elements: original, one step to the right, and present. */
    float *base, *trial, *now;
    float *sign; /* 1 or -1: the direction in which the element moves */
    int64_t n;   /* number of elements: 1, or all */
} spot;

/* Difference of f between a step to the right and a step to the left. noise: how much of the
 * difference may be rounding of the outputs. */
typedef struct probe {
    double numeric, analytic, noise;
} probe;

/* ---- perturbing ---- */

static bool along_signs(const spot *s)
{
    return s->index < 0 && s->stream == 0;
}

static size_t offset_of(const spot *s)
{
    return (size_t)(s->index < 0 ? 0 : s->index) * sizeof(float);
}

static int put(const spot *s, const float *from)
{
    return mf_tensor_write(s->x, from, offset_of(s), (size_t)s->n * sizeof *from);
}

/* Fills s->sign. All points of a spot are reached along the same signs. */
static void choose_signs(const checker *c, spot *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        bool up = true;
        if (along_signs(s))
            up = !(s->grad[i] < 0);
        else if (s->index < 0)
            up = (mf_rng_u32(c->o.seed, s->stream, 0, (uint64_t)i) & 1u) != 0;
        s->sign[i] = up ? 1 : -1;
    }
}

/* Moves a single element by h max(1, |x|). Moves each of n elements by 4 / sqrt(n) times as
 * much, which together is a Euclidean distance of 4 h or more. */
static int displace(const spot *s, double h)
{
    double spread = s->index < 0 ? 4 / sqrt((double)s->n) : 1;
    for (int64_t i = 0; i < s->n; i++) {
        double size = fmax(1, fabs((double)s->base[i]));
        s->now[i] = (float)(s->base[i] + s->sign[i] * h * size * spread);
    }
    return put(s, s->now);
}

static int evaluate(checker *c)
{
    c->run.forward_only = true;
    c->report->operations += c->each;
    return mf_graph_run(c->g, &c->run);
}

static int remember_outputs(checker *c)
{
    int rc = MF_OK;
    for (int o = 0; rc == MF_OK && o < c->n_out; o++)
        rc = mf_tensor_read(c->out[o], c->before[o], 0,
                            (size_t)mf_shape_count(c->out[o]->shape) * sizeof(float));
    return rc;
}

/* Computes f before minus f now, summed over values that changed, and its noise. */
static int difference(const checker *c, probe *ret)
{
    double sum = 0, noise = 0;
    for (int o = 0; o < c->n_out; o++) {
        const float *now = mf_tensor_host(c->out[o]), *before = c->before[o], *w = c->weight[o];
        int64_t n = mf_shape_count(c->out[o]->shape);
        if (!now && n > 0)
            return mf_fail(MF_EINVAL, "gradient check: output %d cannot be read", o);
        for (int64_t i = 0; i < n; i++) {
            if (before[i] == now[i]) continue;
            double rounded =
                w[i] * fmax(fabs((double)before[i]), fabs((double)now[i])) * ROUNDING;
            sum += (double)w[i] * ((double)before[i] - (double)now[i]);
            noise += rounded * rounded;
        }
    }
    ret->numeric = sum;
    ret->noise = sqrt(noise);
    return MF_OK;
}

/* Measures how f changes from x + left to x + right; restores x. */
static int look(checker *c, spot *s, double right, double left, probe *ret)
{
    int code = displace(s, right);
    memcpy(s->trial, s->now, (size_t)s->n * sizeof *s->trial);
    if (code == MF_OK) code = evaluate(c);
    if (code == MF_OK) code = remember_outputs(c);
    if (code == MF_OK) code = displace(s, left);
    if (code == MF_OK) code = evaluate(c);
    if (code == MF_OK) code = difference(c, ret);
    if (code == MF_OK) {
        const float *grad = s->grad + (s->index < 0 ? 0 : s->index);
        ret->analytic = 0;
        for (int64_t i = 0; i < s->n; i++)
            ret->analytic += (double)grad[i] * ((double)s->trial[i] - (double)s->now[i]);
    }
    const int restored = put(s, s->base);
    return code == MF_OK ? restored : code;
}

/* ---- the noise of f ----
 *
 * If large numbers cancel within the graph, the rounding of the outputs underestimates the
 * noise of f. measure_noise also detects noise within ops that changes from point to point;
 * measure_rounding also detects rounding that is the same at nearby points. */

/* Measures the noise of f around the spot. f is computed at close points. Fourth differences
 * remove its smooth part and leave the noise (Hamming). */
static int measure_noise(checker *c, spot *s, double *ret)
{
    enum { POINTS = 9, ORDER = 4 };
    double f[POINTS] = {0}, sum = 0;
    probe p;
    int code = MF_OK;
    for (int i = 0; i < POINTS && code == MF_OK; i++) {
        code = displace(s, (i - POINTS / 2) * 0x1p-12);
        if (code == MF_OK) code = evaluate(c);
        if (i == 0 && code == MF_OK) code = remember_outputs(c);
        if (code == MF_OK) code = difference(c, &p);
        if (code == MF_OK) f[i] = p.numeric;
    }
    const int back = put(s, s->base);
    if (code == MF_OK) code = back;
    if (code != MF_OK) return code;
    for (int order = 0; order < ORDER; order++)
        for (int i = 0; i < POINTS - 1 - order; i++)
            f[i] = f[i + 1] - f[i];
    for (int i = 0; i < POINTS - ORDER; i++)
        sum += f[i] * f[i];
    /* 70 = 8! / 4!^2: variance of fourth differences of unit noise */
    *ret = sqrt(sum / (POINTS - ORDER) / 70);
    return MF_OK;
}

/* Copies the values of `inner`, or their gradients, to `to`, one tensor after the other. */
static int read_inner(const checker *c, bool gradients, float *to)
{
    int code = MF_OK;
    for (int i = 0; i < c->n_inner && code == MF_OK; i++) {
        const mf_tensor *t = gradients ? c->inner[i]->grad : c->inner[i];
        const int64_t n = mf_shape_count(t->shape);
        code = mf_tensor_read(t, to, 0, (size_t)n * sizeof *to);
        to += n;
    }
    return code;
}

/* Computes the gradient of f with respect to all inner values at the original point. */
static int read_adjoints(checker *c)
{
    if (c->adjoint) return MF_OK;
    c->adjoint = mf_alloc_raw((size_t)(2 * c->inner_count + 1) * sizeof *c->adjoint);
    if (!c->adjoint) return MF_ENOMEM;
    c->room = c->adjoint + c->inner_count;
    c->run.forward_only = false;
    const int code = mf_graph_run(c->g, &c->run);
    return code == MF_OK ? read_inner(c, true, c->adjoint) : code;
}

/* Returns the square root of a sum of squares over the inner values that differ from c->room.
 * Each term is the change of f when the value changes by half a unit in the last place. */
static double rounding_of_changed(const checker *c)
{
    const float *before = c->room, *adjoint = c->adjoint;
    double sum = 0;
    for (int i = 0; i < c->n_inner; i++) {
        const float *now = mf_tensor_host(c->inner[i]);
        const int64_t n = mf_shape_count(c->inner[i]->shape);
        for (int64_t j = 0; now && j < n; j++) {
            if (now[j] == before[j]) continue;
            const double size = fmax(fabs((double)now[j]), fabs((double)before[j]));
            const double off = (double)adjoint[j] * size * 0x1p-24;
            sum += off * off;
        }
        before += n;
        adjoint += n;
    }
    return sqrt(sum);
}

/* Estimates the rounding of f from the condition of the graph: the size of each value that
 * depends on the spot, times the gradient of f with respect to the value. Values that a large
 * step does not change do not depend on the spot. */
static int measure_rounding(checker *c, spot *s, double *ret)
{
    const double far = 0x1p-2;
    int code = read_adjoints(c);
    if (code == MF_OK) code = displace(s, far);
    if (code == MF_OK) code = evaluate(c);
    if (code == MF_OK) code = read_inner(c, false, c->room);
    if (code == MF_OK) code = displace(s, -far);
    if (code == MF_OK) code = evaluate(c);
    if (code == MF_OK) *ret = rounding_of_changed(c);
    const int restored = put(s, s->base);
    return code == MF_OK ? restored : code;
}

/* ---- judging one spot ---- */

typedef struct verdict {
    double analytic, numeric, error;
    double off, tolerated; /* |analytic - numeric|; the largest value of it that passes */
    double gain;           /* error of numeric per unit of noise in f */
    double noise;          /* noise of numeric that the rounding of the outputs causes */
    bool kink;
    bool hidden;  /* the slopes agree, but the measured noise is as large as a slope */
    bool noisy;   /* the slopes agree only within the measured noise */
    bool blurred; /* the rounding noise is larger than the tolerance */
} verdict;

static double tolerance(const checker *c, const spot *s, double a, double b)
{
    return c->o.atol + c->o.rtol * fmax(fmax(fabs(a), fabs(b)), s->scale);
}

/* Returns how much a step h changes f per unit of slope. */
static double length_of(const spot *s, double h)
{
    double size = s->index < 0 ? 4 : fmax(1, fabs((double)s->base[0]));
    return h * size;
}

/* Judges a slope that was computed from steps whose lengths add up to `length`. gain: the error
 * of the slope per unit of noise in f, times `length`. */
static void weigh(const checker *c, const spot *s, double length, double gain, verdict *v)
{
    v->gain = gain / length;
    v->off = fabs(v->numeric - v->analytic);
    v->tolerated = tolerance(c, s, v->numeric, v->analytic);
    v->error = v->off / (v->tolerated + v->noise);
    v->blurred = v->noise > v->tolerated;
    if (!(v->error < INFINITY)) v->error = INFINITY;
}

/* Computes the slope at the spot from a step of h in both directions. If it does not agree,
 * computes it also from h and h/2, so that the error term of h^2 cancels. Most slopes agree at
 * once, and the tolerance is the same. */
static int central(checker *c, spot *s, double h, verdict *ret)
{
    probe full, halved;
    const double length = 2 * length_of(s, h);
    int code = look(c, s, h, -h, &full);
    if (code != MF_OK) return code;
    ret->numeric = full.numeric / length;
    ret->analytic = full.analytic / length;
    ret->noise = full.noise / length;
    weigh(c, s, length, 1, ret);
    if (ret->error <= 1) return MF_OK;
    code = look(c, s, h / 2, -h / 2, &halved);
    if (code != MF_OK) return code;
    ret->numeric = (8 * halved.numeric - full.numeric) / (3 * length);
    ret->analytic = (8 * halved.analytic - full.analytic) / (3 * length);
    ret->noise = (8 * halved.noise + full.noise) / (3 * length);
    weigh(c, s, length, 3, ret);
    return MF_OK;
}

static int find_kink(checker *c, spot *s, double h, bool *ret)
{
    probe right, left;
    double length = length_of(s, h);
    int code = look(c, s, h, 0, &right);
    if (code == MF_OK) code = look(c, s, 0, -h, &left);
    if (code != MF_OK) return code;
    double a = right.numeric / length, b = left.numeric / length;
    double slope = (right.analytic + left.analytic) / (2 * length);
    double slack = tolerance(c, s, a, b) + (right.noise + left.noise) / length;
    *ret =
        fabs(a - b) > 4 * slack && slope >= fmin(a, b) - slack && slope <= fmax(a, b) + slack;
    return MF_OK;
}

/* Judges again a spot that failed, with a tolerance that includes the measured noise of f.
 * Noise above `limit` would also hide a wrong rule. The first step (for the direction of the
 * signs also the second) is tried even with such noise; the spot counts as hidden if it then
 * passes. The direction of the signs represents the whole tensor, so its limit is stricter. */
static int judge_noisy(checker *c, spot *s, const verdict *all, int n, verdict *ret)
{
    const bool signs = along_signs(s);
    const double limit = signs ? 0.025 : 0.25;
    bool hidden = false;
    double sigma, rounding;
    int code = measure_noise(c, s, &sigma);
    if (code == MF_OK) code = measure_rounding(c, s, &rounding);
    for (int i = 0; i < n && code == MF_OK; i++) {
        const verdict *v = &all[i];
        const double noise = 5 * hypot(sigma, rounding) * v->gain;
        const double error = v->off / (v->tolerated + noise);
        const bool large =
            noise > limit * fmax(fmax(fabs(v->numeric), fabs(v->analytic)), s->scale);
        if (large && i >= (signs ? 2 : 1)) break; /* the noise grows with smaller steps */
        if (error < ret->error) {
            *ret = *v;
            ret->error = error;
        }
        hidden = large && ret->error <= 1;
        if (large) break;
    }
    ret->hidden = hidden;
    ret->noisy = ret->error <= 1;
    return code;
}

/* Whether no two neighbouring step sizes find the same slope. In this case there are kinks on
 * both sides of the spot that are closer than the steps, and its slope is unknown. A wrong
 * gradient does not change the numeric slopes. */
static bool no_slope(const verdict *all, int n)
{
    for (int i = 0; i + 1 < n; i++) {
        const verdict *a = &all[i], *b = &all[i + 1];
        const double known = a->tolerated + a->noise + b->noise;
        if (!(fabs(a->numeric - b->numeric) > 2 * known)) return false;
    }
    return n > 1;
}

/* Tries up to STEPS smaller steps, until one step agrees or the rounding noise exceeds the
 * tolerance. If no step agrees, checks the steps a second time with a tolerance that includes
 * the measured noise of f. If that fails too, looks for a kink with the last step. */
static int judge(checker *c, spot *s, verdict *ret)
{
    double h = s->step;
    verdict all[STEPS];
    int n = 0, seen = 0;
    int code = mf_tensor_read(s->x, s->base, offset_of(s), (size_t)s->n * sizeof *s->base);
    if (code != MF_OK) return code;
    choose_signs(c, s);
    for (int i = 0; i < STEPS; i++, h /= 4) {
        verdict v = {0};
        code = central(c, s, h, &v);
        if (code != MF_OK) return code;
        all[seen++] = v;
        if (i > 0 && v.blurred) break;
        n++;
        if (i == 0 || v.error < ret->error) *ret = v;
        if (ret->error <= 1) return MF_OK;
    }
    code = judge_noisy(c, s, all, n, ret);
    if (code != MF_OK || ret->error <= 1) return code;
    ret->kink = no_slope(all, seen);
    return ret->kink ? MF_OK : find_kink(c, s, h * 4, &ret->kink);
}

/* ---- one tensor ---- */

static void note(checker *c, int tensor, const spot *s, const verdict *v)
{
    mf_gradcheck_report *r = c->report;
    c->worst = fmax(c->worst, v->error);
    if (r->tensor >= 0 && !(v->error > r->error)) return;
    r->tensor = tensor;
    r->name = s->x->name;
    r->index = s->index;
    r->analytic = v->analytic;
    r->numeric = v->numeric;
    r->error = v->error;
}

/* Spots of one tensor that were not checked; noisy: any agrees only within the noise. */
typedef struct skipped {
    int kinks, hidden;
    bool noisy;
} skipped;

static int check_spot(checker *c, int tensor, spot *s, skipped *skip)
{
    verdict v = {0};
    int code = judge(c, s, &v);
    if (code != MF_OK) return code;
    skip->kinks += v.kink;
    skip->hidden += v.hidden;
    skip->noisy |= v.noisy;
    if (v.kink || v.hidden) {
        c->report->kinks++;
        return MF_OK;
    }
    c->report->points++;
    note(c, tensor, s, &v);
    return MF_OK;
}

static double norm(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum);
}

static int check_points(checker *c, int tensor, spot *s, int64_t count, skipped *skip)
{
    int64_t points = count <= c->o.max_points ? count : c->o.max_points;
    uint64_t stream = mf_rng_stream("gradcheck.points");
    int code = MF_OK;
    s->n = 1;
    s->scale = 0.05 * norm(s->grad, count) / sqrt((double)count);
    for (int64_t i = 0; i < points && code == MF_OK; i++) {
        /* The last element is always one of the points, because loops often have errors at
         * their end. */
        s->index = points == count ? i
                   : i == points - 1
                       ? count - 1
                       : (int64_t)mf_rng_below(c->o.seed, stream, (uint64_t)tensor, (uint64_t)i,
                                               (uint64_t)count);
        code = check_spot(c, tensor, s, skip);
    }
    return code;
}

static int check_directions(checker *c, int tensor, spot *s, int64_t count, skipped *skip)
{
    char name[64];
    int code = MF_OK;
    s->index = -1;
    s->n = count;
    s->scale = 0.25 * norm(s->grad, count) / sqrt((double)count);
    for (int i = 0; i < c->o.directions && code == MF_OK; i++) {
        snprintf(name, sizeof name, "gradcheck.direction.%d.%d", tensor, i);
        s->stream = mf_rng_stream(name);
        code = check_spot(c, tensor, s, skip);
    }
    return code;
}

/* Checks the direction of the gradient's signs, beginning with a larger step. All elements add
 * to this slope, so it exceeds a noise that hides single elements. */
static int check_signs(checker *c, int tensor, spot *s, int64_t count, bool *ret_judged)
{
    skipped none = {0};
    s->index = -1;
    s->n = count;
    s->stream = 0;
    s->step = 16 * c->o.step;
    s->scale = 0.25 * norm(s->grad, count) / sqrt((double)count);
    const int code = check_spot(c, tensor, s, &none);
    *ret_judged = none.kinks == 0 && none.hidden == 0;
    return code;
}

static uint64_t bit_of(int tensor)
{
    return tensor < 64 ? UINT64_C(1) << tensor : 0;
}

static int check_spots(checker *c, int tensor, spot *s, int64_t count)
{
    const int64_t points = count <= c->o.max_points ? count : c->o.max_points;
    skipped at_points = {0}, rest = {0};
    bool judged = false;
    int code = check_points(c, tensor, s, count, &at_points);
    if (code == MF_OK && count > c->o.max_points)
        code = check_directions(c, tensor, s, count, &rest);
    if (code == MF_OK && c->worst <= 1 && (at_points.noisy || rest.noisy))
        code = check_signs(c, tensor, s, count, &judged);
    if (c->worst > 1) c->report->wrong |= bit_of(tensor);
    const int lost = at_points.kinks + (judged ? 0 : at_points.hidden);
    if (code != MF_OK || 2 * (int64_t)lost <= points) return code;
    c->report->unseen |= bit_of(tensor);
    if (c->unseen[0] == '\0')
        snprintf(c->unseen, sizeof c->unseen,
                 "gradient of %s: %d of %" PRId64
                 " points are at kinks%s: nothing is shown, choose other inputs",
                 s->x->name ? s->x->name : "a value", lost, points,
                 lost > at_points.kinks ? " or hidden by rounding" : "");
    return code;
}

static int check_tensor(checker *c, int tensor)
{
    c->worst = 0;
    int64_t count = mf_shape_count(c->in[tensor]->shape);
    spot s = {.x = c->in[tensor], .grad = c->grad[tensor], .step = c->o.step};
    s.base = mf_alloc_raw((size_t)(4 * count + 1) * sizeof *s.base);
    if (!s.base) return MF_ENOMEM;
    s.trial = s.base + count;
    s.now = s.trial + count;
    s.sign = s.now + count;
    const int code = check_spots(c, tensor, &s, count);
    mf_free(s.base);
    return code;
}

/* ---- checking a graph ---- */

static float **alloc_lists(int n, mf_tensor *const *like)
{
    float **lists = mf_alloc((size_t)n + 1, sizeof *lists);
    for (int i = 0; lists && i < n; i++) {
        lists[i] = mf_alloc((size_t)mf_shape_count(like[i]->shape) + 1, sizeof(float));
        if (lists[i]) continue;
        while (i > 0)
            mf_free(lists[--i]);
        mf_free(lists);
        return NULL;
    }
    return lists;
}

static void free_lists(float **lists, int n)
{
    for (int i = 0; lists && i < n; i++)
        mf_free(lists[i]);
    mf_free(lists);
}

static int check_arguments(const checker *c)
{
    for (int i = 0; i < c->n_out; i++)
        if (!c->out[i] || c->out[i]->dtype != MF_F32)
            return mf_graph_fail(c->g, MF_EINVAL, "gradient check: output %d is not f32", i);
    for (int i = 0; i < c->n_in; i++)
        if (!c->in[i] || c->in[i]->dtype != MF_F32 || c->in[i]->kind == MF_TENSOR_VALUE)
            return mf_graph_fail(c->g, MF_EINVAL,
                                 "gradient check: %d is not an f32 input or parameter", i);
    return mf_graph_status(c->g);
}

/* Lists and keeps the values of the forward pass that have a gradient, and their gradients. n:
 * number of tensors before the gradients were added. */
static int keep_inner(checker *c, int n)
{
    c->inner = mf_alloc((size_t)n + 1, sizeof(mf_tensor *));
    if (!c->inner) return MF_ENOMEM;
    for (int i = 0; i < n; i++) {
        mf_tensor *t = c->g->tensors[i];
        if (t->kind != MF_TENSOR_VALUE || t->dtype != MF_F32 || t->alias || !t->grad ||
            t->grad->dtype != MF_F32)
            continue;
        mf_graph_keep(t);
        mf_graph_keep(t->grad);
        c->inner[c->n_inner++] = t;
        c->inner_count += mf_shape_count(t->shape);
    }
    return MF_OK;
}

static int differentiate(checker *c)
{
    const int n_tensors = c->g->n_tensors;
    char name[48];
    mf_tensor **seeds = mf_alloc((size_t)c->n_out + 1, sizeof *seeds);
    int code;
    if (!seeds) return MF_ENOMEM;
    for (int i = 0; i < c->n_out; i++) {
        snprintf(name, sizeof name, "gradcheck.weight.%d", i);
        mf_rng_fill_normal(c->o.seed, mf_rng_stream(name), 0, c->weight[i],
                           (size_t)mf_shape_count(c->out[i]->shape));
        mf_graph_keep(c->out[i]);
        seeds[i] = mf_graph_const(c->g, MF_F32, c->out[i]->shape, c->weight[i]);
    }
    code = mf_graph_backward_from(c->g, c->n_out, c->out, seeds, c->n_in, c->in);
    mf_free(seeds);
    if (code == MF_OK) code = keep_inner(c, n_tensors);
    return code == MF_OK ? mf_graph_finish(c->g) : code;
}

static int run_backward(checker *c)
{
    int code = mf_graph_run(c->g, &c->run);
    for (int i = 0; i < c->n_in && code == MF_OK; i++)
        code = mf_tensor_read(c->in[i]->grad, c->grad[i], 0,
                              (size_t)mf_shape_count(c->in[i]->shape) * sizeof(float));
    return code;
}

static int refuse(const checker *c)
{
    const mf_gradcheck_report *r = c->report;
    char shape[MF_SHAPE_TEXT], where[64] = "along a random direction";
    if (r->index >= 0) snprintf(where, sizeof where, "at element %" PRId64, r->index);
    if (isnan(r->numeric))
        return mf_fail(MF_EPLUGIN,
                       "gradient of %s %s %s: expected a number, found NaN in the values that "
                       "it is the gradient of",
                       r->name ? r->name : "input",
                       mf_shape_text(c->in[r->tensor]->shape, shape), where);
    return mf_fail(MF_EPLUGIN,
                   "gradient of %s %s %s: expected %.6g (by differences), found %.6g",
                   r->name ? r->name : "input", mf_shape_text(c->in[r->tensor]->shape, shape),
                   where, r->numeric, r->analytic);
}

static void limit_points(checker *c)
{
    c->each = mf_graph_operations(c->g);
    const double each = 2 * c->each; /* a point requires at least two runs */
    if (c->o.operations <= 0 || c->o.max_points * each <= c->o.operations) return;
    const int n = (int)fmax(c->o.operations / each, MF_GRADCHECK_LEAST);
    if (n < c->o.max_points) c->o.max_points = n;
}

static int check_all(checker *c)
{
    int code = differentiate(c);
    if (code == MF_OK) code = run_backward(c);
    limit_points(c);
    for (int i = 0; i < c->n_in && code == MF_OK; i++)
        code = check_tensor(c, i);
    if (code == MF_OK && c->report->error > 1) return refuse(c);
    return code == MF_OK && c->unseen[0] != '\0' ? mf_fail(MF_EPLUGIN, "%s", c->unseen) : code;
}

static void set_defaults(mf_gradcheck_options *o)
{
    if (o->rtol <= 0) o->rtol = 2e-3;
    if (o->atol <= 0) o->atol = 1e-6;
    if (o->step <= 0) o->step = 0x1p-5;
    if (o->max_points <= 0) o->max_points = 48;
    if (o->directions <= 0) o->directions = 3;
    if (!o->kernels) o->kernels = &mf_kernels_ref;
}

int mf_gradcheck(mf_graph *g, int n_out, mf_tensor *const *out, int n_in, mf_tensor *const *in,
                 const mf_gradcheck_options *options, mf_gradcheck_report *ret)
{
    mf_gradcheck_report report = {.tensor = -1};
    checker c = {.g = g, .n_out = n_out, .n_in = n_in, .out = out, .in = in, .report = &report};
    int code;
    if (options) c.o = *options;
    set_defaults(&c.o);
    c.run = (mf_run){.seed = c.o.seed, .kernels = c.o.kernels};
    code = check_arguments(&c);
    if (code == MF_OK) {
        c.weight = alloc_lists(n_out, out);
        c.before = alloc_lists(n_out, out);
        c.grad = alloc_lists(n_in, in);
        code = c.weight && c.before && c.grad ? check_all(&c) : MF_ENOMEM;
        free_lists(c.weight, n_out);
        free_lists(c.before, n_out);
        mf_free(c.inner);
        mf_free(c.adjoint);
        free_lists(c.grad, n_in);
    }
    if (ret) *ret = report;
    return code;
}
