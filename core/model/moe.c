/* model/moe.c: one MoE layer as graph nodes: router, capacity, experts, sum and metrics. Shapes
 * never depend on the data: the number R of assignments is fixed, and a dropped assignment has
 * index -1 in `admitted`. */
#include "model/moe.h"
#include <math.h>
#include "model/soft.h"
#include "plugin/load/open.h"
#include "ops/moe/grouped_attention.h"

/* Returns the scores for selection: the scores of the router, or else its probabilities, plus
 * the bias that a controller updates, plus the bias of a probe. */
static mf_tensor *selection_score(const mf_moe_layer *layer, mf_graph *g, const mf_moe_out *out)
{
    const mf_routing *r = &out->routing;
    mf_tensor *score = mf_stop_gradient(g, r->score ? r->score : r->prob);
    if (layer->select_bias) score = mf_add(g, score, mf_graph_param(g, layer->select_bias));
    return out->route_bias ? mf_add(g, score, out->route_bias) : score;
}

/* Adds the inputs of a probe, before the choice. */
static void add_probe(mf_graph *g, mf_moe_out *out)
{
    mf_routing *r = &out->routing;
    const int64_t T = r->tokens, E = r->experts;
    out->expert_map = mf_graph_input(g, "expert_map", MF_F32, mf_shape2(E, 1));
    if (r->expert || r->dispatch) return;
    out->route_bias = mf_graph_input(g, "route_bias", MF_F32, mf_shape2(T, E));
    if (r->prob || !r->logits) return;
    /* 0 where the bias is finite, else -inf */
    mf_tensor *ban = mf_clamp(g, mf_affine(g, out->route_bias, 1, 1e30), -INFINITY, 0);
    r->prob = mf_softmax(g, mf_add(g, r->logits, ban));
}

/* Returns the experts that compute the assignments: those admitted, by the map of a probe. */
static mf_tensor *computed(mf_graph *g, const mf_moe_out *out)
{
    mf_tensor *admitted = out->routing.admitted;
    if (!out->expert_map) return admitted;
    const mf_shape rows = mf_shape1(out->routing.rows);
    mf_tensor *to = mf_reshape(g, mf_gather_rows(g, out->expert_map, admitted), rows);
    return mf_cast(g, mf_affine(g, to, 1, -1), MF_I32);
}

/* Returns the priority of each assignment, [R], if the first choices of all tokens come before
 * the second choices. If assignments have no rank or the router sets priorities, the graph
 * fails, and the result is NULL. */
static mf_tensor *rank_priority(mf_graph *g, int64_t priority, const mf_routing *r)
{
    const bool drawn = priority == MF_PRIORITY_DRAWN;
    if (r->priority || r->token) {
        mf_graph_fail(g, MF_ECONFIG, "moe.admit = rank: expected %s, found another",
                      r->token ? "a router that gives experts to tokens"
                               : "a router without priorities of its own");
        return NULL;
    }
    const int64_t k = r->rows / r->tokens;
    mf_tensor *rank = mf_reshape(g, mf_cast(g, mf_arange(g, k), MF_F32), mf_shape2(1, k));
    rank = mf_broadcast(g, mf_scale(g, rank, -2), mf_shape2(r->tokens, k));
    rank = mf_reshape(g, rank, mf_shape1(r->rows));
    return drawn ? mf_add(g, rank, mf_uniform(g, mf_shape1(r->rows))) : rank;
}

/* Returns the priority of each assignment, [R]: the router's own priority, the gate, the norm
 * of the token's vector, a random number, or the token's position in the sequence (earlier
 * first). NULL: the order of assignments decides. */
static mf_tensor *row_priority(mf_graph *g, int64_t priority, const mf_router_in *in,
                               const mf_routing *r, mf_tensor *gate)
{
    mf_tensor *of_token; /* [T,1] */
    if (r->priority) {
        of_token = mf_reshape(g, mf_stop_gradient(g, r->priority), mf_shape2(r->tokens, 1));
    } else if (priority == MF_PRIORITY_POSITION) {
        return NULL;
    } else if (priority == MF_PRIORITY_GATE) {
        return mf_stop_gradient(g, gate);
    } else if (priority == MF_PRIORITY_DRAWN) {
        return mf_uniform(g, mf_shape1(r->rows));
    } else if (priority == MF_PRIORITY_TIME) { /* earlier positions have priority */
        mf_tensor *early = mf_affine(g, mf_cast(g, in->positions, MF_F32), -1, 0);
        of_token = mf_reshape(g, early, mf_shape2(r->tokens, 1));
    } else {
        mf_tensor *x = mf_stop_gradient(g, in->x);
        of_token = mf_sqrt(g, mf_sum(g, mf_square(g, x), 2u, true));
    }
    if (r->token)
        return mf_reshape(g, mf_gather_rows(g, of_token, r->token), mf_shape1(r->rows));
    of_token = mf_broadcast(g, of_token, mf_shape2(r->tokens, r->rows / r->tokens));
    return mf_reshape(g, of_token, mf_shape1(r->rows));
}

/* Returns the gates [R] of a router that chose the experts itself, times moe.gate_scale. */
static mf_tensor *own_gates(const mf_moe_settings *s, mf_graph *g, const mf_routing *r)
{
    const double scale = s->config->gate_scale;
    if (!r->gate) return mf_affine(g, mf_cast(g, r->chosen, MF_F32), 0, scale);
    mf_tensor *gate = mf_reshape(g, r->gate, mf_shape1(r->rows));
    return scale == 1 ? gate : mf_scale(g, gate, scale);
}

/* Returns the gates of the chosen experts, or of the experts that replace them (admitted not
 * NULL), k for each token. If the router declares the sum of the gates, the declaration takes
 * precedence over moe.renormalize. */
static mf_tensor *gates_of(const mf_moe_settings *s, mf_graph *g, mf_moe_out *out,
                           mf_tensor *admitted, int k)
{
    const mf_moe_config *c = s->config;
    const mf_routing *r = &out->routing;
    const bool renormalize = r->renormalize >= 0                     ? r->renormalize
                             : c->renormalize == MF_RENORMALIZE_AUTO ? k > 1
                                                                     : c->renormalize;
    out->gates_are_1 = renormalize && k == 1 && r->prob && r->prob->needs_grad;
    return mf_route_gates(g, r->prob, r->chosen, admitted, k, renormalize,
                          r->gate_scale * c->gate_scale);
}

/* Divides the assignments of a router into two kinds: assignments that count, and silent
 * assignments that are computed only for the gradient of their gates. */
static mf_tensor *divide(const mf_moe_settings *s, mf_graph *g, mf_tensor *expert,
                         mf_moe_out *out)
{
    if (s->config->unit_gates || mf_experts_shared(s->ranks)) {
        mf_graph_fail(g, MF_ECONFIG, "a router with silent assignments: expected %s, found yes",
                      s->config->unit_gates ? "moe.unit_gates = no" : "parallel.expert = 1");
        return NULL;
    }
    mf_tensor *silent = mf_cast(g, mf_stop_gradient(g, out->routing.silent), MF_I32);
    const int32_t one = 1;
    mf_tensor *counts = mf_sub(g, mf_graph_const(g, MF_I32, mf_shape1(1), &one), silent);
    out->silent = mf_sub(g, mf_mul(g, expert, silent), counts);
    return mf_sub(g, mf_mul(g, expert, counts), silent);
}

/* Sets prob (unless the router set it), chosen, top_k and rows of the record. Returns
 * the gates. */
static mf_tensor *choose(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                         const mf_router_in *in, mf_moe_out *out)
{
    mf_routing *r = &out->routing;
    if (s->probe) add_probe(g, out);
    if (s->given && (r->dispatch || r->expert)) return mf_moe_given(g, in, NULL, out);
    if (r->dispatch) return mf_soft_choose(g, r);
    if (!r->prob && r->logits) r->prob = mf_softmax(g, r->logits);
    if (r->expert) {
        mf_moe_scores_count(layer, s->plugins, g, in, r, NULL);
        r->top_k = r->own_top_k;
        r->rows = (int32_t)mf_shape_count(r->expert->shape);
        mf_tensor *expert = mf_reshape(g, r->expert, mf_shape1(r->rows));
        r->chosen = in->mask ? mf_mask_rows(g, expert, in->mask, r->token, r->top_k) : expert;
        if (r->silent) r->chosen = divide(s, g, r->chosen, out);
        return r->chosen ? own_gates(s, g, r) : NULL;
    }
    /* A router that does not choose the experts sets prob or logits. So if prob is NULL here,
     * the softmax of the logits got no memory. */
    if (!r->prob) return NULL;
    r->rows = r->tokens * r->top_k;
    mf_tensor *score = selection_score(layer, g, out);
    mf_moe_scores_count(layer, s->plugins, g, in, r, score);
    if (r->score || layer->select_bias || out->route_bias) out->score = score;
    if (s->given) score = mf_moe_given(g, in, score, out);
    r->chosen = mf_route_select(g, score, in->mask, r->top_k);
    return gates_of(s, g, out, NULL, r->top_k);
}

/* Returns the k of the formulas: the number of assignments per token that the router makes. In
 * three cases it is the configured number instead: the router has one assignment per expert and
 * leaves some unused (relu), some assignments are silent, or experts choose tokens. */
static int wanted_per_token(const mf_router_in *in, const mf_routing *r)
{
    const int slots = r->token ? 0 : r->rows / r->tokens;
    return r->token || r->silent || slots == r->experts ? in->top_k : slots;
}

static mf_tensor *reals(mf_graph *g, const mf_routing *r)
{
    return mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30);
}

/* Returns the capacity of each expert, [E]: C0 (mf_capacity_of), or if capacity is adaptive
 *
 *     C0 + min(a max(0, n_i - T k / E), limit C0)
 *
 * T is the number of tokens that are not padding, n_i the number of assignments to expert i, a
 * is moe.adaptive_capacity and limit is moe.adaptive_limit. */
static mf_tensor *capacity(const mf_moe_settings *s, mf_graph *g, const mf_router_in *in,
                           const mf_routing *r)
{
    const mf_moe_config *c = s->config;
    const int k = wanted_per_token(in, r);
    mf_tensor *factor = mf_graph_live(g, s->capacity_factor, "moe.capacity_factor");
    mf_tensor *cap = mf_capacity_of(g, factor, in->mask, r->tokens, k, r->experts);
    if (c->adaptive_capacity <= 0 || !s->adaptive_capacity) return cap;
    mf_tensor *n = mf_bincount(g, r->chosen, NULL, r->experts), *over;
    const double share = (double)k / r->experts;
    if (r->mask)
        over = mf_sub(g, n, mf_scale(g, reals(g, r), share));
    else
        over = mf_affine(g, n, 1, -share * r->tokens);
    mf_tensor *slope = mf_graph_live(g, s->adaptive_capacity, "moe.adaptive_capacity");
    mf_tensor *more = mf_mul(g, mf_clamp(g, over, 0, 1e30), slope);
    return mf_add(g, cap, mf_minimum(g, more, mf_scale(g, cap, c->adaptive_limit)));
}

/* Applies the capacity: sets r->admitted, and reassigns assignments over capacity if this is
 * configured. Returns the gates, which may be new. */
static mf_tensor *admit(const mf_moe_settings *s, mf_graph *g, const mf_router_in *in,
                        mf_tensor *gate, mf_moe_out *out)
{
    mf_routing *r = &out->routing;
    const mf_moe_config *c = s->config;
    r->admitted = r->chosen;
    if (c->capacity_factor <= 0 || !s->capacity_factor) return gate;

    mf_tensor *cap = capacity(s, g, in, r);
    mf_tensor *priority = c->admit == MF_ADMIT_RANK ? rank_priority(g, c->priority, r)
                                                    : row_priority(g, c->priority, in, r, gate);
    r->admitted = mf_capacity(g, r->chosen, priority, cap);
    out->limited = true;
    if (c->overflow != MF_OVERFLOW_REASSIGN || r->token || !r->prob) return gate;

    const int k = r->rows / r->tokens;
    r->admitted = mf_reassign(g, r->chosen, r->admitted, r->prob, priority, cap, k,
                              (int)c->max_reassign, &out->moved);
    if (r->expert || c->reassign_gate == 1) return gate;
    return gates_of(s, g, out, r->admitted, k);
}

/* Returns the gates. With unit_gates it returns p / detach(p), whose value is 1 and whose
 * gradient is the gradient of ln p. */
static mf_tensor *final_gate(const mf_moe_settings *s, mf_graph *g, mf_tensor *gate)
{
    if (!s->config->unit_gates || !gate) return gate;
    return mf_div(g, gate, mf_clamp(g, mf_stop_gradient(g, gate), 1e-37, 1e37));
}

/* Returns what dropped assignments add to the layer's output. This is the layer's input times
 * their gates. With moe.dropped = input each dropped assignment adds 1/k of the input. */
static mf_tensor *passed_on(const mf_moe_settings *s, mf_graph *g, const mf_router_in *in,
                            const mf_moe_out *out)
{
    const mf_routing *r = &out->routing;
    const int64_t T = r->tokens, rows = r->rows / T, k = wanted_per_token(in, r);
    mf_tensor *used = mf_clamp(g, mf_cast(g, r->chosen, MF_F32), -1, 0),
              *kept = mf_clamp(g, mf_cast(g, r->admitted, MF_F32), -1, 0);
    mf_tensor *share = mf_greater(g, used, kept); /* [R] 1: dropped */
    if (s->config->dropped == MF_DROPPED_SCALED)
        share = mf_mul(g, share, out->gate);
    else if (k > 1)
        share = mf_scale(g, share, 1.0 / (double)k);
    share = mf_reshape(g, share, mf_shape2(T, rows));
    if (rows > 1) share = mf_sum(g, share, 2u, true);
    return mf_mul(g, in->x, share);
}

static mf_tensor *per_token(mf_graph *g, mf_tensor *index, const mf_routing *r)
{
    mf_tensor *count = mf_bincount(g, index, NULL, r->experts);
    return r->mask ? mf_div(g, count, reals(g, r)) : mf_scale(g, count, 1.0 / r->tokens);
}

/* Returns sigmoid(W x), [T n], the gates of n shared experts. They are computed in f32 like the
 * gates of routers. */
static mf_tensor *shared_gates(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                               const mf_router_in *in, int32_t tokens)
{
    const bool was_bf16 = mf_graph_set_bf16(g, false);
    mf_tensor *x = mf_graph_to_f32(g, in->x);
    mf_tensor *y = mf_linear(g, x, mf_graph_param(g, layer->shared_gate), NULL);
    if (s->env) y = mf_adapt_linear(s->env, "shared_gate.weight", x, y);
    y = mf_sigmoid(g, mf_reshape(g, y, mf_shape1(tokens * s->config->shared_experts)));
    mf_graph_set_bf16(g, was_bf16);
    return y;
}

/* Returns the sum of all shared experts for every token that is not padding, and 0 for padding.
 * Experts that read other tokens must not read padding. */
static mf_tensor *shared_experts(const mf_moe_layer *layer, const mf_moe_settings *s,
                                 mf_graph *g, const mf_router_in *in, int32_t tokens)
{
    const int n = (int)s->config->shared_experts;
    int32_t expert[MF_SHARED_MAX];
    for (int i = 0; i < n; i++)
        expert[i] = i;
    mf_tensor *pattern = mf_graph_const(g, MF_I32, mf_shape2(1, n), expert);
    pattern = mf_reshape(g, mf_broadcast(g, pattern, mf_shape2(tokens, n)),
                         mf_shape1((int64_t)tokens * n));
    mf_tensor *chosen = in->mask ? mf_mask_rows(g, pattern, in->mask, NULL, n) : pattern;
    mf_row_groups groups = mf_group_rows(g, chosen, NULL, n, n);
    const mf_expert_in ein = {.size = sizeof ein,
                              .batch = in->batch,
                              .seq = in->seq,
                              .experts = n,
                              .x = mf_dispatch_rows(g, in->x, &groups, NULL, n),
                              .offset = groups.offset,
                              .token = groups.token,
                              .seq_x = in->x,
                              .mask = in->mask,
                              .positions = in->positions,
                              .sequence_ids = in->sequence_ids};
    mf_tensor *y = NULL;
    if (s->env) s->env->token = ein.token;
    mf_instance_expert(layer->shared, g, &ein, &y);
    if (s->env) s->env->token = NULL;
    mf_tensor *gate = layer->shared_gate ? shared_gates(layer, s, g, in, tokens)
                                         : mf_affine(g, mf_cast(g, pattern, MF_F32), 0, 1);
    return mf_combine_rows(g, y, gate, &groups, NULL, tokens, n);
}

/* Calls the adapters of expert inputs or of expert outputs. */
static mf_tensor *adapt(const mf_moe_settings *s, mf_point point, const mf_expert_in *ein,
                        mf_tensor *x, mf_tensor *y)
{
    const mf_adapter_in more = {
        .experts = ein->experts, .x = x, .offset = ein->offset, .token = ein->token};
    return s->env ? mf_adapt(s->env, point, y, &more) : y;
}

/* Returns the sum over tokens without padding of -sum g ln g, where g are the token's gates
 * divided by their sum. */
static mf_tensor *gate_entropy(mf_graph *g, const mf_moe_out *out)
{
    const mf_routing *r = &out->routing;
    const int64_t T = r->tokens, k = r->rows / r->tokens;
    mf_tensor *gate = mf_reshape(g, mf_stop_gradient(g, out->gate), mf_shape2(T, k));
    mf_tensor *all = mf_affine(g, mf_sum(g, gate, 2u, true), 1, 1e-20);
    mf_tensor *h = mf_sum(g, mf_xlogx(g, mf_div(g, gate, all)), 2u, false); /* [T] */
    if (r->mask) h = mf_mul(g, h, r->mask);
    return mf_scale(g, mf_sum(g, h, MF_ALL, false), -1);
}

/* Computes two sums over tokens without padding: prob for each expert, and each token's
 * largest prob. */
static void prob_sums(mf_graph *g, mf_moe_out *out)
{
    const mf_routing *r = &out->routing;
    mf_tensor *prob = mf_stop_gradient(g, r->prob);
    mf_tensor *largest = mf_take(g, prob, mf_topk(g, prob, 1)); /* [T,1] */
    if (r->mask) {
        mf_tensor *real = mf_reshape(g, r->mask, mf_shape2(r->tokens, 1));
        prob = mf_mul(g, prob, real);
        largest = mf_mul(g, largest, real);
    }
    mf_graph_keep(out->prob_sum = mf_sum(g, prob, 1u, false));
    mf_graph_keep(out->max_prob = mf_sum(g, largest, MF_ALL, false));
}

static void add_metrics(const mf_moe_settings *s, mf_graph *g, const mf_router_in *in,
                        mf_moe_out *out)
{
    const mf_routing *r = &out->routing;
    const int k = r->token ? 1 : r->rows / r->tokens;
    mf_graph_metrics(g, true);
    out->sums = mf_routing_stats(g, r->prob, r->chosen, r->admitted, out->gate, in->mask,
                                 r->token, k, r->experts, r->tokens);
    mf_graph_keep(out->sums.chosen);
    mf_graph_keep(out->sums.admitted);
    mf_graph_keep(out->sums.importance);
    mf_graph_keep(out->sums.scalars);
    if (!r->token) mf_graph_keep(out->gate_entropy = gate_entropy(g, out));
    if (r->prob) prob_sums(g, out);
    if (s->labels > 0 && in->labels) {
        out->joint =
            mf_joint_count(g, r->admitted, r->token, in->labels, k, r->experts, s->labels);
        mf_graph_keep(out->joint);
    }
    mf_graph_metrics(g, false);
}

/* Returns the gates in the order of dispatched assignments, [R,1]. */
static mf_tensor *grouped_gates(mf_graph *g, mf_tensor *gate, const mf_row_groups *groups)
{
    const mf_row_groups rows = {.token = groups->order, .place = groups->place};
    gate = mf_reshape(g, gate, mf_shape2(mf_shape_count(gate->shape), 1));
    return mf_dispatch_rows(g, gate, &rows, NULL, 1);
}

/* Calls the router on all positions of the history, and selects from its results the rows of
 * the graph's tokens. */
static int ask_of_history(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                          const mf_router_in *in, mf_moe_out *out)
{
    mf_router_in all;
    mf_tensor *row;
    int rc = mf_history_open(s->history, g, layer->layer, in, &all, &row);
    if (rc != MF_OK) return rc;
    mf_routing *whole = &out->whole;
    *whole = out->routing;
    whole->seq = all.seq;
    whole->tokens = all.batch * all.seq;
    whole->mask = all.mask;
    whole->labels = all.labels;
    whole->token_ids = all.token_ids;
    /* Adapters of the router's linear layers must receive the same tokens as the router. */
    const mf_adapt_env before = s->env ? *s->env : (mf_adapt_env){0};
    if (s->env) {
        s->env->seq = all.seq;
        s->env->mask = all.mask;
        s->env->positions = all.positions;
        s->env->sequence_ids = all.sequence_ids;
    }
    rc = mf_instance_route(layer->router, g, &all, whole);
    if (s->env) *s->env = before;
    if (rc == MF_OK && !whole->prob && whole->logits)
        whole->prob = mf_softmax(g, whole->logits);
    return rc == MF_OK ? mf_history_take(g, whole, row, &out->routing) : rc;
}

static int ask(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
               const mf_router_in *in, mf_moe_out *out)
{
    const mf_router *table = mf_loaded_vtable(mf_instance_plugin(layer->router));
    if (s->history && table->flags & MF_ROUTER_SEQUENCE)
        return ask_of_history(layer, s, g, in, out);
    return mf_instance_route(layer->router, g, in, &out->routing);
}

/* Calls the router, and makes the selection that the router leaves to core. */
static int route(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                 const mf_router_in *in, mf_moe_out *out)
{
    *out = (mf_moe_out){0};
    mf_routing *r = &out->routing;
    *r = (mf_routing){.size = sizeof *r,
                      .layer = layer->layer,
                      .experts = in->experts,
                      .top_k = in->top_k,
                      .renormalize = -1,
                      .own_top_k = 1,
                      .gate_scale = 1,
                      .mask = in->mask,
                      .labels = in->labels,
                      .tokens = in->batch * in->seq,
                      .batch = in->batch,
                      .seq = in->seq,
                      .token_ids = in->token_ids};
    /* Routers read and compute f32, because small differences can change the choice of experts
     * (Fedus et al. 2021, section 2.4). */
    const bool was_bf16 = mf_graph_set_bf16(g, false);
    mf_router_in in_f32 = *in;
    in_f32.x = mf_graph_to_f32(g, in->x);
    int rc = ask(layer, s, g, &in_f32, out);
    if (rc == MF_OK) {
        out->gate = choose(layer, s, g, in, out);
        out->own = (mf_moe_choice){r->rows, r->chosen, NULL, out->gate, r->token};
        rc = mf_graph_status(g);
    }
    mf_graph_set_bf16(g, was_bf16);
    return rc;
}

static void keep_choice(const mf_moe_settings *s, mf_graph *g, const mf_router_in *in,
                        mf_moe_out *out)
{
    mf_routing *r = &out->routing;
    if (s->keep || s->trace) {
        mf_graph_keep(r->prob);
        mf_graph_keep(r->chosen);
        mf_graph_keep(r->admitted);
        mf_graph_keep(out->gate);
        mf_graph_keep(r->silent);
    }
    if (s->probe) mf_graph_keep(out->score);
    if (!s->trace) return;
    out->x = mf_graph_to_f32(g, in->x);
    mf_graph_keep(out->x);
    mf_graph_keep(r->logits);
    mf_graph_keep(out->score);
    mf_graph_keep(out->own.chosen);
    mf_graph_keep(out->own.admitted);
    mf_graph_keep(out->own.gate);
    mf_graph_keep(out->own.token);
}

/* Experts are plugins, so only the nodes that they added show whether they use attention. */
static void keep_attention(mf_graph *g, int before, mf_moe_out *out)
{
    out->attention = mf_graph_node_of(g, MF_ROLE_GROUPED_ATTENTION, before);
    for (int i = 0; out->attention && i <= MF_ATTEND_TOKEN; i++)
        mf_graph_keep(out->attention->in[i]);
}

/* Replaces the router's choice by the inputs of forced routing. */
static void force(const mf_moe_forced *f, mf_graph *g, mf_moe_out *out)
{
    mf_routing *r = &out->routing;
    const mf_shape rows = mf_shape1(f->rows);
    if (r->dispatch) {
        mf_graph_fail(g, MF_EINPUT, "soft routing has no assignments that could be forced");
        return;
    }
    if (!f->listed && (f->rows < r->tokens || f->rows % r->tokens != 0)) {
        mf_graph_fail(g, MF_EINPUT, "a forced choice of %d rows does not fit %d tokens",
                      (int)f->rows, (int)r->tokens);
        return;
    }
    out->forced = (mf_moe_choice){f->rows, mf_graph_input(g, "forced.chosen", MF_I32, rows),
                                  mf_graph_input(g, "forced.admitted", MF_I32, rows),
                                  mf_graph_input(g, "forced.gate", MF_F32, rows), NULL};
    if (f->listed) out->forced.token = mf_graph_input(g, "forced.token", MF_I32, rows);
    r->rows = f->rows;
    r->silent = out->silent = NULL;
    if (!f->listed) r->top_k = f->rows / r->tokens;
    r->chosen = out->forced.chosen;
    r->admitted = out->forced.admitted;
    r->token = out->forced.token;
    out->gate = out->forced.gate;
}

int mf_moe_choose(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                  const mf_router_in *in, mf_moe_out *out)
{
    int rc = route(layer, s, g, in, out);
    if (rc != MF_OK) return rc;
    mf_routing *r = &out->routing;
    if (!r->dispatch) out->own.gate = out->gate = final_gate(s, g, out->gate);
    r->admitted = r->chosen;
    r->load = r->demand = per_token(g, r->chosen, r);
    keep_choice(s, g, in, out);
    return mf_graph_status(g);
}

/* Whether a node with number `before` or higher reads the tensor. */
static bool is_read(const mf_graph *g, int before, const mf_tensor *t)
{
    for (int i = before; i < mf_graph_nodes(g); i++) {
        const mf_node *node = mf_graph_node_at(g, i);
        for (int j = 0; j < node->n_in; j++)
            if (node->in[j] == t) return true;
    }
    return false;
}

/* Calls the experts, and the adapters of their inputs and outputs. Returns NULL if a
 * call fails. */
static mf_tensor *call_experts(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                               mf_expert_in *ein, mf_moe_out *out)
{
    mf_tensor *y = NULL;
    const int before = mf_graph_nodes(g);
    ein->x = adapt(s, MF_AT_EXPERT_IN, ein, NULL, ein->x);
    if (!ein->x) return NULL;
    if (s->env) s->env->token = ein->token;
    int rc = mf_instance_expert(layer->expert, g, ein, &y);
    if (s->env) s->env->token = NULL;
    if (rc != MF_OK) return NULL;
    if (ein->gate) out->gates_ignored = !is_read(g, before, ein->gate);
    if (s->attention) keep_attention(g, before, out);
    return adapt(s, MF_AT_EXPERT_OUT, ein, ein->x, y);
}

/* Sets the inputs and outputs of the experts in the record. An expert may write anything to the
 * rows past offset[E], so these rows are replaced by zeros. */
static void show_outputs(mf_graph *g, const mf_row_groups *groups, mf_tensor *y,
                         mf_moe_out *out)
{
    const int32_t numbers[2] = {0, 1};
    mf_routing *r = &out->routing;
    mf_tensor *zero = mf_graph_const(g, MF_I32, mf_shape1(1), numbers),
              *one = mf_graph_const(g, MF_I32, mf_shape1(1), numbers + 1);
    mf_tensor *used =
        mf_add(g, mf_minimum(g, groups->token, zero), one); /* 1 for used rows, 0 for rows
                                                             * past offset[E] */
    mf_tensor *row = mf_mul(g, mf_add(g, mf_arange(g, r->rows), one), used);
    r->expert_out = mf_gather_rows(g, y, mf_sub(g, row, one));
    r->offset = groups->offset;
    r->row_token = groups->token;
    r->row_gate = grouped_gates(g, out->gate, groups);
}

/* Calls the experts on the silent assignments, and returns the sum of their outputs times their
 * gates, which are 0, for each token. It is a call of its own, because only the gates get a
 * gradient: experts have no backward pass, and tallies and metrics do not count the call. */
static mf_tensor *silent_experts(const mf_moe_layer *layer, const mf_moe_settings *s,
                                 mf_graph *g, const mf_router_in *in, mf_expert_in ein,
                                 mf_moe_out *out)
{
    const mf_routing *r = &out->routing;
    const int k = r->rows / r->tokens, before = mf_graph_nodes(g);
    mf_moe_settings own = *s;
    own.attention = false;
    mf_row_groups groups = mf_group_rows(g, out->silent, NULL, k, r->experts);
    ein.gate = NULL; /* its gradient must not pass through the expert */
    ein.x = mf_dispatch_rows(g, mf_stop_gradient(g, in->x), &groups, NULL, k);
    ein.offset = groups.offset;
    ein.token = groups.token;
    mf_instance_mute(layer->expert, true);
    mf_tensor *y = call_experts(layer, &own, g, &ein, out);
    mf_instance_mute(layer->expert, false);
    for (int i = before; i < mf_graph_nodes(g); i++)
        if (mf_graph_node_at(g, i)->op->flags & MF_OP_STATE)
            mf_graph_fail(g, MF_ECONFIG,
                          "a router with silent assignments: expected an expert that writes no "
                          "buffer, found op %s",
                          mf_graph_node_at(g, i)->op->name);
    if (!y) return NULL;
    return mf_combine_rows(g, mf_stop_gradient(g, y), out->gate, &groups, NULL, r->tokens, k);
}

/* Calls the experts on the admitted assignments, and sums their outputs for each token. */
static mf_tensor *assigned_experts(const mf_moe_layer *layer, const mf_moe_settings *s,
                                   mf_graph *g, const mf_router_in *in, mf_expert_in *ein,
                                   mf_moe_out *out)
{
    const mf_routing *r = &out->routing;
    const int k = r->token ? 1 : r->rows / r->tokens;
    mf_row_groups groups = mf_group_rows(g, computed(g, out), r->token, k, r->experts);
    const mf_expert *table = mf_loaded_vtable(mf_instance_plugin(layer->expert));
    const bool inputs = s->config->gate_inputs;
    const bool gates = inputs || ((table->flags & MF_EXPERT_GATES) && !s->outputs &&
                                  !mf_adapters_at(layer->adapters, MF_AT_EXPERT_OUT));
    mf_tensor *gate = gates ? grouped_gates(g, out->gate, &groups) : NULL;
    ein->gate = inputs ? NULL : gate;
    ein->x = mf_dispatch_rows(g, in->x, &groups, r->token, k);
    if (inputs) ein->x = mf_mul(g, ein->x, gate);
    ein->offset = groups.offset;
    ein->token = groups.token;
    mf_tensor *y = mf_experts_shared(s->ranks) ? mf_moe_shared_experts(layer, s->ranks, g, ein)
                                               : call_experts(layer, s, g, ein, out);
    if (!y) return NULL;
    if (s->outputs) show_outputs(g, &groups, y, out);
    y = gates ? mf_return_rows(g, y, &groups, r->token, r->tokens, k)
              : mf_combine_rows(g, y, out->gate, &groups, r->token, r->tokens, k);
    return out->silent ? mf_add(g, y, silent_experts(layer, s, g, in, *ein, out)) : y;
}

/* Calls the experts on the slots of soft routing, and combines their outputs. */
static mf_tensor *slot_experts(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                               const mf_router_in *in, mf_expert_in *ein, mf_moe_out *out)
{
    if (mf_experts_shared(s->ranks)) {
        mf_graph_fail(g, MF_ECONFIG,
                      "parallel.expert: expected a router that gives tokens to "
                      "experts, found soft routing");
        return NULL;
    }
    mf_soft_fill(g, &out->routing, in->x, ein);
    mf_tensor *y = call_experts(layer, s, g, ein, out);
    return y ? mf_soft_combine(g, &out->routing, y) : NULL;
}

int mf_moe_build(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                 const mf_router_in *in, mf_moe_out *out)
{
    int rc = route(layer, s, g, in, out);
    if (rc != MF_OK) return rc;
    mf_routing *r = &out->routing;
    if (s->forced) {
        force(s->forced, g, out);
    } else if (r->dispatch) {
        out->own.admitted = r->admitted = r->chosen;
    } else {
        out->own.gate = out->gate = final_gate(s, g, admit(s, g, in, out->gate, out));
        out->own.admitted = r->admitted;
    }
    if (mf_graph_status(g) != MF_OK) return mf_graph_status(g);

    mf_router_in rows = *in; /* rows.x becomes what is dispatched to the experts */
    if (layer->down) rows.x = mf_moe_down(layer, s, g, in->x);
    mf_expert_in ein = {.size = sizeof ein,
                        .batch = in->batch,
                        .seq = in->seq,
                        .experts = r->experts,
                        .seq_x = rows.x,
                        .mask = in->mask,
                        .positions = in->positions,
                        .sequence_ids = in->sequence_ids};
    const mf_expert *table = mf_loaded_vtable(mf_instance_plugin(layer->expert));
    if (table->flags & MF_EXPERT_PROB) {
        ein.prob = r->prob;
        ein.logits = r->logits;
    }
    out->y = (r->dispatch ? slot_experts : assigned_experts)(layer, s, g, &rows, &ein, out);
    if (out->y && layer->up) out->y = mf_moe_up(layer, s, g, out->y);
    if (!out->y) return mf_graph_status(g);
    if (r->expert_out) r->x = in->x;
    if (out->limited && !r->token && s->config->dropped != MF_DROPPED_RESIDUAL)
        out->y = mf_add(g, out->y, passed_on(s, g, in, out));
    if (layer->shared) out->y = mf_add(g, out->y, shared_experts(layer, s, g, in, r->tokens));

    r->load = per_token(g, r->admitted, r);
    r->demand = r->admitted == r->chosen ? r->load : per_token(g, r->chosen, r);
    add_metrics(s, g, in, out);
    if (out->limited) {
        mf_graph_keep(r->chosen);
        mf_graph_keep(r->admitted);
        if (out->moved) mf_graph_keep(out->moved);
    }
    keep_choice(s, g, in, out);
    return mf_graph_status(g);
}
