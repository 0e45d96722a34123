/* graph/run.c: finishes a graph and runs it. Finishing resolves all pointers of a step once, so
 * that a run only calls functions. */
#include "base/float_control.h"
#include "graph/device/code.h"
#include "graph/device/recorder.h"
#include "graph/third_party.h"
#include "graph/internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- steps ---- */

static int call_fail(const mf_call *call, int code, const char *fmt, ...) MF_PRINTF(3, 4);
static int call_fail(const mf_call *call, int code, const char *fmt, ...)
{
    const mf_replay *step = (const mf_replay *)(const void *)call;
    const char *scope = step->node->scope;
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *name = step->node->op->name, *back = step->node->backward ? " backward" : "";
    if (!step->node->file)
        return mf_fail(code, *scope ? "%s%s (%s): %s" : "%s%s%s: %s", name, back, scope, text);
    char shapes[256];
    return mf_fail(code, "%s%s (%s, %s:%d): %s; its inputs are %s", name, back, scope,
                   step->node->file, (int)step->node->line, text,
                   mf_views_text(call->in, call->n_in, shapes, sizeof shapes));
}

static bool has_step(const mf_node *node)
{
    return !node->dead && !(node->op->flags & MF_OP_ALIAS && !node->backward);
}

/* Returns a tensor as a view for a call. data false: without the address, because the node must
 * not read the values. */
static mf_view view_of(const mf_tensor *t, bool data)
{
    mf_view v = {0};
    if (!t) {
        v.shape.rank = -1;
        return v;
    }
    v.shape = t->shape;
    v.dtype = t->dtype;
    v.data = data ? t->data : NULL;
    if (t->kind == MF_TENSOR_PARAM && t->param->packed &&
        t->dtype == (t->param->bf16 ? MF_BF16 : MF_F32))
        v.reserved = MF_VIEW_PANELS;
    if (mf_tensor_is_stored(t)) v.reserved = MF_VIEW_STORED;
    return v;
}

/* Returns the launch functions or the kernels that the op has for the graph's device. NULL: the
 * op has none, or the graph runs on the CPU. */
static const mf_device_op *launch_of(const mf_graph *g, const mf_opdef *op)
{
    if (!g->options.device) return NULL;
    if (op->size < offsetof(mf_opdef, launch) + sizeof op->launch) return NULL;
    const char *name = mf_device_name(g->options.device);
    for (const mf_device_op *l = op->launch; l && l->device; l = mf_device_op_next(l)) {
        if (l->size < offsetof(mf_device_op, code)) return NULL;
        if (strcmp(l->device, name) != 0) continue;
        if (l->forward && (l->backward || !op->backward)) return l;
        if (MF_HAS(l, mf_device_op, code) && l->code && !l->forward) return l;
    }
    return NULL;
}

static int prepare_step(mf_graph *g, mf_replay *step, const mf_node *node)
{
    mf_view *views =
        mf_arena_alloc(g->memory, (size_t)(node->n_in + node->n_out) * sizeof *views);
    if (!views) return mf_graph_adopt(g, MF_ENOMEM);
    for (int i = 0; i < node->n_in; i++)
        views[i] = view_of(node->in[i], node->reads >> i & 1u);
    for (int i = 0; i < node->n_out; i++) {
        views[node->n_in + i] = view_of(node->out[i], true);
        if (!node->out[i] && node->backward)
            views[node->n_in + i] = view_of(node->in[i], false);
    }
    const mf_device_op *launch = launch_of(g, node->op);
    *step = (mf_replay){
        .launch = launch,
        .call = {.size = sizeof step->call,
                 .n_in = node->n_in,
                 .n_out = node->n_out,
                 .in = views,
                 .out = views + node->n_in,
                 .attr = &node->attr,
                 .user = node->op->user,
                 .work = node->work,
                 .stream = node->stream,
                 .exec = &g->launch.exec,
                 .fail = call_fail},
        .fn = node->backward ? node->op->backward : node->op->forward,
        .node = node,
        .third_party = mf_op_is_third_party(g, node->op),
    };
    const bool as_data = launch && !launch->forward;
    const int rc = as_data ? mf_plugin_kernels_new(g, step, launch) : MF_OK;
    if (rc == MF_EDEP && g->status == MF_OK) {
        step->launch = NULL;
        return mf_fallback_new(g, step, NULL, true);
    }
    if (!g->options.device || launch) return rc;
    /* Ops of core only launch kernels, so they run on any device that has all these kernels. */
    const char *missing = g->options.bare ? NULL : mf_graph_unsupported(g, step);
    return step->third_party || missing ? mf_fallback_new(g, step, missing, false) : MF_OK;
}

static int prepare_lives(mf_graph *g)
{
    int n = 0;
    for (int i = 0; i < g->n_tensors; i++)
        n += g->tensors[i]->kind == MF_TENSOR_LIVE;
    g->lives = mf_arena_alloc(g->memory, (size_t)n * sizeof *g->lives + 1);
    if (!g->lives) return mf_graph_adopt(g, MF_ENOMEM);
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->kind == MF_TENSOR_LIVE)
            g->lives[g->n_lives++] = (mf_live){g->tensors[i]->host, g->tensors[i]->live};
    return MF_OK;
}

/* Lists the stores whose values must be sent to the device before a run if the host has
 * edited them. */
static int prepare_stores(mf_graph *g)
{
    g->stores = mf_arena_alloc(g->memory, (size_t)g->n_tensors * sizeof *g->stores + 1);
    if (!g->stores) return mf_graph_adopt(g, MF_ENOMEM);
    for (int i = 0; i < g->n_tensors; i++) {
        const mf_param *p = g->tensors[i]->param;
        int j = 0;
        while (p && j < g->n_stores && g->stores[j] != p->store)
            j++;
        if (p && j == g->n_stores) g->stores[g->n_stores++] = p->store;
    }
    return MF_OK;
}

static int prepare_fallbacks(mf_graph *g)
{
    void *staging;
    if (g->staging_bytes == 0 || g->options.bare) return MF_OK;
    const int rc = mf_device_alloc_host(g->options.device, g->staging_bytes, &staging);
    if (rc != MF_OK) return mf_graph_adopt(g, rc);
    g->staging = staging;
    for (int i = 0; i < g->n_steps; i++)
        if (g->steps[i].fallback) mf_fallback_place(g, &g->steps[i]);
    return MF_OK;
}

static int prepare(mf_graph *g)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += has_step(g->nodes[i]);
    g->steps = mf_arena_alloc(g->memory, (size_t)n * sizeof *g->steps + 1);
    if (!g->steps) return mf_graph_adopt(g, MF_ENOMEM);
    for (int i = 0; i < g->n_nodes; i++)
        if (has_step(g->nodes[i]) &&
            prepare_step(g, &g->steps[g->n_steps++], g->nodes[i]) != MF_OK)
            return g->status;
    if (prepare_fallbacks(g) != MF_OK || prepare_stores(g) != MF_OK) return g->status;
    return prepare_lives(g);
}

int mf_graph_finish(mf_graph *g)
{
    if (!g || g->status != MF_OK) return mf_graph_status(g);
    if (g->finished) return mf_graph_fail(g, MF_EINVAL, "the graph is finished already");
    if (mf_graph_plan(g) != MF_OK || prepare(g) != MF_OK) return mf_graph_status(g);
    g->finished = true;
    return MF_OK;
}

/* ---- running ---- */

static bool skipped(const mf_node *node, const mf_run *run)
{
    return (node->metric && !run->metrics) || (node->gradient_part && run->forward_only);
}

/* Records the error of a fault in this step's kernels. */
static int report_fault(const mf_replay *step, const mf_fault *fault)
{
    char text[256];
    const int rc = mf_fault_message(fault, text, sizeof text);
    return call_fail(&step->call, rc, "%s", text);
}

int mf_graph_judge_fault(mf_graph *g, const mf_fault *fault)
{
    if (fault->kind == MF_FAULT_NONE) return MF_OK;
    const mf_fault found = *fault;
    if (g->launch.fault) (void)mf_device_zero(g->options.device, g->launch.fault, sizeof found);
    if (found.node >= 0 && found.node < g->n_steps)
        return report_fault(&g->steps[found.node], &found);
    return mf_fail(MF_ERUN, "a kernel of another graph has recorded a fault");
}

/* Runs the step's functions, which compute or queue launches. */
static int call_step(mf_graph *g, mf_replay *step)
{
    if (step->fallback) return mf_fallback_run(g, step);
    if (step->kernels) return mf_plugin_kernels_run(g, step);
    if (!step->launch) return step->fn(&step->call);
    const mf_on_device on = {sizeof on, step->launch->device, g->launch.stream};
    return step->node->backward ? step->launch->backward(&step->call, &on)
                                : step->launch->forward(&step->call, &on);
}

/* Runs a plugin's op. The op must leave floating-point control unchanged, because all later ops
 * depend on it. */
static int run_third_party(mf_graph *g, mf_replay *step)
{
    mf_launch *l = &g->launch;
    mf_third_party_call c;
    unsigned now;
    mf_third_party_begin(&c, step->node);
    l->third_party = true;
    l->float_before = l->float_after = c.before;
    const int code = call_step(g, step);
    l->third_party = false;
    if (!mf_third_party_end(&c, step->node, &now)) l->float_after = now;
    if (l->float_after == l->float_before) return code;
    return call_fail(&step->call, MF_EPLUGIN, MF_THIRD_PARTY_FLOAT,
                     mf_float_control_text(l->float_before, l->float_after), l->float_before,
                     l->float_after);
}

static int run_one(mf_graph *g, int i)
{
    mf_replay *step = &g->steps[i];
    uint64_t begun = mf_profile_begin(g, i);
    g->launch.node = i;
    int code = step->third_party ? run_third_party(g, step) : call_step(g, step);
    mf_profile_end(g, i, begun);
    /* on the host a fault is known immediately */
    if (code == MF_OK && mf_device_is_host(g->options.device) &&
        g->launch.fault->kind != MF_FAULT_NONE)
        return report_fault(step, g->launch.fault);
    if (code == MF_OK || mf_error_code() == code) return code;
    return call_fail(&step->call, code, "failed without a reason");
}

static int run_traced(mf_graph *g, int i)
{
    mf_suspect before = mf_replay_suspect(g, &g->steps[i]);
    int code = run_one(g, i);
    return code == MF_OK ? mf_replay_check_finite(g, &g->steps[i], before) : code;
}

_Atomic(const mf_node *) mf_graph_node_now;
_Atomic uint64_t mf_graph_nodes_begun;

static int run_steps(mf_graph *g, const mf_run *run)
{
    for (int i = 0; i < g->n_steps; i++) {
        int code;
        if (skipped(g->steps[i].node, run)) continue;
        atomic_store_explicit(&mf_graph_node_now, g->steps[i].node, memory_order_relaxed);
        atomic_fetch_add_explicit(&mf_graph_nodes_begun, 1, memory_order_relaxed);
        code = run->check_finite ? run_traced(g, i) : run_one(g, i);
        atomic_store_explicit(&mf_graph_node_now, NULL, memory_order_relaxed);
        if (code != MF_OK) return code;
        if (run->after_node) run->after_node(run->after_arg, i);
    }
    return MF_OK;
}

/* Whether the run can be recorded. Fallbacks wait for the device, and a profile measures each
 * step of the graph, so neither can be recorded. */
static bool recordable(const mf_graph *g, const mf_run *run)
{
    return run->recorder && !g->staging && !g->profile && !run->check_finite;
}

int mf_graph_run(mf_graph *g, const mf_run *run)
{
    static const mf_run plain;
    if (!g || g->status != MF_OK) return mf_graph_status(g);
    if (!g->finished || g->options.bare)
        return mf_fail(MF_EINVAL, "the graph is %s: it cannot run",
                       g->finished ? "planned only" : "not finished");
    if (!run) run = &plain;
    const struct mf_kernels *kernels = mf_device_kernels(g->options.device, run->kernels);
    if (!kernels) return mf_backend_init();
    g->host_kernels = run->kernels ? run->kernels : mf_backend_kernels();
    if (!mf_kernels_begin_thread())
        return mf_fail(MF_ENOMEM, "out of memory for the workspace of a thread");
    mf_error_clear(); /* After this call, an op that fails without recording an error can
                       * be detected. */
    mf_launch_init(&g->launch, kernels, g->options.training && !run->no_dropout, run->seed,
                   run->step);
    if (!mf_device_is_host(g->options.device)) g->launch.graph = g;
    int code = mf_exchange_send(g, run);
    if (code == MF_OK && recordable(g, run))
        code = mf_recorder_begin(run->recorder, run->capture);
    const bool replays = mf_recorder_replays(run->recorder);
    if (code == MF_OK && !replays) code = run_steps(g, run);
    if (code == MF_OK) code = mf_profile_collect(g);
    if (code == MF_OK) mf_exchange_finish(g, replays);
    return code == MF_OK && !run->queued ? mf_graph_wait(g) : code;
}
