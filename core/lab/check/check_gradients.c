/* Compares gradients with central differences. Ops without a gradient (stop_gradient, choices,
 * random numbers) and straight-through ops must not change between differences: a first run
 * records their values, and the checked graph has constants in their place. So a
 * straight-through estimator made with stop_gradient is compared with the function whose
 * gradient it uses. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/gradcheck.h"
#include "kernels/kernel.h"
#include "lab/check/checks.h"
#include "plugin/load/child.h"
#include "plugin/host.h"

enum { HELD_MAX = 512, SEED = 20240607 };

typedef struct held {
    bool replay;
    int n, next;
    mf_tensor *value[HELD_MAX];
    void *data[HELD_MAX];
    bool overflow;
} held;

static mf_tensor *hold(held *h, mf_graph *g, mf_tensor *t)
{
    if (h->replay) {
        if (h->next == h->n || !t) return t;
        const void *data = h->data[h->next++];
        return data ? mf_graph_const(g, t->dtype, t->shape, data) : t;
    }
    if (h->n == HELD_MAX)
        h->overflow = true;
    else if (t)
        h->value[h->n++] = t;
    mf_graph_keep(t);
    return t;
}

/* Hook for ops that the plugin adds. In the first graph the outputs of ops without a gradient
 * are recorded; in the second one, constants with their values replace them. */
static mf_tensor *hook(void *arg, mf_graph *g, const mf_opdef *def, int n_in,
                       mf_tensor *const *in, const mf_attr *attr, int n_out,
                       mf_tensor **ret_out)
{
    mf_tensor *out[MF_OP_MAX_OUT] = {NULL};
    mf_tensor *first = mf_graph_op(g, def, n_in, in, attr, n_out < 1 ? 1 : n_out, out);
    const bool passes = (def->flags & (MF_OP_NO_GRAD | MF_OP_STRAIGHT_THROUGH)) == 0 &&
                        (def->grad || def->backward);
    for (int i = 0; i < n_out || i < 1; i++) {
        if (!passes && first) out[i] = hold(arg, g, out[i]);
        if (ret_out && i < n_out) ret_out[i] = out[i];
    }
    return out[0] ? out[0] : first;
}

static int record(held *h, const mf_harness_spec *spec)
{
    mf_harness_spec first = *spec;
    mf_harness *harness = NULL;
    first.open = false;
    mf_plugin_hook_ops(hook, h);
    int rc = mf_harness_new(&first, &harness);
    mf_plugin_hook_ops(NULL, NULL);
    if (rc == MF_OK) rc = mf_harness_run(harness, &mf_kernels_ref);
    for (int i = 0; i < h->n && rc == MF_OK; i++) {
        const mf_tensor *t = h->value[i];
        const void *data = mf_tensor_host(t); /* NULL: the value cannot be read */
        const size_t bytes = (size_t)mf_shape_count(t->shape) * 4;
        if (!data) continue;
        h->data[i] = mf_alloc_raw(bytes);
        if (!h->data[i])
            rc = MF_ENOMEM;
        else
            memcpy(h->data[i], data, bytes);
    }
    mf_harness_free(harness);
    return rc;
}

static void add_output(mf_tensor **out, int *n, mf_tensor *t)
{
    if (!t || t->dtype != MF_F32 || !t->needs_grad || *n == 16) return;
    for (int i = 0; i < *n; i++)
        if (out[i] == t) return;
    out[(*n)++] = t;
}

/* Lists tensors through which a gradient may leave the plugin, at most 16, and those that may
 * receive one: x and parameters, at most 32. */
static int collect(mf_harness *harness, mf_tensor **out, int *ret_n_out, mf_tensor **in,
                   int *ret_n_in)
{
    char pattern[64];
    *ret_n_out = *ret_n_in = 0;
    for (int32_t l = 0; l < harness->spec.layers; l++) {
        const mf_routing *r = &harness->out[l].routing;
        if (harness->spec.plugin->kind == MF_ROUTER) {
            add_output(out, ret_n_out, r->logits);
            add_output(out, ret_n_out, r->prob);
        }
        for (int32_t i = 0; i < r->n_losses; i++)
            add_output(out, ret_n_out, r->loss[i]);
    }
    if (harness->spec.plugin->kind == MF_REGULARIZER)
        add_output(out, ret_n_out, harness->penalty);
    else
        add_output(out, ret_n_out, harness->y);
    in[(*ret_n_in)++] = harness->x;
    mf_param *p;
    snprintf(pattern, sizeof pattern, "%s.*",
             harness->spec.plugin->kind == MF_REGULARIZER ? "*" : mf_harness_path(harness));
    for (int i = 0; (p = mf_store_match(harness->store, pattern, i)) && *ret_n_in < 32; i++)
        if (!p->buffer && !p->frozen) in[(*ret_n_in)++] = mf_graph_param(harness->g, p);
    return mf_graph_status(harness->g);
}

static int compare(const mf_harness_spec *spec, held *h, mf_gradcheck_report *report)
{
    mf_harness *harness = NULL;
    mf_tensor *out[16], *in[32];
    int n_out = 0, n_in = 0;
    h->replay = true;
    h->next = 0;
    mf_plugin_hook_ops(hook, h);
    int rc = mf_harness_new(spec, &harness);
    mf_plugin_hook_ops(NULL, NULL);
    if (rc == MF_OK) rc = collect(harness, out, &n_out, in, &n_in);
    const mf_gradcheck_options options = {
        .seed = SEED, .max_points = 24, .directions = 2, .step = 0x1p-7};
    if (rc == MF_OK && n_out > 0)
        rc = mf_gradcheck(harness->g, n_out, out, n_in, in, &options, report);
    mf_harness_free(harness);
    return rc;
}

static int check_draw(const mf_harness_spec *spec, mf_gradcheck_report *report)
{
    held *h = mf_alloc(1, sizeof *h);
    if (!h) return MF_ENOMEM;
    int rc = record(h, spec);
    if (rc == MF_OK && h->overflow)
        rc = mf_fail(MF_EPLUGIN, "more than %d ops without a gradient: too many to hold",
                     HELD_MAX);
    if (rc == MF_OK) rc = compare(spec, h, report);
    for (int i = 0; i < h->n; i++)
        mf_free(h->data[i]);
    mf_free(h);
    return rc;
}

typedef struct totals {
    int64_t points, kinks;
    int settings;
    double worst;
} totals;

static void add(totals *t, const mf_gradcheck_report *r)
{
    t->points += r->points;
    t->kinks += r->kinks;
    if (r->error > t->worst) t->worst = r->error;
}

/* Draws values until one draw passes, or with --thorough until several do. A kink of the plugin
 * may be closer than the difference step, so several draws are tried: a wrong rule is wrong for
 * all of them. Returns MF_OK; MF_ECONFIG or MF_ENOMEM if the setting is declined; else an error
 * that says what is wrong, if possible with the two slopes. first: the first draw. */
static int check_draws(mf_harness_spec *spec, int first, totals *t)
{
    enum { DRAWS = 8, THOROUGH = 3 };
    const int needed = mf_check_thorough() ? THOROUGH : 1;
    char why[MF_CHECK_DETAIL] = "";
    int passed = 0, failure = MF_OK;
    for (int i = 0; i < DRAWS && passed < needed; i++) {
        mf_gradcheck_report report = {.tensor = -1};
        spec->shaken = first + i;
        int rc = check_draw(spec, &report);
        if (mf_check_declined(rc)) return rc;
        if (rc == MF_OK) {
            passed++;
            add(t, &report);
        } else if (failure == MF_OK || report.error > 1) {
            failure = rc;
            snprintf(why, sizeof why, "%s", mf_error_message());
        }
    }
    t->settings += passed == needed;
    return passed == needed ? MF_OK : mf_fail(failure, "%s", why);
}

/* Checks one setting of the options. All experts are chosen unless a person has set moe.top_k,
 * so core's choice cannot change. Returns as check_draws does. */
static int check_setting(const mf_loaded *plugin, const char *option, const char *value,
                         totals *t)
{
    mf_harness_spec spec = mf_check_spec(plugin);
    spec.seq = 3;
    spec.dim = 8;
    mf_check_sizes(&spec, spec.experts, spec.experts);
    spec.training = spec.open = true;
    spec.option = option;
    spec.value = value;
    return check_draws(&spec, 1, t);
}

/* Sizes and ranges of values for which a gradient rule must also hold. All experts are chosen
 * where top_k is 0, so that core's choice does not change between differences. */
typedef struct form {
    const char *name;
    int32_t batch, seq, dim, experts, top_k;
    float scale;
    bool thorough; /* only with --thorough */
} form;

static const form forms[] = {{"one expert", 3, 3, 8, 1, 1, 1, false},
                             {"3 experts, 15 tokens", 3, 5, 8, 3, 0, 1, false},
                             {"8 experts, k = 2", 2, 7, 6, 8, 2, 1, false},
                             {"17 experts", 1, 9, 5, 17, 0, 1, false},
                             {"64 experts", 1, 3, 4, 64, 0, 1, false},
                             {"x times 8", 2, 3, 8, 4, 0, 8, false},
                             {"5 experts, 55 tokens", 5, 11, 12, 5, 0, 1, true},
                             {"8 experts, k = 1", 3, 7, 16, 8, 1, 1, true},
                             {"17 experts, k = 3", 4, 9, 10, 17, 3, 1, true},
                             {"x times 40", 2, 5, 8, 4, 0, 40, true},
                             {"x times 1/64", 2, 5, 8, 4, 0, 0x1p-6f, true}};
enum { FORMS = sizeof forms / sizeof *forms };

static int check_form(const mf_loaded *plugin, const form *f, totals *t)
{
    mf_harness_spec spec = mf_check_spec(plugin);
    spec.batch = f->batch, spec.seq = f->seq, spec.dim = f->dim, spec.scale = f->scale;
    if (plugin->kind == MF_ADAPTER || plugin->kind == MF_EXPERT)
        spec.dim = (spec.dim + 3) / 4 * 4; /* for heads of even width */
    mf_check_sizes(&spec, f->experts, f->top_k > 0 ? f->top_k : f->experts);
    spec.training = spec.open = true;
    return check_draws(&spec, 11, t);
}

static mf_verdict check_forms(const mf_loaded *plugin, totals *t, char detail[MF_CHECK_DETAIL])
{
    for (int i = 0; i < FORMS; i++) {
        if (forms[i].thorough && !mf_check_thorough()) continue;
        mf_child_say("at %s", forms[i].name);
        int rc = check_form(plugin, &forms[i], t);
        if (rc != MF_OK && !mf_check_declined(rc)) return mf_check_broke(detail, forms[i].name);
    }
    return MF_CHECK_PASS;
}

/* Whether gates that a plugin gets or makes pass a gradient of the task on. *ret_alone: those
 * of a router are 1 if a token has one expert. */
static bool gates_pass(const mf_loaded *plugin, bool *ret_alone, char detail[MF_CHECK_DETAIL])
{
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *harness = NULL;
    bool ignored = false;
    if (plugin->kind != MF_ROUTER && plugin->kind != MF_EXPERT) return true;
    if (plugin->kind == MF_ROUTER) mf_check_sizes(&spec, spec.experts, 1);
    spec.training = true;
    if (mf_harness_new(&spec, &harness) == MF_OK && spec.top_k == 1)
        *ret_alone = harness->out[0].gates_are_1;
    ignored = harness && harness->out[0].gates_ignored;
    mf_harness_free(harness);
    mf_error_clear();
    if (ignored)
        mf_check_failed(detail,
                        "it declares MF_EXPERT_GATES, and no op of it reads in->gate: core "
                        "then applies no gates, and no router learns; multiply by "
                        "in->gate, or do not declare it");
    return !ignored;
}

/* With the defaults, with each value of each boolean or enumerated option, and with other sizes
 * and larger values, the gradients of all outputs with respect to x and to every parameter
 * agree with central differences on the reference kernels. */
mf_verdict mf_check_gradients(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    const mf_schema *s = &plugin->schema;
    totals t = {0};
    bool alone = false;
    char when[200];
    if (plugin->kind == MF_CONTROLLER) {
        snprintf(detail, MF_CHECK_DETAIL, "a controller adds nothing to the graph");
        return MF_CHECK_SKIP;
    }
    for (int i = -1; i < s->count; i++) {
        const mf_option *o = i >= 0 ? &s->options[i] : NULL;
        static const char *const yes_no[] = {"no", "yes", NULL}, *const once[] = {"", NULL};
        const char *const *values = !o                       ? once
                                    : o->type == MF_OPT_ENUM ? o->choices
                                    : o->type == MF_OPT_BOOL ? yes_no
                                                             : once + 1;
        for (int j = 0; values[j]; j++) {
            snprintf(when, sizeof when, "%s%s%s", o ? o->name : "by default", o ? " = " : "",
                     values[j]);
            /* many settings take long, and the parent kills a child that writes nothing */
            mf_child_say("at %s", when);
            int rc = check_setting(plugin, o ? o->name : NULL, values[j], &t);
            if (rc != MF_OK && (!o || !mf_check_declined(rc)))
                return mf_check_broke(detail, when);
        }
    }
    if (check_forms(plugin, &t, detail) != MF_CHECK_PASS) return MF_CHECK_FAIL;
    if (!gates_pass(plugin, &alone, detail)) return MF_CHECK_FAIL;
    if (t.points == 0)
        snprintf(detail, MF_CHECK_DETAIL, "no gradient passes through it");
    else
        snprintf(
            detail, MF_CHECK_DETAIL,
            "%lld slopes in %d settings, worst error %.2f of what is tolerated, %lld at kinks",
            (long long)t.points, t.settings, t.worst, (long long)t.kinks);
    if (alone)
        mf_check_add(detail, "; its gates are renormalised at top_k = 1, too, where each is 1: "
                             "the task teaches it nothing then");
    return MF_CHECK_PASS;
}
