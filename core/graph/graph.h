/* graph/graph.h: graphs of ops, built once per shape, planned once, replayed each step.
 *
 * Life of a graph:
 *   mf_graph_new -> leaves (input, param, live, constant) and ops -> [mf_graph_backward] ->
 *   mf_graph_finish (drops dead nodes, plans memory) -> mf_graph_run, any number of times.
 * Building checks every shape and gradient rule. The first failure poisons the graph: later ops
 * return NULL and do nothing, mf_graph_status gives the failure, whose message names op, scope
 * ("layers.3.router hash") and reason.
 *
 * Nodes stand in the order in which they run; gradients are ordinary nodes behind the forward
 * ones. Running never allocates. A graph belongs to one thread.
 */
#ifndef MF_GRAPH_GRAPH_H
#define MF_GRAPH_GRAPH_H

#include <moefw/op.h>
#include <stddef.h>
#include <stdio.h>
#include "graph/store/param.h"

struct mf_device;
struct mf_kernels;

typedef enum mf_tensor_kind {
    MF_TENSOR_VALUE, /* output of a node */
    MF_TENSOR_INPUT, /* filled by the caller before each run */
    MF_TENSOR_PARAM, /* storage of a parameter or buffer */
    MF_TENSOR_GRAD,  /* storage of a parameter's gradient: written by the backward pass */
    MF_TENSOR_LIVE,  /* a scalar that follows a double in memory */
    MF_TENSOR_CONST
} mf_tensor_kind;

struct mf_tensor {
    mf_graph *graph;
    int32_t id;   /* index in graph->tensors */
    int32_t node; /* producer, -1 for leaves */
    mf_tensor_kind kind;
    mf_dtype dtype;
    mf_shape shape;
    bool needs_grad;  /* a gradient may have to flow through it */
    bool keep;        /* readable after the run */
    mf_tensor *alias; /* shares this one's memory (reshape, in place); NULL: its own */
    int32_t writes;   /* MF_OP_STATE ops that write this memory so far (counted at the
                            owner) */
    int32_t version;  /* writes when this handle came to be: an older one must not be read */
    mf_tensor *grad;  /* gradient value, set by mf_graph_backward */
    mf_tensor *as_bf16, *as_f32; /* casts of this value, NULL until one is asked for */
    mf_tensor *master;  /* of the bf16 copy of a parameter: its f32 leaf, which gets the
                            gradient */
    mf_param *param;    /* kinds PARAM, GRAD */
    const double *live; /* kind LIVE */
    const char *name;   /* for messages and DOT; may be NULL */
    void *data;         /* on the graph's device, after mf_graph_finish; NULL if dropped */
    void *host;     /* as the host sees it: data on the CPU; elsewhere of inputs, live scalars
                           and constants, and of kept values a copy, NULL until one is read */
    uint64_t seen;  /* the run whose value the copy holds */
    int64_t at;     /* where data begins in the graph's exchange block; -1: not there */
    bool refreshed; /* an input that ops write: the host has changed it since the last run */
};

typedef struct mf_node {
    const mf_opdef *op;
    const char *scope; /* where it was added: "layers.0.router linear" */
    const char *file;  /* and where in the plugin's source; NULL: not known */
    int32_t line;
    int32_t n_in, n_out;
    mf_tensor *in[MF_OP_MAX_ARGS]; /* absent optional inputs are NULL */
    /* Of a backward node: gradients of inputs, NULL if unwanted; behind them what it gives. */
    mf_tensor *out[MF_OP_MAX_IN + 1];
    uint32_t reads; /* bit i: the data of in[i] is read, not only its shape */
    mf_attr attr;
    bool backward;       /* runs op->backward on the arguments of a fused gradient */
    bool gradient_part;  /* added by mf_graph_backward */
    bool bf16;           /* added where products are made in bf16: so are those of its
                           gradient */
    bool metric;         /* feeds nothing but metrics: runs only when they are wanted */
    bool dead;           /* nothing needs it */
    bool recompute;      /* the backward pass recomputes it */
    bool recomputes_out; /* backward: its last output is the op's own output, recomputed */
    uint64_t stream;     /* random stream: hash of scope and ordinal within the scope */
    size_t work_bytes, backward_work_bytes;
    void *work; /* scratch, after mf_graph_finish */
    double flops, backward_flops;
} mf_node;

/* What the backward pass computes again instead of keeping it from the forward pass. The bits
 * of all results are the same. */
typedef enum mf_recompute {
    MF_RECOMPUTE_NONE,
    MF_RECOMPUTE_LIGHT, /* outputs of ops that are marked cheap */
    MF_RECOMPUTE_BLOCK  /* these, and all that was added under mf_graph_set_recompute */
} mf_recompute;

/* Numbers of the caller's own that go to the device with the inputs of each run, and come back
 * with its results, so that they cost no copy of their own. */
typedef struct mf_graph_passengers {
    size_t in, out; /* bytes */
    int slots;      /* runs whose results may wait to be read; 0 stands for 1 */
} mf_graph_passengers;

typedef struct mf_graph_options {
    mf_recompute recompute;
    bool training;   /* ops such as dropout are on; gradients may be asked for */
    bool accumulate; /* the backward pass adds to parameters' gradients, not overwrites */
    bool bare;       /* plan only: it cannot run; what it would take is in its info */
    bool no_reuse;   /* give every value memory of its own (for looking inside) */
    bool bf16;       /* products take and, unless told otherwise, give bf16 */
    /* A finished training graph that never runs at the same time: its memory is used, as far as
     * it goes, and that of the gradients which it writes. What it kept is lost when this one
     * runs. It must live as long, and be on the same device. NULL: none */
    const mf_graph *arena_of;
    struct mf_device *device; /* where it runs; its stores must be there; NULL: the host */
    mf_graph_passengers passengers;
} mf_graph_options;

mf_graph *mf_graph_new(const mf_graph_options *options);
void mf_graph_free(mf_graph *g);
int mf_graph_status(const mf_graph *g);
bool mf_graph_training(const mf_graph *g);
/* Records a failure of a builder outside any op; poisons the graph; returns code. */
int mf_graph_fail(mf_graph *g, int code, const char *fmt, ...);

/* Scopes name where nodes are added; they nest: "layers.3" + "router hash" is
 * "layers.3.router hash", and so is "layers.3" + "layers.3.router hash". */
void mf_graph_push(mf_graph *g, const char *fmt, ...);
void mf_graph_pop(mf_graph *g);
/* Where in a plugin's source the next nodes are added, for messages; file NULL: not known. It
 * must live as long as the graph. */
void mf_graph_at(mf_graph *g, const char *file, int32_t line);
/* Whether no node has been added since. */
bool mf_graph_at_next(const mf_graph *g);
/* Nodes added while on are metrics: they run only when mf_run.metrics is set. They may read
 * anything; nothing else may read them. */
void mf_graph_metrics(mf_graph *g, bool on);

/* Nodes added while on are computed again in the backward pass under MF_RECOMPUTE_BLOCK: what
 * lies between one residual sum and the next. */
void mf_graph_set_recompute(mf_graph *g, bool on);
/* Whether products are made in bf16 from here on; never in graphs without the option. Returns
 * what was. Routers and losses are built with it off: they see and compute f32. */
bool mf_graph_set_bf16(mf_graph *g, bool on);
bool mf_graph_is_bf16(const mf_graph *g);
/* t in f32: itself, or its cast. */
mf_tensor *mf_graph_to_f32(mf_graph *g, mf_tensor *t);
/* The type that the gradient of a value has: f32 for parameters, else the value's own. */
mf_dtype mf_tensor_grad_type(const mf_tensor *t);

/* ---- leaves ---- */
mf_tensor *mf_graph_input(mf_graph *g, const char *name, mf_dtype dtype, mf_shape shape);
mf_tensor *mf_graph_param(mf_graph *g, mf_param *param); /* one leaf a parameter and graph */
mf_tensor *mf_graph_live(mf_graph *g, const double *value, const char *name);
/* data is copied; NULL stands for zeros. */
mf_tensor *mf_graph_const(mf_graph *g, mf_dtype dtype, mf_shape shape, const void *data);
/* An input whose gradient is wanted, in graphs without training too. Call it before anything
 * reads the input; then list it in mf_graph_backward's extra. */
void mf_graph_want_grad(mf_tensor *input);

/* ---- ops ---- */
/* in[i] may be NULL only if infer accepts it (rank -1 there). Failures: see moefw/host.h. */
mf_tensor *mf_graph_op(mf_graph *g, const mf_opdef *op, int n_in, mf_tensor *const *in,
                       const mf_attr *attr, int n_out, mf_tensor **ret_out);
/* An op of core by name; MF_EPLUGIN naming the nearest when unknown. */
mf_tensor *mf_graph_op_named(mf_graph *g, const char *name, int n_in, mf_tensor *const *in,
                             const mf_attr *attr, int n_out, mf_tensor **ret_out);
void mf_graph_keep(mf_tensor *t); /* readable after the run; NULL allowed */

/* Adds gradient nodes of the scalar `loss` for all parameters that are not frozen, and for
 * inputs listed in extra (their gradients are kept; read t->grad). Once a graph. A parameter of
 * the graph that the loss does not depend on gets zeros; one that is not in the graph is left
 * alone. */
int mf_graph_backward(mf_graph *g, mf_tensor *loss, int n_extra, mf_tensor *const *extra);
/* The same for several outputs of any shape: gradients of sum_i <seed[i], out[i]>. */
int mf_graph_backward_from(mf_graph *g, int n, mf_tensor *const *out, mf_tensor *const *seed,
                           int n_extra, mf_tensor *const *extra);

/* Drops dead nodes, lays out memory. The graph is complete.
 *
 * Where a gradient is overwritten in each run (options.accumulate is off), its storage serves
 * values of the forward pass until it is written: gradients are there from the end of a run to
 * the beginning of the next. Where runs add to it, it holds their sum and serves nothing
 * else. */
int mf_graph_finish(mf_graph *g);

/* ---- running ---- */
typedef struct mf_run {
    uint64_t seed, step;
    const struct mf_kernels *kernels; /* NULL: the set in force */
    bool metrics;                     /* also run metric nodes */
    bool forward_only;                /* stop before the gradient part */
    bool check_finite; /* after each node: MF_ENONFINITE naming op and scope at the first
                          NaN/Inf */
    bool queued; /* do not wait for a device: mf_graph_wait or mf_graph_collect does. Until then
                    faults of kernels are not known, and inputs may be filled again */
} mf_run;
int mf_graph_run(mf_graph *g, const mf_run *run);
/* Waits for queued runs; the fault of a kernel is an error, as it is in mf_graph_run. */
int mf_graph_wait(mf_graph *g);

/* ---- results of queued runs ----
 * Small kept values (MF_GRAPH_SMALL bytes at most) lie in one block, behind the caller's
 * passengers. mf_graph_fetch queues one copy of it to the host, into a slot; after
 * mf_graph_collect of that slot, which waits for it, the two functions below read it. */
#define MF_GRAPH_SMALL 4096
int mf_graph_fetch(mf_graph *g, int slot);
int mf_graph_collect(mf_graph *g, int slot);
/* The value of t in the run that was fetched into the slot; NULL: none that can be seen. */
const void *mf_tensor_collected(const mf_tensor *t, int slot);
const void *mf_graph_returned(const mf_graph *g, int slot); /* passengers.out */
/* Where passengers are on the device, and the host memory that each run takes those from which
 * go there. NULL before mf_graph_finish. */
void *mf_graph_returned_at(const mf_graph *g);
const void *mf_graph_sent_at(const mf_graph *g);
void *mf_graph_sent(const mf_graph *g);
/* The node at work, NULL between nodes: what a crash message of the program names. Where
 * several threads run graphs, the one that stored last. */
extern _Atomic(const mf_node *) mf_graph_node_now;

/* ---- values as the host sees them ----
 * A tensor's values may live on a device, where the host must not look: nothing but these
 * functions reads or writes them. They serve an input or a constant (from its creation on), a
 * parameter's leaf, or a kept value (after mf_graph_finish; with no_reuse any value); for all
 * others they fail, or give NULL. A kept value of a metric node holds what the last run with
 * metrics left there. On the thread of the graph only. */

/* Copies bytes [offset, offset + bytes) of the values. They wait for what was launched before.
 * MF_EINVAL: not a value that can be seen, or outside its bytes; else what the device says. */
int mf_tensor_read(const mf_tensor *t, void *to, size_t offset, size_t bytes);
int mf_tensor_write(mf_tensor *t, const void *from, size_t offset, size_t bytes);
/* A view for reading: on the CPU the values themselves, elsewhere a copy that is made at the
 * first call after a run, for all small kept values of the graph together. Valid until the next
 * run. NULL: not a value that can be seen, or the copy failed (mf_error_code). */
const void *mf_tensor_host(const mf_tensor *t);
/* Host memory of an input, for the caller to fill before a run, which copies all inputs of the
 * graph at once where they live elsewhere. Keeps its contents; valid as long as the graph. An
 * input that an op writes in place is copied only in the first run after this call. NULL for
 * anything but an input. */
void *mf_tensor_input(mf_tensor *t);
/* The address of the values, wherever they live: for launches, and for tests on the CPU. */
void *mf_tensor_data(const mf_tensor *t);

typedef struct mf_graph_info {
    int nodes, dead, tensors;
    size_t arena_bytes; /* planned memory of values and scratch */
    size_t naive_bytes; /* what it would be without reuse */
    double flops;       /* of products, forward and backward */
} mf_graph_info;
void mf_graph_get_info(const mf_graph *g, mf_graph_info *ret);
int mf_graph_nodes(const mf_graph *g);                 /* added so far */
const mf_node *mf_tensor_producer(const mf_tensor *t); /* NULL: a leaf */
/* The first node whose op has that role, behind the first `from` nodes; NULL: there is none. */
const mf_node *mf_graph_node_of(const mf_graph *g, mf_op_role role, int from);
/* Whether runs of a finished graph read the f32 values of a parameter. */
bool mf_graph_reads(const mf_graph *g, const struct mf_param *p);
/* Whether nothing but products of rows reads what products read of a parameter (its bf16 copy,
 * or where there is none its value), and these as their weight (MF_OP_PANELS). */
bool mf_graph_multiplies(const mf_graph *g, const struct mf_param *p);
/* mf_opdef.flags of core's ops: input 1 may be a weight in panels (mf_store_pack). Its view
 * then has MF_VIEW_PANELS in `reserved`. */
#define MF_OP_PANELS   (1u << 16)
#define MF_VIEW_PANELS 1u
/* Per-op time of the runs since profiling was switched on, as a table, slowest first. */
void mf_graph_profile(mf_graph *g, bool on);
void mf_graph_profile_print(const mf_graph *g, FILE *out);
/* Graphviz text of the graph, without gradient nodes unless all. */
int mf_graph_dot(const mf_graph *g, bool all, FILE *out);

/* The kernel set in force: MOEFW_KERNELS, judged once. MF_ECONFIG for an unknown name; then
 * there is no set, and mf_backend_kernels gives NULL. */
int mf_backend_init(void);
const struct mf_kernels *mf_backend_kernels(void);

/* ---- the op table, filled by core/ops ---- */
const mf_opdef *mf_op_find(const char *name); /* NULL if unknown */
const mf_opdef *mf_op_at(int i);              /* NULL past the end */
const char *const *mf_op_names(void);         /* NULL-terminated, for suggestions */
/* The op of core that has this role, which the table must hold. */
const mf_opdef *mf_op_of_role(mf_op_role role);
/* The role of any op; tables of older plugins have none. */
static inline mf_op_role mf_opdef_role(const mf_opdef *op)
{
    return op->size >= offsetof(mf_opdef, role) + sizeof op->role ? (mf_op_role)op->role
                                                                  : MF_ROLE_NONE;
}

#endif
