/* Compares decoding with a cache, a few tokens at a time, with one run on the whole sequence.
 * If the results of a token depended on the number of tokens in the graph, a text generated
 * with a cache would differ from a text generated without it. A router that reads earlier
 * tokens declares this, and then receives them in every step. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "kernels/kernel.h"
#include "lab/check/checks.h"
#include "plugin/host.h"

/* Copies tokens t0 .. t0 + n - 1 of each sequence of `from` into the decoding step. */
static void feed(mf_harness *step, const mf_harness *from, int32_t t0)
{
    const struct {
        mf_tensor *to, *from;
        size_t width;
    } rows[] = {{step->x, from->x, (size_t)from->spec.dim},
                {step->in.token_ids, from->in.token_ids, 1},
                {step->in.positions, from->in.positions, 1},
                {step->in.labels, from->in.labels, 1}};
    const size_t n = (size_t)step->spec.seq, seq = (size_t)from->spec.seq;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *to = rows[i].to ? mf_tensor_input(rows[i].to) : NULL;
        const char *of = rows[i].from ? mf_tensor_host(rows[i].from) : NULL;
        const size_t bytes = rows[i].width * 4;
        for (size_t b = 0; to && of && b < (size_t)from->spec.batch; b++)
            memcpy(to + b * n * bytes, of + (b * seq + (size_t)t0) * bytes, n * bytes);
    }
    int32_t *pos = mf_tensor_input(step->history.pos),
            *len = mf_tensor_input(step->history.len);
    for (int32_t b = 0; b < step->spec.batch; b++) {
        if (pos) pos[b] = t0;
        if (len) len[b] = t0 + step->spec.seq;
    }
}

/* Whether n numbers of a (from index i) and of b (from index j) are nearly equal, or one of the
 * tensors cannot be read. why: describes the difference. */
static bool same_numbers(const mf_tensor *a, int64_t i, const mf_tensor *b, int64_t j,
                         int64_t n, const char *what, char *why, size_t size)
{
    const float *x = a ? mf_tensor_host(a) : NULL, *y = b ? mf_tensor_host(b) : NULL;
    for (int64_t k = 0; x && y && k < n; k++) {
        const double u = (double)x[i + k], v = (double)y[j + k];
        if ((isnan(u) && isnan(v)) || fabs(u - v) <= 1e-5 * fmax(1, fmax(fabs(u), fabs(v))))
            continue;
        snprintf(why, size, "%s %lld: %.8g and %.8g", what, (long long)k, u, v);
        return false;
    }
    return true;
}

/* Whether token t of `all` and token u of `step` have nearly equal probabilities and outputs,
 * and the same choices. why: describes the difference. */
static bool same(const mf_harness *all, int64_t t, const mf_harness *step, int64_t u, char *why,
                 size_t size)
{
    const int64_t E = all->spec.experts, d = all->spec.dim;
    for (int32_t l = 0; l < all->spec.layers; l++) {
        const mf_routing *a = &all->out[l].routing, *b = &step->out[l].routing;
        if (!same_numbers(a->prob, t * E, b->prob, u * E, E, "probability of expert", why,
                          size))
            return false;
        const int64_t k = a->token ? 0 : a->rows / a->tokens;
        const int32_t *x = mf_tensor_host(a->chosen), *y = mf_tensor_host(b->chosen);
        for (int64_t j = 0; x && y && j < k; j++)
            if (x[t * k + j] != y[u * k + j]) {
                snprintf(why, size, "choice %d: expert %d and expert %d", (int)j,
                         (int)x[t * k + j], (int)y[u * k + j]);
                return false;
            }
    }
    return same_numbers(all->y, t * d, step->y, u * d, d, "output", why, size);
}

static bool draws(const mf_opdef *def)
{
    return (def->flags & MF_OP_RANDOM) != 0 && strcmp(def->name, "dropout") != 0;
}

/* Hook for ops that the plugin adds. It records whether an op draws random numbers in
 * evaluation, too. */
static mf_tensor *see_random(void *arg, mf_graph *g, const mf_opdef *def, int n_in,
                             mf_tensor *const *in, const mf_attr *attr, int n_out,
                             mf_tensor **ret_out)
{
    if (draws(def)) *(bool *)arg = true;
    return mf_graph_op(g, def, n_in, in, attr, n_out, ret_out);
}

/* Returns NULL if the plugin is checked, else the reason why it is not. */
static const char *exempt(const mf_loaded *p)
{
    if (p->kind == MF_REGULARIZER || p->kind == MF_CONTROLLER)
        return "asked of routers, experts and adapters only";
    const uint32_t looks = MF_EXPERT_SEQUENCE | MF_EXPERT_NOT_CAUSAL;
    if ((p->kind == MF_ROUTER && p->table.router.flags & MF_ROUTER_NOT_CAUSAL) ||
        (p->kind == MF_EXPERT && p->table.expert.flags & looks))
        return "it says that it looks at other tokens: decoded without a cache";
    return NULL;
}

/* Decodes the sequences of `all`, n tokens at a time, and compares every token. */
static mf_verdict decode(mf_harness_spec spec, const mf_harness *all, int32_t n,
                         char detail[MF_CHECK_DETAIL])
{
    mf_harness *step = NULL;
    mf_verdict v = MF_CHECK_PASS;
    char why[200];
    const int32_t seq = spec.seq;
    spec.seq = n;
    spec.longest = seq;
    spec.places = seq + 3; /* 3 more than used */
    int rc = mf_harness_new(&spec, &step);
    for (int32_t t = 0; t < seq && rc == MF_OK && v == MF_CHECK_PASS; t += n) {
        feed(step, all, t);
        rc = mf_harness_run(step, &mf_kernels_ref);
        for (int32_t i = 0; i < spec.batch * n && rc == MF_OK && v == MF_CHECK_PASS; i++) {
            const int32_t at = i / n * seq + t + i % n;
            if (!same(all, at, step, i, why, sizeof why))
                v = mf_check_failed(
                    detail,
                    "token %d at once and decoded by %d (a router that reads earlier tokens "
                    "has "
                    "to say MF_ROUTER_SEQUENCE, an expert MF_EXPERT_SEQUENCE): %s",
                    (int)at, (int)n, why);
        }
    }
    mf_harness_free(step);
    return rc == MF_OK ? v : mf_check_broke(detail, "in a decoding step");
}

/* Checks one value of one option; option NULL: the defaults. A setting that the plugin declines
 * passes. seq: length of the sequences, a multiple of `by`. The sequences are decoded one token
 * at a time and `by` tokens at a time. */
static mf_verdict setting(const mf_loaded *plugin, const char *option, const char *value,
                          int32_t seq, int32_t by, char detail[MF_CHECK_DETAIL])
{
    const char *why = exempt(plugin);
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *all = NULL;
    bool random = false;
    mf_verdict v = MF_CHECK_PASS;
    spec.layers = MF_HARNESS_LAYERS;
    spec.seq = seq;
    spec.option = option;
    spec.value = value;
    mf_plugin_hook_ops(see_random, &random);
    int rc = why ? MF_OK : mf_harness_new(&spec, &all);
    mf_plugin_hook_ops(NULL, NULL);
    if (rc == MF_OK && random) why = "it draws random numbers for each place";
    if (rc == MF_OK && all && mf_harness_sees_sequences(all))
        why = "it says that it looks at other tokens: decoded without a cache";
    if (rc == MF_OK && !why) rc = mf_harness_run(all, &mf_kernels_ref);
    if (rc == MF_OK && !why && all) v = decode(spec, all, 1, detail);
    if (rc == MF_OK && !why && all && v == MF_CHECK_PASS) v = decode(spec, all, by, detail);
    mf_harness_free(all);
    if (option && mf_check_declined(rc)) return MF_CHECK_PASS;
    if (rc != MF_OK) return mf_check_broke(detail, "in evaluation");
    if (why) snprintf(detail, MF_CHECK_DETAIL, "%s", why);
    return why ? MF_CHECK_SKIP : v;
}

/* In evaluation, decoding by one and by several tokens results in the same routing and outputs,
 * up to rounding, as one run on the whole sequence. This is checked with the defaults in a
 * short and in a long text, and with each value of each boolean or enumerated option. */
mf_verdict mf_check_decoding(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    const mf_schema *s = &plugin->schema;
    const int32_t by = mf_check_number(0, 4100, 2, 12),
                  seq = (mf_check_thorough() ? 240 : 84) / by * by;
    if (mf_check_spec(plugin).any_order)
        return mf_check_skip(detail, "it needs a model that is no decoder (model.causal = no)");
    mf_verdict v = setting(plugin, NULL, NULL, 6, 3, detail);
    if (v == MF_CHECK_PASS) v = setting(plugin, NULL, NULL, seq, by, detail);
    for (int i = 0; i < s->count && v == MF_CHECK_PASS; i++) {
        static const char *const yes_no[] = {"no", "yes", NULL}, *const none[] = {NULL};
        const mf_option *o = &s->options[i];
        const char *const *value = o->type == MF_OPT_ENUM   ? o->choices
                                   : o->type == MF_OPT_BOOL ? yes_no
                                                            : none;
        for (; *value && v != MF_CHECK_FAIL; value++)
            v = setting(plugin, o->name, *value, 6, 3, detail);
        /* only this value is skipped, not the whole check */
        if (v == MF_CHECK_SKIP) v = MF_CHECK_PASS;
    }
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL,
                 "by one, three and %d tokens as the whole at once, up to %d", (int)by,
                 (int)seq);
    return v;
}
