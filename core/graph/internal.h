/* graph/internal.h: what the files of this folder share about a graph.
 *
 * Everything a graph owns is in its memory arena, except the lists that grow (tensors, nodes),
 * the planned block and the profile, which mf_graph_free releases one by one. Handles and nodes
 * never move.
 *
 * Memory of tensors: a tensor with alias == NULL owns memory, the others name their owner there
 * (possibly over several hops once the plan has put nodes in place); mf_owner finds it.
 */
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

/* Random nodes of one scope, counted: the ordinal is part of the stream's name. */
typedef struct mf_ordinal {
    struct mf_ordinal *next;
    const char *path;
    bool metric;
    uint64_t count;
} mf_ordinal;

/* A node ready to run: everything resolved to pointers, of the device unless `host` is set. */
typedef struct mf_replay {
    mf_call call; /* first: call->fail finds the step by it */
    int (*fn)(const mf_call *call);
    const mf_node *node;
    bool foreign;               /* the op is none of core's table */
    const mf_device_op *launch; /* run this one's functions instead of fn; NULL: fn */
    struct mf_detour *detour;   /* the op runs on the host, with copies around it; NULL: no */
} mf_replay;

/* One piece of memory that an op on the host reads or writes: its copy in g->staging. */
typedef struct mf_detour_part {
    void *device;
    size_t at, bytes;
    bool in, out;
} mf_detour_part;

typedef struct mf_detour {
    int n;
    mf_detour_part part[MF_OP_MAX_ARGS];
    size_t fault_at, work_at, bytes;
} mf_detour;

/* What host and device exchange in a run: one block on the device, of which the first part goes
 * there before the run in one copy, and the second comes back in one.
 *   in   mf_draw_key, passengers, live scalars, inputs (on the CPU those lie elsewhere)
 *   out  mf_fault, passengers, small kept values
 * On the CPU the block is all there is: nothing is copied. */
typedef struct mf_exchange {
    char *block;
    size_t in_bytes, out_bytes, small_bytes; /* the last of out_bytes: small kept values */
    char *passengers; /* host memory of those that go there; on the CPU in the block */
    char
        *staging[2]; /* host copies of `in`, used in turn, so that inputs may be filled again */
    void *sent[2];   /* events: a copy from there has been made */
    uint64_t sends;
    int slots;           /* host copies of `out`; one more is for views */
    char *slot;          /* [slots + 1][out_bytes]; NULL on the CPU if one is enough */
    uint64_t view_run;   /* the run whose results lie in the last slot */
    uint64_t newest_run; /* the run before the last fetch, which went into slot `newest` */
    int newest;
} mf_exchange;

/* A live scalar's storage, as the host sees it, and where its value comes from. */
typedef struct mf_live {
    float *to;
    const double *from;
} mf_live;

/* Storage of a parameter's gradient. From node `until` on it holds what the optimizer reads. */
typedef struct mf_reused_grad {
    size_t offset, bytes; /* from the store's first gradient */
    int until;
} mf_reused_grad;

typedef struct mf_profile mf_profile;

struct mf_graph {
    mf_graph_options options;
    mf_arena *memory;
    int status;
    const char *message; /* of the first failure */

    mf_tensor **tensors;
    mf_node **nodes;
    int n_tensors, tensors_room, n_nodes, nodes_room;

    const mf_scope *scope;
    const char *file; /* where in a plugin's source nodes are added now; NULL: not known */
    int32_t line;
    int at_node; /* nodes that there were when that was said */
    mf_ordinal *ordinals;
    bool metrics;       /* nodes added now are metrics */
    bool gradient_part; /* nodes added now are gradients */
    bool recompute;     /* nodes added now lie inside a block */
    bool bf16;          /* products added now are made in bf16 */
    bool differentiated, finished;

    /* Set by mf_graph_finish. */
    void *block; /* the lender's where `borrowed` */
    bool shares_arena;
    mf_reused_grad *reused; /* by offset; what values use of the gradients' storage */
    int n_reused;
    char *reused_base;
    size_t reused_bytes; /* 64-aligned; offsets of the plan below it mean this storage */
    mf_replay *steps;
    mf_live *lives;
    int n_steps, n_lives, dead;
    size_t arena_bytes, naive_bytes;

    mf_exchange exchange;
    char *fixed;   /* on a device: constants, and inputs that ops write */
    char *staging; /* on a device: host memory of detours; NULL: there are none */
    size_t staging_bytes;
    mf_store **stores; /* [n_stores] of its parameters */
    int n_stores;
    uint64_t runs;       /* begun so far */
    mf_launch launch;    /* of the run at work, or the last one */
    mf_profile *profile; /* NULL: off and never on */
};

/* ---- build.c ---- */
/* Records "OP (SCOPE): message" and poisons the graph, unless it is poisoned; returns the
 * code. */
int mf_node_fail(mf_graph *g, const char *op, const char *scope, int code, const char *fmt, ...)
    MF_PRINTF(5, 6);
/* A failure that is recorded already (out of memory) becomes the graph's. Returns the code. */
int mf_graph_adopt(mf_graph *g, int code);
const char *mf_graph_scope(const mf_graph *g); /* "" outside any */
mf_tensor *mf_tensor_new(mf_graph *g, mf_tensor_kind kind, mf_dtype dtype, mf_shape shape);
mf_node *mf_node_new(mf_graph *g, const mf_opdef *op, const char *scope);
mf_tensor *mf_owner(const mf_tensor *t);
/* An op that keeps state has overwritten what this handle stands for. */
bool mf_tensor_stale(const mf_tensor *t);
/* Zeroed, 64-byte aligned memory that lives as long as the graph. */
void *mf_graph_alloc(mf_graph *g, size_t bytes);

/* ---- exchange.c ---- */
/* Room among the small kept values: its offset there. */
int64_t mf_exchange_reserve(mf_graph *g, size_t bytes);
/* Allocates block, staging and slots, and gives leaves their places on the device. */
int mf_exchange_new(mf_graph *g);
void mf_exchange_free(mf_graph *g);
static inline char *mf_exchange_out(const mf_graph *g)
{
    return g->exchange.block ? g->exchange.block + g->exchange.in_bytes : NULL;
}
/* Before and after the launches of a run: live scalars, inputs and key go to the device; the
 * fault goes where the next fetch finds it. */
int mf_exchange_send(mf_graph *g, const mf_run *run);
int mf_exchange_finish(mf_graph *g);
/* Small kept values of the last run, as a view by the host; NULL: the copy failed, or a kernel
 * has recorded a fault. */
const char *mf_exchange_view(mf_graph *g);
/* MF_OK, or the error of a fault that kernels recorded; takes it back on the device. */
int mf_graph_judge_fault(mf_graph *g, const mf_fault *fault);

/* ---- detour.c ---- */
/* Plans how a step whose op has no launch function runs on the host; adds to staging_bytes. */
int mf_detour_new(mf_graph *g, mf_replay *step);
/* Turns the step's pointers into those of the staging, once that is there. */
void mf_detour_place(mf_graph *g, mf_replay *step);
int mf_detour_run(mf_graph *g, mf_replay *step);

/* ---- leaf.c ---- */
/* The storage of a parameter's gradient as a value that nodes can write. */
mf_tensor *mf_graph_grad_leaf(mf_graph *g, mf_param *param);

/* A parameter's bf16 copy; NULL when it has none. */
mf_tensor *mf_graph_bf16_leaf(mf_graph *g, mf_tensor *leaf);

/* ---- bf16.c ---- */
/* Gives each input the type that the op takes (mf_opdef.bf16_in), adding casts where needed:
 * from in to out, n each. Returns the graph's status. */
int mf_graph_fit_types(mf_graph *g, const mf_opdef *op, int n, mf_tensor *const *in,
                       mf_tensor **out);
/* Where the gradient of a value is gathered. */
static inline mf_tensor *mf_tensor_grad_owner(mf_tensor *t)
{
    return t && t->master ? t->master : t;
}

/* ---- plan.c, pack.c ---- */
int mf_graph_plan(mf_graph *g);

/* Memory wanted over an interval of run positions, both ends included. */
typedef struct mf_span {
    int first, last;
    size_t bytes;  /* > 0 */
    size_t offset; /* result, 64-byte aligned */
    bool fixed;    /* offset is given */
} mf_span;
/* Sets offsets such that spans alive together do not overlap and none lies across the border;
 * *ret_bytes: the size needed behind it. */
int mf_pack(mf_span *spans, int n, size_t border, size_t *ret_bytes);

/* ---- lend.c ---- */
/* Finds the gradient storage that values may use: `written` [n_tensors] gives the first node
 * that writes a tensor, by id. Sets g->lent. */
int mf_reuse_find(mf_graph *g, const int *written);
/* At most 2 n_reused + 1 spans that keep others off what is not to be used; returns how
 * many. */
int mf_reuse_spans(const mf_graph *g, mf_span *spans);

/* ---- plan/recompute.c ---- */
/* The value that a gradient is to read instead of t, a value of the forward pass: computed
 * again, once, by nodes added here, or t itself where it is kept. seen [tensors of the forward
 * pass]: those made so far, by id, NULL at first. NULL: the graph has failed. */
mf_tensor *mf_recompute_value(mf_graph *g, mf_tensor *t, mf_tensor **seen);
/* Whether what a node puts out is computed again, not kept. */
bool mf_is_recomputed(const mf_graph *g, const mf_node *node);

/* ---- info.c ---- */
double mf_node_flops(const mf_node *node);

/* ---- profile.c ---- */
uint64_t mf_profile_begin(const mf_graph *g);
void mf_profile_end(mf_graph *g, int step, uint64_t begun);
void mf_profile_free(mf_profile *p);

/* ---- finite.c ---- */
/* The first input of a step that is not finite; asked before it runs, since it may work in
 * place. */
typedef struct mf_suspect {
    int input; /* -1: all are finite */
    int64_t index;
} mf_suspect;
mf_suspect mf_replay_suspect(const mf_graph *g, const mf_replay *step);
/* MF_ENONFINITE naming op, scope, place and what was known before it ran; else MF_OK. */
int mf_replay_check_finite(const mf_graph *g, const mf_replay *step, mf_suspect before);

#endif
