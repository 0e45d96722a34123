/* graph/internal.h: structures and functions that the files of this folder share.
 *
 * Everything that a graph owns is in its memory arena, except the growing lists (tensors,
 * nodes), the planned block, the memory of exchange and fallbacks, and the profile.
 * mf_graph_free releases these one by one. Handles and nodes never move.
 *
 * A tensor with alias == NULL owns memory. Other tensors refer to the owner in `alias`,
 * possibly in several steps if the plan has put nodes in place; mf_owner finds the owner.
 *
 * Types decide about bf16 when a node is added (graph/bf16.c). With train.dtype = bf16 gemms
 * read bf16: copies of the f32 parameters, which the AdamW pass writes, and one cast of any
 * other value. Checkpoints keep only f32. Values between two gemms stay bf16 if the ops between
 * them support it (mf_opdef.bf16_in); for other ops, including those of plugins, they are
 * converted to f32. These values are always f32: sums in gemms, statistics of norms, softmax,
 * attention scores (on GPUs computed from bf16 queries and keys, MF_OP_ATTENTION), the residual
 * stream, routers and the routing record, logits, losses, gradients of parameters, moments.
 * Gradients of bf16 values are bf16. mf_graph_set_bf16 turns conversion off for routers and
 * losses; the gradient of a node uses the setting of its node. Weights in files (mf_store_bind)
 * keep their type and values. In such a graph the rows that are multiplied with them are bf16,
 * so bf16 weights use the same instructions as copies would, and the result is f32. */
#ifndef MF_GRAPH_INTERNAL_H
#define MF_GRAPH_INTERNAL_H

#include "base/error.h"
#include "base/mem.h"
#include "graph/device/device.h"
#include "graph/exec.h"
#include "graph/graph.h"
#include "graph/shape.h"
#include "kernels/kernel.h"

typedef struct mf_scope {
    const struct mf_scope *outer;
    const char *path;
} mf_scope;

/* Counts the random nodes of a scope. The count is part of the name of a node's
 * random stream. */
typedef struct mf_ordinal {
    struct mf_ordinal *next;
    const char *path;
    bool metric;
    uint64_t count;
} mf_ordinal;

/* A node that is ready to run, with all pointers resolved. They point to the device, or to
 * staging if `fallback` is set. */
typedef struct mf_replay {
    mf_call call; /* must be the first member: call->fail converts its address */
    int (*fn)(const mf_call *call);
    const mf_node *node;
    bool third_party;                  /* the op is not in core's table */
    const mf_device_op *launch;        /* functions to run instead of fn; NULL: fn */
    struct mf_plugin_kernels *kernels; /* kernels of launch->code to run instead of fn;
                                        * NULL: none */
    /* on a device: data for running the op on the host, with copies before and after; NULL: the
     * device runs it */
    struct mf_fallback *fallback;
} mf_replay;

/* Loaded kernels of an op's device code, and the list that names them. */
typedef struct mf_plugin_kernels {
    const mf_device_kernel *list;
    int n;
    void *kernel[MF_DEVICE_KERNELS];
} mf_plugin_kernels;

/* Memory on the device that an op on the host reads or writes, and its copy in g->staging. */
typedef struct mf_fallback_part {
    void *device;
    size_t at, bytes;
    bool in, out;
} mf_fallback_part;

typedef struct mf_fallback {
    int n;
    mf_fallback_part part[MF_OP_MAX_ARGS];
    size_t fault_at, work_at, bytes;
    mf_draw_key key; /* key for the random kernels of an op of core */
} mf_fallback;

/* The data that host and device exchange in a run: a block on the device. One copy sends the
 * first part to the device before the run; one copy returns the second part.
 *    in   mf_draw_key, payload, live scalars, inputs (not on the CPU)
 *    out  mf_fault, payload, small kept values
 * On the CPU nothing is copied, except to slots if there are several. */
typedef struct mf_exchange {
    char *block;
    /* small_bytes: the part of out_bytes that holds small kept values */
    size_t in_bytes, out_bytes, small_bytes;
    char *payload;        /* host memory of the payload that is sent; on the CPU a part
                           * of block */
    char *staging[2];     /* two host blocks for `in`, used in turn, so inputs can be filled
                           * while the copy of the other block is pending */
    void *sent[2];        /* events: the copy from that staging block is done */
    uint64_t sends, read; /* sends: number of sends; read: number of sends that a wait has shown
                           * to be complete */
    int slots;            /* number of host copies of `out`, without the copy for views */
    char *slot;           /* [slots + 1][out_bytes]; NULL on the CPU if slots is 1 */
    uint64_t view_run;    /* number of the run whose results are in the last slot */
    uint64_t newest_run;  /* number of the run at the last fetch, which filled slot `newest` */
    int newest;
} mf_exchange;

/* Storage of a live scalar on the host, and the caller's number, which each run
 * copies there. */
typedef struct mf_live {
    float *to;
    const double *from;
} mf_live;

/* Storage of a parameter's gradient, which values may use before node `until`. From that node
 * on it holds the gradient. */
typedef struct mf_reused_grad {
    size_t offset, bytes; /* offset from the store's first gradient */
    int until;
} mf_reused_grad;

typedef struct mf_profile mf_profile;

struct mf_graph {
    mf_graph_options options;
    const mf_op_table *ops;
    mf_arena *memory;
    int status;
    const char *message; /* message of the first failure */

    mf_tensor **tensors;
    mf_node **nodes;
    int n_tensors, tensors_room, n_nodes, nodes_room;
    /* leaves of parameters, by a hash of the parameter's address; the size is a power of two,
     * or 0 */
    mf_tensor **by_param;
    int n_by_param, by_param_size;

    const mf_scope *scope;
    const char *file; /* plugin source of the next nodes (mf_graph_at); NULL: not known */
    int32_t line;
    int at_node; /* number of nodes when mf_graph_at was called */
    mf_ordinal *ordinals;
    bool metrics;          /* nodes added now are metrics */
    bool gradient_part;    /* nodes added now belong to gradients */
    bool recompute;        /* nodes added now can be recomputed (mf_graph_set_recompute) */
    bool bf16;             /* gemms added now use bf16 */
    mf_stand_in *stand_in; /* called for parameters that are used from now on; NULL: none */
    void *stand_in_arg;
    bool differentiated, finished;

    /* Fields that mf_graph_finish sets. */
    void *block; /* the block of options.arena_of if shares_arena */
    bool shares_arena;
    mf_reused_grad *reused; /* gradient storage that values use, sorted by offset */
    int n_reused;
    char *reused_base;
    size_t reused_bytes; /* 64-byte aligned; planned offsets below it are in gradient storage */
    mf_replay *steps;
    mf_live *lives;
    int n_steps, n_lives, dead;
    size_t arena_bytes, naive_bytes;

    mf_exchange exchange;
    char *fixed;   /* on a device: constants, and inputs that stay there */
    char *staging; /* on a device: host memory of fallbacks; NULL: there are no fallbacks */
    size_t staging_bytes;
    mf_store **stores; /* [n_stores] stores of the graph's parameters */
    int n_stores;
    uint64_t runs;                  /* number of runs that have begun */
    mf_launch launch;               /* context of the present or the last run */
    const mf_kernels *host_kernels; /* kernels of the host for fallbacks in the present run */
    mf_profile *profile;            /* NULL: profiling was never switched on */
};

/* ---- build.c ---- */
/* Records "OP (SCOPE, FILE:LINE): message" as the graph's failure, unless the graph has already
 * failed. Returns the code of its first failure. */
int mf_node_fail(mf_graph *g, const char *op, const char *scope, int code, const char *fmt, ...)
    MF_PRINTF(5, 6);
/* Makes the thread's last error (out of memory) the graph's failure, unless the graph has
 * already failed. Returns the code of its first failure. */
int mf_graph_adopt(mf_graph *g, int code);
const char *mf_graph_scope(const mf_graph *g); /* "" outside of any scope */
mf_tensor *mf_tensor_new(mf_graph *g, mf_tensor_kind kind, mf_dtype dtype, mf_shape shape);
mf_node *mf_node_new(mf_graph *g, const mf_opdef *op, const char *scope);
mf_tensor *mf_owner(const mf_tensor *t);
/* Whether the values of an input stay on the device from run to run. */
static inline bool mf_input_stays(const mf_tensor *input)
{
    return input->writes > 0 || input->still;
}
/* Whether an op that keeps state has overwritten the value of this handle. */
bool mf_tensor_stale(const mf_tensor *t);
/* Allocates zeroed, 64-byte aligned memory that is valid as long as the graph. NULL: the graph
 * has failed. */
void *mf_graph_alloc(mf_graph *g, size_t bytes);

/* ---- exchange.c ---- */
/* Reserves space for a small kept value; returns its offset in the `out` part. */
int64_t mf_exchange_reserve(mf_graph *g, size_t bytes);
/* Allocates the block, staging and slots, and assigns memory on the device to leaves. */
int mf_exchange_new(mf_graph *g);
void mf_exchange_free(mf_graph *g);
static inline char *mf_exchange_out(const mf_graph *g)
{
    return g->exchange.block ? g->exchange.block + g->exchange.in_bytes : NULL;
}
/* mf_exchange_send sends live scalars, inputs and the random key to the device before a run.
 * mf_exchange_finish copies the fault after the run to the place where the next fetch reads it,
 * unless a recording does this. */
int mf_exchange_send(mf_graph *g, const mf_run *run);
void mf_exchange_finish(mf_graph *g, bool recorded);
/* Returns the `out` part of the last run, for reading by the host. NULL: the copy failed, or a
 * kernel has recorded a fault. */
const char *mf_exchange_view(mf_graph *g);
/* Returns MF_OK, or the error of a fault that kernels recorded. It then clears the fault on
 * the device. */
int mf_graph_judge_fault(mf_graph *g, const mf_fault *fault);

/* ---- fallback.c ---- */
/* Plans the fallback of a step. There are three reasons for a fallback: the op has no launch
 * function; an op of core launches the kernel `missing`, which the device does not have; or
 * (no_code) the op has code that the device has just refused. Raises staging_bytes if needed.
 * MF_EDEP if the device is not allowed to use the host. */
int mf_fallback_new(mf_graph *g, mf_replay *step, const char *missing, bool no_code);
/* Replaces the step's pointers by addresses in staging, after staging is allocated. */
void mf_fallback_place(mf_graph *g, mf_replay *step);
int mf_fallback_run(mf_graph *g, mf_replay *step);

/* ---- plugin_kernels.c ---- */
/* Loads the kernels of l->code for the step and sets its `kernels`. In a graph that is only
 * planned it does nothing. MF_EDEP, without a recorded error: the device cannot use the code,
 * and has a text that says why. */
int mf_plugin_kernels_new(mf_graph *g, mf_replay *step, const mf_device_op *l);
int mf_plugin_kernels_run(mf_graph *g, const mf_replay *step);

/* ---- unsupported.c ---- */
/* Returns the first kernel that the step's op launches and that the device's set lacks. NULL:
 * the set lacks none, or the op belongs to a plugin. All other fields of *step must be set. */
const char *mf_graph_unsupported(mf_graph *g, const mf_replay *step);

/* ---- leaf.c ---- */
/* Returns the storage of a parameter's gradient as a value that nodes can write. */
mf_tensor *mf_graph_grad_leaf(mf_graph *g, mf_param *param);

/* Returns the bf16 copy of a parameter, given its f32 leaf. NULL: the parameter has no copy,
 * the tensor is no such leaf, or ops write it. */
mf_tensor *mf_graph_bf16_leaf(mf_graph *g, mf_tensor *leaf);

/* ---- bf16.c ---- */
/* Whether the op is a gemm with a stored weight as input 1 (MF_OP_STORED_BF16). */
bool mf_op_multiplies_stored(const mf_graph *g, const mf_opdef *op, int n,
                             mf_tensor *const *in);
/* Gives each input a type that the op accepts (mf_opdef.bf16_in), adding casts where needed:
 * from in [n] to out [n]. Returns the graph's status. */
int mf_graph_fit_types(mf_graph *g, const mf_opdef *op, int n, mf_tensor *const *in,
                       mf_tensor **out);
/* Returns the tensor at which the gradient of a value is accumulated. */
static inline mf_tensor *mf_tensor_grad_owner(mf_tensor *t)
{
    return t && t->master ? t->master : t;
}

/* ---- plan/plan.c, plan/packing.c ---- */
int mf_graph_plan(mf_graph *g);

/* Memory that is needed from one node to another, both included. */
typedef struct mf_span {
    int first, last;
    size_t bytes;  /* > 0, a multiple of 64 */
    size_t offset; /* the result, 64-byte aligned */
    bool fixed;    /* the offset was set before packing */
} mf_span;
/* Sets the offsets. Spans that are alive at the same time do not overlap, and no span crosses
 * the border. *ret_bytes: the bytes needed behind the border. MF_OK or MF_ENOMEM. */
int mf_pack(mf_span *spans, int n, size_t border, size_t *ret_bytes);

/* ---- plan/readers.c ---- */
/* The nodes that read each value, directly or through aliases, when this was made. Values whose
 * reading has changed since are `fixed`, like kept ones: they must stay as they are. */
typedef struct mf_readers {
    int *first, *node; /* nodes of tensor id: node[first[id + 1]] .. */
    bool *fixed;       /* [tensor id] */
} mf_readers;
int mf_readers_new(const mf_graph *g, mf_readers *ret); /* free it after a failure, too */
void mf_readers_free(mf_readers *r);
/* Returns the next living node that reads the memory of t; *at is -1 before the first one. */
mf_node *mf_reader(const mf_graph *g, const mf_readers *r, const mf_tensor *t, int *at);
/* Returns the only one, and its number; NULL: there is none or another, or t is fixed. */
mf_node *mf_only_reader(const mf_graph *g, const mf_readers *r, const mf_tensor *t, int *ret);

/* ---- plan/fuse.c ---- */
/* Of a graph of a device: makes casts unnecessary; nodes may be dead then. */
void mf_graph_fuse_casts(mf_graph *g);
/* Whether the node reads the values of t, which owns memory, and is not dead. */
bool mf_node_reads(const mf_node *node, const mf_tensor *t);
/* Fuse some nodes into one node, if the graph's device has kernels for that. */
void mf_graph_fuse(mf_graph *g);
/* Whether the values of t are those of a node alone, in memory of their own. */
bool mf_is_plain(const mf_tensor *t, mf_dtype type);
/* Whether t is no parameter, or a whole one, which is aligned. */
bool mf_is_whole(const mf_tensor *t);
/* Output j of node `at` becomes output 0 of another node, whose work is then a part of it. from
 * may be NULL. */
void mf_node_take(mf_graph *g, int at, int j, mf_node *from);
/* Adds an argument behind those of the op; t may be NULL. */
void mf_node_append(mf_node *node, mf_readers *r, mf_tensor *t);
int mf_graph_fuse_residuals(mf_graph *g); /* plan/fuse_residual.c */
int mf_graph_fuse_tokens(mf_graph *g);    /* plan/fuse_token.c */

/* ---- plan/reuse.c ---- */
/* Finds gradient storage that values can use. written [n_tensors]: by tensor id, the first node
 * that writes the tensor, or -1. Sets g->reused. */
int mf_reuse_find(mf_graph *g, const int *written);
/* Writes at most 2 n_reused + 1 spans and returns their number. The spans cover the gradient
 * storage while values must not use it. */
int mf_reuse_spans(const mf_graph *g, mf_span *spans);

/* ---- plan/recompute.c ---- */
/* Returns the value that a gradient reads instead of t, a value of the forward pass. This is t
 * itself if t is kept, otherwise a copy. If `seen` does not contain the copy, nodes are added
 * that compute it. seen: for each tensor of the forward pass, by id, the copy made so far;
 * initially all NULL. Returns NULL if the graph has failed. */
mf_tensor *mf_recompute_value(mf_graph *g, mf_tensor *t, mf_tensor **seen);
/* Whether the outputs of a node are recomputed, not kept. */
bool mf_is_recomputed(const mf_graph *g, const mf_node *node);

/* ---- info.c ---- */
double mf_node_flops(const mf_node *node);
/* Writes the names of the largest values of a graph, with their MiB. */
void mf_graph_largest(const mf_graph *g, char *text, size_t size);

/* ---- profile.c ---- */
uint64_t mf_profile_begin(const mf_graph *g, int step);
void mf_profile_end(mf_graph *g, int step, uint64_t begun);
/* Called after the steps of a run: waits for the device and adds the times that its events
 * have measured. */
int mf_profile_collect(mf_graph *g);
void mf_profile_free(mf_profile *p);

/* ---- finite.c ---- */
/* The first input of a step that is not finite. It is searched before the step runs, because
 * the step may overwrite its inputs. */
typedef struct mf_suspect {
    int input; /* index of the input; -1: all inputs are finite */
    int64_t index;
} mf_suspect;
mf_suspect mf_replay_suspect(const mf_graph *g, const mf_replay *step);
/* Returns MF_ENONFINITE, naming op, scope, element and the input in `before`, or MF_OK. */
int mf_replay_check_finite(const mf_graph *g, const mf_replay *step, mf_suspect before);

#endif
