/* model/tally.c: counts the scores of an MoE layer and the losses of its tokens for tallies.
 * It also takes the experts that a file gives. Padding is not counted, and no count has a
 * gradient. */
#include <stdio.h>
#include "base/error.h"
#include "model/moe.h"
#include "ops/ops.h"
#include "plugin/tallies.h"

/* ---- scores that plugins have requested to be counted, losses ---- */

static void full_name(int32_t layer, const char *name, char ret[128])
{
    snprintf(ret, 128, "layers.%d.moe.%s", (int)layer, name);
}

int mf_moe_tallies_declare(mf_plughost *h, int32_t layer, int32_t experts, bool losses)
{
    const mf_score_count *what;
    const char *name;
    char full[128];
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && (what = mf_tallies_scores(h, i, &name)) != NULL; i++) {
        full_name(layer, name, full);
        rc = mf_tallies_declare(h, full, mf_shape2(experts, what->bins), MF_TALLY_WHOLE);
    }
    full_name(layer, "token_loss", full);
    return rc == MF_OK && losses ? mf_tallies_declare(h, full, mf_shape2(experts, 2), 0) : rc;
}

/* Returns [T,E], the bias above which the expert would be among the token's k experts: the
 * largest selection value of the experts that were not chosen, minus the expert's score. NULL
 * if each token gets all experts. */
static mf_tensor *required(mf_graph *g, const mf_routing *r, mf_tensor *selects)
{
    const int k = r->top_k;
    if (k >= r->experts) return NULL;
    mf_tensor *score = mf_stop_gradient(g, r->score ? r->score : r->prob);
    mf_tensor *most = mf_take(g, selects, mf_topk(g, selects, k + 1));
    return mf_sub(g, mf_slice(g, most, 1, k, 1), score);
}

static mf_tensor *value_of(mf_graph *g, int32_t of, const mf_routing *r, mf_tensor *selects)
{
    if (of == MF_SCORE_LOGIT) return r->logits ? mf_stop_gradient(g, r->logits) : NULL;
    if (of == MF_SCORE_PROB) return r->prob ? mf_stop_gradient(g, r->prob) : NULL;
    if (of == MF_SCORE_SELECT) return selects;
    return selects ? required(g, r, selects) : NULL;
}

void mf_moe_scores_count(const mf_moe_layer *layer, mf_plughost *h, mf_graph *g,
                         const mf_router_in *in, const mf_routing *r, mf_tensor *selects)
{
    const mf_score_count *what;
    const char *name;
    char full[128];
    if (!h || !mf_graph_training(g)) return;
    for (int i = 0; (what = mf_tallies_scores(h, i, &name)) != NULL; i++) {
        mf_tensor *value = value_of(g, what->of, r, selects), *bias = NULL;
        if (!value) continue;
        if (what->with_bias && layer->select_bias) bias = mf_graph_param(g, layer->select_bias);
        full_name(layer->layer, name, full);
        mf_tensor *bins =
            mf_score_bins(g, value, in->mask, bias, what->bins, what->lo, what->hi);
        const int rc = bins ? mf_tallies_count(h, full, bins) : MF_OK;
        if (rc != MF_OK) mf_graph_fail(g, rc, "tally /%s: %s", full, mf_error_message());
    }
}

/* x [T] -> [E,1]: the sum of x over the assignments that each expert admitted. */
static mf_tensor *by_expert(mf_graph *g, const mf_routing *r, mf_tensor *x)
{
    const mf_shape column = mf_shape2(r->tokens, 1), rows = mf_shape1(r->rows);
    x = mf_reshape(g, x, column);
    x = r->token ? mf_gather_rows(g, x, r->token)
                 : mf_broadcast(g, x, mf_shape2(r->tokens, r->rows / r->tokens));
    x = mf_bincount(g, r->admitted, mf_reshape(g, x, rows), r->experts);
    return mf_reshape(g, x, mf_shape2(r->experts, 1));
}

void mf_moe_losses_count(mf_plughost *h, mf_graph *g, const mf_routing *r, mf_tensor *loss,
                         mf_tensor *counts)
{
    char full[128];
    mf_tensor *both[2] = {by_expert(g, r, loss), by_expert(g, r, counts)};
    mf_tensor *part = mf_concat(g, 2, both, 1);
    full_name(r->layer, "token_loss", full);
    const int rc = part ? mf_tallies_count(h, full, part) : MF_OK;
    if (rc != MF_OK) mf_graph_fail(g, rc, "tally /%s: %s", full, mf_error_message());
}

/* ---- given experts ---- */

/* The router's own choice is measured beside the given experts (R3, Ma et al. 2025, arXiv
 * 2510.11370: training on texts with the routes of the program that generated them). */
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
