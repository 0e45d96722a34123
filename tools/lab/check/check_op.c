/* Ops of a plugin alone, on the inputs of their examples (mf_op_example). The results must have
 * the same bits with 1, 2 and 4 threads. Every element of every output must be written and no
 * other memory. Gradients must be close to central differences. The functions are called on
 * memory with guard bytes around it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "graph/gradcheck.h"
#include "kernels/kernel.h"
#include "lab/check/checks.h"
#include "plugin/crash.h"

enum { GUARD = 64, GUARD_BYTE = 0xa7 };

/* ---- a graph of the op ---- */

typedef struct alone {
    const mf_op_example *e;
    mf_graph *g;
    mf_tensor *in[MF_OP_MAX_IN], *out[MF_OP_MAX_OUT];
    int n_out;
    const mf_node *node;
} alone;

static bool has_gradient(const mf_opdef *op)
{
    return (op->flags & MF_OP_NO_GRAD) == 0 && (op->grad || op->backward);
}

static bool wants(const mf_op_example *e, int i)
{
    return has_gradient(e->op) && e->shape[i].rank >= 0 && e->dtype[i] == MF_F32 &&
           (e->op->diff_in >> i & 1u);
}

void mf_check_fill(const mf_op_example *e, int i, void *data)
{
    const int64_t n = mf_shape_count(e->shape[i]);
    const bool given = e->lo[i] != 0 || e->hi[i] != 0;
    const double lo = given ? e->lo[i] : -2, hi = given ? e->hi[i] : 2;
    for (int64_t k = 0; data && k < n; k++) {
        const double u =
            (double)mf_rng_uniform(MF_CHECK_SEED, 10 + (uint64_t)i, 0, (uint64_t)k);
        if (e->dtype[i] == MF_I32)
            ((int32_t *)data)[k] = (int32_t)(lo + floor(u * (hi - lo + 1)));
        else
            ((float *)data)[k] = (float)(lo + u * (hi - lo));
    }
}

/* Builds the graph of the op and does not finish it. The caller frees a->g, also after
 * a failure. */
static int build(const mf_op_example *e, bool training, alone *a)
{
    *a = (alone){
        .e = e, .g = mf_graph_new(&(mf_graph_options){.training = training, .no_reuse = true})};
    if (!a->g) return MF_ENOMEM;
    for (int i = 0; i < e->n_in; i++) {
        if (e->shape[i].rank < 0) continue;
        a->in[i] = mf_graph_input(a->g, "in", e->dtype[i], e->shape[i]);
        if (training && wants(e, i)) mf_graph_want_grad(a->in[i]);
    }
    mf_tensor *first = mf_graph_op(a->g, e->op, e->n_in, a->in, &e->attr, 1, NULL);
    if (!first) return mf_graph_status(a->g);
    a->node = mf_tensor_producer(first);
    a->n_out = a->node->n_out;
    for (int i = 0; i < a->n_out; i++)
        mf_graph_keep(a->out[i] = a->node->out[i]);
    return mf_graph_status(a->g);
}

static void fill_all(alone *a)
{
    for (int i = 0; i < a->e->n_in; i++)
        if (a->in[i]) mf_check_fill(a->e, i, mf_tensor_input(a->in[i]));
}

/* ---- the same bits ---- */

static int digest(alone *a, char hash[33])
{
    char each[MF_OP_MAX_OUT][33] = {{0}};
    int rc = mf_graph_run(a->g, &(mf_run){.seed = MF_CHECK_SEED});
    for (int i = 0; i < a->n_out && rc == MF_OK; i++) {
        const void *data = mf_tensor_host(a->out[i]);
        const size_t bytes = (size_t)mf_shape_count(a->out[i]->shape) * 4;
        if (data) mf_hash_bytes(data, bytes, each[i]);
    }
    mf_hash_bytes(each, sizeof each, hash);
    return rc;
}

static int repeats(const mf_op_example *e)
{
    static const int threads[] = {1, 1, 2, 4};
    const int before = mf_parallel_threads();
    char first[33] = "", hash[33];
    alone a;
    int rc = build(e, false, &a);
    if (rc == MF_OK) rc = mf_graph_finish(a.g);
    for (size_t i = 0; i < sizeof threads / sizeof *threads && rc == MF_OK; i++) {
        mf_parallel_set_threads(threads[i]);
        fill_all(&a);
        rc = digest(&a, hash);
        if (rc == MF_OK && i > 0 && strcmp(first, hash) != 0)
            rc = mf_fail(MF_EPLUGIN, "%s: run %d, of %d threads, has other bits than the first",
                         e->op->name, (int)i + 1, threads[i]);
        memcpy(first, hash, sizeof first);
    }
    mf_parallel_set_threads(before);
    mf_graph_free(a.g);
    return rc;
}

/* ---- memory ---- */

/* A buffer with guard bytes on both sides. */
typedef struct guarded {
    unsigned char *base;
    size_t bytes;
} guarded;

static void *inside(const guarded *b)
{
    return b->base ? b->base + GUARD : NULL;
}

static int take(guarded *b, size_t bytes, int content)
{
    *b = (guarded){mf_alloc_raw(bytes + 2 * GUARD), bytes};
    if (!b->base) return MF_ENOMEM;
    memset(b->base, GUARD_BYTE, bytes + 2 * GUARD);
    memset(inside(b), content, bytes);
    return MF_OK;
}

static bool intact(const guarded *b)
{
    for (size_t i = 0; b->base && i < GUARD; i++)
        if (b->base[i] != GUARD_BYTE || b->base[GUARD + b->bytes + i] != GUARD_BYTE)
            return false;
    return true;
}

/* One call of a function of the op, with its views and their buffers. drop frees
 * the buffers. */
typedef struct direct {
    mf_launch launch;
    mf_call call;
    mf_view in[MF_OP_MAX_ARGS], out[MF_OP_MAX_IN];
    guarded in_data[MF_OP_MAX_ARGS], out_data[MF_OP_MAX_IN], work;
} direct;

static int direct_fail(const mf_call *call, int code, const char *fmt, ...) MF_PRINTF(3, 4);
static int direct_fail(const mf_call *call, int code, const char *fmt, ...)
{
    va_list args;
    (void)call;
    va_start(args, fmt);
    mf_vfail(code, fmt, args);
    va_end(args);
    return code;
}

static size_t bytes_of(mf_shape s)
{
    return (size_t)mf_shape_count(s) * 4;
}

static int add_view(mf_view *v, guarded *b, mf_dtype dtype, mf_shape shape, bool data,
                    int content)
{
    *v = (mf_view){.dtype = dtype, .shape = shape};
    if (!data || shape.rank < 0) return MF_OK;
    int rc = take(b, bytes_of(shape), content);
    v->data = inside(b);
    return rc;
}

static void drop(direct *d)
{
    for (int i = 0; i < MF_OP_MAX_ARGS; i++)
        mf_free(d->in_data[i].base);
    for (int i = 0; i < MF_OP_MAX_IN; i++)
        mf_free(d->out_data[i].base);
    mf_free(d->work.base);
}

static int begin(direct *d, const alone *a, size_t work, int content)
{
    const mf_opdef *op = a->e->op;
    *d = (direct){.call = {.size = sizeof d->call,
                           .in = d->in,
                           .out = d->out,
                           .attr = &a->e->attr,
                           .user = op->user,
                           .stream = 7,
                           .exec = &d->launch.exec,
                           .fail = direct_fail}};
    mf_launch_init(&d->launch, &mf_kernels_ref, true, MF_CHECK_SEED, 0);
    int rc = take(&d->work, work, content);
    d->call.work = work > 0 ? inside(&d->work) : NULL;
    return rc;
}

/* Adds input i of the op. read: whether the function may read its values; otherwise its pointer
 * is NULL. */
static int add_input(direct *d, const alone *a, int i, bool read)
{
    const mf_op_example *e = a->e;
    const int at = d->call.n_in++;
    int rc = add_view(&d->in[at], &d->in_data[at], e->dtype[i], e->shape[i], read, 0);
    if (rc == MF_OK && d->in[at].data) mf_check_fill(e, i, d->in[at].data);
    return rc;
}

static int forward_call(direct *d, const alone *a, int content)
{
    int rc = begin(d, a, a->node->work_bytes, content);
    for (int i = 0; i < a->e->n_in && rc == MF_OK; i++)
        rc = add_input(d, a, i, true);
    for (int i = 0; i < a->n_out && rc == MF_OK; i++) {
        const mf_tensor *t = a->out[i];
        rc = add_view(&d->out[d->call.n_out], &d->out_data[d->call.n_out], t->dtype, t->shape,
                      true, content);
        d->call.n_out++;
    }
    return rc == MF_OK ? a->e->op->forward(&d->call) : rc;
}

/* Calls the backward function. values: the forward call, whose outputs the backward function
 * may read. */
static int backward_call(direct *d, const alone *a, const direct *values, int content)
{
    const mf_op_example *e = a->e;
    int rc = begin(d, a, a->node->backward_work_bytes, content);
    for (int i = 0; i < e->n_in && rc == MF_OK; i++)
        rc = add_input(d, a, i, e->op->backward_in >> i & 1u);
    for (int i = 0; i < 2 * a->n_out && rc == MF_OK; i++) {
        const mf_view *y = &values->out[i % a->n_out];
        const int at = d->call.n_in++;
        const bool gradient = i >= a->n_out,
                   read = gradient ? y->dtype == MF_F32 : e->op->backward_out >> i & 1u;
        rc = add_view(&d->in[at], &d->in_data[at], y->dtype, y->shape, read, 0);
        const int64_t n = mf_shape_count(y->shape);
        float *data = d->in[at].data;
        if (rc == MF_OK && data && !gradient) memcpy(data, y->data, bytes_of(y->shape));
        for (int64_t k = 0; rc == MF_OK && data && gradient && k < n; k++)
            data[k] = mf_rng_uniform(MF_CHECK_SEED, 30 + (uint64_t)i, 0, (uint64_t)k) - 0.5f;
    }
    for (int i = 0; i < e->n_in && rc == MF_OK; i++) {
        rc = add_view(&d->out[i], &d->out_data[i], e->dtype[i], e->shape[i], wants(e, i),
                      content);
        d->call.n_out++;
    }
    return rc == MF_OK ? e->op->backward(&d->call) : rc;
}

/* Checks after a call that the op's inputs are unchanged, and the guard bytes around them,
 * around the outputs and around the work buffer. */
static int untouched(const direct *d, const alone *a, const char *function)
{
    const char *name = a->e->op->name;
    if (!intact(&d->work))
        return mf_fail(MF_EPLUGIN, "%s: %s writes beyond its %zu bytes of work", name, function,
                       d->work.bytes);
    for (int i = 0; i < d->call.n_out; i++)
        if (!intact(&d->out_data[i]))
            return mf_fail(MF_EPLUGIN, "%s: %s writes beyond output %d", name, function, i);
    for (int i = 0; i < a->e->n_in; i++) {
        guarded fresh = {0};
        if (!d->in_data[i].base) continue;
        int rc = take(&fresh, d->in_data[i].bytes, 0);
        if (rc == MF_OK) mf_check_fill(a->e, i, inside(&fresh));
        const bool same = rc == MF_OK && intact(&d->in_data[i]) &&
                          memcmp(inside(&fresh), inside(&d->in_data[i]), fresh.bytes) == 0;
        mf_free(fresh.base);
        if (rc != MF_OK) return rc;
        if (!same) return mf_fail(MF_EPLUGIN, "%s: %s writes to input %d", name, function, i);
    }
    return MF_OK;
}

/* Checks that two calls write the same outputs although outputs and work buffer contained other
 * bytes before. */
static int same_outputs(const direct *one, const direct *two, const alone *a,
                        const char *function)
{
    for (int i = 0; i < one->call.n_out; i++) {
        const guarded *x = &one->out_data[i], *y = &two->out_data[i];
        for (size_t k = 0; x->base && k < x->bytes; k++)
            if (x->base[GUARD + k] != y->base[GUARD + k])
                return mf_fail(
                    MF_EPLUGIN,
                    "%s: %s leaves element %zu of output %d as it was, or computes it "
                    "from work that was not written",
                    a->e->op->name, function, k / 4, i);
    }
    return MF_OK;
}

static int memory_kept(const mf_op_example *e)
{
    enum { ONE = 0x35, OTHER = 0xca };
    direct one = {0}, two = {0}, back[2] = {{.call = {0}}, {.call = {0}}};
    alone a;
    int rc = build(e, true, &a);
    if (rc == MF_OK) rc = forward_call(&one, &a, ONE);
    if (rc == MF_OK) rc = forward_call(&two, &a, OTHER);
    if (rc == MF_OK) rc = untouched(&one, &a, "forward");
    if (rc == MF_OK) rc = same_outputs(&one, &two, &a, "forward");
    const bool backward = has_gradient(e->op) && e->op->backward;
    if (rc == MF_OK && backward) rc = backward_call(&back[0], &a, &one, ONE);
    if (rc == MF_OK && backward) rc = backward_call(&back[1], &a, &one, OTHER);
    if (rc == MF_OK && backward) rc = untouched(&back[0], &a, "backward");
    if (rc == MF_OK && backward) rc = same_outputs(&back[0], &back[1], &a, "backward");
    drop(&one);
    drop(&two);
    drop(&back[0]);
    drop(&back[1]);
    mf_graph_free(a.g);
    return rc;
}

/* ---- gradients ---- */

static int slopes(const mf_op_example *e, mf_gradcheck_report *report)
{
    mf_tensor *to[MF_OP_MAX_IN], *from[MF_OP_MAX_OUT];
    int n_to = 0, n_from = 0;
    alone a;
    int rc = build(e, true, &a);
    for (int i = 0; i < e->n_in && rc == MF_OK; i++)
        if (wants(e, i)) to[n_to++] = a.in[i];
    for (int i = 0; i < a.n_out && rc == MF_OK; i++)
        if (a.out[i]->dtype == MF_F32) from[n_from++] = a.out[i];
    if (rc == MF_OK && n_to > 0 && n_from > 0) {
        const mf_gradcheck_options options = {.seed = MF_CHECK_SEED, .step = 0x1p-7};
        fill_all(&a);
        rc = mf_gradcheck(a.g, n_from, from, n_to, to, &options, report);
    }
    mf_graph_free(a.g);
    return rc;
}

/* Checks a straight-through op, whose gradient is a rule of its own. A gradient must exist, and
 * its values must be finite. */
static int own_rule(const mf_op_example *e)
{
    mf_tensor *to[MF_OP_MAX_IN];
    int n = 0;
    alone a;
    int rc = build(e, true, &a);
    for (int i = 0; i < e->n_in && rc == MF_OK; i++)
        if (wants(e, i)) to[n++] = a.in[i];
    mf_tensor *y = NULL;
    for (int i = 0; i < a.n_out && rc == MF_OK && !y; i++)
        if (a.out[i]->dtype == MF_F32) y = a.out[i];
    if (rc == MF_OK && n == 0)
        rc = mf_fail(MF_EPLUGIN, "%s: expected a gradient of a straight-through op, found none",
                     e->op->name);
    const mf_attr all = {.i = {15}};
    mf_tensor *sum = y ? mf_graph_op_named(a.g, "sum", 1, &y, &all, 1, NULL) : NULL;
    if (rc == MF_OK) rc = mf_graph_backward(a.g, sum, n, to);
    if (rc == MF_OK) rc = mf_graph_finish(a.g);
    if (rc == MF_OK) fill_all(&a);
    if (rc == MF_OK) rc = mf_graph_run(a.g, &(mf_run){.seed = MF_CHECK_SEED});
    for (int i = 0; i < n && rc == MF_OK; i++) {
        const float *d = to[i]->grad ? mf_tensor_host(to[i]->grad) : NULL;
        const int64_t count = mf_shape_count(to[i]->shape);
        for (int64_t k = 0; d && k < count && rc == MF_OK; k++)
            if (!isfinite(d[k]))
                rc = mf_fail(MF_EPLUGIN, "%s: element %lld of gradient %d is not finite",
                             e->op->name, (long long)k, i);
    }
    mf_graph_free(a.g);
    return rc;
}

/* ---- all ---- */

static int check_one(const mf_op_example *e, mf_gradcheck_report *report)
{
    int rc = repeats(e);
    if (rc == MF_OK) rc = memory_kept(e);
    if (rc != MF_OK || !has_gradient(e->op)) return rc;
    return e->op->flags & MF_OP_STRAIGHT_THROUGH ? own_rule(e) : slopes(e, report);
}

mf_verdict mf_check_ops(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    double worst = 0;
    int64_t points = 0;
    int own = 0;
    for (int32_t i = 0; i < plugin->n_examples; i++) {
        const mf_op_example *e = plugin->examples[i];
        const mf_site site = {plugin->name, plugin->path, "an op checked alone", "an example"};
        const mf_site *outer = mf_crash_site(&site);
        mf_gradcheck_report report = {.tensor = -1};
        char when[64];
        int rc = check_one(e, &report);
        mf_crash_site(outer);
        snprintf(when, sizeof when, "example %d", (int)i);
        if (rc != MF_OK) return mf_check_broke(detail, when);
        points += report.points;
        own += (e->op->flags & MF_OP_STRAIGHT_THROUGH) != 0;
        if (report.error > worst) worst = report.error;
    }
    if (plugin->n_examples == 0) {
        snprintf(detail, MF_CHECK_DETAIL,
                 "the plugin gives no examples of ops (MF_PLUGIN_INIT_OPS)");
        return MF_CHECK_SKIP;
    }
    snprintf(detail, MF_CHECK_DETAIL,
             "%d examples: memory kept, %lld slopes, worst error %.2f of what is tolerated, %d "
             "straight-through",
             (int)plugin->n_examples, (long long)points, worst, own);
    return MF_CHECK_PASS;
}
