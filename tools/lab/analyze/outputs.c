/* What the experts of a layer compute for the same tokens. The layer of the model is built in a
 * graph of its own, whose input is the recorded input of its router: with routing forced to one
 * expert after another, with gates of 1 and of 0 (what shared experts add), and with the
 * router's own choice. */
#include "lab/analyze/outputs.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"

/* ---- comparison ---- */

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The mean over tokens t of cos(a_t, b_other(t)); other NULL: the same token. */
static double cosine(const float *a, const float *b, const int32_t *other, int32_t n,
                     int64_t dim)
{
    double sum = 0;
    for (int32_t t = 0; t < n; t++) {
        const float *x = a + t * dim, *y = b + (other ? other[t] : t) * dim;
        sum += dot(x, y, dim) / sqrt(dot(x, x, dim) * dot(y, y, dim));
    }
    return sum / n;
}

/* dot of all pairs of tokens of one expert, after the mean token was subtracted: [n,n].
 * Centring rows and columns of f f' gives the same. */
static void gram(const float *f, int32_t n, int64_t dim, double *k, double *mean)
{
    double all = 0;
    for (int32_t t = 0; t < n; t++)
        for (int32_t u = 0; u <= t; u++)
            k[t * n + u] = k[u * n + t] = dot(f + t * dim, f + u * dim, dim);
    for (int32_t t = 0; t < n; t++) {
        mean[t] = 0;
        for (int32_t u = 0; u < n; u++)
            mean[t] += k[t * n + u] / n;
        all += mean[t] / n;
    }
    for (int32_t t = 0; t < n; t++)
        for (int32_t u = 0; u < n; u++)
            k[t * n + u] += all - mean[t] - mean[u];
}

/* |Yj' Yi|^2 = sum over pairs of tokens of both Gram matrices; other: as in cosine. */
static double alike(const double *a, const double *b, const int32_t *other, int32_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int32_t t = 0; t < n; t++)
        for (int32_t u = 0; u < n; u++) {
            const double x = a[t * n + u],
                         y = other ? b[other[t] * n + other[u]] : b[t * n + u];
            ab += x * y;
            aa += x * x;
            bb += y * y;
        }
    return ab / sqrt(aa * bb);
}

int mf_outputs_compare(const float *f, int32_t experts, int32_t n, int64_t dim, mf_arena *arena,
                       mf_expert_outputs *ret)
{
    const int64_t E = experts, square = (int64_t)n * n;
    double *k = mf_alloc((size_t)(E * square) + (size_t)n, sizeof *k), most = -INFINITY;
    int32_t *other = mf_alloc((size_t)n, sizeof *other);
    *ret = (mf_expert_outputs){.experts = experts, .tokens = n, .first = -1, .second = -1};
    ret->cosine = mf_arena_alloc(arena, (size_t)E * (size_t)E * sizeof *ret->cosine);
    ret->cka = mf_arena_alloc(arena, (size_t)E * (size_t)E * sizeof *ret->cka);
    const bool done = k && other && ret->cosine && ret->cka;
    if (done) {
        mf_rng_permutation(1, mf_rng_stream("analyze.outputs"), 0, other, (size_t)n);
        for (int64_t e = 0; e < E; e++)
            gram(f + e * n * dim, n, dim, k + e * square, k + E * square);
    }
    for (int64_t i = 0; done && i < E; i++)
        for (int64_t j = i; j < E; j++) {
            const float *a = f + i * n * dim, *b = f + j * n * dim;
            const double c = cosine(a, b, NULL, n, dim);
            ret->cosine[i * E + j] = ret->cosine[j * E + i] = c;
            ret->cka[i * E + j] = ret->cka[j * E + i] =
                alike(k + i * square, k + j * square, NULL, n);
            if (i == j) continue;
            const double pairs = (double)(E * (E - 1)) / 2;
            ret->cosine_chance += cosine(a, b, other, n, dim) / pairs;
            ret->cka_chance += alike(k + i * square, k + j * square, other, n) / pairs;
            if (!(c > most)) continue;
            most = c;
            ret->first = (int32_t)i;
            ret->second = (int32_t)j;
        }
    mf_free(k);
    mf_free(other);
    return done ? MF_OK : MF_ENOMEM;
}

/* ---- the layer in a graph of its own ---- */

typedef struct {
    mf_graph *g;
    mf_router_in in;
    mf_moe_out out;
    int64_t T, dim;
} part;

static int build(mf_model *m, int i, const mf_trace *t, const mf_moe_forced *forced, part *p)
{
    const mf_moe_layer *layer = &m->moe[i];
    const mf_graph_options options = {.bf16 = m->options.bf16, .device = m->options.device};
    const mf_shape rows = mf_shape1((int64_t)t->rows * t->seq);
    p->T = rows.dim[0];
    p->dim = t->layers[i].x->shape[1];
    p->g = mf_graph_new(&options);
    if (!p->g) return MF_ENOMEM;
    mf_plughost_forget(m->plugins, p->g);
    p->in = (mf_router_in){.size = sizeof p->in,
                           .batch = t->rows,
                           .seq = t->seq,
                           .experts = layer->config.experts,
                           .top_k = (int32_t)*layer->top_k};
    p->in.x = mf_graph_input(p->g, "x", MF_F32, mf_shape2(p->T, p->dim));
    p->in.mask = mf_graph_input(p->g, "mask", MF_F32, rows);
    p->in.token_ids = mf_graph_input(p->g, "token_ids", MF_I32, rows);
    p->in.positions = mf_graph_input(p->g, "positions", MF_I32, rows);
    p->in.sequence_ids = mf_graph_input(p->g, "sequence_ids", MF_I32, rows);
    if (m->dims.labels > 0) p->in.labels = mf_graph_input(p->g, "labels", MF_I32, rows);
    const mf_moe_settings settings = {.config = &layer->config,
                                      .plugins = m->plugins,
                                      .labels = m->dims.labels,
                                      .ranks = &m->expert_ranks,
                                      .forced = forced};
    int rc = mf_moe_build(layer, &settings, p->g, &p->in, &p->out);
    if (rc == MF_OK) mf_graph_keep(p->out.y);
    return rc == MF_OK ? mf_graph_finish(p->g) : rc;
}

/* Fills the inputs that the graph reads. */
static int fill(const part *p, const mf_trace *t, int i)
{
    void *x = NULL;
    float *to = mf_tensor_input(p->in.x), *mask = mf_tensor_input(p->in.mask);
    int32_t *ids = mf_tensor_input(p->in.token_ids),
            *positions = mf_tensor_input(p->in.positions),
            *sequences = mf_tensor_input(p->in.sequence_ids),
            *labels = p->in.labels ? mf_tensor_input(p->in.labels) : NULL;
    const int rc = mf_trace_read(t, t->layers[i].x, &x);
    if (rc == MF_OK && to) memcpy(to, x, (size_t)(p->T * p->dim) * sizeof *to);
    for (int64_t k = 0; k < p->T; k++) {
        const bool real = t->token[k] >= 0;
        if (mask) mask[k] = real;
        if (ids) ids[k] = real ? t->token[k] : 0;
        if (positions) positions[k] = real ? t->position[k] : (int32_t)(k % t->seq);
        if (sequences) sequences[k] = (int32_t)(k / t->seq);
        if (labels) labels[k] = t->label ? t->label[k] : -1;
    }
    mf_free(x);
    return rc;
}

/* Runs the layer with all tokens at one expert. */
static int run_expert(const part *p, int32_t e, float gate)
{
    const mf_run run = {.seed = 1, .forward_only = true};
    const mf_moe_choice *to = &p->out.forced;
    int32_t *chosen = mf_tensor_input(to->chosen), *admitted = mf_tensor_input(to->admitted);
    float *gates = mf_tensor_input(to->gate);
    for (int64_t k = 0; k < p->T; k++) {
        if (chosen) chosen[k] = e;
        if (admitted) admitted[k] = e;
        if (gates) gates[k] = gate;
    }
    return mf_graph_run(p->g, &run);
}

/* Chooses at most MF_OUTPUT_TOKENS tokens that are no padding, evenly spread. */
static int32_t choose_tokens(const mf_trace *t, int64_t T, int64_t place[MF_OUTPUT_TOKENS])
{
    int64_t all = 0, seen = 0;
    int32_t n = 0;
    for (int64_t k = 0; k < T; k++)
        all += t->token[k] >= 0;
    const int64_t wanted = all < MF_OUTPUT_TOKENS ? all : MF_OUTPUT_TOKENS;
    for (int64_t k = 0; k < T && n < wanted; k++) {
        if (t->token[k] < 0) continue;
        if (seen++ * wanted / all == n) place[n++] = k;
    }
    return n;
}

/* Fills f [E, n, dim]: what each expert adds, after what the layer adds without any
 * was subtracted. */
static int all_experts(const part *p, int32_t E, int32_t n, const int64_t *place, float *base,
                       float *f)
{
    const size_t bytes = (size_t)p->dim * sizeof(float);
    int rc = run_expert(p, 0, 0);
    const float *y = rc == MF_OK ? mf_tensor_host(p->out.y) : NULL;
    for (int32_t k = 0; y && k < n; k++)
        memcpy(base + k * p->dim, y + place[k] * p->dim, bytes);
    for (int32_t e = 0; rc == MF_OK && e < E; e++) {
        rc = run_expert(p, e, 1);
        y = rc == MF_OK ? mf_tensor_host(p->out.y) : NULL;
        if (rc == MF_OK && !y) rc = mf_error_code();
        for (int64_t k = 0; rc == MF_OK && k < n; k++)
            for (int64_t d = 0; d < p->dim; d++)
                f[(e * n + k) * p->dim + d] = y[place[k] * p->dim + d] - base[k * p->dim + d];
    }
    return rc;
}

static int forced_outputs(mf_model *m, int i, const mf_trace *t, mf_arena *arena,
                          mf_expert_outputs *ret)
{
    part p = {0};
    int64_t place[MF_OUTPUT_TOKENS];
    const int32_t E = t->layers[i].experts;
    const mf_moe_forced forced = {.rows = t->rows * t->seq};
    float *f = NULL, *base = NULL;
    int rc = build(m, i, t, &forced, &p);
    if (rc == MF_OK) rc = fill(&p, t, i);
    const int32_t n = rc == MF_OK ? choose_tokens(t, p.T, place) : 0;
    if (rc == MF_OK) {
        f = mf_alloc((size_t)E * (size_t)n * (size_t)p.dim + 1, sizeof *f);
        base = mf_alloc((size_t)n * (size_t)p.dim + 1, sizeof *base);
        rc = f && base ? all_experts(&p, E, n, place, base, f) : MF_ENOMEM;
    }
    if (rc == MF_OK) rc = mf_outputs_compare(f, E, n, p.dim, arena, ret);
    mf_free(f);
    mf_free(base);
    mf_graph_free(p.g);
    return rc;
}

/* Keeps values of the layer's output with the router's own choice. */
static int own_output(mf_model *m, int i, const mf_trace *t, mf_arena *arena,
                      mf_expert_outputs *ret)
{
    const mf_run run = {.seed = 1, .forward_only = true};
    part p = {0};
    double sum = 0, squares = 0, n = 0;
    int rc = build(m, i, t, NULL, &p);
    if (rc == MF_OK) rc = fill(&p, t, i);
    if (rc == MF_OK) rc = mf_graph_run(p.g, &run);
    const float *y = rc == MF_OK ? mf_tensor_host(p.out.y) : NULL;
    const int64_t all = p.T * p.dim;
    const uint64_t stream = mf_rng_stream("analyze.values");
    ret->n_values = all < MF_OUTPUT_VALUES ? (int32_t)all : MF_OUTPUT_VALUES;
    if (y) ret->values = mf_arena_alloc(arena, (size_t)ret->n_values * sizeof *ret->values);
    if (rc == MF_OK && (!y || !ret->values)) rc = MF_ENOMEM;
    for (int64_t k = 0; rc == MF_OK && k < all; k++) {
        if (t->token[k / p.dim] < 0) continue;
        sum += (double)y[k];
        squares += (double)y[k] * (double)y[k];
        n++;
    }
    int32_t kept = 0;
    for (int32_t k = 0; rc == MF_OK && k < ret->n_values; k++) {
        const int64_t at = (int64_t)mf_rng_below(1, stream, 0, (uint64_t)k, (uint64_t)all);
        if (t->token[at / p.dim] >= 0) ret->values[kept++] = (double)y[at];
    }
    ret->n_values = kept;
    ret->sd = n > 0 ? sqrt(fmax(0, squares / n - sum / n * (sum / n))) : (double)NAN;
    mf_graph_free(p.g);
    return rc;
}

int mf_expert_outputs_of(mf_model *m, int i, const mf_trace *t, mf_arena *arena,
                         mf_expert_outputs *ret)
{
    if (!t->layers[i].x)
        return mf_fail(MF_EINPUT, "%s: layer %d: no recorded inputs", mf_st_path(t->file),
                       (int)t->layers[i].layer);
    int rc = forced_outputs(m, i, t, arena, ret);
    return rc == MF_OK ? own_output(m, i, t, arena, ret) : rc;
}
