/* Sums over a step. A step may have several micro-batches, on several ranks, and the
 * measurements of a plugin must cover the whole step. A tally does, however the step is
 * divided. A buffer that ops of a graph write contains only the data of one process, often only
 * of its last micro-batch. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "lab/check/checks.h"
#include "plugin/tallies.h"

enum { HALVES = 2, NEAR = 100000 /* 1 / tolerance of real sums */ };

/* A harness with the whole batch, and a harness with half of it. */
typedef struct pair {
    mf_harness *whole, *half;
    mf_draws draws;
} pair;

static void free_pair(pair *p)
{
    mf_harness_free(p->whole);
    mf_harness_free(p->half);
}

static int new_pair(const mf_loaded *plugin, bool masked, pair *ret)
{
    mf_harness_spec spec = mf_check_spec(plugin);
    *ret = (pair){0};
    spec.training = true;
    spec.masked = masked;
    int rc = mf_check_harness(&spec, &ret->half, &ret->draws);
    spec.batch *= HALVES;
    return rc == MF_OK ? mf_check_harness(&spec, &ret->whole, &ret->draws) : rc;
}

static void copy_part(mf_tensor *from, mf_tensor *to, int part)
{
    char *out = to ? mf_tensor_input(to) : NULL;
    const char *in = from ? mf_tensor_input(from) : NULL;
    const size_t bytes = to ? (size_t)mf_shape_count(to->shape) * 4 : 0;
    if (in && out) memcpy(out, in + bytes * (size_t)part, bytes);
}

/* Runs the half harness with one part of the whole batch, and counts the run. */
static int run_part(const pair *p, int part)
{
    copy_part(p->whole->x, p->half->x, part);
    copy_part(p->whole->weights, p->half->weights, part);
    copy_part(p->whole->in.mask, p->half->in.mask, part);
    copy_part(p->whole->in.token_ids, p->half->in.token_ids, part);
    copy_part(p->whole->in.labels, p->half->in.labels, part);
    const int rc = mf_harness_run(p->half, NULL);
    if (rc == MF_OK) mf_harness_count(p->half);
    return rc;
}

/* ---- what is compared ---- */

static bool same_number(double a, double b, bool exact)
{
    return exact ? a == b : mf_check_close(a, b, 1.0 / NEAR);
}

/* Whether two harnesses have the same tallies. why: names the first tally that differs. */
static bool same_tallies(const mf_harness *a, const mf_harness *b, char *why, size_t size)
{
    const double *x, *y;
    int64_t n, m;
    uint32_t flags, other;
    const char *name;
    for (int i = 0; (name = mf_tallies_at(a->host, i, &flags, &x, &n)) != NULL; i++) {
        if (!mf_tallies_at(b->host, i, &other, &y, &m) || n != m) return false;
        for (int64_t j = 0; j < n; j++) {
            if (same_number(x[j], y[j], (flags & MF_TALLY_WHOLE) != 0)) continue;
            snprintf(why, size, "tally %s, element %lld: %.9g and %.9g", name, (long long)j,
                     x[j], y[j]);
            return false;
        }
    }
    return true;
}

/* Name of the first buffer that differs between two harnesses; NULL: none. */
static const char *other_buffer(const mf_harness *a, const mf_harness *b, bool exact)
{
    for (int i = 0; i < mf_store_count(a->store); i++) {
        const mf_param *p = mf_store_at(a->store, i), *q = mf_store_find(b->store, p->name);
        const float *x = p->buffer ? mf_param_host(p) : NULL,
                    *y = x && q ? mf_param_host(q) : NULL;
        for (int64_t j = 0; y && j < p->count; j++)
            if (!same_number((double)x[j], (double)y[j], exact)) return p->name;
    }
    return NULL;
}

/* Whether the values of all tallies are whole numbers. *ret_n: number of tallies. */
static bool all_whole(const mf_harness *h, int *ret_n)
{
    const double *sum;
    int64_t count;
    uint32_t flags;
    bool whole = true;
    for (*ret_n = 0; mf_tallies_at(h->host, *ret_n, &flags, &sum, &count); ++*ret_n)
        whole &= (flags & MF_TALLY_WHOLE) != 0;
    return whole;
}

/* ---- tallies ---- */

/* Whether the halves of a batch are routed like the whole batch. */
static bool divides(const mf_loaded *plugin, const pair *p)
{
    if (plugin->kind == MF_ROUTER && plugin->table.router.flags & MF_ROUTER_TRAIN_BATCH)
        return false;
    return !p->draws.other && !p->draws.dropout && !p->whole->out[0].routing.token;
}

/* A batch at once, and its halves as two micro-batches, must have the same tallies, and the
 * same buffers after the step. */
static mf_verdict in_halves(const pair *p, bool whole, char detail[MF_CHECK_DETAIL])
{
    char why[240] = "their number";
    int rc = mf_harness_run(p->whole, NULL);
    if (rc == MF_OK) rc = mf_harness_after(p->whole);
    for (int i = 0; i < HALVES && rc == MF_OK; i++)
        rc = run_part(p, i);
    if (rc == MF_OK) rc = mf_harness_after(p->half);
    if (rc != MF_OK) return mf_check_broke(detail, "a step of two micro-batches");
    if (!same_tallies(p->whole, p->half, why, sizeof why))
        return mf_check_failed(detail,
                               "a batch at once, and its halves as two micro-batches: expected "
                               "the same sums, found %s: parts must add up over the tokens",
                               why);
    const char *name = other_buffer(p->whole, p->half, whole);
    if (!name) return MF_CHECK_PASS;
    return mf_check_failed(detail,
                           "a batch at once, and its halves as two micro-batches: expected the "
                           "same buffers after the step, found others in %s",
                           name);
}

/* Padded tokens must not count in any tally. */
static mf_verdict without_padding(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    pair p;
    char why[240] = "their number";
    int rc = new_pair(plugin, true, &p);
    if (rc == MF_OK) rc = mf_harness_run(p.whole, NULL);
    if (rc == MF_OK) {
        const int64_t d = p.whole->spec.dim;
        mf_harness_count(p.whole);
        mf_harness_count(p.half); /* now both harnesses have counted a step of
                                   * one micro-batch */
        const float *mask = mf_tensor_input(p.whole->in.mask);
        float *x = mf_tensor_input(p.whole->x);
        int32_t *ids = mf_tensor_input(p.whole->in.token_ids);
        const mf_tally_sums from = mf_tallies_sums(p.whole->host),
                            to = mf_tallies_sums(p.half->host);
        const mf_tally_numbers n = mf_tallies_numbers(p.whole->host);
        if (from.whole) memcpy(to.whole, from.whole, (size_t)n.whole * sizeof *to.whole);
        if (from.real) memcpy(to.real, from.real, (size_t)n.real * sizeof *to.real);
        for (int64_t t = 0; t < p.whole->spec.batch * p.whole->spec.seq; t++) {
            if (mask[t] != 0) continue;
            ids[t] = (ids[t] + 1) % MF_HARNESS_VOCAB;
            for (int64_t i = 0; i < d; i++)
                x[t * d + i] = 1 - 2 * x[t * d + i];
        }
        rc = mf_harness_run(p.whole, NULL);
        p.whole->micro = 0;
        mf_harness_count(p.whole);
    }
    const bool same = rc != MF_OK || same_tallies(p.whole, p.half, why, sizeof why);
    free_pair(&p);
    if (rc != MF_OK) return mf_check_broke(detail, "with padding");
    if (same) return MF_CHECK_PASS;
    return mf_check_failed(detail,
                           "other padding: expected the same sums, found %s: padding must not "
                           "count (multiply by the mask)",
                           why);
}

/* ---- buffers that ops write ---- */

/* Name of the first buffer that an op of the training graph writes; NULL: none. */
static const char *written_buffer(const mf_harness *h)
{
    for (int i = 0; i < mf_graph_nodes(h->g); i++) {
        const mf_node *node = mf_graph_node_at(h->g, i);
        const mf_tensor *to = node->n_in > 0 ? node->in[0] : NULL;
        if (!(node->op->flags & MF_OP_STATE) || node->backward || !to) continue;
        if (to->kind == MF_TENSOR_PARAM && to->param->buffer) return to->param->name;
    }
    return NULL;
}

/* Makes a step of both parts, `first` before the other. Sets *ret if the buffers then are the
 * same as after a step with only the last part. */
static int keeps_last(const mf_loaded *plugin, int first, bool *ret)
{
    pair both, last;
    int rc = new_pair(plugin, false, &both);
    if (rc == MF_OK) rc = run_part(&both, first);
    if (rc == MF_OK) rc = run_part(&both, 1 - first);
    if (rc == MF_OK) rc = mf_harness_after(both.half);
    int other = new_pair(plugin, false, &last);
    if (rc == MF_OK) rc = other;
    if (rc == MF_OK) rc = run_part(&last, 1 - first);
    if (rc == MF_OK) rc = mf_harness_after(last.half);
    if (rc == MF_OK) *ret = other_buffer(both.half, last.half, true) == NULL;
    free_pair(&both);
    free_pair(&last);
    return rc;
}

static mf_verdict judge_written(const mf_loaded *plugin, const char *name,
                                char detail[MF_CHECK_DETAIL])
{
    bool last[HALVES] = {false};
    for (int i = 0; i < HALVES; i++)
        if (keeps_last(plugin, i, &last[i]) != MF_OK)
            return mf_check_broke(detail, "a step of two micro-batches");
    if (last[0] && last[1])
        return mf_check_failed(detail,
                               "%s holds only the last micro-batch of a step: expected a tally "
                               "(mf->tally), whose sum is that of the step",
                               name);
    snprintf(detail, MF_CHECK_DETAIL,
             "%s adds up in one process only; with several ranks a run ends: make it a tally",
             name);
    return MF_CHECK_PASS;
}

mf_verdict mf_check_sums(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    pair p;
    char written[160] = "";
    int n = 0;
    mf_verdict v = MF_CHECK_PASS;
    const int rc = new_pair(plugin, false, &p);
    if (rc != MF_OK) {
        free_pair(&p);
        return mf_check_broke(detail, "in a training graph");
    }
    const char *name = written_buffer(p.half);
    const bool whole = all_whole(p.half, &n), compared = n > 0 && divides(plugin, &p);
    if (name) snprintf(written, sizeof written, "%s", name);
    if (compared) v = in_halves(&p, whole, detail);
    free_pair(&p);
    if (v == MF_CHECK_PASS && n > 0) v = without_padding(plugin, detail);
    if (v != MF_CHECK_PASS) return v;
    if (written[0] != '\0') return judge_written(plugin, written, detail);
    if (n == 0)
        snprintf(detail, MF_CHECK_DETAIL, "it has no tally, and no op writes a buffer");
    else if (compared)
        snprintf(detail, MF_CHECK_DETAIL,
                 "tallies: %d, the same for a batch and for its halves", n);
    else
        snprintf(detail, MF_CHECK_DETAIL,
                 "tallies: %d; a batch was not compared with its halves, which draw other "
                 "numbers or route otherwise",
                 n);
    return MF_CHECK_PASS;
}
