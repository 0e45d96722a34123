/* graph/run.c: finishing a graph and replaying it. */
#include "base/float_control.h"
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
    return mf_fail(code, *scope ? "%s%s (%s): %s" : "%s%s%s: %s", step->node->op->name,
                   step->node->backward ? " backward" : "", scope, text);
}

static bool has_step(const mf_node *node)
{
    return !node->dead && !(node->op->flags & MF_OP_ALIAS && !node->backward);
}

/* A tensor as a call sees it; without data where the node may not look. */
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
    return v;
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
    *step = (mf_replay){
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
        .foreign = mf_op_find(node->op->name) != node->op,
    };
    return MF_OK;
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
            g->lives[g->n_lives++] = (mf_live){g->tensors[i]->data, g->tensors[i]->live};
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

/* Kernels of this step recorded a fault; on the host that is known at once. */
static int report_fault(const mf_replay *step)
{
    char text[256];
    const int rc = mf_fault_message(mf_call_launch(&step->call)->fault, text, sizeof text);
    return call_fail(&step->call, rc, "%s", text);
}

/* A plugin's op must leave floating-point control as it was: all later ops depend on it. */
static int run_foreign(mf_graph *g, const mf_replay *step)
{
    mf_launch *l = &g->launch;
    const unsigned before = mf_float_control();
    l->foreign = true;
    l->float_before = l->float_after = before;
    const int code = step->fn(&step->call);
    l->foreign = false;
    const unsigned now = mf_float_control();
    if (now != before) {
        mf_float_control_set(before);
        l->float_before = before;
        l->float_after = now;
    }
    if (l->float_after == l->float_before) return code;
    return call_fail(&step->call, MF_EPLUGIN,
                     "%s for all that is computed after it: expected floating-point control "
                     "0x%x as before, found 0x%x",
                     mf_float_control_text(l->float_before, l->float_after), l->float_before,
                     l->float_after);
}

static int run_one(mf_graph *g, int i)
{
    const mf_replay *step = &g->steps[i];
    uint64_t begun = mf_profile_begin(g);
    g->launch.node = i;
    int code = step->foreign ? run_foreign(g, step) : step->fn(&step->call);
    mf_profile_end(g, i, begun);
    if (code == MF_OK && g->fault.kind != MF_FAULT_NONE) return report_fault(step);
    if (code == MF_OK || mf_error_code() == code) return code;
    return call_fail(&step->call, code, "failed without a reason");
}

static int run_traced(mf_graph *g, int i)
{
    mf_suspect before = mf_replay_suspect(&g->steps[i]);
    int code = run_one(g, i);
    return code == MF_OK ? mf_replay_check_finite(&g->steps[i], before) : code;
}

_Atomic(const mf_node *) mf_graph_node_now;

int mf_graph_run(mf_graph *g, const mf_run *run)
{
    static const mf_run plain;
    const struct mf_kernels *kernels;
    if (!g || g->status != MF_OK) return mf_graph_status(g);
    if (!g->finished || g->options.bare)
        return mf_fail(MF_EINVAL, "the graph is %s: it cannot run",
                       g->finished ? "planned only" : "not finished");
    if (!run) run = &plain;
    kernels = run->kernels ? run->kernels : mf_backend_kernels();
    if (!kernels) return mf_backend_init();
    mf_error_clear(); /* so that an op which fails without a word is noticed */
    g->fault = (mf_fault){0};
    mf_launch_init(&g->launch, kernels, g->options.training, run->seed, run->step, &g->fault);
    for (int i = 0; i < g->n_lives; i++)
        *g->lives[i].to = (float)*g->lives[i].from;
    for (int i = 0; i < g->n_steps; i++) {
        int code;
        if (skipped(g->steps[i].node, run)) continue;
        atomic_store_explicit(&mf_graph_node_now, g->steps[i].node, memory_order_relaxed);
        code = run->check_finite ? run_traced(g, i) : run_one(g, i);
        atomic_store_explicit(&mf_graph_node_now, NULL, memory_order_relaxed);
        if (code != MF_OK) return code;
    }
    return MF_OK;
}
