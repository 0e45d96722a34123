#include "plugin/host.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "plugin/inside.h"

/* ---- messages ---- */

static int host_fail(mf_ctx *ctx, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_vfail(code, fmt, args);
    va_end(args);
    return mf_fail_context(code, "%s (plugin %s)", ctx->path, ctx->plugin->name);
}

static void host_log(mf_ctx *ctx, int level, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mf_log_level to = level <= 0   ? MF_LOG_ERROR
                      : level >= 3 ? MF_LOG_DEBUG
                                   : (mf_log_level)level;
    mf_log(to, "%s (plugin %s): %s", ctx->path, ctx->plugin->name, text);
}

/* A broken rule is remembered: the instance's call fails even if the plugin looks away. */
MF_PRINTF(2, 3)
static int broken(mf_ctx *ctx, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_vfail(MF_EPLUGIN, fmt, args);
    va_end(args);
    mf_fail_context(MF_EPLUGIN, "%s (plugin %s, in %s)", ctx->path, ctx->plugin->name,
                    ctx->running != NULL ? ctx->running : "no call");
    if (ctx->fault == MF_OK) ctx->fault = MF_EPLUGIN;
    return MF_EPLUGIN;
}

static const char *phase_text(mf_phase phase)
{
    switch (phase) {
    case MF_PHASE_DECLARE:
        return "while the instance is set up (init)";
    case MF_PHASE_BUILD:
        return "while a graph is built (route, forward, loss)";
    case MF_PHASE_STEP:
        return "between steps (on_step, after_step)";
    case MF_PHASE_NONE:
        break;
    }
    return "outside of any call";
}

static int demand(mf_ctx *ctx, mf_phase phase, const char *function)
{
    if (ctx->phase == phase) return MF_OK;
    return broken(ctx, "%s: expected to be called %s, found %s", function, phase_text(phase),
                  phase_text(ctx->phase));
}

/* Same for functions that build: the graph has to be the one that was handed in, too. */
static int demand_graph(mf_ctx *ctx, const mf_graph *g, const char *function)
{
    int rc = demand(ctx, MF_PHASE_BUILD, function);
    if (rc == MF_OK && g != ctx->graph)
        rc = broken(ctx, "%s: expected the graph that was handed to %s, found another",
                    function, ctx->running);
    return rc;
}

/* ---- parameters and buffers ---- */

static bool good_name(const char *name)
{
    size_t n = name != NULL ? strlen(name) : 0;
    return n > 0 && n <= 64 && name[0] != '.' && name[n - 1] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") ==
               n;
}

static int declare(mf_ctx *ctx, const char *function, const char *name, mf_shape shape,
                   mf_init init, bool buffer)
{
    int rc = demand(ctx, MF_PHASE_DECLARE, function);
    if (rc != MF_OK) return rc;
    if (!good_name(name))
        return broken(ctx,
                      "%s: expected a name of 1 to 64 letters, digits, '_' and '.', found '%s'",
                      function, name != NULL ? name : "NULL");
    if (shape.rank < 0 || shape.rank > MF_MAX_RANK)
        return broken(ctx, "%s '%s': expected a rank from 0 to %d, found %d", function, name,
                      MF_MAX_RANK, (int)shape.rank);
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 1 || shape.dim[i] > INT32_MAX)
            return broken(ctx,
                          "%s '%s': expected dimensions of at least 1, found %lld as number %d",
                          function, name, (long long)shape.dim[i], (int)i);
    if (init.kind > MF_INIT_EYE)
        return broken(ctx, "%s '%s': unknown start kind %u", function, name,
                      (unsigned)init.kind);
    char full[256];
    if (snprintf(full, sizeof full, "%s.%s", ctx->path, name) >= (int)sizeof full)
        return broken(ctx, "%s '%s': its full name is too long", function, name);
    mf_param *param;
    rc = mf_store_declare(ctx->host->store, full, shape, init, buffer, &param);
    return rc == MF_OK ? rc
                       : mf_fail_context(rc, "%s (plugin %s)", ctx->path, ctx->plugin->name);
}

static int host_param(mf_ctx *ctx, const char *name, mf_shape shape, mf_init init)
{
    return declare(ctx, "param", name, shape, init, false);
}

static int host_buffer(mf_ctx *ctx, const char *name, mf_shape shape, mf_init init)
{
    return declare(ctx, "buffer", name, shape, init, true);
}

static mf_param *lookup(mf_ctx *ctx, const char *name)
{
    char full[256];
    if (name == NULL) return NULL;
    if (name[0] == '/') return mf_store_find(ctx->host->store, name + 1);
    snprintf(full, sizeof full, "%s.%s", ctx->path, name);
    return mf_store_find(ctx->host->store, full);
}

/* "; did you mean 'x'?" among all parameters, the own ones by their short names. */
static void nearest_param(mf_ctx *ctx, const char *name, char *out, size_t size)
{
    mf_arena *scratch = mf_arena_new();
    const int n = mf_store_count(ctx->host->store);
    const size_t own = strlen(ctx->path);
    const char **names =
        scratch ? mf_arena_alloc(scratch, ((size_t)n + 1) * sizeof *names) : NULL;
    out[0] = '\0';
    for (int i = 0; names != NULL && i < n; i++) {
        const char *full = mf_store_at(ctx->host->store, i)->name;
        bool is_own = strncmp(full, ctx->path, own) == 0 && full[own] == '.';
        names[i] = is_own ? full + own + 1 : mf_arena_strf(scratch, "/%s", full);
        if (names[i] == NULL) names[i] = "";
    }
    if (names != NULL) mf_did_you_mean(name, names, out, size);
    mf_arena_free(scratch);
}

static mf_tensor *host_use(mf_ctx *ctx, mf_graph *g, const char *name)
{
    char hint[256];
    if (demand_graph(ctx, g, "use") != MF_OK) return NULL;
    mf_param *p = lookup(ctx, name);
    if (p != NULL) return mf_graph_param(g, p);
    nearest_param(ctx, name != NULL ? name : "", hint, sizeof hint);
    mf_graph_fail(g, MF_EPLUGIN,
                  "use: no parameter or buffer '%s' of this instance%s (another's full name "
                  "begins with '/')",
                  name != NULL ? name : "NULL",
                  hint[0] != '\0' ? hint : ": declare it in init");
    return NULL;
}

static float *host_data(mf_ctx *ctx, const char *name, int64_t *ret_count)
{
    if (ret_count != NULL) *ret_count = 0;
    if (demand(ctx, MF_PHASE_STEP, "data") != MF_OK) return NULL;
    const mf_param *p = lookup(ctx, name);
    if (p == NULL) return NULL;
    if (ret_count != NULL) *ret_count = p->count;
    return p->value;
}

static const char *host_find(mf_ctx *ctx, const char *pattern, int32_t i)
{
    if (pattern == NULL || i < 0) return NULL;
    const mf_param *p = mf_store_match(ctx->host->store, pattern + (pattern[0] == '/'), i);
    if (p == NULL) return NULL;
    return mf_plughost_slashed(ctx->host, p);
}

/* ---- options ---- */

static mf_tensor *host_live(mf_ctx *ctx, mf_graph *g, const char *option)
{
    char hint[256];
    if (demand_graph(ctx, g, "live") != MF_OK) return NULL;
    const mf_schema *s = &ctx->plugin->schema;
    const mf_option *o = option != NULL ? mf_schema_find(s, option) : NULL;
    if (o == NULL) {
        mf_did_you_mean(option != NULL ? option : "", s->names, hint, sizeof hint);
        mf_graph_fail(g, MF_EPLUGIN, "live: this plugin has no option '%s'%s",
                      option != NULL ? option : "NULL", hint);
        return NULL;
    }
    if (o->type == MF_OPT_STR || (o->flags & MF_OPT_LIVE) == 0) {
        mf_graph_fail(g, MF_EPLUGIN,
                      "live: option '%s' is not marked MF_OPT_LIVE: read it from conf", option);
        return NULL;
    }
    return mf_graph_live(g, &ctx->shadow[o - s->options], o->name);
}

static int host_set_live(mf_ctx *ctx, const char *option, double value, const char *reason)
{
    int rc = demand(ctx, MF_PHASE_STEP, "set_live");
    if (rc != MF_OK) return rc;
    rc = mf_live_set(ctx->host, option != NULL ? option : "", value, ctx->path, reason);
    return rc == MF_OK ? rc
                       : mf_fail_context(rc, "%s (plugin %s)", ctx->path, ctx->plugin->name);
}

static int host_get_live(mf_ctx *ctx, const char *option, double *ret_value)
{
    int rc = demand(ctx, MF_PHASE_STEP, "get_live");
    if (rc != MF_OK) return rc;
    rc = mf_live_get(ctx->host, option != NULL ? option : "", ret_value);
    return rc == MF_OK ? rc
                       : mf_fail_context(rc, "%s (plugin %s)", ctx->path, ctx->plugin->name);
}

/* ---- graph ---- */

static mf_op_hook op_hook;
static void *op_hook_arg;

void mf_plugin_hook_ops(mf_op_hook hook, void *arg)
{
    op_hook = hook;
    op_hook_arg = arg;
}

static mf_tensor *host_custom(mf_graph *g, const mf_opdef *def, int n_in, mf_tensor *const *in,
                              const mf_attr *attr, int n_out, mf_tensor **ret_out)
{
    if (op_hook != NULL && def != NULL)
        return op_hook(op_hook_arg, g, def, n_in, in, attr, n_out, ret_out);
    return mf_graph_op(g, def, n_in, in, attr, n_out, ret_out);
}

static mf_tensor *host_op(mf_graph *g, const char *name, int n_in, mf_tensor *const *in,
                          const mf_attr *attr, int n_out, mf_tensor **ret_out)
{
    const mf_opdef *def = op_hook != NULL && name != NULL ? mf_op_find(name) : NULL;
    if (def != NULL) return host_custom(g, def, n_in, in, attr, n_out, ret_out);
    return mf_graph_op_named(g, name, n_in, in, attr, n_out, ret_out);
}

static mf_shape host_shape(const mf_tensor *t)
{
    return t != NULL ? t->shape : mf_shape0();
}

static mf_dtype host_dtype(const mf_tensor *t)
{
    return t != NULL ? t->dtype : MF_F32;
}

static bool host_training(const mf_graph *g)
{
    return mf_graph_training(g);
}

/* The mean of the value, kept, in nodes that run only when metrics are wanted. */
static void host_metric(mf_ctx *ctx, mf_graph *g, const char *name, mf_tensor *t)
{
    if (demand_graph(ctx, g, "metric") != MF_OK || t == NULL) return;
    if (!good_name(name)) {
        broken(ctx,
               "metric: expected a name of 1 to 64 letters, digits, '_' and '.', found '%s'",
               name != NULL ? name : "NULL");
        return;
    }
    mf_attr all = {.i = {15, 0}};
    mf_graph_metrics(g, true);
    mf_tensor *in = t->dtype == MF_F32 ? t : NULL;
    mf_attr to = {.i = {MF_F32}};
    if (in == NULL) in = mf_graph_op_named(g, "cast", 1, &t, &to, 1, NULL);
    mf_tensor *mean = mf_graph_op_named(g, "mean", 1, &in, &all, 1, NULL);
    mf_graph_keep(mean);
    mf_graph_metrics(g, false);
    if (mean != NULL && mf_plughost_keep_metric(ctx, g, name, mean) != MF_OK)
        mf_graph_fail(g, MF_ENOMEM, "out of memory for metric '%s'", name);
}

/* ---- between steps ---- */

static int host_freeze(mf_ctx *ctx, const char *pattern, bool frozen, const char *reason)
{
    int rc = demand(ctx, MF_PHASE_STEP, "freeze");
    if (rc != MF_OK) return rc;
    mf_param *p;
    const char *full = pattern != NULL ? pattern + (pattern[0] == '/') : "";
    int found = 0, changed = 0;
    while ((p = mf_store_match(ctx->host->store, full, found)) != NULL) {
        found++;
        changed += !p->buffer && p->frozen != frozen;
        if (!p->buffer) p->frozen = frozen;
    }
    if (found == 0)
        return host_fail(ctx, MF_ENOTFOUND, "freeze: no parameter matches '%s'", full);
    if (changed > 0) mf_plughost_ask_rebuild(ctx, reason);
    return MF_OK;
}

static int host_rebuild(mf_ctx *ctx, const char *reason)
{
    int rc = demand(ctx, MF_PHASE_STEP, "rebuild");
    if (rc == MF_OK) mf_plughost_ask_rebuild(ctx, reason);
    return rc;
}

static int32_t host_history(mf_ctx *ctx, const char *metric, int32_t n, double *out)
{
    if (demand(ctx, MF_PHASE_STEP, "history") != MF_OK) return 0;
    const mf_plughost *h = ctx->host;
    if (h->history == NULL || metric == NULL || n <= 0 || out == NULL) return 0;
    return h->history(h->history_arg, metric, n, out);
}

static const void *host_extension(const char *id)
{
    (void)id; /* no drafts in this version */
    return NULL;
}

static int32_t host_head_importance(mf_ctx *ctx, int32_t n, float *out)
{
    if (demand(ctx, MF_PHASE_STEP, "head_importance") != MF_OK) return 0;
    const mf_plughost *h = ctx->host;
    if (h->importance == NULL || n <= 0 || out == NULL) return 0;
    int32_t found = 0;
    const int rc = h->importance(h->importance_arg, n, out, &found);
    if (rc != MF_OK && ctx->fault == MF_OK) ctx->fault = rc;
    return rc == MF_OK ? found : 0;
}

const mf_host *mf_plugin_host(void)
{
    static const mf_host host = {
        .size = sizeof(mf_host),
        .abi = MF_ABI,
        .fail = host_fail,
        .log = host_log,
        .param = host_param,
        .buffer = host_buffer,
        .use = host_use,
        .data = host_data,
        .find = host_find,
        .live = host_live,
        .set_live = host_set_live,
        .get_live = host_get_live,
        .op = host_op,
        .custom = host_custom,
        .constant = mf_graph_const,
        .status = mf_graph_status,
        .shape = host_shape,
        .dtype = host_dtype,
        .training = host_training,
        .metric = host_metric,
        .freeze = host_freeze,
        .rebuild = host_rebuild,
        .history = host_history,
        .extension = host_extension,
        .head_importance = host_head_importance,
    };
    return &host;
}
