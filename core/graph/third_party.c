/* graph/third_party.c: what the program does before and after each call of a plugin's op, and
 * of each composed gradient rule. Both together take some nanoseconds: without a hook they
 * store a pointer and read a register. */
#include "graph/third_party.h"
#include "graph/internal.h"

#include <stdatomic.h>

#include "base/float_control.h"

mf_third_party_hook mf_third_party_around;

bool mf_op_is_third_party(const mf_graph *g, const mf_opdef *op)
{
    return g->ops->find(op->name) != op;
}

void mf_third_party_begin(mf_third_party_call *c, const mf_node *node)
{
    c->outer = atomic_exchange_explicit(&mf_graph_node_now, node, memory_order_relaxed);
    if (mf_third_party_around.begin) mf_third_party_around.begin();
    c->before = mf_float_control();
}

bool mf_third_party_end(const mf_third_party_call *c, const mf_node *node, unsigned *ret_now)
{
    *ret_now = mf_float_control();
    const bool same = *ret_now == c->before;
    if (!same) mf_float_control_set(c->before);
    if (mf_third_party_around.end) mf_third_party_around.end(node);
    atomic_store_explicit(&mf_graph_node_now, c->outer, memory_order_relaxed);
    return same;
}
