/* Losses of routers and regularizers: they must be the same in evaluation as in training, and
 * means over real tokens. So they depend neither on number and length of sequences nor
 * on padding. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "kernels/kernel.h"
#include "lab/check/checks.h"

enum { LOSSES = MF_ROUTING_MAX_LOSSES * MF_HARNESS_LAYERS + 1 };

/* The losses of a run: first those of the routers, layer by layer, then the loss of
 * a regularizer. */
typedef struct losses {
    int n;
    double value[LOSSES];
    const char *name[LOSSES];
    bool dropped; /* the plugin draws random numbers, so nothing can be compared */
} losses;

static void add(losses *l, const mf_tensor *t, const char *name)
{
    const float *v = t ? mf_tensor_host(t) : NULL;
    if (!v || l->n == LOSSES) return;
    l->name[l->n] = name;
    l->value[l->n++] = (double)*v;
}

static void read_losses(const mf_harness *h, losses *ret)
{
    for (int32_t l = 0; l < h->spec.layers; l++)
        for (int32_t i = 0; i < h->out[l].routing.n_losses; i++)
            add(ret, h->out[l].routing.loss[i], h->out[l].routing.loss_name[i]);
    add(ret, h->penalty, "the penalty");
}

/* Copies all tokens of sequence s of `from` to sequence t of `to`, `times` times in a row. The
 * sequences of `to` may be longer; the positions after the copies become padding. */
static void copy_sequence(mf_harness *to, int32_t t, const mf_harness *from, int32_t s,
                          int32_t times)
{
    const struct {
        mf_tensor *to, *from;
        int64_t width;
    } rows[] = {{to->x, from->x, from->spec.dim},
                {to->in.token_ids, from->in.token_ids, 1},
                {to->in.positions, from->in.positions, 1},
                {to->in.labels, from->in.labels, 1}};
    const int64_t n = from->spec.seq, m = to->spec.seq;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *x = rows[i].to ? mf_tensor_input(rows[i].to) : NULL;
        const char *y = rows[i].from ? mf_tensor_host(rows[i].from) : NULL;
        const int64_t w = rows[i].width * 4;
        for (int32_t k = 0; x && y && k < times; k++)
            memcpy(x + (t * m + k * n) * w, y + s * n * w, (size_t)(n * w));
    }
    float *mask = to->in.mask ? mf_tensor_input(to->in.mask) : NULL;
    for (int64_t i = 0; mask && i < m; i++)
        mask[t * m + i] = i < n * times ? 1 : 0;
}

/* Runs a harness on the tokens of `from`. The tokens are repeated if the harness has more or
 * longer sequences. */
static int run_on(const mf_harness_spec *spec, const mf_harness *from, losses *ret)
{
    mf_harness *h = NULL;
    mf_draws d;
    *ret = (losses){0};
    int rc = mf_check_harness(spec, &h, &d);
    for (int32_t b = 0; rc == MF_OK && b < spec->batch; b++)
        copy_sequence(h, b, from, b % from->spec.batch, spec->seq / from->spec.seq);
    if (rc == MF_OK) rc = mf_harness_run(h, &mf_kernels_ref);
    if (rc == MF_OK) read_losses(h, ret);
    ret->dropped = d.other || (d.dropout && spec->training);
    mf_harness_free(h);
    return rc;
}

static mf_verdict same(const losses *a, const losses *b, const char *what, const char *advice,
                       char detail[MF_CHECK_DETAIL])
{
    if (a->dropped || b->dropped || a->n != b->n)
        return MF_CHECK_PASS; /* drawn numbers, or losses that exist only in training */
    for (int i = 0; i < a->n; i++) {
        if (mf_check_close(a->value[i], b->value[i], 1e-4)) continue;
        return mf_check_failed(detail, "its loss '%s' is %.6g, and %.6g %s: %s", a->name[i],
                               a->value[i], b->value[i], what, advice);
    }
    return MF_CHECK_PASS;
}

/* Compares losses of batches that contain the same tokens 1, 2, 4 and 8 times. A mean does not
 * change. A loss that compares tokens with one another may grow by the logarithm of
 * their number. */
static mf_verdict by_batch(const losses all[4], char detail[MF_CHECK_DETAIL])
{
    for (int i = 0; i < all[0].n; i++) {
        double v[4];
        for (int j = 0; j < 4; j++)
            v[j] = i < all[j].n && !all[j].dropped ? all[j].value[i] : all[0].value[i];
        const double first = v[1] - v[0], last = v[3] - v[2], off = fabs(v[3] - v[0]);
        if (off <= 0.02 * fabs(v[0]) + 1e-6) continue;
        if (fabs(last - first) <= 0.3 * fabs(first)) continue;
        return mf_check_failed(detail,
                               "its loss '%s' is %.6g, and with the same tokens 2, 4 and 8 "
                               "times in the batch %.6g, %.6g and %.6g: expected a mean over "
                               "tokens",
                               all[0].name[i], v[0], v[1], v[2], v[3]);
    }
    return MF_CHECK_PASS;
}

/* Compares losses of texts that contain their tokens 1, 2, 4 and 8 times. A router that reads
 * earlier tokens may compute other losses there. So the check fails only if a loss grows faster
 * than a logarithm, or is halved. */
static mf_verdict by_length(const losses all[4], char detail[MF_CHECK_DETAIL])
{
    for (int i = 0; i < all[0].n; i++) {
        double v[4];
        for (int j = 0; j < 4; j++) {
            if (i >= all[j].n || all[j].dropped) return MF_CHECK_PASS;
            v[j] = all[j].value[i];
        }
        const double a = v[1] - v[0], b = v[2] - v[1], c = v[3] - v[2];
        const bool grows = fabs(v[3] - v[0]) > 0.1 * fabs(v[0]) + 1e-6 && b / a > 1.3 &&
                           c / b > 1.3 && c / a > 2;
        bool halves = true;
        for (int j = 1; j < 4; j++)
            halves = halves && fabs(v[j - 1]) > 1e-6 && fabs(v[j] / v[j - 1] - 0.5) < 0.15;
        if (!grows && !halves) continue;
        return mf_check_failed(detail,
                               "its loss '%s' is %.6g, and with texts of the same tokens 2, 4 "
                               "and 8 times as long %.6g, %.6g and %.6g: expected a mean over "
                               "tokens",
                               all[0].name[i], v[0], v[1], v[2], v[3]);
    }
    return MF_CHECK_PASS;
}

static mf_verdict compare(mf_harness_spec spec, const mf_harness *from,
                          char detail[MF_CHECK_DETAIL])
{
    const bool balances = spec.plugin->kind == MF_ROUTER &&
                          (spec.plugin->table.router.flags & MF_ROUTER_TRAIN_BATCH) != 0;
    losses all[4], other;
    const int32_t batch = spec.batch, seq = spec.seq;
    int rc = MF_OK;
    for (int i = 0; i < 4 && rc == MF_OK; i++) {
        spec.batch = batch << i;
        rc = run_on(&spec, from, &all[i]);
    }
    if (rc != MF_OK) return mf_check_broke(detail, "with more sequences");
    mf_verdict v =
        balances || mf_check_looks_ahead(spec.plugin) ? MF_CHECK_PASS : by_batch(all, detail);
    spec.batch = batch;
    for (int i = 1; i < 4 && rc == MF_OK; i++) {
        spec.seq = seq << i;
        rc = run_on(&spec, from, &all[i]);
    }
    if (rc != MF_OK) return mf_check_broke(detail, "with longer texts");
    if (v == MF_CHECK_PASS && !balances && !mf_check_looks_ahead(spec.plugin))
        v = by_length(all, detail);
    spec.seq = seq;
    spec.training = false;
    rc = run_on(&spec, from, &other);
    if (rc != MF_OK) return mf_check_broke(detail, "in evaluation");
    if (v == MF_CHECK_PASS && !balances)
        v = same(&all[0], &other, "in evaluation", "expected one rule for both", detail);
    spec.training = true;
    spec.seq = seq + 5;
    rc = run_on(&spec, from, &other);
    if (rc != MF_OK) return mf_check_broke(detail, "with more padding");
    if (v == MF_CHECK_PASS && !mf_check_looks_ahead(spec.plugin) && !balances)
        v = same(&all[0], &other, "with 5 tokens of padding behind each sequence",
                 "expected only real tokens to count", detail);
    return v;
}

mf_verdict mf_check_losses(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    if (plugin->kind == MF_CONTROLLER)
        return mf_check_skip(detail, "a controller adds nothing to the graph");
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *from = NULL;
    spec.training = true;
    spec.masked = true;
    spec.shaken = 1;
    spec.longest = 8 * spec.seq;
    int rc = mf_harness_new(&spec, &from);
    if (rc == MF_OK) rc = mf_harness_run(from, &mf_kernels_ref);
    if (rc != MF_OK) return mf_check_broke(detail, "in training");
    losses own = {0};
    read_losses(from, &own);
    mf_verdict v = own.n > 0 ? compare(spec, from, detail) : MF_CHECK_PASS;
    mf_harness_free(from);
    if (v != MF_CHECK_PASS) return v;
    if (own.n == 0) return mf_check_skip(detail, "it has none");
    snprintf(detail, MF_CHECK_DETAIL,
             "the same in evaluation, for the same tokens 2 to 8 times in batch or text, and "
             "with more padding");
    return MF_CHECK_PASS;
}
