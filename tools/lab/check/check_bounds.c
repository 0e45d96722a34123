/* Memory of a plugin's own ops: each call works on copies of its tensors, which lie between
 * inaccessible pages. Inputs are read-only, except the state of an op. Outputs begin as a
 * pattern, and the bytes around them are compared after the call. So the faulty call is found
 * for writes beyond a tensor, writes to inputs, and elements that are never written. Reads
 * beyond a tensor end the process, or lead to other results than a run without these copies. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "kernels/kernel.h"
#include "lab/bench/stub.h"
#include "lab/check/checks.h"
#include "plugin/host.h"

enum { OPS_MAX = 64, VIEWS_MAX = MF_OP_MAX_ARGS + MF_OP_MAX_OUT + 1, ALIGN = 64 };
/* The bytes of outputs before the call. As f32 and bf16 they are a NaN; as i32 they are
 * -1515870811, because -1 is a common value of an index. */
enum { PATTERN = 0xff, PATTERN_WHOLE = 0xa5 };
/* The bytes around inputs. They are another NaN than PATTERN, so that a sum with them is
 * not PATTERN. */
static const uint32_t around_input = 0x7fc0dead;

/* One tensor of a call: a range of pages, the first and last of which are inaccessible. */
typedef struct guarded {
    char *map;
    size_t map_bytes, bytes;
    unsigned char pattern;
    char *at;
    void *own; /* the tensor's memory in the graph */
} guarded;

typedef struct watch {
    mf_opdef def; /* the plugin's op table with the functions of this file */
    const mf_opdef *of;
} watch;

/* The ops that a check has seen, and its first finding. All calls come from the thread that
 * runs the graph. */
static struct {
    watch ops[OPS_MAX];
    int n, calls;
    char why[300]; /* the first finding; "": none so far */
} seen;

/* ---- pages ---- */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Allocates the pages of a tensor. The tensor's end, rounded up to 64 bytes, is the beginning
 * of the last page. The other bytes are the pattern for an output, else around_input. Returns
 * false if memory runs out. */
static bool guard_new(guarded *m, const mf_view *v, size_t bytes, bool output)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = round_up(bytes, ALIGN),
                 inner = round_up(room > 0 ? room : 1, page);
    const bool real = v->dtype == MF_F32 || v->dtype == MF_BF16;
    *m = (guarded){.map_bytes = inner + 2 * page,
                   .bytes = bytes,
                   .pattern = real ? PATTERN : PATTERN_WHOLE,
                   .own = v->data};
    m->map = mmap(NULL, m->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->map == MAP_FAILED) return false;
    if (mprotect(m->map + page, inner, PROT_READ | PROT_WRITE) != 0) {
        munmap(m->map, m->map_bytes);
        return false;
    }
    memset(m->map + page, m->pattern, inner);
    for (size_t i = 0; !output && i < inner; i += sizeof around_input)
        memcpy(m->map + page + i, &around_input, sizeof around_input);
    m->at = m->map + page + inner - room;
    return true;
}

/* Makes the pages between the first and the last one readable. The pages at both ends
 * stay inaccessible. */
static void make_read_only(const guarded *m)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    (void)mprotect(m->map + page, m->map_bytes - 2 * page, PROT_READ);
}

static bool is_pattern(const guarded *m, const char *from, const char *to)
{
    for (; from < to; from++)
        if ((unsigned char)*from != m->pattern) return false;
    return true;
}

/* Whether the bytes before and after an output still have the pattern. */
static bool edges_kept(const guarded *m)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return is_pattern(m, m->map + page, m->at) &&
           is_pattern(m, m->at + m->bytes, m->map + m->map_bytes - page);
}

/* Index of the first element that still has the pattern; -1: none. A single byte may have this
 * value by chance, so elements of u8 are checked in groups of four. */
static int64_t unwritten(const guarded *m, mf_dtype type)
{
    const size_t width = type == MF_BF16 ? 2 : 4, unit = type == MF_U8 ? 1 : width;
    for (size_t i = 0; i + width <= m->bytes; i += width)
        if (is_pattern(m, m->at + i, m->at + i + width)) return (int64_t)(i / unit);
    return -1;
}

/* ---- one call ---- */

static size_t view_bytes(const mf_view *v)
{
    if (!v->data || v->shape.rank < 0) return 0;
    static const size_t sizes[] = {[MF_F32] = 4, [MF_BF16] = 2, [MF_I32] = 4, [MF_U8] = 1};
    return (size_t)mf_shape_count(v->shape) * sizes[v->dtype];
}

typedef struct swap {
    const watch *op;
    mf_call *call;
    bool backward;
    mf_view *in, *out;
    mf_view in_before[MF_OP_MAX_ARGS], out_before[MF_OP_MAX_ARGS];
    guarded in_pages[MF_OP_MAX_ARGS], out_pages[MF_OP_MAX_ARGS];
    int n_in, n_out;
} swap;

static void note(const swap *s, const char *what, int i, const char *wrong, int64_t element)
{
    char where[40] = "";
    if (seen.why[0] != '\0') return;
    if (element >= 0) snprintf(where, sizeof where, " %lld", (long long)element);
    snprintf(seen.why, sizeof seen.why, "op %s, %s: %s %d: %s%s", s->op->of->name,
             s->backward ? "backward" : "forward", what, i, wrong, where);
}

/* Index of the input that shares its memory with output `out`: input 0 for output 0 of an op
 * with MF_OP_STATE, in the forward pass; -1: none. */
static int shared_input(const swap *s, int out)
{
    if (!(s->op->of->flags & MF_OP_STATE) || s->backward) return -1;
    return out == 0 ? 0 : -1;
}

static bool swap_in(swap *s)
{
    for (; s->n_in < s->call->n_in; s->n_in++) {
        mf_view *v = &s->in[s->n_in];
        guarded *m = &s->in_pages[s->n_in];
        s->in_before[s->n_in] = *v;
        const size_t bytes = view_bytes(v);
        if (bytes == 0) continue;
        if (!guard_new(m, v, bytes, false)) return false;
        memcpy(m->at, v->data, bytes);
        v->data = m->at;
    }
    for (; s->n_out < s->call->n_out; s->n_out++) {
        mf_view *v = &s->out[s->n_out];
        guarded *m = &s->out_pages[s->n_out];
        const int same = shared_input(s, s->n_out);
        s->out_before[s->n_out] = *v;
        const size_t bytes = view_bytes(v);
        if (bytes == 0) continue;
        if (same >= 0) {
            v->data = s->in[same].data;
            continue;
        }
        if (!guard_new(m, v, bytes, true)) return false;
        v->data = m->at;
    }
    const bool keeps_state = (s->op->of->flags & MF_OP_STATE) != 0;
    for (int i = 0; i < s->n_in; i++)
        if (s->in_pages[i].map && !(keeps_state && i == 0)) make_read_only(&s->in_pages[i]);
    return true;
}

static void swap_out(swap *s, int rc)
{
    for (int i = 0; i < s->n_out; i++) {
        const guarded *m = &s->out_pages[i];
        const int same = shared_input(s, i);
        if (same >= 0 && s->in_pages[same].map)
            memcpy(s->out_before[i].data, s->in_pages[same].at, s->in_pages[same].bytes);
        if (m->map && rc == MF_OK) {
            const int64_t missed = unwritten(m, s->out_before[i].dtype);
            if (missed >= 0) note(s, "output", i, "nothing was written to element", missed);
            if (!edges_kept(m)) note(s, "output", i, "bytes beyond its end were written", -1);
            memcpy(s->out_before[i].data, m->at, m->bytes);
        }
        if (m->map) munmap(m->map, m->map_bytes);
        s->out[i] = s->out_before[i];
    }
    for (int i = 0; i < s->n_in; i++) {
        const guarded *m = &s->in_pages[i];
        if (m->map) munmap(m->map, m->map_bytes);
        s->in[i] = s->in_before[i];
    }
}

static int guarded_call(const mf_call *given, bool backward)
{
    mf_call *call = (mf_call *)(uintptr_t)given; /* the call belongs to the graph; its members
                                                  * are restored below */
    const watch *w = call->user;
    int (*const fn)(const mf_call *) = backward ? w->of->backward : w->of->forward;
    swap s = {.op = w,
              .call = call,
              .backward = backward,
              .in = (mf_view *)(uintptr_t)call->in,
              .out = call->out};
    call->user = w->of->user;
    seen.calls++;
    const int rc = swap_in(&s) ? fn(call) : MF_ENOMEM;
    swap_out(&s, rc);
    call->user = w;
    return rc;
}

static int guarded_forward(const mf_call *call)
{
    return guarded_call(call, false);
}

static int guarded_backward(const mf_call *call)
{
    return guarded_call(call, true);
}

static int own_infer(mf_infer *in)
{
    const watch *w = in->user;
    in->user = w->of->user;
    const int rc = w->of->infer(in);
    in->user = w;
    return rc;
}

static int own_grad(mf_graph *g, const mf_gradient *at)
{
    const watch *w = at->user;
    mf_gradient own = *at;
    own.user = w->of->user;
    return w->of->grad(g, &own);
}

/* ---- the graph ---- */

/* Returns a copy of the plugin's op table with the functions of this file. Returns def itself
 * if it is an op of core or an alias, or if the list is full. */
static const mf_opdef *watched(const mf_opdef *def)
{
    if (mf_op_find(def->name) == def || def->flags & MF_OP_ALIAS) return def;
    for (int i = 0; i < seen.n; i++)
        if (seen.ops[i].of == def) return &seen.ops[i].def;
    if (seen.n == OPS_MAX) return def;
    watch *w = &seen.ops[seen.n++];
    *w = (watch){.of = def};
    memcpy(&w->def, def, def->size < sizeof w->def ? def->size : sizeof w->def);
    w->def.user = w;
    w->def.launch = NULL;
    w->def.infer = own_infer;
    w->def.forward = guarded_forward;
    if (def->backward) w->def.backward = guarded_backward;
    if (def->grad) w->def.grad = own_grad;
    return &w->def;
}

static mf_tensor *hook(void *arg, mf_graph *g, const mf_opdef *def, int n_in,
                       mf_tensor *const *in, const mf_attr *attr, int n_out,
                       mf_tensor **ret_out)
{
    (void)arg;
    return mf_graph_op(g, watched(def), n_in, in, attr, n_out, ret_out);
}

/* Runs a harness `times` times, with guarded pages or without. hash: digest of the last run. */
static int digest_of(const mf_harness_spec *spec, bool pages, int times, char hash[33])
{
    mf_harness *harness = NULL;
    if (pages) mf_plugin_hook_ops(hook, NULL);
    int rc = mf_harness_new(spec, &harness);
    mf_plugin_hook_ops(NULL, NULL);
    for (int i = 0; i < times && rc == MF_OK; i++)
        rc = mf_harness_run(harness, NULL);
    if (rc == MF_OK) mf_harness_digest(harness, hash);
    mf_harness_free(harness);
    return rc;
}

/* The configurations in which ops are watched. */
enum { USUAL, ODD, LISTED, BARE, FORMS };

static int run_watched(const mf_loaded *plugin, int form)
{
    mf_harness_spec spec = mf_check_spec(plugin);
    char within[33], plain[33];
    const int times = form == USUAL ? mf_check_thorough() ? 400 : 90 : 3;
    spec.training = spec.gradients = true;
    spec.masked = form == ODD;
    if (form == ODD) spec.batch = 3, spec.seq = 5, spec.dim = 18;
    if (form == LISTED) spec.router = mf_stub_router_listed();
    if (form == BARE) spec.router = mf_stub_router_bare();
    int rc = digest_of(&spec, true, times, within);
    if (rc != MF_OK || seen.n == 0) return rc;
    rc = digest_of(&spec, false, times, plain);
    if (rc == MF_OK && seen.why[0] == '\0' && strcmp(within, plain) != 0)
        snprintf(seen.why, sizeof seen.why,
                 "its ops have other results with other memory around their tensors: one of "
                 "them reads beyond a tensor, or what nobody wrote");
    return rc;
}

/* The plugin's own ops access no memory outside their tensors, do not change their inputs, and
 * write every element of their outputs. This holds in many runs, and beside routers that do not
 * make T k assignments. Scratch memory (call->work) is not covered. */
mf_verdict mf_check_bounds(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    const int forms = plugin->kind == MF_ROUTER ? LISTED : FORMS;
    memset(&seen, 0, sizeof seen);
    int rc = run_watched(plugin, USUAL);
    for (int form = ODD; form < forms && rc == MF_OK; form++) {
        if (seen.n == 0 || seen.why[0] != '\0') break;
        rc = run_watched(plugin, form);
        if (mf_check_declined(rc)) rc = MF_OK;
    }
    if (seen.why[0] != '\0') return mf_check_failed(detail, "%s", seen.why);
    if (rc != MF_OK) return mf_check_broke(detail, "with guarded memory");
    if (seen.n == 0) {
        snprintf(detail, MF_CHECK_DETAIL, "it has no ops of its own");
        return MF_CHECK_SKIP;
    }
    snprintf(detail, MF_CHECK_DETAIL, "%d calls of %d own ops keep within their tensors",
             seen.calls, seen.n);
    return MF_CHECK_PASS;
}
