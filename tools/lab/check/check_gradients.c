/* Compares gradients with central differences. Ops without a gradient (stop_gradient, choices,
 * random numbers) and straight-through ops must not change between differences. So a first run
 * records their values, and the checked graph has constants in their place. A straight-through
 * estimator made with stop_gradient is therefore compared with the function whose gradient
 * it uses. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "lab/check/gradcheck.h"
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
    int stopped; /* how many of the values come from a stop_gradient whose input would have
                  * a gradient */
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

/* Hook for ops that the plugin adds. In the first graph it records the outputs of ops without a
 * gradient. In the second graph it replaces these outputs by constants with the
 * recorded values. */
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
        if (i == 0 && strcmp(def->name, "stop_gradient") == 0 && in[0] && in[0]->needs_grad)
            ((held *)arg)->stopped++;
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

/* How much of each tensor is compared. */
typedef struct depth {
    int points, directions, draws; /* draws: how many draws are tried at most until
                                    * one passes */
    int params;                    /* how many parameters are checked in a turn, beside x; 31
                                    * means all */
} depth;
static const depth usual = {24, 2, 8, 31}, shallow = {3, 1, 5, 2};

static void add_output(mf_tensor **out, int *n, mf_tensor *t)
{
    if (!t || t->dtype != MF_F32 || !t->needs_grad || *n == 16) return;
    for (int i = 0; i < *n; i++)
        if (out[i] == t) return;
    out[(*n)++] = t;
}

/* Lists at most 16 tensors through which a gradient may leave the plugin, and at most 32
 * tensors that may receive a gradient: x and parameters. */
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

/* The results of a setting so far. The inputs (x and parameters) are counted in the order
 * of collect. */
typedef struct judged {
    int n;             /* number of inputs; 0: not known yet */
    int turn;          /* selects the checked parameters, unless all are checked */
    int passed[32];    /* number of draws in which an input passed */
    bool wrong[32];    /* an input disagreed in a draw, and not only at kinks */
    bool left_out[32]; /* parameters that are checked in other turns */
} judged;

/* Skips all inputs except x and d->params of the parameters. The parameters take turns. */
static void take_turns(const depth *d, judged *j, int n)
{
    const int params = n - 1 < d->params ? n - 1 : d->params;
    if (j->n > 0) return;
    j->n = n;
    for (int i = 1; i < n; i++)
        j->left_out[i] = true;
    for (int i = 0; i < params; i++)
        j->left_out[1 + (j->turn * params + i) % (n - 1)] = false;
}

/* Whether input i must pass in another draw. */
static bool is_open(const judged *j, int needed, int i)
{
    return !j->left_out[i] && j->passed[i] < needed;
}

static int count_open(const judged *j, int needed)
{
    int n = j->n == 0;
    for (int i = 0; i < j->n; i++)
        n += is_open(j, needed, i);
    return n;
}

/* Keeps only those inputs of a list that must pass in another draw, and writes their indices to
 * `of`. Returns their number. */
static int keep_open(const judged *j, int needed, mf_tensor **in, int *of)
{
    int n = 0;
    for (int i = 0; i < j->n; i++) {
        if (!is_open(j, needed, i)) continue;
        of[n] = i;
        in[n++] = in[i];
    }
    return n;
}

/* Checks the inputs that must pass in another draw, and records which of them pass. */
static int compare(const mf_harness_spec *spec, const depth *d, held *h, judged *j, int needed,
                   mf_gradcheck_report *report)
{
    mf_harness *harness = NULL;
    mf_tensor *out[16], *in[32];
    int of[32];
    int n_out = 0, n_in = 0;
    h->replay = true;
    h->next = 0;
    mf_plugin_hook_ops(hook, h);
    int rc = mf_harness_new(spec, &harness);
    mf_plugin_hook_ops(NULL, NULL);
    if (rc == MF_OK) rc = collect(harness, out, &n_out, in, &n_in);
    /* The reference kernels are slow with many tokens, so shallow checks use the fast kernels.
     * Regularizers are the exception, because their slopes need the accuracy. */
    const bool care = spec->plugin->kind == MF_REGULARIZER, fast = d == &shallow && !care;
    const double operations = mf_check_thorough() ? 1e8 : 3e7;
    if (rc == MF_OK) take_turns(d, j, n_in);
    n_in = keep_open(j, needed, in, of);
    const mf_gradcheck_options options = {.seed = SEED,
                                          .max_points = d->points,
                                          .directions = d->directions,
                                          .operations = care ? 0 : operations,
                                          .step = 0x1p-7,
                                          .kernels = fast ? mf_kernels_cpu() : NULL};
    if (rc == MF_OK && n_out > 0)
        rc = mf_gradcheck(harness->g, n_out, out, n_in, in, &options, report);
    mf_harness_free(harness);
    if (rc != MF_OK && (report->wrong | report->unseen) == 0) return rc;
    for (int i = 0; i < n_in; i++) {
        const uint64_t bit = UINT64_C(1) << i;
        j->passed[of[i]] += ((report->wrong | report->unseen) & bit) == 0;
        j->wrong[of[i]] |= (report->wrong & bit) != 0;
    }
    return rc;
}

static int check_draw(const mf_harness_spec *spec, const depth *d, judged *j, int needed,
                      mf_gradcheck_report *report, int *ret_stopped)
{
    held *h = mf_alloc(1, sizeof *h);
    if (!h) return MF_ENOMEM;
    int rc = record(h, spec);
    if (rc == MF_OK && h->overflow)
        rc = mf_fail(MF_EPLUGIN, "more than %d ops without a gradient: too many to hold",
                     HELD_MAX);
    if (rc == MF_OK) rc = compare(spec, d, h, j, needed, report);
    *ret_stopped += h->stopped;
    for (int i = 0; i < h->n; i++)
        mf_free(h->data[i]);
    mf_free(h);
    return rc;
}

typedef struct totals {
    int64_t points, kinks;
    int settings, stopped;
    double worst;
    double spent;                 /* operations of all runs */
    char unseen[MF_CHECK_DETAIL]; /* name of the first setting that could not be checked */
} totals;

/* Whether the checks so far took so long that sizes are no longer combined with other sizes.
 * Only plugins with many parameters reach this limit; a small plugin needs a twentieth
 * of it. */
static bool takes_long(const totals *t)
{
    return t->spent > (mf_check_thorough() ? 3e10 : 5e9);
}

static void add(totals *t, const mf_gradcheck_report *r)
{
    t->points += r->points;
    t->kinks += r->kinks;
    t->spent += r->operations;
    if (r->wrong == 0 && r->error > t->worst) t->worst = r->error;
    if (r->wrong == 0 && r->unseen != 0 && t->unseen[0] == '\0')
        snprintf(t->unseen, sizeof t->unseen, "%s", mf_error_message());
}

/* Whether an input disagreed in each of its draws, and not only because its points are
 * at kinks. */
static bool any_wrong(const judged *j, int needed)
{
    bool wrong = false;
    for (int i = 0; i < j->n; i++)
        wrong |= is_open(j, needed, i) && j->wrong[i];
    return wrong;
}

/* Draws values until each input has passed in one draw. With --thorough each input must pass in
 * several draws, and as many times more draws are tried. A kink of the plugin may be closer
 * than the difference step, so several draws are tried, and only for the inputs that have not
 * passed: a wrong rule is wrong for all draws. A setting with an input whose draws are all at
 * kinks is not checked. Returns MF_OK; MF_ECONFIG or MF_ENOMEM if the setting is declined; else
 * an error that says what is wrong, if possible with the two slopes. first: number of the
 * first draw. */
static int check_draws(mf_harness_spec *spec, const depth *d, int first, totals *t)
{
    enum { THOROUGH = 3 };
    const int needed = mf_check_thorough() && d == &usual ? THOROUGH : 1;
    char why[MF_CHECK_DETAIL] = "";
    judged j = {.turn = first};
    bool broke = false;
    int code = MF_OK;
    for (int i = 0; i < d->draws * needed && count_open(&j, needed) > 0; i++) {
        mf_gradcheck_report report = {.tensor = -1};
        spec->shaken = first + i;
        if (i > 0) mf_child_say("draw %d", i + 1);
        int rc = check_draw(spec, d, &j, needed, &report, &t->stopped);
        if (mf_check_declined(rc)) return rc;
        add(t, &report);
        if (rc == MF_OK || (report.wrong == 0 && report.unseen != 0)) continue;
        broke |= report.wrong == 0; /* the error occurred before gradients were compared */
        code = rc;
        snprintf(why, sizeof why, "%s", mf_error_message());
    }
    const bool done = count_open(&j, needed) == 0;
    t->settings += done;
    return any_wrong(&j, needed) || (broke && !done) ? mf_fail(code, "%s", why) : MF_OK;
}

/* Checks one value of one option. All experts are chosen unless the user has set moe.top_k, so
 * the choice in core cannot change. Returns the status of check_draws. */
static int check_setting(const mf_loaded *plugin, const depth *d, const char *option,
                         const char *value, totals *t)
{
    mf_harness_spec spec = mf_check_spec(plugin);
    spec.seq = 3;
    spec.dim = 8;
    mf_check_sizes(&spec, spec.experts, spec.experts);
    spec.training = spec.open = true;
    spec.option = option;
    spec.value = value;
    return check_draws(&spec, d, 1, t);
}

/* Shapes and value ranges for which a gradient rule must also hold. top_k = 0: all experts are
 * chosen, so that the choice in core is the same at both points of a finite difference. */
typedef struct form {
    const char *name;
    int32_t batch, seq, dim, experts, top_k;
    float scale;
    bool thorough; /* used only with --thorough */
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
        spec.dim = (spec.dim + 3) / 4 * 4; /* a multiple of 4, for heads of even width */
    mf_check_sizes(&spec, f->experts, f->top_k > 0 ? f->top_k : f->experts);
    spec.training = spec.open = true;
    return check_draws(&spec, &usual, 11, t);
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

/* Whether the gates that a plugin receives or makes pass on a gradient of the task. *ret_alone:
 * whether the gates of a router are 1 if a token has one expert. */
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

/* Checks every number of experts, numbers of tokens at which loops over blocks end, and drawn
 * numbers of tokens. Each is checked at few points and along one direction. The model has
 * alternately one layer and two layers, since values kept for the backward pass must belong to
 * their layer. */
static mf_verdict sweep(const mf_loaded *plugin, totals *t, char detail[MF_CHECK_DETAIL])
{
    static const int32_t tokens[] = {1, 2, 7, 15, 31, 32, 47, 63, 64, 95, 101, 127, 128, 160};
    enum { EXPERTS = 20, TOKENS = 2 * sizeof tokens / sizeof *tokens, WHAT = 2000 };
    const int drawn = mf_check_thorough() ? 60 : 8;
    char when[120];
    for (int i = 0; i < EXPERTS + TOKENS + drawn; i++) {
        mf_harness_spec spec = mf_check_spec(plugin);
        int32_t experts = i < EXPERTS ? i + 1 : 3 - i % 2 * 2;
        spec.batch = 1, spec.seq = i < EXPERTS ? 3 : 5, spec.dim = 8;
        if (i >= EXPERTS && i < EXPERTS + TOKENS) spec.seq = tokens[(i - EXPERTS) / 2];
        if (i >= EXPERTS + TOKENS) {
            const int32_t long_one = mf_check_number(i, WHAT, 0, 1);
            experts = mf_check_number(i, WHAT + 1, 1, long_one ? 4 : 40);
            spec.batch = mf_check_number(i, WHAT + 2, 1, 3);
            spec.seq = mf_check_number(i, WHAT + 3, 1, long_one ? 80 : 12);
        }
        mf_check_sizes(&spec, experts, experts);
        if (takes_long(t) && i >= EXPERTS && i < EXPERTS + TOKENS && i % 2 == 1)
            continue; /* next, the same tokens are checked with another number of experts */
        if (i / 2 % 2 == 1 && (spec.batch * spec.seq <= 64 || plugin->kind == MF_REGULARIZER))
            spec.layers = MF_HARNESS_LAYERS;
        spec.training = spec.open = true;
        snprintf(when, sizeof when, "%d experts, %d tokens, %s", (int)spec.experts,
                 (int)(spec.batch * spec.seq), spec.layers == 1 ? "one layer" : "two layers");
        mf_child_say("at %s", when);
        const depth *d = plugin->kind == MF_REGULARIZER && spec.seq > 40 ? &usual : &shallow;
        const int rc =
            check_draws(&spec, d, 21 + i, t); /* with many tokens each slope is small */
        if (rc != MF_OK && !mf_check_declined(rc)) return mf_check_broke(detail, when);
    }
    return MF_CHECK_PASS;
}

/* Checks values between the bounds of each number. */
static mf_verdict inner_values(const mf_loaded *plugin, totals *t, char detail[MF_CHECK_DETAIL])
{
    enum { WHAT = 3000 };
    const int draws = mf_check_thorough() ? 8 : 3;
    char value[96], when[200];
    for (int i = 0; i < plugin->schema.count; i++) {
        const mf_option *o = &plugin->schema.options[i];
        if (o->type != MF_OPT_INT && o->type != MF_OPT_REAL) continue;
        for (int j = 0; j < (takes_long(t) ? 1 : draws); j++) {
            if (!mf_check_value(o, j, WHAT + i, value, sizeof value)) continue;
            snprintf(when, sizeof when, "%s = %s", o->name, value);
            mf_child_say("at %s", when);
            const int rc = check_setting(plugin, &shallow, o->name, value, t);
            if (rc != MF_OK && !mf_check_declined(rc)) return mf_check_broke(detail, when);
        }
    }
    return MF_CHECK_PASS;
}

/* Whether a loss that is not 0 has a gradient in at least one of some draws, with respect to
 * the weights of routers or to other weights. */
static bool teaches(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    enum { DRAWS = 4 };
    double loss = 0;
    for (int i = 1; i <= DRAWS; i++) {
        mf_harness_spec spec = mf_check_spec(plugin);
        mf_harness *h = NULL;
        spec.training = spec.open = true;
        spec.shaken = i;
        int rc = mf_harness_new(&spec, &h);
        if (rc == MF_OK && h->penalty) {
            mf_graph_keep(h->penalty);
            if (h->penalty->needs_grad) rc = mf_graph_backward(h->g, h->penalty, 1, &h->x);
            if (rc == MF_OK) rc = mf_graph_finish(h->g);
            if (rc == MF_OK) rc = mf_harness_run(h, &mf_kernels_ref);
        }
        const float *value = rc == MF_OK && h->penalty ? mf_tensor_host(h->penalty) : NULL;
        if (value && *value != 0) loss = (double)*value;
        const float *grad = rc == MF_OK ? mf_store_grads(h->store) : NULL;
        int64_t n = 0;
        bool found = rc != MF_OK;
        if (rc == MF_OK) mf_store_values(h->store, &n);
        for (int64_t k = 0; grad && k < n && !found; k++)
            found = grad[k] != 0;
        mf_harness_free(h);
        if (found) return true;
    }
    if (loss == 0) return true;
    mf_check_failed(detail,
                    "its loss is %.6g, and no parameter has a gradient of it: it changes "
                    "nothing (a loss of routing->load and choices alone has none)",
                    loss);
    return false;
}

/* Whether the check with the defaults has already used this value: it is the default, unless
 * the user has set options. */
static bool is_default(const mf_loaded *plugin, const mf_option *o, const char *value)
{
    return !mf_check_spec(plugin).given[0] && o->value && strcmp(o->value, value) == 0;
}

/* The gradients of all outputs with respect to x and to every parameter must agree with central
 * differences on the reference kernels. This is checked with the defaults, with each value of
 * each boolean or enumerated option, with other sizes, and with larger values. */
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
            if (o && is_default(plugin, o, values[j])) continue;
            snprintf(when, sizeof when, "%s%s%s", o ? o->name : "by default", o ? " = " : "",
                     values[j]);
            /* many settings take long, and the parent kills a child that writes nothing for
             * some time */
            mf_child_say("at %s", when);
            int rc = check_setting(plugin, &usual, o ? o->name : NULL, values[j], &t);
            if (rc != MF_OK && (!o || !mf_check_declined(rc)))
                return mf_check_broke(detail, when);
        }
    }
    if (check_forms(plugin, &t, detail) != MF_CHECK_PASS ||
        inner_values(plugin, &t, detail) != MF_CHECK_PASS ||
        sweep(plugin, &t, detail) != MF_CHECK_PASS)
        return MF_CHECK_FAIL;
    if (plugin->kind == MF_REGULARIZER && !teaches(plugin, detail)) return MF_CHECK_FAIL;
    if (!gates_pass(plugin, &alone, detail)) return MF_CHECK_FAIL;
    if (t.kinks > t.points)
        return mf_check_failed(detail, "%lld of %lld slopes are at kinks: %s",
                               (long long)t.kinks, (long long)t.kinks + t.points, t.unseen);
    if (t.points == 0)
        snprintf(detail, MF_CHECK_DETAIL, "no gradient passes through it");
    else
        snprintf(detail, MF_CHECK_DETAIL,
                 "%lld slopes in %d settings, worst error %.2f of what is tolerated, %lld at "
                 "kinks%s",
                 (long long)t.points, t.settings, t.worst, (long long)t.kinks,
                 t.stopped > 0
                     ? "; what stop_gradient holds back is held constant (straight-through)"
                     : "");
    if (alone)
        mf_check_add(detail, "; its gates are renormalised at top_k = 1, too, where each is 1: "
                             "the task teaches it nothing then");
    return MF_CHECK_PASS;
}
