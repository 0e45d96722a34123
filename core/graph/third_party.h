/* graph/third_party.h: what the program does around each call of an op that is not in core's
 * table, and of each composed gradient rule (mf_opdef.grad).
 *
 * Everything that is computed later depends on floating-point control, so a call must leave it
 * unchanged. The program may do more around a call: it sets the hook before it maps the first
 * third-party plugin (plugin/output.h). */
#ifndef MF_GRAPH_THIRD_PARTY_H
#define MF_GRAPH_THIRD_PARTY_H

#include "graph/graph.h"

typedef struct mf_third_party_hook {
    void (*begin)(void);
    void (*end)(const mf_node *node);
} mf_third_party_hook;
extern mf_third_party_hook mf_third_party_around; /* functions may be NULL */

typedef struct mf_third_party_call {
    unsigned before;
    const mf_node *outer; /* the node that ran before, for crash messages */
} mf_third_party_call;

/* Whether the op is not of the graph's table, but of a plugin. */
bool mf_op_is_third_party(const mf_graph *g, const mf_opdef *op);
void mf_third_party_begin(mf_third_party_call *c, const mf_node *node);
/* Restores floating-point control. Returns false if it had changed; *ret_now is the value that
 * was found. */
bool mf_third_party_end(const mf_third_party_call *c, const mf_node *node, unsigned *ret_now);
/* The format of the message that a call changed floating-point control. Its arguments: what the
 * call did, in words; the value before; the value found. */
#define MF_THIRD_PARTY_FLOAT                                                                   \
    "%s for all that is computed after it: expected floating-point control 0x%x as before, "   \
    "found 0x%x"

#endif
