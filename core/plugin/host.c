/* plugin/host.c: the functions that plugins call. A function that belongs to a phase checks
 * that it is called in that phase. A broken rule makes the instance's call fail even if the
 * plugin ignores the result. */
#include "plugin/host.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "plugin/crash.h"
#include "plugin/instance_internal.h"
#include "plugin/load/device_code.h"
#include "plugin/missing.h"
#include "plugin/print.h"
#include "plugin/rules.h"
#include "plugin/tallies.h"

#define UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
#define SANE_BYTES         4096u /* larger than any struct of any version */

/* ---- messages ---- */

static int host_fail(mf_ctx *ctx, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_vfail(code, fmt, args);
    va_end(args);
    ctx->reported = code != MF_OK ? code : MF_EPLUGIN;
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

/* ---- parameters and buffers ---- */

/* All flags that mf_init.flags may have. */
#define PARAM_FLAGS                                                                            \
    (MF_PARAM_NO_DECAY | MF_PARAM_BY_EXPERT | MF_PARAM_FROZEN | MF_PARAM_ALIKE |               \
     MF_PARAM_BY_HEAD | MF_PARAM_HALVES)

static int declare(mf_ctx *ctx, const char *function, const char *name, mf_shape shape,
                   mf_init init, bool buffer)
{
    int rc = mf_rule_phase(ctx, MF_PHASE_DECLARE, function);
    if (rc != MF_OK) return rc;
    rc = mf_rule_name(ctx, function, name);
    if (rc == MF_OK) rc = mf_rule_shape(ctx, function, name, shape);
    if (rc != MF_OK) return rc;
    if ((init.flags & ~PARAM_FLAGS) != 0)
        return mf_rule_broken(ctx, "%s '%s': expected flags of MF_PARAM_* (0x%x), found 0x%x",
                              function, name, PARAM_FLAGS, (unsigned)init.flags);
    if (init.kind > MF_INIT_EYE)
        return mf_rule_broken(ctx, "%s '%s': unknown start kind %u", function, name,
                              (unsigned)init.kind);
    char full[MF_FULL_NAME];
    rc = mf_rule_full_name(ctx, function, name, full);
    if (rc != MF_OK) return rc;
    if (mf_tallies_has(ctx->host, full))
        return mf_rule_broken(ctx, "%s '%s': a tally of this instance has the name", function,
                              name);
    mf_param *param;
    if ((init.flags & MF_PARAM_BY_HEAD) != 0 && (shape.rank < 1 || ctx->notes.layer < 0))
        return mf_rule_broken(ctx,
                              "%s '%s': MF_PARAM_BY_HEAD is for parameters of a layer with a "
                              "dimension 0",
                              function, name);
    if ((init.flags & MF_PARAM_HALVES) != 0 &&
        (shape.rank < 2 || shape.dim[shape.rank - 2] % 2 != 0))
        return mf_rule_broken(
            ctx, "%s '%s': MF_PARAM_HALVES is for matrices with an even number of rows",
            function, name);
    rc = mf_store_declare(ctx->host->store, full, shape, init, buffer, &param);
    if (rc == MF_OK && !buffer && ctx->lr != 1) param->lr_scale = ctx->lr;
    if (rc == MF_OK && (init.flags & MF_PARAM_BY_HEAD) != 0)
        rc =
            mf_store_divide(ctx->host->store, param, shape.dim[0], param->count / shape.dim[0]);
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
    if (!name) return NULL;
    if (name[0] == '/') return mf_store_find(ctx->host->store, name + 1);
    snprintf(full, sizeof full, "%s.%s", ctx->path, name);
    return mf_store_find(ctx->host->store, full);
}

/* Writes "; did you mean 'x'?" to out, for the nearest name among all parameters. Parameters of
 * the instance are compared by their short names. */
static void nearest_param(mf_ctx *ctx, const char *name, char *out, size_t size)
{
    mf_arena *scratch = mf_arena_new();
    const int n = mf_store_count(ctx->host->store);
    const size_t own = strlen(ctx->path);
    const char **names =
        scratch ? mf_arena_alloc(scratch, ((size_t)n + 1) * sizeof *names) : NULL;
    out[0] = '\0';
    for (int i = 0; names && i < n; i++) {
        const char *full = mf_store_at(ctx->host->store, i)->name;
        bool is_own = strncmp(full, ctx->path, own) == 0 && full[own] == '.';
        names[i] = is_own ? full + own + 1 : mf_arena_strf(scratch, "/%s", full);
        if (!names[i]) names[i] = "";
    }
    if (names) mf_did_you_mean(name, names, out, size);
    mf_arena_free(scratch);
}

static mf_tensor *host_use(mf_ctx *ctx, mf_graph *g, const char *name)
{
    char hint[256];
    if (mf_rule_graph(ctx, g, "use") != MF_OK) return NULL;
    mf_param *p = lookup(ctx, name);
    if (p) return mf_graph_param(g, p);
    nearest_param(ctx, name ? name : "", hint, sizeof hint);
    mf_graph_fail(g, MF_EPLUGIN,
                  "use: no parameter or buffer '%s' of this instance%s (another's full name "
                  "begins with '/')",
                  name ? name : "NULL", hint[0] != '\0' ? hint : ": declare it in init");
    return NULL;
}

static float *host_data(mf_ctx *ctx, const char *name, int64_t *ret_count)
{
    if (ret_count) *ret_count = 0;
    if (mf_rule_phase(ctx, MF_PHASE_STEP, "data") != MF_OK) return NULL;
    mf_param *p = lookup(ctx, name);
    if (!p) return NULL;
    if (ret_count) *ret_count = p->count;
    return mf_instance_values(ctx, p);
}

static const char *host_find(mf_ctx *ctx, const char *pattern, int32_t i)
{
    if (!pattern || i < 0) return NULL;
    const mf_param *p = mf_store_match(ctx->host->store, pattern + (pattern[0] == '/'), i);
    if (!p) return NULL;
    return mf_plughost_slashed(ctx->host, p);
}

/* ---- options ---- */

static mf_tensor *host_live(mf_ctx *ctx, mf_graph *g, const char *option)
{
    char hint[256];
    if (mf_rule_graph(ctx, g, "live") != MF_OK) return NULL;
    const mf_schema *s = &ctx->plugin->schema;
    const mf_option *o = option ? mf_schema_find(s, option) : NULL;
    if (!o) {
        mf_did_you_mean(option ? option : "", s->names, hint, sizeof hint);
        mf_graph_fail(g, MF_EPLUGIN, "live: this plugin has no option '%s'%s",
                      option ? option : "NULL", hint);
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
    int rc = mf_rule_phase(ctx, MF_PHASE_STEP, "set_live");
    if (rc != MF_OK) return rc;
    rc = mf_live_set(ctx->host, option ? option : "", value, ctx->path, reason);
    return rc == MF_OK ? rc
                       : mf_fail_context(rc, "%s (plugin %s)", ctx->path, ctx->plugin->name);
}

static int host_want_live(mf_ctx *ctx, const char *option)
{
    int rc = mf_rule_phase(ctx, MF_PHASE_DECLARE, "want_live");
    return rc == MF_OK ? mf_live_want(ctx->host, option ? option : "", ctx->path) : rc;
}

static int host_get_live(mf_ctx *ctx, const char *option, double *ret_value)
{
    int rc = mf_rule_phase(ctx, MF_PHASE_STEP, "get_live");
    if (rc != MF_OK) return rc;
    rc = mf_live_get(ctx->host, option ? option : "", ret_value);
    return rc == MF_OK ? rc
                       : mf_fail_context(rc, "%s (plugin %s)", ctx->path, ctx->plugin->name);
}

/* ---- graph ---- */

static _Thread_local mf_op_hook op_hook;
static _Thread_local void *op_hook_arg;

void mf_plugin_hook_ops(mf_op_hook hook, void *arg)
{
    op_hook = hook;
    op_hook_arg = arg;
}

static mf_tensor *add_op(mf_graph *g, const mf_opdef *def, int n_in, mf_tensor *const *in,
                         const mf_attr *attr, int n_out, mf_tensor **ret_out)
{
    if (op_hook && def) return op_hook(op_hook_arg, g, def, n_in, in, attr, n_out, ret_out);
    return mf_graph_op(g, def, n_in, in, attr, n_out, ret_out);
}

/* All flags that mf_opdef.flags of a plugin's op may have. */
#define OP_FLAGS                                                                               \
    (MF_OP_NO_GRAD | MF_OP_INPLACE | MF_OP_RANDOM | MF_OP_STATE | MF_OP_ALIAS | MF_OP_CHEAP |  \
     MF_OP_ROWS | MF_OP_GRAD_INPLACE | MF_OP_INPLACE_SECOND | MF_OP_RECOMPUTES_OUT |           \
     MF_OP_STRAIGHT_THROUGH | MF_OP_GEMM)

/* Makes the checks that the graph does not make: the table of a later moefw may request
 * something that this moefw cannot do. False: the graph has failed. */
static bool known_op(mf_graph *g, const mf_opdef *def)
{
    const bool named = def->size >= UP_TO(mf_opdef, name) && def->name;
    const char *name = named ? def->name : "custom op";
    if (def->size > SANE_BYTES || def->size % sizeof(void *) != 0) {
        mf_graph_fail(g, MF_EPLUGIN,
                      "op %s: its table says that it has %u bytes: expected %zu, the size of "
                      "mf_opdef",
                      name, (unsigned)def->size, sizeof *def);
        return false;
    }
    const unsigned char *bytes = (const unsigned char *)def;
    for (size_t i = sizeof *def; i < def->size; i++)
        if (bytes[i] != 0) {
            mf_graph_fail(g, MF_EPLUGIN,
                          "op %s: its table uses a field at byte %zu: expected nothing after "
                          "byte %zu, which is all that this moefw knows; get a newer moefw",
                          name, i, sizeof *def);
            return false;
        }
    if (def->size >= UP_TO(mf_opdef, name) && (def->flags & ~OP_FLAGS) != 0) {
        mf_graph_fail(g, MF_EPLUGIN,
                      "op %s: expected flags of MF_OP_* (0x%x), found 0x%x; get a newer moefw "
                      "if that is a new one",
                      name, OP_FLAGS, (unsigned)def->flags);
        return false;
    }
    return true;
}

static mf_tensor *host_custom(mf_graph *g, const mf_opdef *def, int n_in, mf_tensor *const *in,
                              const mf_attr *attr, int n_out, mf_tensor **ret_out)
{
    for (int i = 0; ret_out && i < n_out; i++)
        ret_out[i] = NULL;
    /* Without mf_custom no source line was set for this op, and the last line belongs to
     * another op. */
    if (!mf_graph_at_next(g)) mf_graph_at(g, NULL, 0);
    if (def && !known_op(g, def)) return NULL;
    const mf_ctx *ctx = mf_instance_now();
    if (def && def->size >= UP_TO(mf_opdef, launch) && def->launch && def->name &&
        mf_judge_device_code(def) != MF_OK) {
        char why[600];
        snprintf(why, sizeof why, "%s", mf_error_message());
        mf_graph_fail(g, MF_EPLUGIN, "plugin %s: %s",
                      ctx ? ctx->plugin->name : "of the program", why);
        return NULL;
    }
    if (ctx && def) mf_crash_own(def, ctx->plugin->name, ctx->plugin->path);
    return add_op(g, def, n_in, in, attr, n_out, ret_out);
}

/* Lets the model replace the result y of a plugin's linear op, because adapters may change
 * the result. */
static mf_tensor *hooked(mf_graph *g, mf_tensor *const *in, mf_tensor *y)
{
    const mf_ctx *ctx = mf_instance_now();
    if (!y || !ctx || !ctx->host->linear || y->node < 0 || ctx->plugin->kind == MF_ADAPTER)
        return y;
    const mf_opdef *op = mf_tensor_producer(y)->op;
    if ((op->role != MF_ROLE_LINEAR && op->role != MF_ROLE_GROUPED_LINEAR) || !in[1]->param)
        return y;
    return ctx->host->linear(ctx->host->linear_arg, g, op, in, y);
}

static mf_tensor *host_op(mf_graph *g, const char *name, int n_in, mf_tensor *const *in,
                          const mf_attr *attr, int n_out, mf_tensor **ret_out)
{
    const mf_opdef *def = op_hook && name ? mf_op_find(name) : NULL;
    if (def) return add_op(g, def, n_in, in, attr, n_out, ret_out);
    mf_tensor *y = mf_graph_op_named(g, name, n_in, in, attr, n_out, ret_out);
    mf_tensor *to = hooked(g, in, y);
    if (to != y && ret_out) ret_out[0] = to;
    return to;
}

static mf_shape host_shape(const mf_tensor *t)
{
    return t ? t->shape : mf_shape0();
}

static mf_dtype host_dtype(const mf_tensor *t)
{
    return t ? t->dtype : MF_F32;
}

static bool host_training(const mf_graph *g)
{
    return mf_graph_training(g);
}

/* Keeps the mean of the value, in nodes that run only in steps that write metrics. */
static void host_metric(mf_ctx *ctx, mf_graph *g, const char *name, mf_tensor *t)
{
    if (mf_rule_graph(ctx, g, "metric") != MF_OK || !t) return;
    if (mf_rule_name(ctx, "metric", name) != MF_OK || ctx->host->muted) return;
    mf_attr all = {.i = {15, 0}};
    mf_graph_metrics(g, true);
    mf_tensor *in = t->dtype == MF_F32 ? t : NULL;
    mf_attr to = {.i = {MF_F32}};
    if (!in) in = mf_graph_op_named(g, "cast", 1, &t, &to, 1, NULL);
    mf_tensor *mean = mf_graph_op_named(g, "mean", 1, &in, &all, 1, NULL);
    mf_graph_keep(mean);
    mf_graph_metrics(g, false);
    if (mean && mf_plughost_keep_metric(ctx, g, name, mean) != MF_OK)
        mf_graph_fail(g, MF_ENOMEM, "out of memory for metric '%s'", name);
}

/* ---- between steps ---- */

static int host_freeze(mf_ctx *ctx, const char *pattern, bool frozen, const char *reason)
{
    int rc = mf_rule_phase(ctx, MF_PHASE_STEP, "freeze");
    if (rc != MF_OK) return rc;
    mf_param *p;
    const char *full = pattern ? pattern + (pattern[0] == '/') : "";
    int found = 0, changed = 0;
    while ((p = mf_store_match(ctx->host->store, full, found)) != NULL) {
        found++;
        changed += !p->buffer && p->frozen != frozen;
        if (!p->buffer) p->frozen = frozen;
    }
    if (found == 0)
        return mf_fail_context(mf_fail(MF_ENOTFOUND, "freeze: no parameter matches '%s'", full),
                               "%s (plugin %s)", ctx->path, ctx->plugin->name);
    if (changed > 0) mf_plughost_ask_rebuild(ctx, reason);
    return MF_OK;
}

static int host_rebuild(mf_ctx *ctx, const char *reason)
{
    int rc = mf_rule_phase(ctx, MF_PHASE_STEP, "rebuild");
    if (rc == MF_OK) mf_plughost_ask_rebuild(ctx, reason);
    return rc;
}

static int32_t host_history(mf_ctx *ctx, const char *metric, int32_t n, double *out)
{
    if (mf_rule_phase(ctx, MF_PHASE_STEP, "history") != MF_OK) return 0;
    const mf_plughost *h = ctx->host;
    if (!h->history || !metric || n <= 0 || !out) return 0;
    return h->history(h->history_arg, metric, n, out);
}

static const void *host_extension(const char *id)
{
    (void)id; /* this version has no draft interfaces */
    return NULL;
}

static int32_t host_head_importance(mf_ctx *ctx, int32_t n, float *out)
{
    if (mf_rule_phase(ctx, MF_PHASE_STEP, "head_importance") != MF_OK) return 0;
    const mf_plughost *h = ctx->host;
    if (!h->importance || n <= 0 || !out) return 0;
    int32_t found = 0;
    const int rc = h->importance(h->importance_arg, n, out, &found);
    if (rc != MF_OK && ctx->fault == MF_OK) ctx->fault = rc;
    return rc == MF_OK ? found : 0;
}

/* ---- adapters ---- */

static int host_want(mf_ctx *ctx, uint32_t what)
{
    int rc = mf_rule_phase(ctx, MF_PHASE_DECLARE, "want");
    if (rc != MF_OK) return rc;
    if ((what & ~(MF_ADAPTER_HEADS | MF_ADAPTER_SEQUENCE)) != 0)
        return mf_rule_broken(ctx, "want: expected bits MF_ADAPTER_*, found 0x%x",
                              (unsigned)what);
    ctx->notes.wants |= what;
    return MF_OK;
}

static int host_tap(mf_ctx *ctx, int32_t layer, int32_t point)
{
    mf_adapter_notes *n = &ctx->notes;
    int rc = mf_rule_phase(ctx, MF_PHASE_DECLARE, "tap");
    if (rc != MF_OK) return rc;
    if (layer < 0 || layer > n->layer || point < MF_AT_BLOCK_IN || point > MF_AT_FFN)
        return mf_rule_broken(
            ctx,
            "tap: expected block_in to ffn of block 0 to %d, found point %d of "
            "block %d",
            (int)n->layer, (int)point, (int)layer);
    if (n->n_taps == MF_ADAPTER_TAPS)
        return mf_rule_broken(ctx, "tap: expected at most %d of them", MF_ADAPTER_TAPS);
    n->tap[n->n_taps].layer = layer;
    n->tap[n->n_taps++].point = point;
    return MF_OK;
}

static const mf_linear_site *host_site(mf_ctx *ctx, int32_t i)
{
    return i >= 0 && i < ctx->notes.n_sites ? &ctx->notes.sites[i] : NULL;
}

static int host_head_gates(mf_ctx *ctx, const char *param, int32_t form)
{
    int rc = mf_rule_phase(ctx, MF_PHASE_DECLARE, "head_gates");
    if (rc != MF_OK) return rc;
    mf_param *p = lookup(ctx, param);
    if (!p || p->buffer || p->shape.rank != 1)
        return mf_rule_broken(
            ctx,
            "head_gates: expected a parameter [heads] of this instance, found "
            "'%s'",
            param ? param : "NULL");
    if (form != MF_GATE_SIGMOID && form != MF_GATE_RAW)
        return mf_rule_broken(
            ctx, "head_gates: expected MF_GATE_SIGMOID or MF_GATE_RAW, found %d", (int)form);
    ctx->notes.gates = p;
    ctx->notes.gate_form = form;
    return MF_OK;
}

static int host_layer_dims(mf_ctx *ctx, int32_t layer, mf_dims *ret)
{
    mf_plughost *h = ctx->host;
    mf_dims dims;
    int rc = mf_rule_phase(ctx, MF_PHASE_DECLARE, "layer_dims");
    if (rc != MF_OK) return rc;
    if (!ret || !MF_HAS(ret, mf_dims, top_k))
        return mf_rule_broken(ctx, "layer_dims: expected an mf_dims with its size");
    rc = h->dims ? h->dims(h->dims_arg, layer, &dims) : MF_ENOTFOUND;
    if (rc != MF_OK) return rc;
    const uint32_t size = ret->size < sizeof dims ? ret->size : (uint32_t)sizeof dims;
    memcpy(ret, &dims, size);
    ret->size = size;
    return MF_OK;
}

/* ---- source lines, printing ---- */

static void host_at(mf_graph *g, const char *file, int32_t line)
{
    mf_graph_at(g, file, line);
}

/* Prefixes the name with layer and plugin: "layers.0.router (plugin mine): logits". */
static void host_print(mf_graph *g, mf_tensor *t, const char *name)
{
    const mf_ctx *ctx = mf_instance_now();
    const char *full = name ? name : "a value";
    if (ctx)
        full = mf_arena_strf(ctx->host->arena, "%s (plugin %s): %s", ctx->path,
                             ctx->plugin->name, full);
    if (t && full) mf_print_add(g, t, full);
}

static const mf_host table = {
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
    .want = host_want,
    .tap = host_tap,
    .site = host_site,
    .head_gates = host_head_gates,
    .at = host_at,
    .print = host_print,
    .want_live = host_want_live,
    .tally = mf_host_tally,
    .count = mf_host_count,
    .sum = mf_host_sum,
    .count_scores = mf_host_count_scores,
    .layer_dims = host_layer_dims,
    .copy_row = mf_host_copy_row,
};

/* The table that plugins get, followed by functions that report that they are missing. */
static union {
    mf_host host;
    void (*slots[4096 / sizeof(void (*)(void))])(void);
} seen;

static void make_seen(void)
{
    const size_t n = sizeof table / sizeof *seen.slots;
    const size_t head = offsetof(mf_host, fail) / sizeof *seen.slots;
    seen.host = table;
    mf_missing_fill(seen.slots + n, sizeof seen.slots / sizeof *seen.slots - n, n - head);
}

const mf_host *mf_plugin_host(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_seen);
    return &seen.host;
}
