/* Cases of check_ops: norms, positions, tokens and loss, gates, state. Expected values follow
 * the formulas of ops.h in double. */
#include <math.h>

#include "op_case.h"

/* ---- norms ---- */

static double weight(const ot_run *r, int in, int64_t j, double none)
{
    return r->in[in].f ? r->in[in].f[j] : none;
}

static void right_rmsnorm(ot_run *r)
{
    int64_t n = r->in[0].shape.dim[r->in[0].shape.rank - 1];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        const float *row = r->in[0].f + i / n * n;
        double square = 0;
        for (int64_t j = 0; j < n; j++)
            square += (double)row[j] * row[j] / (double)n;
        double root =
            r->attr->i[0] ? sqrt(square) + r->attr->f[0] : sqrt(square + r->attr->f[0]);
        r->out[0].want[i] = weight(r, 1, i % n, 1) * r->in[0].f[i] / root;
    }
}

static void right_layernorm(ot_run *r)
{
    int64_t n = r->in[0].shape.dim[r->in[0].shape.rank - 1];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        const float *row = r->in[0].f + i / n * n;
        double mean = 0, var = 0;
        for (int64_t j = 0; j < n; j++)
            mean += row[j] / (double)n;
        for (int64_t j = 0; j < n; j++)
            var += (row[j] - mean) * (row[j] - mean) / (double)n;
        r->out[0].want[i] =
            (r->in[0].f[i] - mean) / sqrt(var + r->attr->f[0]) * weight(r, 1, i % n, 1) +
            weight(r, 2, i % n, 0);
    }
}

static void right_l2(ot_run *r)
{
    int64_t n = r->in[0].shape.dim[r->in[0].shape.rank - 1];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        double square = 0;
        for (int64_t j = 0; j < n; j++)
            square += pow(r->in[0].f[i / n * n + j], 2);
        r->out[0].want[i] = r->in[0].f[i] / fmax(sqrt(square), r->attr->f[0]);
    }
}

/* ---- positions, cache ---- */

static void right_rope(ot_run *r)
{
    int64_t hd = r->attr->i[0], w = r->in[0].shape.dim[1], start = r->attr->i[4];
    int64_t n = r->attr->i[5] ? r->attr->i[5] : hd - start;
    double size = r->attr->f[1] > 0 ? r->attr->f[1] : 1;
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int64_t column = i % w, j = column % hd - start, first, other, pair;
        r->out[0].want[i] = r->in[0].f[i];
        if (column >= r->attr->i[1] * hd || j < 0 || j >= n) continue;
        if (r->attr->i[2]) {
            pair = j % (n / 2);
            first = j < n / 2;
            other = first ? i + n / 2 : i - n / 2;
        } else {
            pair = j / 2;
            first = j % 2 == 0;
            other = first ? i + 1 : i - 1;
        }
        double angle = r->in[1].i[i / w] / pow(r->attr->f[0], 2.0 * (double)pair / (double)n);
        if (r->n_in > 2) angle *= (double)r->in[2].f[pair];
        if (r->attr->i[3]) angle = -angle;
        r->out[0].want[i] = size * (cos(angle) * r->in[0].f[i] +
                                    (first ? -1 : 1) * sin(angle) * r->in[0].f[other]);
    }
}

static void right_append(ot_run *r)
{
    int64_t w = r->in[0].shape.dim[1], batch = r->in[2].count;
    int64_t s = r->in[0].shape.dim[0] / batch, t = r->in[1].shape.dim[0] / batch;
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int64_t b = i / w / s, place = i / w % s - r->in[2].i[b];
        bool written = place >= 0 && place < t;
        r->out[0].want[i] = written ? r->in[1].f[(b * t + place) * w + i % w] : r->in[0].f[i];
    }
}

/* ---- tokens, loss ---- */

static void right_embedding(ot_run *r)
{
    int64_t n = r->in[0].shape.dim[1];
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = r->in[0].f[r->in[1].i[i / n] * n + i % n];
}

static void right_cross_entropy(ot_run *r)
{
    int64_t n = r->in[0].shape.dim[1];
    double total = 0, weights = 0;
    for (int64_t i = 0; i < r->in[1].count; i++) {
        double sum = 0, w = weight(r, 2, i, 1);
        int32_t target = r->in[1].i[i];
        for (int64_t j = 0; j < n; j++)
            sum += exp(r->in[0].f[i * n + j]);
        double loss = target < 0 ? 0 : log(sum) - r->in[0].f[i * n + target];
        r->out[1].want[i] = loss;
        r->out[2].want[i] = log(sum);
        if (target < 0) continue;
        total += w * loss;
        weights += w;
    }
    r->out[0].want[0] = weights > 0 ? total / weights : 0;
}

static const int32_t some[] = {2, -1, 0, 6, -3}, nobody[] = {-1, -1, -1, -1, -1};
static const int32_t beyond[] = {2, 0, 7, 1, 1};

/* Losses and gradients, selected by attr i0. The logits are computed here. */
static void right_linear_cross_entropy(ot_run *r)
{
    const int64_t n = r->in[0].shape.dim[0], d = r->in[0].shape.dim[1];
    const int64_t vocab = r->in[1].shape.dim[0], want = r->attr->i[0];
    double p[256], total = 0, weights = 0, *dx = NULL, *dw = NULL, *db = NULL;
    int o = 1;
    if (want & 1) dx = r->out[o++].want;
    if (want & 2) dw = r->out[o++].want;
    if (want & 4) db = r->out[o++].want;
    double *rows = want == 0 || r->attr->i[2] ? r->out[o].want : NULL;
    for (int i = 0; want != 0 && i < r->n_out; i++)
        for (int64_t j = 0; j < r->out[i].count; j++)
            r->out[i].want[j] = 0;
    for (int64_t i = 0; i < n; i++)
        if (r->in[3].i[i] >= 0) weights += weight(r, 4, i, 1);
    for (int64_t i = 0; i < n; i++) {
        const int32_t target = r->in[3].i[i];
        double sum = 0, share = weights > 0 ? weight(r, 4, i, 1) / weights : 0;
        for (int64_t v = 0; v < vocab; v++) {
            double logit = r->in[2].f ? r->in[2].f[v] : 0;
            for (int64_t k = 0; k < d; k++)
                logit += (double)r->in[0].f[i * d + k] * r->in[1].f[v * d + k];
            sum += p[v] = exp(logit);
        }
        double loss = target < 0 ? 0 : log(sum / p[target]);
        if (rows) rows[i] = loss;
        if (target < 0) continue;
        total += share * loss;
        for (int64_t v = 0; v < vocab; v++) {
            double g = share * (p[v] / sum - (v == target));
            for (int64_t k = 0; k < d; k++) {
                if (dx) dx[i * d + k] += g * r->in[1].f[v * d + k];
                if (dw) dw[v * d + k] += g * r->in[0].f[i * d + k];
            }
            if (db) db[v] += g;
        }
    }
    r->out[0].want[0] = total;
}

/* ---- gates ---- */

static void right_swiglu(ot_run *r)
{
    int64_t n = r->out[0].shape.dim[r->out[0].shape.rank - 1];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        bool packed = !r->in[1].f;
        double a = r->in[0].f[packed ? i / n * 2 * n + i % n : i];
        double b = packed ? r->in[0].f[i / n * 2 * n + n + i % n] : r->in[1].f[i];
        r->out[0].want[i] =
            a / (1 + exp(-a)) * b * (r->in[2].f ? (double)r->in[2].f[i / n] : 1);
    }
}

const mf_op_row mf_op_cases_layers[] = {
    {.op = "rmsnorm",
     .in = {OT_F(3, 4, 7), OT_F(7)},
     .attr = {.f = {1e-5}},
     .right = right_rmsnorm},
    {.op = "rmsnorm",
     .in = {OT_F(40, 37), OT_NO},
     .attr = {.i = {1}, .f = {1e-3}},
     .right = right_rmsnorm,
     .tol = 2e-6},
    {.op = "rmsnorm", .in = {OT_F(6), OT_F(6)}, .attr = {.f = {0.1}}, .right = right_rmsnorm},
    {.op = "rmsnorm", .in = {OT_F(3, 7), OT_F(3)}, .refuse = "expected w of shape [7]"},
    {.op = "rmsnorm", .in = {OT_F(3, 7), OT_NO}, .attr = {.f = {-1}}, .refuse = "eps >= 0"},

    {.op = "layernorm",
     .in = {OT_F(5, 7), OT_F(7), OT_F(7)},
     .attr = {.f = {1e-5}},
     .right = right_layernorm,
     .tol = 2e-6},
    {.op = "layernorm",
     .in = {OT_F(40, 37), OT_F(37), OT_NO},
     .attr = {.f = {1e-5}},
     .right = right_layernorm,
     .tol = 2e-6},
    {.op = "layernorm",
     .in = {OT_F(2, 3, 8), OT_NO, OT_NO},
     .attr = {.f = {0.1}},
     .right = right_layernorm,
     .tol = 2e-6},
    {.op = "layernorm",
     .in = {OT_F(5, 7), OT_F(7), OT_F(1, 7)},
     .refuse = "expected b of shape [7]"},

    {.op = "l2_normalize", .in = {OT_F(5, 7)}, .attr = {.f = {1e-6}}, .right = right_l2},
    {.op = "l2_normalize", .in = {OT_F(5, 7)}, .attr = {.f = {30}}, .right = right_l2},
    {.op = "l2_normalize", .in = {OT_F(40, 33)}, .attr = {.f = {0.5}}, .right = right_l2},

    {.op = "rope",
     .in = {OT_F(5, 16), OT_I(0, 9, 5)},
     .attr = {.i = {8, 2, 1}, .f = {10000}},
     .right = right_rope},
    {.op = "rope",
     .in = {OT_F(5, 16), OT_I(0, 4000, 5)},
     .attr = {.i = {6, 2, 0}, .f = {10000}},
     .right = right_rope},
    {.op = "rope",
     .in = {OT_F(5, 40), OT_I(0, 4000, 5)},
     .attr = {.i = {40, 1, 1, 1}, .f = {500}},
     .right = right_rope},
    {.op = "rope",
     .in = {OT_F(5, 16), OT_I(0, 9, 5)},
     .attr = {.i = {7, 2, 1}, .f = {10000}},
     .refuse = "even number of rotated columns"},
    {.op = "rope",
     .in = {OT_F(5, 26), OT_I(0, 4000, 5), OT_POS(3)},
     .attr = {.i = {12, 2, 0, 0, 4, 6}, .f = {10000, 1.3}},
     .right = right_rope,
     .still = 4},
    {.op = "rope",
     .in = {OT_F(5, 24), OT_I(0, 4000, 5), OT_POS(4)},
     .attr = {.i = {12, 2, 1, 1, 0, 8}, .f = {500}},
     .right = right_rope,
     .still = 4},
    {.op = "rope",
     .in = {OT_F(5, 16), OT_I(0, 9, 5), OT_POS(3)},
     .attr = {.i = {8, 2, 1}, .f = {10000}},
     .refuse = "factor of shape [4]"},
    {.op = "rope",
     .in = {OT_F(5, 16), OT_I(0, 9, 5)},
     .attr = {.i = {8, 2, 1, 0, 4, 6}, .f = {10000}},
     .refuse = "turned"},
    {.op = "rope",
     .in = {OT_F(5, 16), OT_I(0, 9, 5)},
     .attr = {.i = {8, 3, 1}, .f = {10000}},
     .refuse = "x [N, >= 24]"},
    {.op = "rope",
     .in = {OT_F(5, 16), OT_I(0, 9, 4)},
     .attr = {.i = {8, 2, 1}, .f = {10000}},
     .refuse = "position of shape [5]"},
    {.op = "rope",
     .in = {OT_F(5, 16), OT_I(0, 9, 5)},
     .attr = {.i = {8, 2, 1}},
     .refuse = "theta"},

    {.op = "cache_append",
     .in = {OT_F(12, 3), OT_F(4, 3), OT_I(0, 4, 2)},
     .right = right_append,
     .exact = true},
    {.op = "cache_append",
     .in = {OT_F(12, 3), OT_F(4, 3), OT_I(5, 5, 2)},
     .fails = MF_ERUN,
     .refuse = "sequence 0: expected 2 rows within a cache of 6"},
    {.op = "cache_append",
     .in = {OT_F(12, 3), OT_F(4, 2), OT_I(0, 4, 2)},
     .refuse = "expected cache [B S,w]"},
    {.op = "cache_append",
     .in = {OT_F(2, 3), OT_F(4, 3), OT_I(0, 4, 2)},
     .refuse = "expected cache [B S,w]"},

    {.op = "embedding",
     .in = {OT_F(9, 4), OT_I(0, 8, 3, 5)},
     .right = right_embedding,
     .exact = true},
    {.op = "embedding",
     .in = {OT_F(3, 50), OT_I(0, 2, 40)},
     .right = right_embedding,
     .exact = true},
    {.op = "embedding",
     .in = {OT_F(9, 4), OT_I(9, 9, 3, 5)},
     .fails = MF_EINPUT,
     .refuse = "token 0: expected an id in 0 .. 8, found 9"},
    {.op = "embedding",
     .in = {OT_F(9, 4), OT_I(-1, -1, 3)},
     .fails = MF_EINPUT,
     .refuse = "token 0: expected an id in 0 .. 8, found -1"},
    {.op = "embedding", .in = {OT_F(9), OT_I(0, 8, 3)}, .refuse = "expected table of rank 2"},

    {.op = "cross_entropy",
     .in = {OT_F(5, 7), OT_I(0, 6, 5), OT_NO},
     .n_out = 3,
     .right = right_cross_entropy,
     .flow = 3},
    {.op = "cross_entropy",
     .in = {OT_F(5, 7), OT_INDICES(some, 5), OT_POS(5)},
     .n_out = 3,
     .right = right_cross_entropy},
    {.op = "cross_entropy",
     .in = {OT_F(5, 7), OT_INDICES(some, 5), OT_NO},
     .n_out = 3,
     .right = right_cross_entropy,
     .flow = 2},
    {.op = "cross_entropy",
     .in = {OT_F(5, 7), OT_INDICES(nobody, 5), OT_POS(5)},
     .n_out = 3,
     .right = right_cross_entropy},
    {.op = "cross_entropy",
     .in = {OT_F(30, 200), OT_I(-2, 199, 30), OT_POS(30)},
     .n_out = 3,
     .right = right_cross_entropy},
    {.op = "cross_entropy",
     .in = {OT_F(5, 7), OT_I(0, 6, 5), OT_NO},
     .n_out = 3,
     .flow = 5,
     .fails = MF_ENOGRAD,
     .refuse = "no gradient can pass through the third output"},
    {.op = "cross_entropy",
     .in = {OT_F(5, 7), OT_INDICES(beyond, 5), OT_NO},
     .fails = MF_EINPUT,
     .refuse = "row 2: expected a target below 7, found 7"},
    {.op = "cross_entropy",
     .in = {OT_F(5, 7), OT_I(0, 6, 4), OT_NO},
     .refuse = "expected target of shape [5]"},
    {.op = "cross_entropy",
     .in = {OT_F(5, 7), OT_I(0, 6, 5), OT_F(7)},
     .refuse = "expected weight of shape [5]"},

    {.op = "linear_cross_entropy",
     .in = {OT_F(5, 4), OT_F(7, 4), OT_F(7), OT_I(0, 6, 5), OT_NO},
     .attr = {.i = {7}},
     .n_out = 4,
     .right = right_linear_cross_entropy,
     .tol = 1e-5},
    {.op = "linear_cross_entropy",
     .in = {OT_F(5, 4), OT_F(7, 4), OT_F(7), OT_I(0, 6, 5), OT_NO},
     .attr = {.i = {0}},
     .n_out = 2,
     .right = right_linear_cross_entropy,
     .tol = 1e-5},
    {.op = "linear_cross_entropy",
     .in = {OT_F(5, 4), OT_F(7, 4), OT_NO, OT_INDICES(some, 5), OT_POS(5)},
     .attr = {.i = {3}},
     .n_out = 3,
     .right = right_linear_cross_entropy,
     .tol = 1e-5},
    {.op = "linear_cross_entropy",
     .in = {OT_F(5, 4), OT_F(7, 4), OT_NO, OT_INDICES(some, 5), OT_POS(5)},
     .attr = {.i = {0}},
     .n_out = 2,
     .right = right_linear_cross_entropy,
     .tol = 1e-5},
    {.op = "linear_cross_entropy",
     .in = {OT_F(5, 4), OT_F(7, 4), OT_F(7), OT_INDICES(nobody, 5), OT_POS(5)},
     .attr = {.i = {7}},
     .n_out = 4,
     .right = right_linear_cross_entropy,
     .tol = 1e-5},
    {.op = "linear_cross_entropy",
     .in = {OT_F(300, 9), OT_F(200, 9), OT_F(200), OT_I(-2, 199, 300), OT_POS(300)},
     .attr = {.i = {7}},
     .n_out = 4,
     .right = right_linear_cross_entropy,
     .tol = 1e-5},
    {.op = "linear_cross_entropy",
     .in = {OT_F(300, 9), OT_F(200, 9), OT_F(200), OT_I(0, 199, 300), OT_NO},
     .attr = {.i = {5}},
     .n_out = 3,
     .right = right_linear_cross_entropy,
     .tol = 1e-5},
    {.op = "linear_cross_entropy",
     .in = {OT_F(300, 9), OT_F(200, 9), OT_NO, OT_I(-2, 199, 300), OT_POS(300)},
     .attr = {.i = {3, 0, 1}},
     .n_out = 4,
     .right = right_linear_cross_entropy,
     .tol = 1e-5},
    {.op = "linear_cross_entropy",
     .in = {OT_F(5, 4), OT_F(7, 4), OT_F(7), OT_I(0, 6, 5), OT_NO},
     .attr = {.i = {7, 0, 1}},
     .refuse = "expected row losses beside one or two gradients"},
    {.op = "linear_cross_entropy", /* the rows need two chunks */
     .in = {OT_F(1500, 3), OT_F(200, 3), OT_F(200), OT_I(-2, 199, 1500), OT_NO},
     .attr = {.i = {7}},
     .n_out = 4,
     .right = right_linear_cross_entropy,
     .tol = 1e-5},
    {.op = "linear_cross_entropy",
     .in = {OT_F(5, 4), OT_F(7, 4), OT_NO, OT_I(0, 6, 5), OT_NO},
     .n_out = 2,
     .flow = 2,
     .fails = MF_ENOGRAD,
     .refuse = "no gradient can pass through the losses of the rows"},
    {.op = "linear_cross_entropy",
     .in = {OT_F(5, 4), OT_F(7, 4), OT_NO, OT_INDICES(beyond, 5), OT_NO},
     .fails = MF_EINPUT,
     .refuse = "row 2: expected a target below 7, found 7"},
    {.op = "linear_cross_entropy",
     .in = {OT_F(5, 4), OT_F(7, 3), OT_NO, OT_I(0, 6, 5), OT_NO},
     .refuse = "expected w [V,in] with V >= 1 and in = 4"},
    {.op = "linear_cross_entropy",
     .in = {OT_F(5, 4), OT_F(7, 4), OT_NO, OT_I(0, 6, 5), OT_NO},
     .attr = {.i = {7}},
     .refuse = "expected b, whose gradient is wanted"},

    {.op = "swiglu", .in = {OT_F(3, 2, 5), OT_F(3, 2, 5)}, .right = right_swiglu},
    {.op = "swiglu", .in = {OT_F(4, 6), OT_NO}, .right = right_swiglu},
    {.op = "swiglu", .in = {OT_F(70, 74), OT_NO}, .right = right_swiglu},
    {.op = "swiglu",
     .in = {OT_F(3, 2, 5), OT_F(3, 2, 5), OT_F(3, 2, 1)},
     .right = right_swiglu},
    {.op = "swiglu", .in = {OT_F(70, 74), OT_NO, OT_F(70, 1)}, .right = right_swiglu},
    {.op = "swiglu",
     .in = {OT_F(4, 6), OT_NO, OT_F(4)},
     .refuse = "expected gate of shape [4,1]"},
    {.op = "swiglu", .in = {OT_F(4, 7), OT_NO}, .refuse = "rows of even length"},
    {.op = "swiglu", .in = {OT_F(4, 6), OT_F(4, 3)}, .refuse = "expected b of shape [4,6]"},
    {0},
};
