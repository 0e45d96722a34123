#include "plugin/instance.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "plugin/crash.h"
#include "plugin/guard.h"
#include "plugin/inside.h"

/* ---- what instances share ---- */

mf_plughost *mf_plughost_new(mf_store *store)
{
    mf_plughost *h = mf_alloc(1, sizeof *h);
    if (h == NULL) return NULL;
    h->store = store;
    h->arena = mf_arena_new();
    if (h->arena == NULL) {
        mf_free(h);
        return NULL;
    }
    return h;
}

void mf_plughost_free(mf_plughost *h)
{
    if (h == NULL) return;
    mf_free(h->live);
    mf_free(h->turns);
    mf_free(h->turn_list);
    mf_free(h->metrics);
    mf_arena_free(h->arena);
    mf_free(h);
}

void mf_plughost_set_step(mf_plughost *h, int64_t step)
{
    h->step = step;
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
    if (h->wants_rebuild) return; /* the first reason stands */
    h->wants_rebuild = true;
    snprintf(h->rebuild, sizeof h->rebuild, "%s: %s", by,
             reason != NULL && reason[0] != '\0' ? reason : "no reason given");
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
        if (names == NULL) return NULL;
        if (h->n_slashed > 0) memcpy(names, h->slashed, (size_t)h->n_slashed * sizeof *names);
        h->slashed = names;
        h->n_slashed = n;
    }
    const char **name = &h->slashed[p->index];
    if (*name == NULL) *name = mf_arena_strf(h->arena, "/%s", p->name);
    return *name;
}

/* ---- metrics of graphs ---- */

int mf_plughost_keep_metric(mf_ctx *ctx, const mf_graph *g, const char *name, mf_tensor *value)
{
    mf_plughost *h = ctx->host;
    if (!mf_plughost_grow((void **)&h->metrics, h->n_metrics, &h->room_metrics,
                          sizeof *h->metrics))
        return MF_ENOMEM;
    const char *full = mf_arena_strf(h->arena, "%s.%s", ctx->path, name);
    if (full == NULL) return MF_ENOMEM;
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
}

/* ---- calls ---- */

typedef struct call {
    mf_ctx *ctx;
    mf_site site;
    const mf_site *outer;
    unsigned float_control;
    bool pushed;
} call;

/* The path without "layers.N.", which the block's own scope says already. */
static const char *short_path(const char *path)
{
    if (strncmp(path, "layers.", 7) != 0) return path;
    const char *dot = strchr(path + 7, '.');
    return dot != NULL ? dot + 1 : path;
}

static void enter(call *c, mf_ctx *ctx, mf_phase phase, const char *function, mf_graph *g)
{
    *c =
        (call){.ctx = ctx, .site = {ctx->plugin->name, ctx->plugin->path, function, ctx->path}};
    ctx->phase = phase;
    ctx->running = function;
    ctx->graph = g;
    ctx->fault = MF_OK;
    c->pushed = g != NULL;
    if (g != NULL) mf_graph_push(g, "%s %s", short_path(ctx->path), ctx->plugin->name);
    mf_error_clear();
    c->float_control = mf_guard_float();
    c->outer = mf_crash_site(&c->site);
}

/* What the plugin returned, made honest: a status, with a message, and not OK after a fault. */
static int leave(call *c, int rc)
{
    mf_ctx *ctx = c->ctx;
    mf_crash_site(c->outer);
    if (mf_guard_float_check(c->float_control, "in a call") != MF_OK)
        rc = mf_fail_context(MF_EPLUGIN, "%s (plugin %s)", ctx->path, ctx->plugin->name);
    if (c->pushed) mf_graph_pop(ctx->graph);
    ctx->phase = MF_PHASE_NONE;
    ctx->running = NULL;
    const bool is_status = strcmp(mf_status_name(rc), "MF_UNKNOWN") != 0;
    if (rc == MF_OK && ctx->fault != MF_OK) {
        rc = ctx->fault;
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
    /* Whatever a builder reports must stop the graph, too. */
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

/* ---- life ---- */

static int make(mf_plughost *h, const mf_loaded *plugin, const char *path, mf_ini *ini,
                const char *section, const char *const *reserved, const char *live, mf_ctx *ctx)
{
    const mf_schema *s = &plugin->schema;
    *ctx = (mf_ctx){.host = h, .plugin = plugin};
    ctx->path = mf_arena_strdup(h->arena, path);
    ctx->live = mf_arena_strdup(h->arena, live);
    ctx->conf = mf_alloc(1, plugin->conf_size > 0 ? plugin->conf_size : 1);
    ctx->self = mf_alloc(1, plugin->self_size > 0 ? plugin->self_size : 1);
    ctx->shadow = mf_arena_alloc(h->arena, ((size_t)s->count + 1) * sizeof *ctx->shadow);
    if (!ctx->path || !ctx->live || !ctx->conf || !ctx->self || !ctx->shadow) return MF_ENOMEM;
    int rc = mf_options_default(s, ctx->conf, h->arena);
    if (rc == MF_OK) rc = mf_options_load(s, ctx->conf, h->arena, ini, section, reserved, NULL);
    for (int i = 0; i < s->count && rc == MF_OK; i++) {
        const mf_option *o = &s->options[i];
        if ((o->flags & MF_OPT_LIVE) == 0) continue;
        char name[256];
        snprintf(name, sizeof name, "%s.%s", live, o->name);
        rc = mf_live_register_option(h, name, o, ctx->conf, &ctx->shadow[i]);
        if (rc != MF_OK || strcmp(live, path) == 0) continue;
        /* One layer's alone. */
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

int mf_instance_new(mf_plughost *h, const mf_loaded *plugin, const char *path, mf_ini *ini,
                    const char *section, const char *const *reserved, const char *live,
                    const mf_dims *dims, mf_ctx **ret)
{
    mf_ctx *ctx = mf_alloc(1, sizeof *ctx);
    if (ctx == NULL) return MF_ENOMEM;
    int rc = make(h, plugin, path, ini, section, reserved, live, ctx);
    if (rc == MF_OK) rc = run_init(ctx, dims);
    ctx->up = rc == MF_OK;
    if (rc != MF_OK) {
        mf_instance_free(ctx);
        return rc;
    }
    *ret = ctx;
    return MF_OK;
}

void mf_instance_free(mf_ctx *ctx)
{
    if (ctx == NULL) return;
    if (ctx->up && ctx->plugin->fini != NULL) {
        call c;
        enter(&c, ctx, MF_PHASE_NONE, "fini", NULL);
        ctx->plugin->fini(ctx->self);
        leave(&c, MF_OK);
    }
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

const void *mf_instance_conf(const mf_ctx *ctx)
{
    return ctx->conf;
}

/* ---- results ---- */

/* MF_OK for NULL and for a tensor of this graph with the shape and type. dim -1: any. */
static int check_tensor(mf_ctx *ctx, mf_graph *g, const char *what, const mf_tensor *t,
                        mf_dtype dtype, int32_t rank, int64_t d0, int64_t d1)
{
    static const char *const types[] = {"f32", "bf16", "i32", "u8"};
    if (t == NULL) return MF_OK;
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
    if (t == NULL) return wrong_result(ctx, g, "%s: expected a scalar, found NULL", what);
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
        if (r->loss_name[i] == NULL)
            return wrong_result(ctx, g, "loss_name[%d]: expected a name, found NULL", (int)i);
        int rc = check_scalar(ctx, g, r->loss_name[i], r->loss[i]);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

/* What a router may leave out and what must fit what: moefw/routing.h. */
static int check_routing(mf_ctx *ctx, mf_graph *g, const mf_routing *r)
{
    const int64_t T = r->tokens, E = r->experts;
    int rc = check_tensor(ctx, g, "logits", r->logits, MF_F32, 2, T, E);
    if (rc == MF_OK) rc = check_tensor(ctx, g, "prob", r->prob, MF_F32, 2, T, E);
    if (rc == MF_OK) rc = check_tensor(ctx, g, "score", r->score, MF_F32, 2, T, E);
    if (rc == MF_OK) rc = check_losses(ctx, g, r);
    if (rc != MF_OK) return rc;
    if (r->expert == NULL && r->prob == NULL && r->logits == NULL)
        return wrong_result(ctx, g,
                            "route set none of logits, prob and expert: expected one of them");
    if (r->expert == NULL) {
        if (r->gate != NULL || r->token != NULL)
            return wrong_result(ctx, g, "gate and token: expected only together with expert");
        return MF_OK;
    }
    if (r->token == NULL && (r->own_top_k < 1 || r->own_top_k > E))
        return wrong_result(ctx, g, "own_top_k: expected 1 to %lld experts a token, found %d",
                            (long long)E, (int)r->own_top_k);
    const int64_t rows = r->token != NULL ? -1 : T * r->own_top_k;
    rc = check_tensor(ctx, g, "expert", r->expert, MF_I32, 1, rows, -1);
    if (rc == MF_OK)
        rc = check_tensor(ctx, g, "gate", r->gate, MF_F32, 1, r->expert->shape.dim[0], -1);
    if (rc == MF_OK)
        rc = check_tensor(ctx, g, "token", r->token, MF_I32, 1, r->expert->shape.dim[0], -1);
    return rc;
}

/* ---- the four kinds ---- */

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
    const mf_dtype type = (*ret_y)->dtype == MF_BF16 ? MF_BF16 : MF_F32; /* as its last
                                                                            product */
    return check_tensor(ctx, g, "the rows", *ret_y, type, 2, in->x->shape.dim[0],
                        in->x->shape.dim[1]);
}

int mf_instance_loss(mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing, int32_t n,
                     mf_tensor **ret_loss)
{
    call c;
    int rc = mf_graph_status(g);
    *ret_loss = NULL;
    if (rc != MF_OK) return rc;
    enter(&c, ctx, MF_PHASE_BUILD, "loss", g);
    rc =
        leave(&c, ctx->plugin->table.regularizer.loss(ctx->self, ctx, g, routing, n, ret_loss));
    return rc != MF_OK ? rc : check_scalar(ctx, g, "the loss", *ret_loss);
}

int mf_instance_on_step(mf_ctx *ctx, const mf_step *step)
{
    call c;
    enter(&c, ctx, MF_PHASE_STEP, "on_step", NULL);
    return leave(&c, ctx->plugin->table.controller.on_step(ctx->self, ctx, step));
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
    case MF_CONTROLLER:
        break;
    }
    if (fn == NULL) return MF_OK;
    call c;
    enter(&c, ctx, MF_PHASE_STEP, "after_step", NULL);
    return leave(&c, fn(ctx->self, ctx, step));
}
