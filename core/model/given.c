/* model/given.c: experts of tokens that a caller gives, while the router gives the gates (R3,
 * Ma et al. 2025, arXiv 2510.11370: training on texts with the routes of the program that
 * generated them). */
#include "model/moe.h"

mf_tensor *mf_moe_given(mf_graph *g, const mf_router_in *in, mf_tensor *score, mf_moe_out *out)
{
    const mf_routing *r = &out->routing;
    if (!score) {
        mf_graph_fail(
            g, MF_ECONFIG,
            "train.routes = trace: expected a router that leaves the choice of experts "
            "to core, found one that chooses itself");
        return NULL;
    }
    out->given = mf_graph_input(g, "given", MF_F32, mf_shape2(r->tokens, r->experts));
    mf_graph_metrics(g, true);
    mf_graph_keep(out->wished = mf_route_select(g, score, in->mask, r->top_k));
    mf_graph_metrics(g, false);
    return mf_add(g, mf_clamp(g, score, -1e30, 1e30), out->given);
}
