/* Cases of check_ops: attention, and norms of rows grouped by expert. Expected values follow
 * the formulas of ops.h in double. */
#include <math.h>

#include "op_case.h"

static void right_attention(ot_run *r)
{
    bool packed = !r->in[1].f;
    int64_t batch = r->attr->i[0], h = r->attr->i[1], kv = r->attr->i[2];
    int64_t ld = r->in[0].shape.dim[1], hd = ld / (packed ? h + 2 * kv : h);
    int64_t nt = r->in[0].shape.dim[0] / batch;
    int64_t ldk = packed ? ld : kv * hd;
    int64_t ns = packed ? nt : r->in[1].shape.dim[0] / batch;
    const float *keys = packed ? r->in[0].f + h * hd : r->in[1].f;
    const float *values = packed ? keys + kv * hd : r->in[2].f;
    for (int64_t i = 0; i < batch * nt * h; i++) {
        int64_t row = i / h, b = row / nt, t = row % nt, head = i % h, mate = head / (h / kv);
        int64_t len = r->in[4].i ? r->in[4].i[b] : ns;
        double sum = 0;
        for (int64_t j = 0; j < hd; j++)
            r->out[0].want[i * hd + j] = 0;
        for (int64_t s = 0; s < len; s++) {
            double score = 0;
            if (r->attr->i[3] && s > len - nt + t) continue;
            if (r->attr->i[4] && s <= len - nt + t - r->attr->i[4]) continue;
            if (r->attr->i[5] && s < r->in[5].i[row]) continue;
            if (r->in[3].f && r->in[3].f[b * ns + s] == 0) continue;
            for (int64_t j = 0; j < hd; j++)
                score += (double)r->in[0].f[row * ld + head * hd + j] *
                         keys[(b * ns + s) * ldk + mate * hd + j];
            double e = exp(r->attr->f[0] * score);
            sum += e;
            for (int64_t j = 0; j < hd; j++)
                r->out[0].want[i * hd + j] += e * values[(b * ns + s) * ldk + mate * hd + j];
        }
        for (int64_t j = 0; j < hd && sum > 0; j++)
            r->out[0].want[i * hd + j] /= sum;
        r->out[1].want[i] = log(sum);
    }
}

static const float holes[] = {1, 0, 1, 1, 1,
                              0, 0, 0, 0, 0}; /* all keys of the second sequence are masked */
static const int32_t lengths[] = {3, 5}, too_long[] = {3, 6}, firsts[] = {0, 1, 2, 0, 3, 3};

/* Whether assignment p of expert e attends to key s. */
static bool grouped_sees(const ot_run *r, int64_t p, int64_t e, int64_t s)
{
    if (r->attr->i[3]) return s >= r->in[2].i[e] && s < r->in[2].i[e + 1];
    int64_t S = r->in[1].shape.dim[0] / r->attr->i[0], token = r->in[3].i[p];
    return s / S == token / S && (!r->in[4].f || r->in[4].f[s] != 0) &&
           (!r->attr->i[2] || s <= token);
}

static void right_grouped_attention(ot_run *r)
{
    int64_t rows = r->in[0].shape.dim[0], width = r->in[0].shape.dim[1], h = r->attr->i[1];
    int64_t ld = r->in[1].shape.dim[1], keys = r->in[1].shape.dim[0], hd = width / h;
    int64_t experts = r->in[2].count - 1;
    for (int64_t i = 0; i < rows * h; i++) {
        int64_t p = i / h, e = 0, at = i % h * hd;
        double sum = 0;
        while (e < experts && r->in[2].i[e + 1] <= p)
            e++;
        for (int64_t j = 0; j < hd; j++)
            r->out[0].want[i * hd + j] = 0;
        r->out[1].want[i] = 0;
        if (e == experts) continue;
        for (int64_t s = 0; s < keys; s++) {
            const float *k = r->in[1].f + s * ld + (r->attr->i[3] ? 0 : e * 2 * width) + at;
            double score = 0;
            if (!grouped_sees(r, p, e, s)) continue;
            for (int64_t j = 0; j < hd; j++)
                score += (double)r->in[0].f[p * width + at + j] * k[j];
            double w = exp(r->attr->f[0] * score);
            sum += w;
            for (int64_t j = 0; j < hd; j++)
                r->out[0].want[i * hd + j] += w * k[width + j];
        }
        for (int64_t j = 0; j < hd && sum > 0; j++)
            r->out[0].want[i * hd + j] /= sum;
        r->out[1].want[i] = log(sum);
    }
}

static void right_grouped_layernorm(ot_run *r)
{
    int64_t n = r->in[0].shape.dim[1], experts = r->in[1].count - 1;
    for (int64_t i = 0; i < r->out[0].count; i++) {
        const float *row = r->in[0].f + i / n * n;
        int64_t e = 0;
        double mean = 0, var = 0;
        while (e < experts && r->in[1].i[e + 1] <= i / n)
            e++;
        for (int64_t j = 0; j < n; j++)
            mean += row[j] / (double)n;
        for (int64_t j = 0; j < n; j++)
            var += (row[j] - mean) * (row[j] - mean) / (double)n;
        double z = (r->in[0].f[i] - mean) / sqrt(var + r->attr->f[0]);
        r->out[0].want[i] = e < experts && i / n >= r->in[1].i[0]
                                ? z * r->in[2].f[e * n + i % n] + r->in[3].f[e * n + i % n]
                                : 0;
    }
}

/* Three experts, the second without assignments, and two sequences of five tokens. */
static const int32_t groups[] = {0, 6, 6, 10}, falling[] = {0, 6, 4, 10},
                     late[] = {1, 6, 6, 10};
static const int32_t members[] = {0, 1, 4, 5, 8, 9, 2, 4, 7, 7, -1, -1};
static const int32_t disorder[] = {0, 1, 4, 5, 8, 9, 4, 2, 7, 7, -1, -1};
static const float gap[] = {1, 0, 1, 1, 1, 1, 1, 0, 1, 1};

const mf_op_row mf_op_cases_attention[] = {
    {.op = "attention",
     .in = {OT_F(10, 8), OT_NO, OT_NO, OT_NO, OT_NO},
     .attr = {.i = {2, 2, 1, 1}, .f = {0.7}},
     .n_out = 2,
     .right = right_attention,
     .tol = 2e-6},
    {.op = "attention",
     .in = {OT_F(6, 8), OT_F(10, 4), OT_F(10, 4), OT_NUMBERS(holes, 10), OT_NO},
     .attr = {.i = {2, 4, 2, 0}, .f = {0.5}},
     .n_out = 2,
     .right = right_attention,
     .tol = 2e-6},
    {.op = "attention",
     .in = {OT_F(6, 6), OT_F(10, 3), OT_F(10, 3), OT_NO, OT_INDICES(lengths, 2)},
     .attr = {.i = {2, 2, 1, 1}, .f = {0.5}},
     .n_out = 2,
     .right = right_attention,
     .tol = 2e-6},
    {.op = "attention",
     .in = {OT_F(6, 6), OT_F(10, 3), OT_F(10, 3), OT_NO, OT_INDICES(lengths, 2),
            OT_INDICES(firsts, 6)},
     .attr = {.i = {2, 2, 1, 1, 0, 1}, .f = {0.5}},
     .n_out = 2,
     .right = right_attention,
     .tol = 2e-6},
    {.op = "attention",
     .in = {OT_F(6, 6), OT_F(10, 3), OT_F(10, 3), OT_NO, OT_NO, OT_INDICES(firsts, 6)},
     .attr = {.i = {2, 2, 1, 1, 2, 1}, .f = {0.5}},
     .refuse = "since"},
    {.op = "attention",
     .in = {OT_F(300, 24), OT_NO, OT_NO, OT_NO, OT_NO},
     .attr = {.i = {1, 1, 1, 1}, .f = {0.35}},
     .n_out = 2,
     .right = right_attention,
     .tol = 3e-6},
    {.op = "attention", /* with a gradient of lse */
     .in = {OT_F(10, 8), OT_NO, OT_NO, OT_NO, OT_NO},
     .attr = {.i = {2, 2, 1, 1}, .f = {0.7}},
     .n_out = 2,
     .right = right_attention,
     .tol = 2e-6,
     .flow = 3},
    {.op = "attention",
     .in = {OT_F(300, 24), OT_NO, OT_NO, OT_NO, OT_NO},
     .attr = {.i = {1, 1, 1, 1, 70}, .f = {0.35}},
     .n_out = 2,
     .right = right_attention,
     .tol = 3e-6,
     .flow = 3},
    {.op = "attention",
     .in = {OT_F(6, 6), OT_F(10, 3), OT_F(10, 3), OT_NUMBERS(holes, 10), OT_NO},
     .attr = {.i = {2, 2, 1, 1, 2}, .f = {0.5}},
     .n_out = 2,
     .right = right_attention,
     .tol = 2e-6},
    {.op = "attention",
     .in = {OT_F(10, 8), OT_NO, OT_NO, OT_NO, OT_NO},
     .attr = {.i = {2, 2, 1, 1}, .f = {0.7}},
     .n_out = 2,
     .flow = 2,
     .fails = MF_ENOGRAD,
     .refuse = "expected a gradient of y, found one of lse alone"},
    {.op = "attention",
     .in = {OT_F(2, 3 * 577), OT_NO, OT_NO, OT_NO, OT_NO},
     .attr = {.i = {1, 1, 1}},
     .refuse = "expected head_dim <= 576, found 577"},
    {.op = "attention",
     .in = {OT_F(6, 6), OT_F(10, 3), OT_F(10, 3), OT_NO, OT_NO},
     .attr = {.i = {2, 2, 1, 1, -1}, .f = {0.5}},
     .refuse = "window"},
    {.op = "attention",
     .in = {OT_F(6, 6), OT_F(10, 3), OT_F(10, 3), OT_NO, OT_INDICES(too_long, 2)},
     .attr = {.i = {2, 2, 1, 1}, .f = {0.5}},
     .fails = MF_EPLUGIN,
     .refuse = "expected kv_len in 0 .. 5, found 6"},
    {.op = "attention",
     .in = {OT_F(6, 6), OT_F(10, 6), OT_F(10, 6), OT_NO, OT_NO},
     .attr = {.i = {2, 3, 2, 0}},
     .refuse = "multiple of kv_heads"},
    {.op = "attention",
     .in = {OT_F(6, 6), OT_F(10, 6), OT_NO, OT_NO, OT_NO},
     .attr = {.i = {2, 3, 3, 0}},
     .refuse = "k and v, or neither"},
    {.op = "attention",
     .in = {OT_F(7, 6), OT_F(10, 6), OT_F(10, 6), OT_NO, OT_NO},
     .attr = {.i = {2, 3, 3, 0}},
     .refuse = "expected q [2 T, 3 head_dim], found [7,6]"},
    {.op = "attention",
     .in = {OT_F(6, 6), OT_F(10, 5), OT_F(10, 5), OT_NO, OT_NO},
     .attr = {.i = {2, 3, 3, 0}},
     .refuse = "expected k [2 S, 6], found [10,5]"},
    {.op = "attention",
     .in = {OT_F(6, 6), OT_F(10, 6), OT_F(10, 6), OT_F(9), OT_NO},
     .attr = {.i = {2, 3, 3, 0}},
     .refuse = "expected mask of shape [10]"},

    {.op = "grouped_attention",
     .in = {OT_F(12, 6), OT_F(10, 36), OT_INDICES(groups, 4), OT_INDICES(members, 12), OT_NO},
     .attr = {.i = {2, 2, 0, 0}, .f = {0.5}},
     .n_out = 2,
     .right = right_grouped_attention,
     .tol = 2e-6},
    {.op = "grouped_attention",
     .in = {OT_F(12, 6), OT_F(10, 36), OT_INDICES(groups, 4), OT_INDICES(members, 12),
            OT_NUMBERS(gap, 10)},
     .attr = {.i = {2, 3, 1, 0}, .f = {0.5}},
     .n_out = 2,
     .right = right_grouped_attention,
     .tol = 2e-6},
    {.op = "grouped_attention",
     .in = {OT_F(12, 6), OT_F(12, 12), OT_INDICES(groups, 4), OT_INDICES(members, 12), OT_NO},
     .attr = {.i = {2, 1, 0, 1}, .f = {0.5}},
     .n_out = 2,
     .right = right_grouped_attention,
     .tol = 2e-6},
    {.op = "grouped_attention",
     .in = {OT_F(12, 6), OT_F(10, 36), OT_INDICES(groups, 4), OT_INDICES(members, 12), OT_NO},
     .attr = {.i = {2, 2, 0, 0}, .f = {0.5}},
     .n_out = 2,
     .flow = 3,
     .fails = MF_ENOGRAD,
     .refuse = "no gradient can pass through the second output"},
    {.op = "grouped_attention",
     .in = {OT_F(12, 6), OT_F(10, 36), OT_INDICES(late, 4), OT_INDICES(members, 12), OT_NO},
     .attr = {.i = {2, 2, 0, 0}},
     .n_out = 2,
     .fails = MF_EPLUGIN,
     .refuse = "expected row in 0 .. 0, found 1"},
    {.op = "grouped_attention",
     .in = {OT_F(12, 6), OT_F(10, 36), OT_INDICES(falling, 4), OT_INDICES(members, 12), OT_NO},
     .attr = {.i = {2, 2, 0, 0}},
     .fails = MF_EPLUGIN,
     .refuse = "found offset[2] = 4"},
    {.op = "grouped_attention",
     .in = {OT_F(12, 6), OT_F(10, 36), OT_INDICES(groups, 4), OT_INDICES(disorder, 12), OT_NO},
     .attr = {.i = {2, 2, 0, 0}},
     .fails = MF_EPLUGIN,
     .refuse = "row 1 of expert 2: expected tokens in rising order in 0 .. 9, found 2"},
    {.op = "grouped_attention",
     .in = {OT_F(12, 6), OT_F(10, 24), OT_INDICES(groups, 4), OT_INDICES(members, 12), OT_NO},
     .attr = {.i = {2, 2, 0, 0}},
     .refuse = "expected kv [2 S,36], found [10,24]"},
    {.op = "grouped_attention",
     .in = {OT_F(12, 6), OT_F(12, 12), OT_INDICES(groups, 4), OT_INDICES(members, 12),
            OT_F(10)},
     .attr = {.i = {2, 1, 0, 1}},
     .refuse = "expected no mask"},
    {.op = "grouped_layernorm",
     .in = {OT_F(12, 7), OT_INDICES(groups, 4), OT_F(3, 7), OT_F(3, 7)},
     .attr = {.f = {1e-5}},
     .right = right_grouped_layernorm,
     .tol = 2e-6},
    {.op = "grouped_layernorm",
     .in = {OT_F(70, 32), OT_GROUPS(5, 70), OT_F(5, 32), OT_F(5, 32)},
     .attr = {.f = {0.1}},
     .right = right_grouped_layernorm,
     .tol = 2e-6},
    {.op = "grouped_layernorm",
     .in = {OT_F(70, 32), OT_PART(5, 20, 70), OT_F(5, 32), OT_F(5, 32)},
     .attr = {.f = {0.1}},
     .right = right_grouped_layernorm,
     .tol = 2e-6},
    {.op = "grouped_layernorm",
     .in = {OT_F(12, 7), OT_INDICES(groups, 4), OT_F(3, 7), OT_F(7)},
     .refuse = "expected b of shape [3,7]"},
    {.op = "grouped_layernorm",
     .in = {OT_F(12, 7), OT_INDICES(groups, 4), OT_F(3, 7), OT_F(3, 7)},
     .attr = {.f = {INFINITY}},
     .refuse = "expected eps >= 0, found inf"},
    {.op = "grouped_layernorm",
     .in = {OT_F(12, 7), OT_INDICES(falling, 4), OT_F(3, 7), OT_F(3, 7)},
     .fails = MF_EPLUGIN,
     .refuse = "found offset[2] = 4"},
    {0},
};
