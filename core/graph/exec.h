/* graph/exec.h: the context of a run, which is passed to each call of an op.
 *
 * Code that calls an op's functions creates the context with mf_launch_init. Graphs do this,
 * and tests of single ops. */
#ifndef MF_GRAPH_EXEC_H
#define MF_GRAPH_EXEC_H

#include <moefw/op.h>
#include <stdbool.h>

struct mf_kernels;

/* The context in which kernels are launched. Core's own ops reach it from call->exec, which
 * points to its member exec. It contains data of a run that plugins never see. */
typedef struct mf_launch {
    mf_exec exec;                  /* must be the first member: mf_call_launch converts
                                    * its address */
    struct mf_fault *fault;        /* device memory; kernels record the first fault here */
    const struct mf_draw_key *key; /* device memory; key of the random kernels */
    void *stream;                  /* the device's stream; NULL on the host */
    int32_t node;                  /* index of the running step of the graph, for the fault */
    const mf_graph *graph;         /* a graph that runs on a device; NULL: all is checked */
    bool third_party; /* the running op belongs to a plugin, so its tiles are checked */
    /* Floating-point control before and after the tile or function of the op that changed it.
     * Both are equal if it did not change. */
    unsigned float_before, float_after;
} mf_launch;

/* Sets all fields; fault, key and stream become NULL. kernels may be NULL for ops that use
 * no kernels. */
void mf_launch_init(mf_launch *l, const struct mf_kernels *kernels, bool training,
                    uint64_t seed, uint64_t step);

static inline const mf_launch *mf_call_launch(const mf_call *call)
{
    return (const mf_launch *)(const void *)call->exec;
}

/* For ops of core, whose kernels use indices (graph/known.c). Whether it must be checked that
 * all elements of the i32 input i are in lo .. hi - 1 and, with `rises`, that none is lower
 * than the one before. If so, the caller launches the check, so it is known afterwards. */
bool mf_call_must_check(const mf_call *call, int i, bool rises, int64_t lo, int64_t hi);
/* Says the same of the values that the op's kernels write to output i. */
void mf_call_tell(const mf_call *call, int i, bool rises, int64_t lo, int64_t hi);
/* Says that each element of output i is an element of input `in`, or -1. */
void mf_call_tell_of(const mf_call *call, int i, int in);

/* Writes the message of a fault that kernels recorded to text [size]. Returns the fault's error
 * code. fault->kind must not be MF_FAULT_NONE. */
int mf_fault_message(const struct mf_fault *fault, char *text, size_t size);

/* Attributes that graph/plan/fuse_token.c sets: those of a norm before an op, whose kind is 1 +
 * mf_norm_fn, or 0, and those of attention with rope, where TURNED is twice the number of
 * rotated columns, plus 1 if they are halves; it takes the place of MF_AS_BF16. */
enum { MF_NORM_KIND = 4, MF_NORM_OUTSIDE = 5, MF_NORM_EPS = 1 };
enum { MF_TOKEN_FIRST = 6, MF_TOKEN_TURNED = 7, MF_TOKEN_THETA = 1, MF_TOKEN_MAGNITUDE = 2 };

#endif
