/* graph/third_party.h: what the program does before and after each call of an op that is not in
 * core's table, and of each composed gradient rule (mf_opdef.grad).
 *
 * All later computations depend on floating-point control, so a call must leave it unchanged.
 * The program may do more before and after a call: it sets the hook before it maps the first
 * third-party plugin (plugin/output.h). */
#ifndef MF_GRAPH_THIRD_PARTY_H
#define MF_GRAPH_THIRD_PARTY_H

#include "graph/graph.h"

typedef struct mf_third_party_hook {
    void (*begin)(void);
    void (*end)(const mf_node *node);
} mf_third_party_hook;
extern mf_third_party_hook mf_third_party_around; /* its functions may be NULL */

typedef struct mf_third_party_call {
    unsigned before;
    const mf_node *outer; /* the node that ran before this call, for crash messages */
} mf_third_party_call;

/* Whether the op belongs to a plugin, not to the graph's table. */
bool mf_op_is_third_party(const mf_graph *g, const mf_opdef *op);
void mf_third_party_begin(mf_third_party_call *c, const mf_node *node);
/* Restores floating-point control. Returns false if it had changed; *ret_now is the value that
 * was found. */
bool mf_third_party_end(const mf_third_party_call *c, const mf_node *node, unsigned *ret_now);
/* Format of the message about a call that changed floating-point control. Its arguments: the
 * description of the change, the value before the call, the value after it. */
#define MF_THIRD_PARTY_FLOAT                                                                   \
    "%s for all that is computed after it: expected floating-point control 0x%x as before, "   \
    "found 0x%x"

#endif
