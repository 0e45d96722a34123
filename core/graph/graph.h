/* graph/graph.h: graphs of ops, which are built once per shape, planned once, and run in
 * each step.
 *
 * Life of a graph:
 *    mf_graph_new -> leaves (input, param, live, constant) and ops -> [mf_graph_backward] ->
 *    mf_graph_finish (drops dead nodes, plans memory) -> mf_graph_run, any number of times.
 * When an op is added, the graph checks its shapes. It also checks that the op has a
 * gradient rule if a gradient must pass through it. After the first failure, functions that
 * would add to the graph do nothing and return NULL, and mf_graph_status returns the
 * failure. Its message names the op that failed, if any, the scope ("layers.3.router hash")
 * and the reason.
 *
 * Nodes are in the order in which they run; nodes that compute gradients are ordinary nodes
 * after the forward nodes. Running never allocates memory. A graph belongs to one thread.
 *
 * Gradients are nodes of the same graph: composed of ops, or one fused backward call. Memory
 * is planned over both passes at once. A parameter's gradient is written where the optimizer
 * reads it; before that its buffer is reused for values of the forward pass. Evaluation
 * reuses the arena of the training graph.
 *
 * Recomputation copies nodes. If a gradient rule reads a value that was not kept, it reads
 * the output of a copied node with the same op, attributes and random stream, and so the
 * same bits. Small values are kept, and so are all values of the last block, whose gradients
 * come first. The backward function of some ops (SwiGLU) also recomputes the op's output;
 * the gradient of the weights that are multiplied with this output is computed after that
 * function has run. */
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
    MF_TENSOR_GRAD,  /* storage of a parameter's gradient, written by the backward pass */
    /* a scalar that each run reads from a double of the caller */
    MF_TENSOR_LIVE,
    MF_TENSOR_CONST
} mf_tensor_kind;

/* What is known of an i32 value in run number `run` (graph/known.c): its elements are in
 * lo .. hi - 1 and, with `rises`, none is lower than the one before. */
typedef struct mf_known {
    uint64_t run;
    bool rises;
    int64_t lo, hi;
} mf_known;

struct mf_tensor {
    mf_graph *graph;
    int32_t id;   /* index in graph->tensors */
    int32_t node; /* index of the node that computes it; -1: a leaf */
    mf_tensor_kind kind;
    mf_dtype dtype;
    mf_shape shape;
    bool needs_grad; /* a gradient may have to flow through it */
    bool keep;       /* it can be read after the run */
    bool sent;       /* it is kept, and is in the block that mf_graph_fetch copies, whatever
                      * its size */
    /* tensor whose memory it shares (reshape, in place); NULL: it has its own memory */
    mf_tensor *alias;
    /* number of MF_OP_STATE ops so far that write this memory; counted at the owner */
    int32_t writes;
    int32_t version; /* `writes` when this handle was made; an older handle must not be read */
    mf_tensor *grad; /* its gradient, set by mf_graph_backward */
    mf_tensor *as_bf16, *as_f32; /* this value in the other type; NULL until it is needed */
    /* for the bf16 copy of a parameter: the parameter's f32 leaf, which gets the gradient */
    mf_tensor *master;
    const mf_tensor *recomputes; /* the value that this value recomputes; NULL: none */
    mf_param *param;             /* for kinds PARAM and GRAD */
    const double *live;          /* for kind LIVE */
    const char *name;            /* for messages and DOT; may be NULL */
    /* address on the graph's device, set by mf_graph_finish or before; NULL: its node
     * was dropped */
    void *data;
    /* Memory on the host. For an input, live scalar or constant it is the source of the values
     * (on the CPU the same as data). For other tensors on a device it is the copy that
     * mf_tensor_host has made, or NULL. */
    void *host;
    uint64_t seen; /* number of the run whose value `host` holds */
    /* Offset in its part of the graph's exchange block; -1: it is not in the block. */
    int64_t at;
    mf_known known;
    bool still; /* input that mf_graph_still has marked */
    /* for an input that stays on the device: the host may have changed it since the last run */
    bool refreshed;
};

typedef struct mf_node {
    const mf_opdef *op;
    const char *scope; /* scope in which the node was added, for example
                        * "layers.0.router linear" */
    const char *file;  /* source file of the plugin that added the node; NULL: not known */
    int32_t line;
    int32_t n_in, n_out;
    mf_tensor *in[MF_OP_MAX_ARGS]; /* absent optional inputs are NULL */
    /* A backward node has here the gradients of the op's inputs, NULL where they are not
     * needed. If the node recomputes the op's output, the output follows them. */
    mf_tensor *out[MF_OP_MAX_IN + 1];
    uint32_t reads; /* bit i: the values of in[i] are read, not only its shape */
    mf_attr attr;
    bool backward;      /* the node runs op->backward on the arguments of a fused gradient */
    bool gradient_part; /* the node was added by mf_graph_backward, or reads the output of such
                         * a node */
    /* the node was added while gemms use bf16; then the gemms of its gradient use bf16, too */
    bool bf16;
    bool metric;    /* only metrics use the node: it runs only if metrics are requested */
    bool dead;      /* no node needs its outputs */
    bool fused;     /* its work is a part of another node, so it is dead */
    bool recompute; /* the backward pass recomputes its outputs, unless they must be kept */
    int more_in, more_out; /* number of arguments that fuse_residual.c has added */
    /* a backward node whose last output is the op's output, recomputed */
    bool recomputes_out;
    uint64_t stream; /* random stream: hash of the scope and of the node's number within
                      * the scope */
    size_t work_bytes, backward_work_bytes;
    void *work; /* scratch memory, set by mf_graph_finish */
    double flops, backward_flops;
} mf_node;

/* Which values of the forward pass the backward pass recomputes instead of keeping them. All
 * results have the same bits. */
typedef enum mf_recompute {
    MF_RECOMPUTE_NONE,
    MF_RECOMPUTE_LIGHT, /* outputs of ops that are marked as cheap */
    MF_RECOMPUTE_BLOCK  /* also outputs of nodes added under mf_graph_set_recompute */
} mf_recompute;

/* The caller's own bytes, which are sent to the device together with the inputs of each run and
 * returned together with the results. So they need no copies of their own. */
typedef struct mf_graph_payload {
    size_t in, out; /* numbers of bytes */
    int slots;      /* number of runs whose results can wait until they are read; 0: 1 */
} mf_graph_payload;

typedef struct mf_graph_options {
    mf_recompute recompute;
    bool training; /* parameters need gradients, and ops such as dropout are active */
    bool bare;     /* only plan: the graph cannot run; mf_graph_info returns the memory of
                    * a run */
    bool no_reuse; /* every value gets its own memory, for inspection */
    bool bf16;     /* gemms read bf16, and write bf16 unless their attributes request f32 */
    bool bf16_attention; /* with bf16, attention reads bf16, too; set for devices that
                          * prefer it */
    /* Another finished graph, the training graph, which never runs at the same time as the new
     * graph. The new graph uses the gradient storage that the other graph reuses and, if it is
     * large enough, the other graph's arena. A run of the new graph may destroy the other
     * graph's gradients and its kept values of more than MF_GRAPH_SMALL bytes. The other graph
     * must be on the same device and must stay valid as long as the new graph. NULL: none. */
    const mf_graph *arena_of;
    struct mf_device *device; /* device of the graph and of its stores; NULL: the host */
    /* bare: kernels of the device for which the graph is planned; NULL: of the host */
    const struct mf_kernels *planned_for;
    mf_graph_payload payload;
} mf_graph_options;

/* The ops that a graph finds by name and by role. */
typedef struct mf_op_table {
    const mf_opdef *(*find)(const char *name); /* NULL if the name is unknown */
    const mf_opdef *(*of_role)(mf_op_role role);
    const char *const *(*names)(void); /* NULL-terminated list, for suggestions */
} mf_op_table;
mf_graph *mf_graph_make(const mf_graph_options *options, const mf_op_table *ops);
void mf_graph_free(mf_graph *g);
int mf_graph_status(const mf_graph *g);
/* Returns the kernels of the device that runs the graph, or for which it is planned; NULL: the
 * host runs it, or g is NULL. */
const struct mf_kernels *mf_graph_device_kernels(const mf_graph *g);
bool mf_graph_training(const mf_graph *g);
/* Records a failure of the code that builds the graph, outside of any op. Further additions do
 * nothing. Returns code, or the code of an earlier failure, which is kept. */
int mf_graph_fail(mf_graph *g, int code, const char *fmt, ...);

/* Scopes name the part of the model to which nodes belong. They nest: "layers.3" with "router
 * hash" inside is "layers.3.router hash". "layers.3" with "layers.3.router hash" inside has the
 * same result. */
void mf_graph_push(mf_graph *g, const char *fmt, ...);
void mf_graph_pop(mf_graph *g);
/* Sets the line of a plugin's source that adds the next nodes, for messages. file must stay
 * valid as long as the graph; NULL: not known. */
void mf_graph_at(mf_graph *g, const char *file, int32_t line);
/* Whether mf_graph_at has set a line and no node has been added since. */
bool mf_graph_at_next(const mf_graph *g);
/* Nodes that are added while this is on are metrics: they run only if mf_run.metrics is set.
 * They may read any value; other nodes must not read them. */
void mf_graph_metrics(mf_graph *g, bool on);

/* Nodes that are added while this is on are recomputed in the backward pass under
 * MF_RECOMPUTE_BLOCK. The model turns this on for the nodes between one residual sum and the
 * next, except in the last block. */
void mf_graph_set_recompute(mf_graph *g, bool on);
/* Sets whether gemms that are added from now on use bf16; always off in graphs without the
 * option. Returns the previous setting. Routers and regularizers are built while this is off,
 * so that they read and compute f32. */
bool mf_graph_set_bf16(mf_graph *g, bool on);
bool mf_graph_is_bf16(const mf_graph *g);
/* Returns a bf16 value as f32, and any other value unchanged. NULL if t is NULL or the graph
 * has failed. */
mf_tensor *mf_graph_to_f32(mf_graph *g, mf_tensor *t);
/* Returns the type of a value's gradient: f32 for parameters, otherwise the type of
 * the value. */
mf_dtype mf_tensor_grad_type(const mf_tensor *t);

/* ---- leaves ---- */
mf_tensor *mf_graph_input(mf_graph *g, const char *name, mf_dtype dtype, mf_shape shape);
/* Returns the parameter as a value. This is its leaf, of which a graph has one. If ops have
 * written the parameter in place, it is the output of the last of these ops. The parameter's
 * store must be sealed, and on the graph's device. */
mf_tensor *mf_graph_param(mf_graph *g, mf_param *param);
/* Returns the elements first .. first+count-1 along dimension 0 of a parameter as a separate
 * value. Its gradient is written to the corresponding elements of the parameter's gradient. The
 * graph should not read the whole parameter in addition. */
mf_tensor *mf_graph_param_part(mf_graph *g, const mf_param *param, int64_t first,
                               int64_t count);
/* While such a function is set, mf_graph_param calls it first. If the function returns a value,
 * this value replaces the parameter. NULL: no function. */
typedef mf_tensor *mf_stand_in(void *arg, mf_graph *g, mf_param *param);
void mf_graph_set_stand_in(mf_graph *g, mf_stand_in *fn, void *arg);
mf_tensor *mf_graph_live(mf_graph *g, const double *value, const char *name);
/* Adds a constant. data is copied; NULL: the constant is zero. */
mf_tensor *mf_graph_const(mf_graph *g, mf_dtype dtype, mf_shape shape, const void *data);
/* Marks an input whose gradient is needed, also in graphs without training. Call this before
 * any op reads the input. The gradient is kept only if the input is in `extra`
 * of mf_graph_backward. */
void mf_graph_want_grad(mf_tensor *input);

/* ---- ops ---- */
/* Adds an op, and returns its first output. in[i] may be NULL only if infer accepts it (its
 * rank is then -1). moefw/host.h describes the failures. */
mf_tensor *mf_graph_op(mf_graph *g, const mf_opdef *op, int n_in, mf_tensor *const *in,
                       const mf_attr *attr, int n_out, mf_tensor **ret_out);
/* Adds an op of core by name. If the name is unknown, fails with MF_EPLUGIN and names the
 * nearest known name. */
mf_tensor *mf_graph_op_named(mf_graph *g, const char *name, int n_in, mf_tensor *const *in,
                             const mf_attr *attr, int n_out, mf_tensor **ret_out);
void mf_graph_keep(mf_tensor *t); /* makes t readable after the run; NULL is allowed */
/* Keeps a value of any size, so that mf_tensor_collected can return it for each slot. Returns
 * t, or a copy if t is not computed by the graph (a leaf, or another view of its memory). NULL
 * if t is NULL or the graph has failed. */
mf_tensor *mf_graph_keep_sent(mf_tensor *t);
/* Marks an input that seldom changes, before mf_graph_finish. The input stays on the device,
 * and its values are sent only in the first run after a call of mf_tensor_input. */
void mf_graph_still(mf_tensor *input);

/* Adds nodes for the gradients of the scalar `loss` with respect to all parameters that are not
 * frozen, and to the inputs in extra (whose gradients are kept; read t->grad). It may be called
 * once per graph. Parameters of the graph that do not affect the loss get zeros; the gradients
 * of parameters outside of the graph do not change. */
int mf_graph_backward(mf_graph *g, mf_tensor *loss, int n_extra, mf_tensor *const *extra);
/* Like mf_graph_backward, for several outputs of any shape: adds the gradients of sum_i
 * <seed[i], out[i]>. A seed has the type and shape of its output. */
int mf_graph_backward_from(mf_graph *g, int n, mf_tensor *const *out, mf_tensor *const *seed,
                           int n_extra, mf_tensor *const *extra);

/* Drops dead nodes and plans memory. Nothing can be added afterwards.
 *
 * Each run overwrites gradients, so values of the forward pass use the gradients' storage until
 * the gradients are written. Gradients are valid from the end of a run to the start of the next
 * run of this graph, or of a graph that has it as arena_of. */
int mf_graph_finish(mf_graph *g);

/* ---- running ---- */
typedef struct mf_run {
    uint64_t seed, step;
    const struct mf_kernels *kernels; /* NULL: the set chosen for the process */
    bool metrics;                     /* also run metric nodes */
    bool forward_only;                /* stop before the backward pass */
    bool no_dropout;                  /* ops that change their result in training behave as
                                       * in evaluation */
    /* Check the results of each node. MF_ENONFINITE names op and scope of the first NaN or Inf;
     * -Inf is an error only in some cases (finite.c). */
    bool check_finite;
    /* Do not wait for the device. mf_graph_wait or mf_graph_collect waits later, and reports
     * faults of kernels. Inputs may be filled again at once. */
    bool queued;
    /* Recorder and the capture that the run begins before its launches; the caller ends it.
     * Allowed only for queued runs without check_finite; both may be NULL. Ignored for graphs
     * that cannot be recorded. */
    struct mf_recorder *recorder;
    const struct mf_capture *capture;
    /* Called after each node with the number of that node; NULL: no call. Runs that a recording
     * replays ignore it. */
    void (*after_node)(void *arg, int node);
    void *after_arg;
} mf_run;
int mf_graph_run(mf_graph *g, const mf_run *run);
/* For n intervals at[i] .. at[i + 1] - 1, in rising order, of the gradients of a store on the
 * host: finds the last node that writes to the interval, or -1. Later nodes of a run do not
 * change the interval. */
void mf_graph_last_writes(const mf_graph *g, const mf_store *store, int n, const int64_t *at,
                          int *ret);
/* For mf_run.after_node, on the host: computes a digest of everything that the node has
 * written. Digests show where runs of one graph differ. Numbers of nodes are
 * below mf_graph_nodes. */
void mf_graph_digest(const mf_graph *g, int node, char ret[33]);
/* Records the error `text` of the node, preceded by the node's op and scope, and
 * returns code. */
int mf_graph_blame(const mf_graph *g, int node, int code, const char *text);
/* Waits for queued runs. A fault of a kernel is an error, as in mf_graph_run. */
int mf_graph_wait(mf_graph *g);

/* ---- results of queued runs ----
 *
 * One block contains all kept values that are small (at most MF_GRAPH_SMALL bytes) or that
 * mf_graph_keep_sent has marked. It follows the caller's payload. mf_graph_fetch queues one
 * copy of this block to the host, into a slot. mf_graph_collect waits until the slot is filled,
 * and fails if a kernel recorded a fault. After that the two functions below read the slot. */
#define MF_GRAPH_SMALL 4096
int mf_graph_fetch(mf_graph *g, int slot);
int mf_graph_collect(mf_graph *g, int slot);
/* Returns the value of t in the run that was fetched into the slot. A value that is not in the
 * block is returned as by mf_tensor_host. NULL: the value cannot be read. */
const void *mf_tensor_collected(const mf_tensor *t, int slot);
/* The bytes that the device returned, [payload.out]. */
const void *mf_graph_returned(const mf_graph *g, int slot);
/* Addresses of the payload. mf_graph_returned_at: the bytes on the device that are returned.
 * The next functions: the bytes on the device that were sent, and the host memory from which
 * each run sends them. NULL before mf_graph_finish. */
void *mf_graph_returned_at(const mf_graph *g);
const void *mf_graph_sent_at(const mf_graph *g);
void *mf_graph_sent(const mf_graph *g);
/* The running node, which crash messages name; NULL between nodes. If several threads run
 * graphs, it is the node that was stored last. */
extern _Atomic(const mf_node *) mf_graph_node_now;
/* Number of nodes that graphs of the process have begun. Code that watches a run detects its
 * progress by this number. */
extern _Atomic uint64_t mf_graph_nodes_begun;

/* ---- values as the host sees them ----
 * The values of a tensor may be in memory of a device, so only these functions read or write
 * them. They apply to a leaf (input, constant, live scalar, parameter), and after
 * mf_graph_finish to a kept value, or with no_reuse to any value. For other tensors they fail
 * or return NULL. A kept value of a metric node holds the result of the last run with metrics.
 * Only the thread of the graph may call them. */

/* Copy bytes [offset, offset + bytes) of the values to or from the host, after all earlier
 * launches. MF_EINVAL: the values cannot be read, or the range is outside of them. Other errors
 * come from the device. */
int mf_tensor_read(const mf_tensor *t, void *to, size_t offset, size_t bytes);
int mf_tensor_write(mf_tensor *t, const void *from, size_t offset, size_t bytes);
/* Returns a view for reading. On the CPU the view is the values themselves, otherwise it is a
 * copy; the first call after a run copies all small kept values of the graph. Valid until the
 * next run. NULL: the values cannot be read, the copy failed (mf_error_code), or a kernel has
 * recorded a fault (mf_graph_wait). */
const void *mf_tensor_host(const mf_tensor *t);
/* Returns host memory of an input, which the caller fills before a run. On a device a run
 * copies all inputs of the graph at once. The memory keeps its contents and is valid as long as
 * the graph. An input that an op writes in place, or that mf_graph_still has marked, is copied
 * from the device in this call, and to the device only in the first run after this call. NULL
 * if t is not an input, or if the copy from the device fails. */
void *mf_tensor_input(mf_tensor *t);
/* Returns the address of the values on their device, for launches and for tests on the CPU.
 * NULL: the values cannot be read. */
void *mf_tensor_data(const mf_tensor *t);

typedef struct mf_graph_info {
    int nodes, dead, tensors;
    size_t arena_bytes; /* planned memory of values and scratch */
    size_t naive_bytes; /* number of bytes without reuse of memory */
    double flops;       /* operations of gemms and attention, forward and backward */
} mf_graph_info;
void mf_graph_get_info(const mf_graph *g, mf_graph_info *ret);
/* Returns an approximate number of operations of the forward pass. It counts the operations of
 * gemms and attention, and some for each element of all results. It depends on the graph only,
 * so a limit on it has the same effect on each machine. */
double mf_graph_operations(const mf_graph *g);
int mf_graph_nodes(const mf_graph *g);                 /* number of nodes added so far */
const mf_node *mf_tensor_producer(const mf_tensor *t); /* node that computes t; NULL: t is
                                                        * a leaf */
/* Returns the first node from index `from` on whose op has that role; NULL: there is none. */
const mf_node *mf_graph_node_of(const mf_graph *g, mf_op_role role, int from);
/* Returns node i, 0 .. mf_graph_nodes(g) - 1, in the order in which nodes were added. */
const mf_node *mf_graph_node_at(const mf_graph *g, int i);
/* Returns the parameter that a node of the forward pass multiplies with: input 1 of an op that
 * accepts panels. NULL: the node is no such node. */
const struct mf_param *mf_node_weight(const mf_node *node);
/* Whether runs of a finished graph read the f32 values of a parameter. */
bool mf_graph_reads(const mf_graph *g, const struct mf_param *p);
/* Whether ops that accept panels (MF_OP_PANELS) are the only readers of a parameter's bf16
 * copy, or of its f32 values if it has no copy, and read it only as their weight. */
bool mf_graph_multiplies(const mf_graph *g, const struct mf_param *p);
/* mf_opdef.flags of core's ops: input 1 may be a weight in panels (mf_store_pack). Its view
 * then has MF_VIEW_PANELS in `reserved`. */
#define MF_OP_PANELS   (1u << 16)
#define MF_VIEW_PANELS 1u
/* Flags in mf_opdef.flags of core's ops: input 0 or input 1 may be a stored weight
 * (mf_store_bind). The view of this input then has MF_VIEW_STORED in `reserved`, and its data
 * is the mf_stored. Other ops and other inputs get f32 copies, which a node makes. */
#define MF_OP_STORED_0 (1u << 17)
#define MF_OP_STORED_1 (1u << 18)
/* Flag in mf_opdef.flags of core's gemms: if input 1 is a stored weight, input 0 is bf16 in a
 * graph with the option bf16. The output is f32 nevertheless. */
#define MF_OP_STORED_BF16 (1u << 19)
#define MF_VIEW_STORED    2u
/* Flag in mf_opdef.flags of core's ops that marks attention. Its inputs in bf16_in are
 * converted to bf16 in graphs with the options bf16 and bf16_attention. They stay f32 if the
 * node is a metric, or if the keys are a cache of more than MF_BF16_CACHE positions for
 * each query. The attribute MF_AS_BF16 is set to whether its kernels may round to bf16. */
#define MF_OP_ATTENTION (1u << 20)
#define MF_AS_BF16      (MF_ATTR_INTS - 1)
#define MF_BF16_CACHE   8
/* Whether t is a parameter in stored form. */
bool mf_tensor_is_stored(const mf_tensor *t);
/* mf_graph_profile turns the measurement of each op's time on or off for later runs of a
 * finished graph. On a device the time is measured between events before and after the op. If
 * events have no times, it is measured on the host, which waits for each op.
 * mf_graph_profile_print prints the times as a table, slowest first. */
void mf_graph_profile(mf_graph *g, bool on);
void mf_graph_profile_print(const mf_graph *g, FILE *out);

/* The kernel set of the process. It is chosen once from MOEFW_KERNELS, MOEFW_ISA and
 * MOEFW_GEMM, when it is first needed and the number of threads is known. There is no set if
 * one of these variables has an unknown value (MF_ECONFIG), or if the library that computes
 * gemms cannot be used (MF_EDEP); mf_backend_kernels then returns NULL. mf_backend_names only
 * checks the values, and opens no library. */
int mf_backend_names(void);
int mf_backend_init(void);
const struct mf_kernels *mf_backend_kernels(void);
/* Returns what computes plain gemms: "own", or name, version and build of OpenBLAS. */
const char *mf_backend_blas(void);

/* ---- the op table, which core/ops defines ---- */
/* Creates a graph with the ops of core. */
mf_graph *mf_graph_new(const mf_graph_options *options);
const mf_opdef *mf_op_find(const char *name); /* NULL if the name is unknown */
const mf_opdef *mf_op_at(int i);              /* by name, ascending; NULL past the last op */
const char *const *mf_op_names(void);         /* NULL-terminated list, for suggestions */
/* Returns the op of core that has this role. The table must contain such an op. */
const mf_opdef *mf_op_of_role(mf_op_role role);
/* Returns the role of any op; tables of older plugins have no role. */
static inline mf_op_role mf_opdef_role(const mf_opdef *op)
{
    return op->size >= offsetof(mf_opdef, role) + sizeof op->role ? (mf_op_role)op->role
                                                                  : MF_ROLE_NONE;
}

#endif
