/* plugin/instance.c: instances of plugins and the calls into them. Every call sets phase and
 * crash site before the plugin's function runs, and checks its result and the floating-point
 * control afterwards. So the rules hold whatever the plugin does. */
#include "plugin/instance.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/float_control.h"
#include "base/log.h"
#include "plugin/crash.h"
#include "plugin/guard.h"
#include "plugin/instance_internal.h"
#include "plugin/output.h"
#include "plugin/tallies.h"

/* ---- shared by the instances of one model ---- */

mf_plughost *mf_plughost_new(mf_store *store)
{
    mf_plughost *h = mf_alloc(1, sizeof *h);
    if (!h) return NULL;
    h->store = store;
    h->arena = mf_arena_new();
    h->tallies = mf_tallies_new();
    if (!h->arena || !h->tallies) {
        mf_plughost_free(h);
        return NULL;
    }
    return h;
}

void mf_plughost_free(mf_plughost *h)
{
    if (!h) return;
    mf_free(h->live);
    mf_free(h->needs);
    mf_free(h->turns);
    mf_free(h->turn_list);
    mf_free(h->metrics);
    mf_free(h->copied);
    mf_tallies_free(h->tallies);
    mf_arena_free(h->arena);
    mf_free(h);
}

void mf_plughost_set_step(mf_plughost *h, int64_t step)
{
    h->step = step;
}

void mf_plughost_set_dims(mf_plughost *h,
                          int (*dims)(const void *arg, int32_t layer, mf_dims *ret),
                          const void *arg)
{
    h->dims = dims;
    h->dims_arg = arg;
}

void mf_plughost_share_experts(mf_plughost *h)
{
    h->experts_shared = true;
}

void mf_plughost_set_history(mf_plughost *h, void *arg,
                             int32_t (*history)(void *arg, const char *metric, int32_t n,
                                                double *out))
{
    h->history_arg = arg;
    h->history = history;
}

void mf_plughost_set_importance(mf_plughost *h, void *arg,
                                int (*importance)(void *arg, int32_t n, float *out,
                                                  int32_t *ret_n))
{
    h->importance_arg = arg;
    h->importance = importance;
}

const char *mf_plughost_rebuild(mf_plughost *h)
{
    if (!h->wants_rebuild) return NULL;
    h->wants_rebuild = false;
    return h->rebuild;
}

void mf_plughost_want_rebuild(mf_plughost *h, const char *by, const char *reason)
{
    if (h->wants_rebuild) return; /* the first reason is kept */
    h->wants_rebuild = true;
    snprintf(h->rebuild, sizeof h->rebuild, "%s: %s", by,
             reason && reason[0] != '\0' ? reason : "no reason given");
}

void mf_plughost_ask_rebuild(mf_ctx *ctx, const char *reason)
{
    mf_plughost_want_rebuild(ctx->host, ctx->path, reason);
}

const char *mf_plughost_slashed(mf_plughost *h, const mf_param *p)
{
    const int n = mf_store_count(h->store);
    if (h->n_slashed < n) {
        const char **names = mf_arena_alloc(h->arena, (size_t)n * sizeof *names);
        if (!names) return NULL;
        if (h->n_slashed > 0) memcpy(names, h->slashed, (size_t)h->n_slashed * sizeof *names);
        h->slashed = names;
        h->n_slashed = n;
    }
    const char **name = &h->slashed[p->index];
    if (*name == NULL) *name = mf_arena_strf(h->arena, "/%s", p->name);
    return *name;
}

void mf_plughost_set_linear(mf_plughost *h, mf_linear_hook hook, void *arg)
{
    h->linear = hook;
    h->linear_arg = arg;
}

/* ---- metrics of graphs ---- */

int mf_plughost_keep_metric(mf_ctx *ctx, const mf_graph *g, const char *name, mf_tensor *value)
{
    mf_plughost *h = ctx->host;
    if (!mf_plughost_grow((void **)&h->metrics, h->n_metrics, &h->room_metrics,
                          sizeof *h->metrics))
        return MF_ENOMEM;
    const char *full = mf_arena_strf(h->arena, "%s.%s", ctx->path, name);
    if (!full) return MF_ENOMEM;
    h->metrics[h->n_metrics++] = (mf_kept_metric){g, full, value};
    return MF_OK;
}

const char *mf_plughost_metric(const mf_plughost *h, const mf_graph *g, int i, mf_tensor **ret)
{
    for (int m = 0; m < h->n_metrics; m++) {
        if (h->metrics[m].graph != g || i-- > 0) continue;
        *ret = h->metrics[m].value;
        return h->metrics[m].name;
    }
    return NULL;
}

void mf_plughost_forget(mf_plughost *h, const mf_graph *g)
{
    int kept = 0;
    for (int m = 0; m < h->n_metrics; m++)
        if (h->metrics[m].graph != g) h->metrics[kept++] = h->metrics[m];
    h->n_metrics = kept;
    mf_tallies_forget(h, g);
}

/* ---- calls ---- */

/* The instance whose function runs in this thread. It is thread-local, because two threads may
 * build two models at the same time. */
static _Thread_local mf_ctx *now;

mf_ctx *mf_instance_now(void)
{
    return now;
}

typedef struct call {
    mf_ctx *ctx, *outer_ctx;
    mf_site site;
    const mf_site *outer;
    unsigned float_control;
    bool pushed;
} call;

/* Returns the path without "layers.N.", which the block's own scope already contains. */
static const char *short_path(const char *path)
{
    if (strncmp(path, "layers.", 7) != 0) return path;
    const char *dot = strchr(path + 7, '.');
    return dot ? dot + 1 : path;
}

static void enter(call *c, mf_ctx *ctx, mf_phase phase, const char *function, mf_graph *g)
{
    *c = (call){.ctx = ctx,
                .outer_ctx = now,
                .site = {ctx->plugin->name, ctx->plugin->path, function, ctx->path}};
    now = ctx;
    ctx->phase = phase;
    ctx->running = function;
    ctx->graph = g;
    ctx->starts = false;
    ctx->fault = MF_OK;
    c->pushed = g != NULL;
    if (g) mf_graph_push(g, "%s %s", short_path(ctx->path), ctx->plugin->name);
    ctx->reported = MF_OK;
    mf_error_clear();
    c->float_control = mf_float_control();
    c->outer = mf_crash_site(&c->site);
    if (!ctx->plugin->own) mf_output_begin();
}

/* Converts the plugin's result to a valid status code with a message. The result is never MF_OK
 * after a broken rule. */
static int leave(call *c, int rc)
{
    mf_ctx *ctx = c->ctx;
    now = c->outer_ctx;
    mf_crash_site(c->outer);
    if (!ctx->plugin->own) mf_output_end(ctx->plugin->name, c->site.function, ctx->path);
    if (ctx->phase == MF_PHASE_STEP && mf_instance_check_values(ctx) != MF_OK) rc = MF_EPLUGIN;
    if (mf_guard_float_check(c->float_control, "in a call") != MF_OK)
        rc = mf_fail_context(MF_EPLUGIN, "%s (plugin %s)", ctx->path, ctx->plugin->name);
    if (c->pushed) mf_graph_at(ctx->graph, NULL, 0);
    if (c->pushed) mf_graph_pop(ctx->graph);
    ctx->phase = MF_PHASE_NONE;
    ctx->running = NULL;
    const bool is_status = strcmp(mf_status_name(rc), "MF_UNKNOWN") != 0;
    if (rc == MF_OK && ctx->fault != MF_OK) {
        rc = ctx->fault;
    } else if (rc == MF_OK && ctx->reported != MF_OK) {
        rc = mf_fail(ctx->reported,
                     "%s; %s of plugin %s returned MF_OK after that: expected the result of "
                     "mf->fail",
                     mf_error_message(), c->site.function, ctx->plugin->name);
    } else if (!is_status) {
        rc = mf_fail(MF_EPLUGIN,
                     "%s (plugin %s): %s returned %d: expected MF_OK or another status",
                     ctx->path, ctx->plugin->name, c->site.function, rc);
    } else if (rc != MF_OK && mf_error_message()[0] == '\0') {
        rc = mf_fail(rc,
                     "%s (plugin %s): %s failed (%s) and gave no reason; reasons are given by "
                     "mf->fail",
                     ctx->path, ctx->plugin->name, c->site.function, mf_status_name(rc));
    }
    /* An error that a builder reports must also stop the graph. */
    if (c->pushed && rc != MF_OK && mf_graph_status(ctx->graph) == MF_OK) {
        char text[1024];
        snprintf(text, sizeof text, "%s", mf_error_message());
        mf_graph_fail(ctx->graph, rc, "%s", text);
        mf_fail(rc, "%s", text);
    }
    if (c->pushed && rc == MF_OK) rc = mf_graph_status(ctx->graph);
    ctx->graph = NULL;
    return rc;
}

MF_PRINTF(3, 4)
static int wrong_result(mf_ctx *ctx, mf_graph *g, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return mf_graph_fail(g, MF_EPLUGIN, "%s (plugin %s): %s", ctx->path, ctx->plugin->name,
                         text);
}

/* ---- creation ---- */

static int set_option(const mf_loaded *plugin, const mf_option_value *set, void *conf,
                      mf_arena *arena, const char *section)
{
    const mf_option *o = mf_schema_find(&plugin->schema, set->option);
    if (!o)
        return mf_fail(MF_ECONFIG, "%s wants a plugin with the option '%s', which %s lacks",
                       set->key, set->option, plugin->name);
    return mf_option_set(&plugin->schema, o, conf, arena, set->text, section, NULL, NULL);
}

static int make(mf_plughost *h, const mf_loaded *plugin, const char *path, mf_ini *ini,
                const char *section, const char *const *reserved, const char *live,
                const mf_option_value *set, mf_ctx *ctx)
{
    const mf_schema *s = &plugin->schema;
    ctx->host = h;
    ctx->plugin = plugin;
    ctx->path = mf_arena_strdup(h->arena, path);
    ctx->live = mf_arena_strdup(h->arena, live);
    ctx->conf = mf_alloc(1, plugin->conf_size > 0 ? plugin->conf_size : 1);
    ctx->self = mf_alloc(1, plugin->self_size > 0 ? plugin->self_size : 1);
    ctx->shadow = mf_arena_alloc(h->arena, ((size_t)s->count + 1) * sizeof *ctx->shadow);
    if (!ctx->path || !ctx->live || !ctx->conf || !ctx->self || !ctx->shadow) return MF_ENOMEM;
    int rc = mf_options_default(s, ctx->conf, h->arena);
    if (rc == MF_OK) rc = mf_options_load(s, ctx->conf, h->arena, ini, section, reserved, NULL);
    if (rc == MF_OK && set) rc = set_option(plugin, set, ctx->conf, h->arena, section);
    for (int i = 0; i < s->count && rc == MF_OK; i++) {
        const mf_option *o = &s->options[i];
        if ((o->flags & MF_OPT_LIVE) == 0) continue;
        char name[256];
        snprintf(name, sizeof name, "%s.%s", live, o->name);
        rc = mf_live_register_option(h, name, o, ctx->conf, &ctx->shadow[i]);
        if (rc != MF_OK || strcmp(live, path) == 0) continue;
        /* the option's name in this layer only */
        snprintf(name, sizeof name, "%s.%s", path, o->name);
        rc = mf_live_register_option(h, name, o, ctx->conf, &ctx->shadow[i]);
    }
    return rc;
}

static int run_init(mf_ctx *ctx, const mf_dims *dims)
{
    mf_guard guard;
    call c;
    mf_guard_save(&guard);
    enter(&c, ctx, MF_PHASE_DECLARE, "init", NULL);
    int rc = leave(&c, ctx->plugin->init(ctx->self, ctx, ctx->conf, dims));
    char kept[1024];
    snprintf(kept, sizeof kept, "%s", mf_error_message());
    if (mf_guard_check(&guard, "in init") != MF_OK)
        return mf_fail_context(MF_EPLUGIN, "%s (plugin %s)", ctx->path, ctx->plugin->name);
    return rc == MF_OK ? rc : mf_fail(rc, "%s", kept);
}

static int new_instance(mf_plughost *h, const mf_loaded *plugin, const char *path, mf_ini *ini,
                        const char *section, const char *const *reserved, const char *live,
                        const mf_option_value *set, const mf_dims *dims,
                        const mf_linear_site *sites, int32_t n_sites, double lr, mf_ctx **ret)
{
    mf_ctx *ctx = mf_alloc(1, sizeof *ctx);
    if (!ctx) return MF_ENOMEM;
    ctx->lr = lr;
    ctx->notes = (mf_adapter_notes){.layer = dims->layer, .sites = sites, .n_sites = n_sites};
    int rc = make(h, plugin, path, ini, section, reserved, live, set, ctx);
    if (rc == MF_OK) rc = run_init(ctx, dims);
    ctx->up = rc == MF_OK;
    if (rc != MF_OK) {
        mf_instance_free(ctx);
        return rc;
    }
    *ret = ctx;
    return MF_OK;
}

int mf_adapter_new(mf_plughost *h, const mf_loaded *plugin, const char *path, mf_ini *ini,
                   const char *section, const char *const *reserved, const char *live,
                   const mf_dims *dims, const mf_linear_site *sites, int32_t n_sites, double lr,
                   mf_ctx **ret)
{
    return new_instance(h, plugin, path, ini, section, reserved, live, NULL, dims, sites,
                        n_sites, lr, ret);
}

int mf_instance_new(mf_plughost *h, const mf_loaded *plugin, const char *path, mf_ini *ini,
                    const char *section, const char *const *reserved, const char *live,
                    const mf_dims *dims, mf_ctx **ret)
{
    return new_instance(h, plugin, path, ini, section, reserved, live, NULL, dims, NULL, 0, 1,
                        ret);
}

int mf_instance_new_with(mf_plughost *h, const mf_loaded *plugin, const char *path, mf_ini *ini,
                         const char *section, const char *const *reserved, const char *live,
                         const mf_option_value *set, const mf_dims *dims, mf_ctx **ret)
{
    return new_instance(h, plugin, path, ini, section, reserved, live, set, dims, NULL, 0, 1,
                        ret);
}

const mf_adapter_notes *mf_instance_notes(const mf_ctx *ctx)
{
    return &ctx->notes;
}

/* Calls fini. Instances are also freed after a failure, and the message of the failure must
 * survive fini. A rule that fini breaks only causes a warning, because nothing uses the
 * instance any more. */
static void run_fini(mf_ctx *ctx)
{
    char kept[2048];
    call c;
    const int code = mf_error_code();
    snprintf(kept, sizeof kept, "%s", mf_error_message());
    enter(&c, ctx, MF_PHASE_NONE, "fini", NULL);
    ctx->plugin->fini(ctx->self);
    if (leave(&c, MF_OK) != MF_OK) mf_log(MF_LOG_WARN, "%s", mf_error_message());
    mf_error_clear();
    if (code != MF_OK) mf_fail(code, "%s", kept);
}

void mf_instance_free(mf_ctx *ctx)
{
    if (!ctx) return;
    if (ctx->up && ctx->plugin->fini) run_fini(ctx);
    mf_free(ctx->conf);
    mf_free(ctx->self);
    mf_free(ctx);
}

const char *mf_instance_path(const mf_ctx *ctx)
{
    return ctx->path;
}

const mf_loaded *mf_instance_plugin(const mf_ctx *ctx)
{
    return ctx->plugin;
}

void mf_instance_mute(mf_ctx *ctx, bool muted)
{
    ctx->host->muted = muted;
}

const void *mf_instance_conf(const mf_ctx *ctx)
{
    return ctx->conf;
}

/* ---- results ---- */

/* Returns MF_OK for NULL, and for a tensor of this graph with the required type, rank and
 * dimensions. d0, d1: -1 for any size. */
static int check_tensor(mf_ctx *ctx, mf_graph *g, const char *what, const mf_tensor *t,
                        mf_dtype dtype, int32_t rank, int64_t d0, int64_t d1)
{
    static const char *const types[] = {"f32", "bf16", "i32", "u8"};
    if (!t) return MF_OK;
    if (t->graph != g)
        return wrong_result(ctx, g, "%s: expected a value of this graph, found one of another",
                            what);
    const mf_shape *s = &t->shape;
    bool fits = t->dtype == dtype && s->rank == rank &&
                (rank < 1 || d0 < 0 || s->dim[0] == d0) &&
                (rank < 2 || d1 < 0 || s->dim[1] == d1);
    if (fits) return MF_OK;
    char expected[64], found[96];
    int n = snprintf(found, sizeof found, "%s [", types[t->dtype & 3]);
    for (int32_t i = 0; i < s->rank; i++)
        n += snprintf(found + n, sizeof found - (size_t)n, "%s%lld", i > 0 ? "," : "",
                      (long long)s->dim[i]);
    snprintf(found + n, sizeof found - (size_t)n, "]");
    if (rank == 2)
        snprintf(expected, sizeof expected, "%s [%lld,%lld]", types[dtype & 3], (long long)d0,
                 (long long)d1);
    else if (d0 >= 0)
        snprintf(expected, sizeof expected, "%s [%lld]", types[dtype & 3], (long long)d0);
    else
        snprintf(expected, sizeof expected, "%s [R]", types[dtype & 3]);
    return wrong_result(ctx, g, "%s: expected %s, found %s", what, expected, found);
}

static int check_scalar(mf_ctx *ctx, mf_graph *g, const char *what, const mf_tensor *t)
{
    if (!t) return wrong_result(ctx, g, "%s: expected a scalar, found NULL", what);
    if (t->graph != g)
        return wrong_result(ctx, g, "%s: expected a value of this graph, found one of another",
                            what);
    if (t->dtype != MF_F32 || mf_shape_count(t->shape) != 1)
        return wrong_result(ctx, g, "%s: expected an f32 scalar, found %lld elements", what,
                            (long long)mf_shape_count(t->shape));
    return MF_OK;
}

static int check_losses(mf_ctx *ctx, mf_graph *g, const mf_routing *r)
{
    if (r->n_losses < 0 || r->n_losses > MF_ROUTING_MAX_LOSSES)
        return wrong_result(ctx, g, "n_losses: expected 0 to %d, found %d",
                            MF_ROUTING_MAX_LOSSES, (int)r->n_losses);
    for (int32_t i = 0; i < r->n_losses; i++) {
        if (!r->loss_name[i])
            return wrong_result(ctx, g, "loss_name[%d]: expected a name, found NULL", (int)i);
        int rc = check_scalar(ctx, g, r->loss_name[i], r->loss[i]);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

/* Checks soft routing: every token must have weights for all slots, and no experts may
 * be chosen. */
static int check_soft(mf_ctx *ctx, mf_graph *g, const mf_routing *r)
{
    if (!r->dispatch || !r->combine)
        return wrong_result(ctx, g, "dispatch and combine: expected both or none");
    if (r->slots < 1 || r->slots > r->tokens)
        return wrong_result(ctx, g, "slots: expected 1 to %d of each expert, found %d",
                            (int)r->tokens, (int)r->slots);
    if (r->expert || r->gate || r->token || r->score || r->silent)
        return wrong_result(
            ctx, g,
            "soft routing assigns no tokens: expected no expert, gate, token, silent and "
            "score beside dispatch");
    const int64_t S = (int64_t)r->experts * r->slots;
    int rc = check_tensor(ctx, g, "dispatch", r->dispatch, MF_F32, 2, r->tokens, S);
    return rc == MF_OK ? check_tensor(ctx, g, "combine", r->combine, MF_F32, 2, r->tokens, S)
                       : rc;
}

/* Checks a routing record. moefw/routing.h describes which results a router may omit and which
 * results must agree. */
static int check_routing(mf_ctx *ctx, mf_graph *g, const mf_routing *r)
{
    const int64_t T = r->tokens, E = r->experts;
    if (r->reserved != 0)
        return wrong_result(ctx, g, "the routing record: expected 0 in reserved, found %d",
                            (int)r->reserved);
    int rc = check_tensor(ctx, g, "logits", r->logits, MF_F32, 2, T, E);
    if (rc == MF_OK) rc = check_tensor(ctx, g, "prob", r->prob, MF_F32, 2, T, E);
    if (rc == MF_OK) rc = check_tensor(ctx, g, "score", r->score, MF_F32, 2, T, E);
    if (rc == MF_OK) rc = check_losses(ctx, g, r);
    if (rc != MF_OK) return rc;
    if (r->dispatch || r->combine) return check_soft(ctx, g, r);
    if (!r->expert && !r->prob && !r->logits)
        return wrong_result(ctx, g,
                            "route set none of logits, prob and expert: expected one of them");
    if (r->silent && (!r->expert || !r->gate || r->token || !mf_graph_training(g)))
        return wrong_result(ctx, g,
                            "silent: expected only in graphs that train, with expert and gate, "
                            "and without token");
    if (!r->expert) {
        if (r->gate || r->token)
            return wrong_result(ctx, g, "gate and token: expected only together with expert");
        return MF_OK;
    }
    if (!r->token && (r->own_top_k < 1 || r->own_top_k > E))
        return wrong_result(ctx, g, "own_top_k: expected 1 to %lld experts a token, found %d",
                            (long long)E, (int)r->own_top_k);
    const int64_t rows = r->token ? -1 : T * r->own_top_k;
    rc = check_tensor(ctx, g, "expert", r->expert, MF_I32, 1, rows, -1);
    if (rc == MF_OK)
        rc = check_tensor(ctx, g, "gate", r->gate, MF_F32, 1, r->expert->shape.dim[0], -1);
    if (rc == MF_OK)
        rc = check_tensor(ctx, g, "token", r->token, MF_I32, 1, r->expert->shape.dim[0], -1);
    if (rc == MF_OK)
        rc = check_tensor(ctx, g, "silent", r->silent, MF_F32, 1, r->expert->shape.dim[0], -1);
    return rc;
}

/* ---- calls by kind ---- */

int mf_instance_route(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    call c;
    int rc = mf_graph_status(g);
    if (rc != MF_OK) return rc;
    enter(&c, ctx, MF_PHASE_BUILD, "route", g);
    rc = leave(&c, ctx->plugin->table.router.route(ctx->self, ctx, g, in, out));
    return rc != MF_OK ? rc : check_routing(ctx, g, out);
}

int mf_instance_expert(mf_ctx *ctx, mf_graph *g, const mf_expert_in *in, mf_tensor **ret_y)
{
    call c;
    int rc = mf_graph_status(g);
    *ret_y = NULL;
    if (rc != MF_OK) return rc;
    enter(&c, ctx, MF_PHASE_BUILD, "forward", g);
    rc = leave(&c, ctx->plugin->table.expert.forward(ctx->self, ctx, g, in, ret_y));
    if (rc != MF_OK) return rc;
    if (*ret_y == NULL)
        return wrong_result(ctx, g,
                            "forward returned OK and no value: expected rows of the input's "
                            "shape");
    /* Both types are valid; the result is bf16 if the expert's last gemm writes bf16. */
    const mf_dtype type = (*ret_y)->dtype == MF_BF16 ? MF_BF16 : MF_F32;
    return check_tensor(ctx, g, "the rows", *ret_y, type, 2, in->x->shape.dim[0],
                        in->x->shape.dim[1]);
}

int mf_instance_loss(mf_ctx *ctx, mf_graph *g, const mf_regularizer_in *in,
                     mf_tensor **ret_loss)
{
    const mf_regularizer *table = &ctx->plugin->table.regularizer;
    call c;
    int rc = mf_graph_status(g);
    *ret_loss = NULL;
    if (rc != MF_OK) return rc;
    enter(&c, ctx, MF_PHASE_BUILD, table->loss_of ? "loss_of" : "loss", g);
    rc = leave(&c, table->loss_of
                       ? table->loss_of(ctx->self, ctx, g, in, ret_loss)
                       : table->loss(ctx->self, ctx, g, in->routing, in->n, ret_loss));
    return rc != MF_OK ? rc : check_scalar(ctx, g, "the loss", *ret_loss);
}

/* Checks that an adapter returns the shape that it received, in f32 or bf16. NULL is valid if
 * it removes the bias of attention. */
static int check_adapted(mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in, const mf_tensor *y)
{
    char expected[64], found[64];
    if (!y && in->point == MF_AT_ATTENTION_BIAS) return MF_OK;
    if (!y)
        return wrong_result(ctx, g,
                            "apply returned OK and no value: expected y, or another "
                            "value of its shape");
    if (y->graph != g)
        return wrong_result(ctx, g, "y: expected a value of this graph, found one of another");
    if (mf_shape_equal(y->shape, in->y->shape) && (y->dtype == MF_F32 || y->dtype == MF_BF16))
        return MF_OK;
    const mf_tensor *both[] = {in->y, y};
    for (int i = 0; i < 2; i++) {
        char *out = i == 0 ? expected : found;
        int n = 0;
        out[0] = '\0';
        for (int32_t k = 0; k < both[i]->shape.rank && n < 48; k++)
            n += snprintf(out + n, sizeof expected - (size_t)n, "%s%lld", k > 0 ? "," : "",
                          (long long)both[i]->shape.dim[k]);
    }
    return wrong_result(ctx, g, "y: expected the shape [%s] in f32 or bf16, found [%s]%s",
                        expected, found,
                        y->dtype == MF_F32 || y->dtype == MF_BF16 ? "" : " of integers");
}

int mf_instance_apply(mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in, mf_tensor **ret_y)
{
    call c;
    int rc = mf_graph_status(g);
    *ret_y = in->y;
    if (rc != MF_OK) return rc;
    enter(&c, ctx, MF_PHASE_BUILD, "apply", g);
    rc = leave(&c, ctx->plugin->table.adapter.apply(ctx->self, ctx, g, in, ret_y));
    return rc != MF_OK ? rc : check_adapted(ctx, g, in, *ret_y);
}

int mf_instance_start(mf_ctx *ctx)
{
    call c;
    if (!ctx->plugin->table.adapter.start) return MF_OK;
    enter(&c, ctx, MF_PHASE_STEP, "start", NULL);
    ctx->starts = true;
    return leave(&c, ctx->plugin->table.adapter.start(ctx->self, ctx));
}

int mf_instance_adopt(mf_ctx *ctx, const char *(*option)(const void *arg, const char *key),
                      const void *arg, int32_t layers)
{
    call c;
    if (!ctx->plugin->table.adapter.adopt) return MF_OK;
    enter(&c, ctx, MF_PHASE_STEP, "adopt", NULL);
    ctx->starts = true;
    return leave(&c, ctx->plugin->table.adapter.adopt(ctx->self, ctx, option, arg, layers));
}

int mf_instance_on_step(mf_ctx *ctx, const mf_step *step)
{
    call c;
    enter(&c, ctx, MF_PHASE_STEP, "on_step", NULL);
    ctx->host->copied_rows = false;
    const int rc = leave(&c, ctx->plugin->table.controller.on_step(ctx->self, ctx, step));
    if (ctx->host->copied_rows) mf_store_refresh_bf16(ctx->host->store);
    return rc;
}

int mf_instance_after_step(mf_ctx *ctx, const mf_step *step)
{
    mf_after_step_fn fn = NULL;
    switch (ctx->plugin->kind) {
    case MF_ROUTER:
        fn = ctx->plugin->table.router.after_step;
        break;
    case MF_EXPERT:
        fn = ctx->plugin->table.expert.after_step;
        break;
    case MF_REGULARIZER:
        fn = ctx->plugin->table.regularizer.after_step;
        break;
    case MF_ADAPTER:
        fn = ctx->plugin->table.adapter.after_step;
        break;
    case MF_CONTROLLER:
        break;
    }
    if (!fn) return MF_OK;
    call c;
    enter(&c, ctx, MF_PHASE_STEP, "after_step", NULL);
    return leave(&c, fn(ctx->self, ctx, step));
}
