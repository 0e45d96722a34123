/* What must come out the same: again, at any number of threads, in another batch, with another
 * future, with other padding, after a restart. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "kernels/kernel.h"
#include "lab/checks.h"
#include "plugin/host.h"

/* ---- determinism ---- */

static void hash_x(const mf_rig *rig, char out[33])
{
    const size_t n = (size_t)mf_shape_count(rig->x->shape);
    mf_hash_bytes(mf_tensor_data(rig->x), n * sizeof(float), out);
}

/* Makes a rig of many tiles and runs it `times` times; the last run's digest, and whether x
 * still is what it was. */
static int digest_of(const mf_rig_spec *spec, int times, char hash[33], bool *ret_kept)
{
    mf_rig *rig = NULL;
    char before[33] = "", after[33] = "";
    int rc = mf_rig_new(spec, &rig);
    if (rc == MF_OK) hash_x(rig, before);
    for (int i = 0; i < times && rc == MF_OK; i++)
        rc = mf_rig_run(rig, NULL);
    if (rc == MF_OK) hash_x(rig, after);
    *ret_kept = strcmp(before, after) == 0;
    if (rc == MF_OK && rig->controller != NULL) rc = mf_rig_after(rig);
    if (rc == MF_OK) mf_rig_digest(rig, hash);
    mf_rig_free(rig);
    return rc;
}

/* The same bits again, in a second run of the same graph, and with 1, 2 and 4 threads: routing,
 * outputs, losses and gradients. */
mf_verdict mf_check_determinism(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    static const struct {
        int threads, times;
    } ways[] = {{1, 1}, {1, 1}, {1, 2}, {2, 1}, {4, 1}, {4, 2}};
    const int threads = mf_parallel_threads();
    char first[33] = "", hash[33];
    mf_verdict v = MF_CHECK_PASS;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && v == MF_CHECK_PASS; i++) {
        mf_rig_spec spec = mf_check_spec(plugin);
        spec.batch = 4, spec.seq = 96, spec.dim = 32, spec.experts = 8;
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

/* ---- one token's routing and output in two rigs ---- */

static bool close_to(float a, float b, double tolerance)
{
    return (isnan(a) && isnan(b)) ||
           fabs((double)a - (double)b) <=
               tolerance * fmax(1, fmax(fabs((double)a), fabs((double)b)));
}

/* Rows [n_a] of a against rows of b: token t of a is token u of b. Says what differs. */
static bool same_token(const mf_rig *a, int64_t t, const mf_rig *b, int64_t u, double tolerance,
                       char *why, size_t size)
{
    const int64_t d = a->spec.dim, E = a->spec.experts;
    for (int32_t l = 0; l < a->spec.layers; l++) {
        const mf_routing *ra = &a->out[l].routing, *rb = &b->out[l].routing;
        const float *pa = ra->prob ? mf_tensor_data(ra->prob) : NULL;
        const float *pb = rb->prob ? mf_tensor_data(rb->prob) : NULL;
        for (int64_t e = 0; pa && pb && e < E; e++) {
            if (close_to(pa[t * E + e], pb[u * E + e], tolerance)) continue;
            snprintf(why, size, "probability of expert %d: %.8g and %.8g", (int)e,
                     (double)pa[t * E + e], (double)pb[u * E + e]);
            return false;
        }
        const int32_t *ca = mf_tensor_data(ra->chosen), *cb = mf_tensor_data(rb->chosen);
        const int64_t k = ra->token == NULL ? ra->rows / ra->tokens : 0;
        for (int64_t j = 0; j < k; j++) {
            if (ca[t * k + j] == cb[u * k + j]) continue;
            snprintf(why, size, "choice %d: expert %d and expert %d", (int)j,
                     (int)ca[t * k + j], (int)cb[u * k + j]);
            return false;
        }
    }
    const float *ya = mf_tensor_data(a->y), *yb = mf_tensor_data(b->y);
    for (int64_t j = 0; j < d; j++) {
        if (close_to(ya[t * d + j], yb[u * d + j], 10 * tolerance)) continue;
        snprintf(why, size, "output %d: %.8g and %.8g", (int)j, (double)ya[t * d + j],
                 (double)yb[u * d + j]);
        return false;
    }
    return true;
}

/* Sequence s of `from` becomes sequence t of `to`. */
static void copy_sequence(mf_rig *to, int32_t t, const mf_rig *from, int32_t s)
{
    const size_t seq = (size_t)from->spec.seq, d = (size_t)from->spec.dim;
    const size_t a = (size_t)s * seq, b = (size_t)t * seq;
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
        char *x = rows[i].to != NULL ? mf_tensor_data(rows[i].to) : NULL;
        const char *y = rows[i].from != NULL ? mf_tensor_data(rows[i].from) : NULL;
        const size_t bytes = rows[i].width * 4;
        if (x != NULL && y != NULL) memcpy(x + b * bytes, y + a * bytes, seq * bytes);
    }
}

static bool looks_ahead(const mf_loaded *p)
{
    return p->kind == MF_ROUTER && (p->table.router.flags & MF_ROUTER_NOT_CAUSAL) != 0;
}

/* Does the plugin draw random numbers in evaluation too? Seen by the hook while a rig is
 * built. */
static mf_tensor *see_random(void *arg, mf_graph *g, const mf_opdef *def, int n_in,
                             mf_tensor *const *in, const mf_attr *attr, int n_out,
                             mf_tensor **ret_out)
{
    if ((def->flags & MF_OP_RANDOM) != 0 && strcmp(def->name, "dropout") != 0)
        *(bool *)arg = true;
    return mf_graph_op(g, def, n_in, in, attr, n_out, ret_out);
}

static int rig_and_randomness(const mf_rig_spec *spec, mf_rig **ret, bool *ret_random)
{
    *ret_random = false;
    mf_plugin_hook_ops(see_random, ret_random);
    int rc = mf_rig_new(spec, ret);
    mf_plugin_hook_ops(NULL, NULL);
    return rc;
}

static mf_verdict skip(char detail[MF_CHECK_DETAIL], const char *why)
{
    snprintf(detail, MF_CHECK_DETAIL, "%s", why);
    return MF_CHECK_SKIP;
}

/* ---- batch split ---- */

/* In evaluation a sequence is routed and computed the same in whatever batch it stands and
 * wherever it stands there. */
mf_verdict mf_check_batch_split(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    static const int32_t halves[2][2] = {{3, 0}, {1, 2}};
    if (plugin->kind == MF_REGULARIZER)
        return skip(detail, "a regularizer sees the whole batch");
    if (plugin->kind == MF_CONTROLLER)
        return skip(detail, "a controller adds nothing to the graph");
    if (looks_ahead(plugin)) return skip(detail, "it says that it looks at other tokens");
    mf_rig_spec spec = mf_check_spec(plugin);
    mf_rig *whole = NULL, *half = NULL;
    bool random;
    mf_verdict v = MF_CHECK_PASS;
    char why[200];
    spec.batch = 4;
    int rc = rig_and_randomness(&spec, &whole, &random);
    if (rc == MF_OK) rc = mf_rig_run(whole, &mf_kernels_ref);
    spec.batch = 2;
    if (rc == MF_OK) rc = mf_rig_new(&spec, &half);
    if (rc == MF_OK && random) v = skip(detail, "it draws random numbers for each place");
    for (int h = 0; h < 2 && rc == MF_OK && v == MF_CHECK_PASS; h++) {
        copy_sequence(half, 0, whole, halves[h][0]);
        copy_sequence(half, 1, whole, halves[h][1]);
        rc = mf_rig_run(half, &mf_kernels_ref);
        for (int64_t t = 0; t < 2 * spec.seq && rc == MF_OK && v == MF_CHECK_PASS; t++) {
            const int64_t of = (int64_t)halves[h][t / spec.seq] * spec.seq + t % spec.seq;
            if (!same_token(half, t, whole, of, 1e-5, why, sizeof why))
                v = mf_check_failed(detail,
                                    "token %d of a batch of 4 routed alone and with others: %s",
                                    (int)of, why);
        }
    }
    mf_rig_free(whole);
    mf_rig_free(half);
    if (rc != MF_OK) return mf_check_broke(detail, "in evaluation");
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL, "a batch of 4 equals two of 2, in another order");
    return v;
}

/* ---- causality ---- */

/* Later tokens do not change earlier ones, unless the router says that they do. */
mf_verdict mf_check_causality(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    if (plugin->kind != MF_ROUTER && plugin->kind != MF_EXPERT)
        return skip(detail, "asked of routers and experts only");
    if (looks_ahead(plugin))
        return skip(detail, "it says that it looks ahead (MF_ROUTER_NOT_CAUSAL)");
    mf_rig_spec spec = mf_check_spec(plugin);
    mf_rig *a = NULL, *b = NULL;
    mf_verdict v = MF_CHECK_PASS;
    char why[200];
    int rc = mf_rig_new(&spec, &a);
    if (rc == MF_OK) rc = mf_rig_new(&spec, &b);
    if (rc == MF_OK) rc = mf_rig_run(a, &mf_kernels_ref);
    const int32_t keep = spec.seq / 2;
    if (rc == MF_OK) {
        mf_rig_fill(b, 99); /* another text ... */
        float *x = mf_tensor_data(b->x), *of = mf_tensor_data(a->x);
        int32_t *ids = mf_tensor_data(b->in.token_ids), *labels = mf_tensor_data(b->in.labels);
        const int32_t *ids_of = mf_tensor_data(a->in.token_ids),
                      *labels_of = mf_tensor_data(a->in.labels);
        for (int64_t t = 0; t < (int64_t)spec.batch * spec.seq; t++) {
            if (t % spec.seq >= keep) continue; /* ... with the same beginnings */
            memcpy(x + t * spec.dim, of + t * spec.dim, (size_t)spec.dim * sizeof *x);
            if (ids != NULL && ids_of != NULL) ids[t] = ids_of[t];
            if (labels != NULL && labels_of != NULL) labels[t] = labels_of[t];
        }
        rc = mf_rig_run(b, &mf_kernels_ref);
    }
    for (int64_t t = 0; rc == MF_OK && t < (int64_t)spec.batch * spec.seq && v == MF_CHECK_PASS;
         t++)
        if (t % spec.seq < keep && !same_token(a, t, b, t, 1e-6, why, sizeof why))
            v = mf_check_failed(
                detail,
                "token %d changed when only later ones did (a router that looks ahead "
                "has to say MF_ROUTER_NOT_CAUSAL): %s",
                (int)t, why);
    mf_rig_free(a);
    mf_rig_free(b);
    if (rc != MF_OK) return mf_check_broke(detail, "in evaluation");
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL, "later tokens do not change earlier ones");
    return v;
}

/* ---- padding ---- */

static bool same_scalar(const mf_tensor *a, const mf_tensor *b)
{
    const float *x = a ? mf_tensor_data(a) : NULL, *y = b ? mf_tensor_data(b) : NULL;
    return x == NULL || y == NULL || close_to(*x, *y, 1e-5);
}

static mf_verdict compare_padded(const mf_rig *a, const mf_rig *b, char detail[MF_CHECK_DETAIL])
{
    const float *mask = mf_tensor_data(a->in.mask);
    char why[200];
    for (int64_t t = 0; t < (int64_t)a->spec.batch * a->spec.seq; t++)
        if (mask[t] != 0 && !same_token(a, t, b, t, 1e-5, why, sizeof why))
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

/* What stands in padded places changes nothing for real tokens and for losses. */
mf_verdict mf_check_padding(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    if (plugin->kind == MF_CONTROLLER)
        return skip(detail, "a controller adds nothing to the graph");
    mf_rig_spec spec = mf_check_spec(plugin);
    mf_rig *a = NULL, *b = NULL;
    spec.masked = spec.training = true;
    int rc = mf_rig_new(&spec, &a);
    if (rc == MF_OK) rc = mf_rig_new(&spec, &b);
    if (rc == MF_OK) rc = mf_rig_run(a, &mf_kernels_ref);
    if (rc == MF_OK) {
        const float *mask = mf_tensor_data(b->in.mask);
        float *x = mf_tensor_data(b->x);
        int32_t *ids = mf_tensor_data(b->in.token_ids), *labels = mf_tensor_data(b->in.labels);
        for (int64_t t = 0; t < (int64_t)spec.batch * spec.seq; t++) {
            if (mask == NULL || mask[t] != 0) continue;
            for (int32_t j = 0; j < spec.dim; j++)
                x[t * spec.dim + j] = 3 - x[t * spec.dim + j];
            if (ids != NULL) ids[t] = (ids[t] + 7) % MF_RIG_VOCAB;
            if (labels != NULL) labels[t] = -1;
        }
        rc = mf_rig_run(b, &mf_kernels_ref);
    }
    mf_verdict v =
        rc == MF_OK ? compare_padded(a, b, detail) : mf_check_broke(detail, "with a mask");
    mf_rig_free(a);
    mf_rig_free(b);
    return v;
}

/* ---- save and restore ---- */

/* Steps from a saved state go on as the original does: nothing that matters is kept outside of
 * parameters, buffers and live options. */
mf_verdict mf_check_restore(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    mf_rig_spec spec = mf_check_spec(plugin);
    mf_rig *a = NULL, *b = NULL;
    mf_verdict v = MF_CHECK_PASS;
    spec.training = spec.gradients = true;
    int rc = mf_rig_new(&spec, &a);
    for (int i = 0; i < 7 && rc == MF_OK; i++)
        rc = mf_rig_step(a);
    if (rc == MF_OK) rc = mf_rig_new(&spec, &b);
    if (rc == MF_OK) mf_rig_copy_state(b, a);
    for (int i = 0; i < 5 && rc == MF_OK && v == MF_CHECK_PASS; i++) {
        char one[33], two[33];
        rc = mf_rig_step(a);
        if (rc == MF_OK) rc = mf_rig_step(b);
        if (rc != MF_OK) break;
        mf_rig_digest(a, one);
        mf_rig_digest(b, two);
        if (strcmp(one, two) != 0)
            v = mf_check_failed(detail,
                                "step %d after the restart: expected the same bits, found "
                                "others; what has to survive belongs into a buffer",
                                i + 1);
    }
    mf_rig_free(a);
    mf_rig_free(b);
    if (rc != MF_OK) return mf_check_broke(detail, "in a training step");
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL, "5 steps after a restart have the same bits");
    return v;
}
