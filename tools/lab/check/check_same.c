/* Results that must be equal: in a second run, with other numbers of threads, in another batch,
 * with other later tokens, with other padding, with an inactive head, and after a restart. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/thread/parallel.h"
#include "kernels/kernel.h"
#include "lab/check/checks.h"
#include "plugin/host.h"

/* ---- determinism ---- */

static void hash_x(const mf_harness *harness, char out[33])
{
    const size_t n = (size_t)mf_shape_count(harness->x->shape);
    mf_hash_bytes(mf_tensor_host(harness->x), n * sizeof(float), out);
}

/* Builds a harness and runs it `times` times. hash: digest of the last run; *ret_kept: whether
 * the runs left x unchanged. */
static int digest_of(const mf_harness_spec *spec, int times, char hash[33], bool *ret_kept)
{
    mf_harness *harness = NULL;
    char before[33] = "", after[33] = "";
    int rc = mf_harness_new(spec, &harness);
    if (rc == MF_OK) hash_x(harness, before);
    for (int i = 0; i < times && rc == MF_OK; i++)
        rc = mf_harness_run(harness, NULL);
    if (rc == MF_OK) hash_x(harness, after);
    *ret_kept = strcmp(before, after) == 0;
    if (rc == MF_OK && harness->controller) rc = mf_harness_after(harness);
    if (rc == MF_OK) mf_harness_digest(harness, hash);
    mf_harness_free(harness);
    return rc;
}

/* Routing, outputs, losses and gradients must have the same bits in a new graph, in a second
 * run of one graph, and with 1, 2 and 4 threads. */
mf_verdict mf_check_determinism(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    static const struct {
        int threads, times;
    } ways[] = {{1, 1}, {1, 1}, {1, 2}, {2, 1}, {4, 1}, {4, 2}};
    const int threads = mf_parallel_threads();
    char first[33] = "", hash[33];
    mf_verdict v = MF_CHECK_PASS;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && v == MF_CHECK_PASS; i++) {
        mf_harness_spec spec = mf_check_spec(plugin);
        spec.batch = 4, spec.seq = 96, spec.dim = 32;
        mf_check_sizes(&spec, 8, spec.top_k);
        spec.training = spec.gradients = true;
        mf_parallel_set_threads(ways[i].threads);
        bool kept;
        if (digest_of(&spec, ways[i].times, hash, &kept) != MF_OK)
            v = mf_check_broke(detail, "in a larger batch");
        else if (!kept)
            v = mf_check_failed(detail, "x changed while the graph ran: an op wrote into its "
                                        "input");
        else if (i > 0 && strcmp(first, hash) != 0)
            v = mf_check_failed(detail,
                                "expected the same bits as with one thread, found others: %d "
                                "threads, run %d",
                                ways[i].threads, ways[i].times);
        memcpy(first, i == 0 ? hash : first, sizeof first);
    }
    mf_parallel_set_threads(threads);
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL, "the same bits again and with 1, 2 and 4 threads");
    return v;
}

/* ---- routing and output of one token in two harnesses ---- */

bool mf_check_close(double a, double b, double tolerance)
{
    return (isnan(a) && isnan(b)) || a == b ||
           fabs(a - b) <= tolerance * fmax(1, fmax(fabs(a), fabs(b)));
}

static bool close_to(float a, float b, double tolerance)
{
    return mf_check_close((double)a, (double)b, tolerance);
}

bool mf_check_same_token(const mf_harness *a, int64_t t, const mf_harness *b, int64_t u,
                         double tolerance, char *why, size_t size)
{
    const int64_t d = a->spec.dim, E = a->spec.experts;
    for (int32_t l = 0; l < a->spec.layers; l++) {
        const mf_routing *ra = &a->out[l].routing, *rb = &b->out[l].routing;
        const float *pa = ra->prob ? mf_tensor_host(ra->prob) : NULL;
        const float *pb = rb->prob ? mf_tensor_host(rb->prob) : NULL;
        for (int64_t e = 0; pa && pb && e < E; e++) {
            if (close_to(pa[t * E + e], pb[u * E + e], tolerance)) continue;
            snprintf(why, size, "probability of expert %d: %.8g and %.8g", (int)e,
                     (double)pa[t * E + e], (double)pb[u * E + e]);
            return false;
        }
        const int32_t *ca = mf_tensor_host(ra->chosen), *cb = mf_tensor_host(rb->chosen);
        const int64_t k = !ra->token ? ra->rows / ra->tokens : 0;
        for (int64_t j = 0; j < k; j++) {
            if (ca[t * k + j] == cb[u * k + j]) continue;
            snprintf(why, size, "choice %d: expert %d and expert %d", (int)j,
                     (int)ca[t * k + j], (int)cb[u * k + j]);
            return false;
        }
    }
    const float *ya = mf_tensor_host(a->y), *yb = mf_tensor_host(b->y);
    for (int64_t j = 0; j < d; j++) {
        if (close_to(ya[t * d + j], yb[u * d + j], 10 * tolerance)) continue;
        snprintf(why, size, "output %d: %.8g and %.8g", (int)j, (double)ya[t * d + j],
                 (double)yb[u * d + j]);
        return false;
    }
    return true;
}

/* Copies the inputs of sequence s of `from` to sequence t of `to`. If the sequences of `to` are
 * shorter, only their length is copied. */
static void copy_sequence(mf_harness *to, int32_t t, const mf_harness *from, int32_t s)
{
    const size_t seq = (size_t)to->spec.seq, d = (size_t)from->spec.dim;
    const size_t a = (size_t)s * (size_t)from->spec.seq, b = (size_t)t * seq;
    const struct {
        mf_tensor *to, *from;
        size_t width;
    } rows[] = {{to->x, from->x, d},
                {to->weights, from->weights, d},
                {to->in.token_ids, from->in.token_ids, 1},
                {to->in.positions, from->in.positions, 1},
                {to->in.labels, from->in.labels, 1},
                {to->in.mask, from->in.mask, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *x = rows[i].to ? mf_tensor_input(rows[i].to) : NULL;
        const char *y = rows[i].from ? mf_tensor_host(rows[i].from) : NULL;
        const size_t bytes = rows[i].width * 4;
        if (x && y) memcpy(x + b * bytes, y + a * bytes, seq * bytes);
    }
}

bool mf_check_looks_ahead(const mf_loaded *p)
{
    return (p->kind == MF_ROUTER && (p->table.router.flags & MF_ROUTER_NOT_CAUSAL) != 0) ||
           (p->kind == MF_EXPERT && (p->table.expert.flags & MF_EXPERT_NOT_CAUSAL) != 0);
}

/* Hook for ops that the plugin adds. It records the random ops. */
static mf_tensor *see_random(void *arg, mf_graph *g, const mf_opdef *def, int n_in,
                             mf_tensor *const *in, const mf_attr *attr, int n_out,
                             mf_tensor **ret_out)
{
    mf_draws *d = arg;
    if ((def->flags & MF_OP_RANDOM) != 0)
        *(strcmp(def->name, "dropout") == 0 ? &d->dropout : &d->other) = true;
    return mf_graph_op(g, def, n_in, in, attr, n_out, ret_out);
}

int mf_check_harness(const mf_harness_spec *spec, mf_harness **ret, mf_draws *ret_draws)
{
    *ret_draws = (mf_draws){false, false};
    mf_plugin_hook_ops(see_random, ret_draws);
    int rc = mf_harness_new(spec, ret);
    mf_plugin_hook_ops(NULL, NULL);
    return rc;
}

mf_verdict mf_check_skip(char detail[MF_CHECK_DETAIL], const char *why)
{
    snprintf(detail, MF_CHECK_DETAIL, "%s", why);
    return MF_CHECK_SKIP;
}

/* ---- batch split ---- */

/* In evaluation, routing and output of a sequence must be the same, up to rounding, in any
 * batch and at any index in the batch. */
mf_verdict mf_check_batch_split(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    static const int32_t halves[2][2] = {{3, 0}, {1, 2}};
    if (plugin->kind == MF_REGULARIZER)
        return mf_check_skip(detail, "a regularizer sees the whole batch");
    if (plugin->kind == MF_CONTROLLER)
        return mf_check_skip(detail, "a controller adds nothing to the graph");
    if (mf_check_looks_ahead(plugin))
        return mf_check_skip(detail, "it says that it looks at other tokens");
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *whole = NULL, *half = NULL;
    mf_draws random;
    mf_verdict v = MF_CHECK_PASS;
    char why[200];
    spec.batch = 4;
    int rc = mf_check_harness(&spec, &whole, &random);
    if (rc == MF_OK) rc = mf_harness_run(whole, &mf_kernels_ref);
    spec.batch = 2;
    if (rc == MF_OK) rc = mf_harness_new(&spec, &half);
    if (rc == MF_OK && random.other)
        v = mf_check_skip(detail, "it draws random numbers for each place");
    if (rc == MF_OK && mf_harness_sees_sequences(whole))
        v = mf_check_skip(detail, "it says that it looks at other tokens");
    for (int h = 0; h < 2 && rc == MF_OK && v == MF_CHECK_PASS; h++) {
        copy_sequence(half, 0, whole, halves[h][0]);
        copy_sequence(half, 1, whole, halves[h][1]);
        rc = mf_harness_run(half, &mf_kernels_ref);
        for (int64_t t = 0; t < 2 * spec.seq && rc == MF_OK && v == MF_CHECK_PASS; t++) {
            const int64_t of = (int64_t)halves[h][t / spec.seq] * spec.seq + t % spec.seq;
            if (!mf_check_same_token(half, t, whole, of, 1e-5, why, sizeof why))
                v = mf_check_failed(detail,
                                    "token %d of a batch of 4 routed alone and with others: %s",
                                    (int)of, why);
        }
    }
    mf_harness_free(whole);
    mf_harness_free(half);
    if (rc != MF_OK) return mf_check_broke(detail, "in evaluation");
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL, "a batch of 4 equals two of 2, in another order");
    return v;
}

/* ---- causality ---- */

/* Copies x, ids and labels of the first `keep` tokens of each sequence of a to b. */
static void copy_beginnings(mf_harness *b, const mf_harness *a, int32_t keep)
{
    const int32_t seq = a->spec.seq, dim = a->spec.dim;
    float *x = mf_tensor_input(b->x);
    const float *of = mf_tensor_host(a->x);
    int32_t *ids = mf_tensor_input(b->in.token_ids), *labels = mf_tensor_input(b->in.labels);
    const int32_t *ids_of = mf_tensor_host(a->in.token_ids),
                  *labels_of = mf_tensor_host(a->in.labels);
    for (int64_t t = 0; t < (int64_t)a->spec.batch * seq; t++) {
        if (t % seq >= keep) continue;
        memcpy(x + t * dim, of + t * dim, (size_t)dim * sizeof *x);
        if (ids && ids_of) ids[t] = ids_of[t];
        if (labels && labels_of) labels[t] = labels_of[t];
    }
}

/* Runs two harnesses whose sequences agree in the first `keep` tokens and differ in later
 * tokens. *ret_sees: the adapter declares that it reads other tokens, and nothing was run.
 * *ret_changed: index of the first equal token whose results differ; -1: none. */
static int later_tokens(const mf_harness_spec *spec, int32_t keep, bool *ret_sees,
                        int32_t *ret_changed, char *why, size_t size)
{
    mf_harness *a = NULL, *b = NULL;
    mf_draws d;
    int rc = mf_check_harness(spec, &a, &d);
    if (rc == MF_OK) rc = mf_harness_new(spec, &b);
    *ret_changed = -1;
    *ret_sees = rc == MF_OK && mf_harness_sees_sequences(a);
    /* The random numbers of an expert depend on the index of an assignment in its input, and
     * other tokens determine this index. So experts that use random numbers are not compared
     * in training. */
    const bool by_row =
        spec->plugin->kind == MF_EXPERT && spec->training && (d.dropout || d.other);
    const bool go = !*ret_sees && !by_row;
    if (rc == MF_OK && go) rc = mf_harness_run(a, &mf_kernels_ref);
    if (rc == MF_OK && go) {
        mf_harness_fill(b, 99);
        copy_beginnings(b, a, keep);
        rc = mf_harness_run(b, &mf_kernels_ref);
    }
    for (int32_t t = 0; rc == MF_OK && go && t < spec->batch * spec->seq && *ret_changed < 0;
         t++)
        if (t % spec->seq < keep && !mf_check_same_token(a, t, b, t, 1e-6, why, size))
            *ret_changed = t;
    mf_harness_free(a);
    mf_harness_free(b);
    return rc;
}

/* Like later_tokens, but the second harness has sequences that end after the first
 * `keep` tokens. */
static int no_later_tokens(const mf_harness_spec *spec, int32_t keep, int32_t *ret_changed,
                           char *why, size_t size)
{
    mf_harness *a = NULL, *b = NULL;
    mf_harness_spec less = *spec;
    mf_draws d;
    less.seq = keep;
    less.longest = spec->seq;
    int rc = mf_check_harness(spec, &a, &d);
    const bool go = rc == MF_OK && !mf_harness_sees_sequences(a) && !d.other;
    if (rc == MF_OK) rc = mf_harness_new(&less, &b);
    for (int32_t s = 0; rc == MF_OK && s < spec->batch; s++)
        copy_sequence(b, s, a, s);
    if (rc == MF_OK && go) rc = mf_harness_run(a, &mf_kernels_ref);
    if (rc == MF_OK && go) rc = mf_harness_run(b, &mf_kernels_ref);
    *ret_changed = -1;
    for (int32_t t = 0; rc == MF_OK && go && t < spec->batch * keep && *ret_changed < 0; t++)
        if (!mf_check_same_token(a, t / keep * spec->seq + t % keep, b, t, 1e-5, why, size))
            *ret_changed = t;
    mf_harness_free(a);
    mf_harness_free(b);
    return rc;
}

/* Compares for one length of sequences. The first `keep` tokens stay the same. *ret_sees: like
 * in later_tokens. */
static mf_verdict look_back(const mf_harness_spec *spec, int32_t keep, bool *ret_sees,
                            char detail[MF_CHECK_DETAIL])
{
    char why[200], when[80];
    int32_t changed;
    snprintf(when, sizeof when, "in %s, sequences of %d",
             spec->training ? "training" : "evaluation", (int)spec->seq);
    if (later_tokens(spec, keep, ret_sees, &changed, why, sizeof why) != MF_OK)
        return mf_check_broke(detail, when);
    if (changed >= 0)
        return mf_check_failed(
            detail,
            "%s, token %d changed when only later ones did (a plugin that looks ahead "
            "has to say %s): %s",
            when, (int)changed,
            spec->training ? "MF_ROUTER_TRAIN_BATCH"
                           : "MF_ROUTER_NOT_CAUSAL or MF_EXPERT_NOT_CAUSAL",
            why);
    if (spec->training || *ret_sees) return MF_CHECK_PASS;
    if (no_later_tokens(spec, keep, &changed, why, sizeof why) != MF_OK)
        return mf_check_broke(detail, when);
    if (changed < 0) return MF_CHECK_PASS;
    return mf_check_failed(detail,
                           "%s, token %d differs when the sequence ends after %d tokens: %s",
                           when, (int)changed, (int)keep, why);
}

/* Later tokens must not change the results of earlier tokens, in evaluation and in training, in
 * short and in long sequences. Plugins that declare such an influence are exempt. */
mf_verdict mf_check_causality(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    enum { WHAT = 4000, LENGTHS = 3 };
    const int lengths = mf_check_thorough() ? 12 : LENGTHS;
    if (plugin->kind == MF_REGULARIZER || plugin->kind == MF_CONTROLLER)
        return mf_check_skip(detail, "asked of routers, experts and adapters only");
    if (mf_check_looks_ahead(plugin))
        return mf_check_skip(
            detail, "it says that it looks ahead (MF_ROUTER_NOT_CAUSAL, MF_EXPERT_NOT_CAUSAL)");
    if (mf_check_spec(plugin).any_order)
        return mf_check_skip(detail, "it needs a model that is no decoder (model.causal = no)");
    const bool balances =
        plugin->kind == MF_ROUTER && (plugin->table.router.flags & MF_ROUTER_TRAIN_BATCH) != 0;
    for (int i = 0; i < 2 * lengths; i++) {
        mf_harness_spec spec = mf_check_spec(plugin);
        bool sees;
        spec.training = i % 2 == 1;
        if (spec.training && balances) continue;
        if (i >= 2) spec.seq = i < 4 ? 72 : mf_check_number(i / 2, WHAT, 97, 200);
        mf_verdict v = look_back(&spec, spec.seq / 2, &sees, detail);
        if (v == MF_CHECK_PASS && sees)
            return mf_check_skip(detail,
                                 "it says that it looks at other tokens (MF_ADAPTER_SEQUENCE)");
        const int32_t near = spec.seq - mf_check_number(i, WHAT + 1, 1, 3);
        if (v == MF_CHECK_PASS) v = look_back(&spec, near, &sees, detail);
        if (v != MF_CHECK_PASS) return v;
    }
    snprintf(detail, MF_CHECK_DETAIL,
             "later tokens do not change earlier ones, in evaluation%s",
             balances ? "; in training the batch is balanced" : " and training");
    return MF_CHECK_PASS;
}

/* ---- padding ---- */

static bool same_scalar(const mf_tensor *a, const mf_tensor *b)
{
    const float *x = a ? mf_tensor_host(a) : NULL, *y = b ? mf_tensor_host(b) : NULL;
    return !x || !y || close_to(*x, *y, 1e-5);
}

static mf_verdict compare_padded(const mf_harness *a, const mf_harness *b,
                                 char detail[MF_CHECK_DETAIL])
{
    const float *mask = mf_tensor_host(a->in.mask);
    char why[200];
    for (int64_t t = 0; t < (int64_t)a->spec.batch * a->spec.seq; t++)
        if (mask[t] != 0 && !mf_check_same_token(a, t, b, t, 1e-5, why, sizeof why))
            return mf_check_failed(detail, "token %d changed with the padding: %s", (int)t,
                                   why);
    if (!same_scalar(a->penalty, b->penalty))
        return mf_check_failed(detail,
                               "the loss changed with the padding: routing->mask says which "
                               "tokens count");
    for (int32_t l = 0; l < a->spec.layers; l++)
        for (int32_t i = 0; i < a->out[l].routing.n_losses; i++)
            if (!same_scalar(a->out[l].routing.loss[i], b->out[l].routing.loss[i]))
                return mf_check_failed(detail,
                                       "its loss '%s' changed with the padding: in->mask says "
                                       "which tokens count",
                                       a->out[l].routing.loss_name[i]);
    snprintf(detail, MF_CHECK_DETAIL, "padded tokens change neither real ones nor losses");
    return MF_CHECK_PASS;
}

/* The values of padding positions must not change real tokens or losses. */
mf_verdict mf_check_padding(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    if (plugin->kind == MF_CONTROLLER)
        return mf_check_skip(detail, "a controller adds nothing to the graph");
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *a = NULL, *b = NULL;
    spec.masked = spec.training = true;
    int rc = mf_harness_new(&spec, &a);
    if (rc == MF_OK) rc = mf_harness_new(&spec, &b);
    if (rc == MF_OK) rc = mf_harness_run(a, &mf_kernels_ref);
    if (rc == MF_OK) {
        const float *mask = mf_tensor_host(b->in.mask);
        float *x = mf_tensor_input(b->x);
        int32_t *ids = mf_tensor_input(b->in.token_ids),
                *labels = mf_tensor_input(b->in.labels);
        for (int64_t t = 0; t < (int64_t)spec.batch * spec.seq; t++) {
            if (!mask || mask[t] != 0) continue;
            for (int32_t j = 0; j < spec.dim; j++)
                x[t * spec.dim + j] = 3 - x[t * spec.dim + j];
            if (ids) ids[t] = (ids[t] + 7) % MF_HARNESS_VOCAB;
            if (labels) labels[t] = -1;
        }
        rc = mf_harness_run(b, &mf_kernels_ref);
    }
    mf_verdict v =
        rc == MF_OK ? compare_padded(a, b, detail) : mf_check_broke(detail, "with a mask");
    mf_harness_free(a);
    mf_harness_free(b);
    return v;
}

/* ---- inactive heads ---- */

/* Whether head 1 of q, k, v or heads has nearly equal values in layer 0 of two harnesses. all:
 * the harness with both heads, [T, 2 widths]; one: the harness with head 1 alone, [T, width].
 * why: describes the difference. */
static bool same_head(const mf_harness *all, const mf_harness *one, int part, char *why,
                      size_t size)
{
    static const char *const names[] = {"attention.q", "attention.k", "attention.v", "heads"};
    const int64_t T = (int64_t)all->spec.batch * all->spec.seq,
                  w = all->spec.dim / MF_HARNESS_HEADS;
    for (int32_t l = 0; l < all->spec.layers && l < 1; l++) {
        const float *a = mf_tensor_host(all->by_head[l][part]),
                    *b = mf_tensor_host(one->by_head[l][part]);
        for (int64_t i = 0; a && b && i < T * w; i++) {
            const float x = a[i / w * MF_HARNESS_HEADS * w + w + i % w];
            if (close_to(x, b[i], 1e-5)) continue;
            snprintf(why, size, "%s, token %lld, head 1: %.8g with head 0, %.8g without",
                     names[part], (long long)(i / w), (double)x, (double)b[i]);
            return false;
        }
    }
    return true;
}

/* If head 0 is inactive, the adapter receives only the values of head 1. It must return the
 * same values for head 1 as with both heads. */
mf_verdict mf_check_inactive(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    if (plugin->kind != MF_ADAPTER) return mf_check_skip(detail, "asked of adapters only");
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *all = NULL, *one = NULL;
    mf_verdict v = MF_CHECK_PASS;
    char why[200];
    spec.shaken = 1;
    int rc = mf_harness_new(&spec, &all);
    spec.one_head = true;
    if (rc == MF_OK) rc = mf_harness_new(&spec, &one);
    if (rc == MF_OK) rc = mf_harness_run(all, &mf_kernels_ref);
    if (rc == MF_OK) rc = mf_harness_run(one, &mf_kernels_ref);
    for (int part = 0; part < 4 && rc == MF_OK && v == MF_CHECK_PASS; part++)
        if (!same_head(all, one, part, why, sizeof why))
            v = mf_check_failed(detail, "head 0 is inactive (in->active lists the others): %s",
                                why);
    mf_harness_free(all);
    mf_harness_free(one);
    if (rc != MF_OK) return mf_check_broke(detail, "with an inactive head");
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL,
                 "a head is the same whether others are active or not");
    return v;
}

/* ---- save and restore ---- */

/* Steps from a copied state must have the same results as steps of the original. So all
 * relevant state must be in parameters, buffers and live options. */
mf_verdict mf_check_restore(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *a = NULL, *b = NULL;
    mf_verdict v = MF_CHECK_PASS;
    spec.training = spec.gradients = true;
    int rc = mf_harness_new(&spec, &a);
    for (int i = 0; i < 7 && rc == MF_OK; i++)
        rc = mf_harness_step(a);
    if (rc == MF_OK && mf_harness_not_finite(a) > 0)
        v = mf_check_failed(detail,
                            "after 7 steps: expected finite values everywhere, found "
                            "%lld that are not",
                            (long long)mf_harness_not_finite(a));
    if (rc == MF_OK) rc = mf_harness_new(&spec, &b);
    if (rc == MF_OK) mf_harness_copy_state(b, a);
    const int steps = mf_check_thorough() ? 1000 : 300;
    for (int i = 0; i < steps && rc == MF_OK && v == MF_CHECK_PASS; i++) {
        char one[33], two[33];
        rc = mf_harness_step(a);
        if (rc == MF_OK) rc = mf_harness_step(b);
        if (rc != MF_OK) break;
        mf_harness_digest(a, one);
        mf_harness_digest(b, two);
        if (strcmp(one, two) != 0)
            v = mf_check_failed(detail,
                                "step %d after the restart: expected the same bits, found "
                                "others; what has to survive belongs into a buffer",
                                i + 1);
    }
    mf_harness_free(a);
    mf_harness_free(b);
    if (rc != MF_OK) return mf_check_broke(detail, "in a training step");
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL, "%d steps after a restart have the same bits", steps);
    return v;
}
