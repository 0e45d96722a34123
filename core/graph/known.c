/* graph/known.c: what is known of indices in a run on a device, where a check takes as long as
 * a small kernel, so that nothing is checked that an earlier launch guarantees.
 *
 * Something is known of a value if the op of core that computes it says what its kernels write
 * (mf_call_tell), or if an earlier op of the run has launched a check: after a fault, kernels
 * that use indices do nothing. Nothing is known of inputs, constants and outputs of plugins
 * until their first check. Knowledge belongs to a handle, not to its memory, and ends with the
 * run. The host keeps all checks: they cost nothing there, and guard the process's memory. */
#include "graph/internal.h"

static mf_known *known_of(const mf_call *call, bool out, int i)
{
    const mf_launch *l = mf_call_launch(call);
    const mf_graph *g = l->graph;
    if (!g) return NULL;
    const mf_node *node = g->steps[l->node].node;
    mf_tensor *t = out ? node->out[i] : node->in[i];
    for (; t->node >= 0; t = node->in[0]) { /* other shapes of one value */
        node = g->nodes[t->node];
        if (node->backward || !(node->op->flags & MF_OP_ALIAS)) break;
    }
    return &t->known;
}

bool mf_call_must_check(const mf_call *call, int i, bool rises, int64_t lo, int64_t hi)
{
    mf_known *k = known_of(call, false, i);
    if (!k) return true;
    const uint64_t run = mf_call_launch(call)->graph->runs;
    if (k->run == run && k->lo >= lo && k->hi <= hi && k->rises >= rises) return false;
    *k = (mf_known){run, rises, lo, hi};
    return true;
}

void mf_call_tell(const mf_call *call, int i, bool rises, int64_t lo, int64_t hi)
{
    mf_known *k = known_of(call, true, i);
    if (k) *k = (mf_known){mf_call_launch(call)->graph->runs, rises, lo, hi};
}

void mf_call_tell_of(const mf_call *call, int i, int in)
{
    mf_known *to = known_of(call, true, i);
    const mf_known *from = known_of(call, false, in);
    if (!to) return;
    *to = *from;
    if (to->lo > -1) to->lo = -1;
}
