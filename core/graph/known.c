/* graph/known.c: what is known of indices in a run on a device, so that no check is launched
 * for what an earlier launch guarantees. A check there takes as long as a small kernel.
 *
 * Something is known of a value in two cases. The op of core that computes it says what its
 * kernels write (mf_call_tell). Or an earlier op of the same run has launched a check; if that
 * check finds a fault, all kernels behind it that use indices do nothing. After a fault a value
 * may not be written at all, and the kernels that read it do nothing either. Nothing is known
 * of inputs, constants and outputs of plugins until their first check. Knowledge belongs to a
 * handle, not to its memory, and ends with the run.
 *
 * The host keeps all checks: there they cost nothing, and guard the memory of the process. */
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
