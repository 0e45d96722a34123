/* graph/build.c: creates and frees graphs, records failures, and keeps scopes and the lists of
 * tensors and nodes. */
#include "graph/internal.h"

#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 64 };

mf_graph *mf_graph_make(const mf_graph_options *options, const mf_op_table *ops)
{
    mf_graph *g = mf_alloc(1, sizeof *g);
    if (!g) return NULL;
    g->memory = mf_arena_new();
    if (!g->memory) {
        mf_free(g);
        return NULL;
    }
    g->ops = ops;
    if (options) g->options = *options;
    if (mf_device_is_host(g->options.device)) g->options.device = NULL;
    if (g->options.device && g->options.device->ops->flags & MF_DEVICE_BF16_ATTENTION)
        g->options.bf16_attention = true;
    if (g->options.planned_for) g->options.bf16_attention = true;
    g->bf16 = g->options.bf16;
    return g;
}

const mf_kernels *mf_graph_device_kernels(const mf_graph *g)
{
    if (!g || !g->options.device) return g ? g->options.planned_for : NULL;
    return mf_device_kernels(g->options.device, NULL);
}

void mf_graph_free(mf_graph *g)
{
    if (!g) return;
    mf_profile_free(g->profile);
    mf_free(g->tensors);
    mf_free(g->nodes);
    if (!g->shares_arena) mf_device_free(g->options.device, g->block);
    mf_exchange_free(g);
    mf_arena_free(g->memory);
    mf_free(g);
}

/* ---- failure ---- */

int mf_graph_status(const mf_graph *g)
{
    if (!g) return MF_ENOMEM;
    /* Other errors may have been recorded since, but callers report the thread's last error. */
    return g->status == MF_OK ? MF_OK : mf_fail(g->status, "%s", g->message);
}

static int poison(mf_graph *g, int code, const char *prefix, const char *fmt, va_list args)
{
    char text[1024];
    if (g->status != MF_OK) return g->status;
    vsnprintf(text, sizeof text, fmt, args);
    g->status = code;
    g->message = *prefix ? mf_arena_strf(g->memory, "%s: %s", prefix, text)
                         : mf_arena_strdup(g->memory, text);
    if (!g->message) g->message = "out of memory";
    return mf_fail(code, "%s", g->message);
}

int mf_graph_fail(mf_graph *g, int code, const char *fmt, ...)
{
    va_list args;
    if (!g) return code;
    va_start(args, fmt);
    code = poison(g, code, mf_graph_scope(g), fmt, args);
    va_end(args);
    return code;
}

void mf_graph_at(mf_graph *g, const char *file, int32_t line)
{
    if (!g) return;
    g->file = file;
    g->line = line;
    g->at_node = g->n_nodes;
}

bool mf_graph_at_next(const mf_graph *g)
{
    return g && g->file && g->at_node == g->n_nodes;
}

/* Returns a text like "linear (layers.0.router hash, hash.c:41)" in memory of the graph, or
 * NULL if there is no memory. */
static const char *title_of(mf_graph *g, const char *op, const char *scope)
{
    if (!*scope && !g->file) return mf_arena_strdup(g->memory, op);
    if (!g->file) return mf_arena_strf(g->memory, "%s (%s)", op, scope);
    return mf_arena_strf(g->memory, "%s (%s%s%s:%d)", op, scope, *scope ? ", " : "", g->file,
                         (int)g->line);
}

int mf_node_fail(mf_graph *g, const char *op, const char *scope, int code, const char *fmt, ...)
{
    va_list args;
    const char *title = title_of(g, op, scope);
    va_start(args, fmt);
    code = poison(g, code, title ? title : op, fmt, args);
    va_end(args);
    return code;
}

int mf_graph_adopt(mf_graph *g, int code)
{
    if (g->status != MF_OK) return g->status;
    g->status = code;
    g->message = mf_arena_strdup(g->memory, mf_error_message());
    if (!g->message) g->message = "out of memory";
    return code;
}

bool mf_graph_training(const mf_graph *g)
{
    return g && g->options.training;
}

/* ---- scopes ---- */

const char *mf_graph_scope(const mf_graph *g)
{
    return g->scope ? g->scope->path : "";
}

/* Whether a name already begins with the scope around it ("layers.3.router hash" inside
 * "layers.3"). Such a name is used unchanged. */
static bool is_absolute(const char *name, const char *outer)
{
    size_t n = strlen(outer);
    return n == 0 || (strncmp(name, outer, n) == 0 && (name[n] == '.' || name[n] == ' '));
}

void mf_graph_push(mf_graph *g, const char *fmt, ...)
{
    va_list args;
    char name[256];
    if (!g) return;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    const char *outer = mf_graph_scope(g);
    const char *path = is_absolute(name, outer)
                           ? mf_arena_strdup(g->memory, name)
                           : mf_arena_strf(g->memory, "%s.%s", outer, name);
    mf_scope *scope = mf_arena_alloc(g->memory, sizeof *scope);
    if (!path || !scope) {
        mf_graph_adopt(g, MF_ENOMEM);
        return;
    }
    *scope = (mf_scope){.outer = g->scope, .path = path};
    g->scope = scope;
}

void mf_graph_pop(mf_graph *g)
{
    if (g && g->scope) g->scope = g->scope->outer;
}

void mf_graph_metrics(mf_graph *g, bool on)
{
    if (g) g->metrics = on;
}

void mf_graph_set_recompute(mf_graph *g, bool on)
{
    if (g) g->recompute = on;
}

/* ---- tensors and nodes ---- */

void *mf_graph_alloc(mf_graph *g, size_t bytes)
{
    char *block = mf_arena_alloc(g->memory, bytes + ALIGNMENT);
    if (!block) {
        mf_graph_adopt(g, MF_ENOMEM);
        return NULL;
    }
    return block + (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;
}

/* Returns the list with space for one more pointer; NULL: out of memory. */
static void *grow(mf_graph *g, void *list, int n, int *room)
{
    int more = *room ? 2 * *room : 64;
    if (n < *room) return list;
    list = mf_realloc(list, (size_t)*room * sizeof(void *), (size_t)more * sizeof(void *));
    if (list)
        *room = more;
    else
        mf_graph_adopt(g, MF_ENOMEM);
    return list;
}

mf_tensor *mf_tensor_new(mf_graph *g, mf_tensor_kind kind, mf_dtype dtype, mf_shape shape)
{
    mf_tensor *t;
    mf_tensor **list = grow(g, g->tensors, g->n_tensors, &g->tensors_room);
    if (!list) return NULL;
    g->tensors = list;
    t = mf_arena_alloc(g->memory, sizeof *t);
    if (!t) {
        mf_graph_adopt(g, MF_ENOMEM);
        return NULL;
    }
    t->graph = g;
    t->id = g->n_tensors;
    t->node = -1;
    t->at = -1;
    t->kind = kind;
    t->dtype = dtype;
    t->shape = shape;
    g->tensors[g->n_tensors++] = t;
    return t;
}

mf_node *mf_node_new(mf_graph *g, const mf_opdef *op, const char *scope)
{
    mf_node *node;
    mf_node **list = grow(g, g->nodes, g->n_nodes, &g->nodes_room);
    if (!list) return NULL;
    g->nodes = list;
    node = mf_arena_alloc(g->memory, sizeof *node);
    if (!node) {
        mf_graph_adopt(g, MF_ENOMEM);
        return NULL;
    }
    node->op = op;
    node->scope = scope;
    node->file = g->file;
    node->line = g->line;
    node->metric = g->metrics;
    node->gradient_part = g->gradient_part;
    node->recompute = !g->metrics && !g->gradient_part &&
                      g->options.recompute != MF_RECOMPUTE_NONE &&
                      ((op->flags & MF_OP_CHEAP) ||
                       (g->recompute && g->options.recompute == MF_RECOMPUTE_BLOCK));
    g->nodes[g->n_nodes++] = node;
    return node;
}

const mf_node *mf_tensor_producer(const mf_tensor *t)
{
    return t->node >= 0 ? t->graph->nodes[t->node] : NULL;
}

mf_tensor *mf_owner(const mf_tensor *t)
{
    while (t->alias)
        t = t->alias;
    return (mf_tensor *)t;
}

bool mf_tensor_stale(const mf_tensor *t)
{
    return t->version != mf_owner(t)->writes;
}

void mf_graph_keep(mf_tensor *t)
{
    if (t) t->keep = true;
}

mf_tensor *mf_graph_keep_sent(mf_tensor *t)
{
    const mf_attr same = {.f = {1, 0}};
    if (t && mf_owner(t)->kind != MF_TENSOR_VALUE)
        t = mf_graph_op_named(t->graph, "affine", 1, &t, &same, 1, NULL);
    if (t) t->keep = t->sent = true;
    return t;
}

void mf_graph_still(mf_tensor *input)
{
    if (input) input->still = true;
}
