/* graph/exec.h: the run that a call belongs to.
 *
 * Whoever calls an op's functions makes an mf_exec with this: graphs, and tests of single ops.
 */
#ifndef MF_GRAPH_EXEC_H
#define MF_GRAPH_EXEC_H

#include <moefw/op.h>

struct mf_kernels;

/* Where kernels are launched: what core's own ops know of the run beside its mf_exec, to which
 * call->exec points. Plugins never see it. */
typedef struct mf_launch {
    mf_exec exec;                  /* first: mf_call_launch finds the launch by it */
    struct mf_fault *fault;        /* device memory; kernels record the first fault here */
    const struct mf_draw_key *key; /* device memory; random kernels draw by it */
    void *stream;                  /* of the device; NULL on the host */
    int32_t node;                  /* position of the node at work, for the fault */
    bool foreign;                  /* the op at work is a plugin's: its tiles are watched */
    /* What a tile of it changed floating-point control from and to; equal: nothing. */
    unsigned float_before, float_after;
} mf_launch;

/* kernels may be NULL for ops that use none. Sets all but fault, key and stream. */
void mf_launch_init(mf_launch *l, const struct mf_kernels *kernels, bool training,
                    uint64_t seed, uint64_t step);

static inline const mf_launch *mf_call_launch(const mf_call *call)
{
    return (const mf_launch *)(const void *)call->exec;
}

/* The message of a fault that kernels recorded, in text [size]; returns the error code that
 * goes with it. fault->kind is not MF_FAULT_NONE. */
int mf_fault_message(const struct mf_fault *fault, char *text, size_t size);

#endif
