/* formula_graph.h: a graph of layer_model.h over a batch with padding, for tests that compute
 * the formulas of the manual in double. */
#ifndef MF_TESTS_FORMULA_GRAPH_H
#define MF_TESTS_FORMULA_GRAPH_H

#include "model/layer_model.h"

#include <math.h>

enum { B = 5, E = 4, SEQ = 20, T = B * SEQ, DIM = 16 };

typedef struct graph {
    mf_session *s;
    mf_model_graph *mg;
    const mf_routing *r;
    bool real[T];
    int tokens; /* number of real tokens */
} graph;

/* Fills the batch: example b has length[b] tokens; NULL: all have SEQ. Padding has the
 * id `pad`. */
static inline void fill(graph *x, const int *length, int pad)
{
    mf_batch *batch = NULL;
    ck_assert_int_eq(mf_batch_new(B, SEQ, &batch), MF_OK);
    x->tokens = 0;
    for (int t = 0; t < T; t++) {
        const int b = t / SEQ, at = t % SEQ;
        x->real[t] = !length || at < length[b];
        x->tokens += x->real[t];
        batch->tokens[t] = x->real[t] ? 7 * b + 3 * at : pad;
        batch->targets[t] = x->real[t] ? 5 * at : -1;
        batch->positions[t] = at;
        batch->sequence[t] = b;
        batch->labels[t] = -1;
        batch->mask[t] = x->real[t];
    }
    mf_batch_feed(batch, x->mg);
    mf_batch_free(batch);
}

static inline void open_graph(graph *x, mf_mode mode, const int *length, int n_more,
                              const char *const *more)
{
    static const char *const own[] = {"moe.force_causal=yes"};
    const mf_model_shape shape = {.mode = mode,
                                  .batch = B,
                                  .seq = SEQ,
                                  .masked = length != NULL,
                                  .want_prob = true,
                                  .want_trace = true,
                                  .no_reuse = true};
    *x = (graph){0};
    layer_open(1, own, n_more, more, &shape, &x->s, &x->mg);
    fill(x, length, 3);
    layer_run(x->mg);
    x->r = &x->mg->moe[0].routing;
}

static inline void close_graph(graph *x)
{
    mf_model_graph_free(x->mg);
    mf_session_close(x->s);
}

static inline double scalar(const mf_tensor *t)
{
    return (double)*(const float *)mf_tensor_host(t);
}

static inline void expect_near(const char *what, double found, double wanted)
{
    ck_assert_msg(fabs(found - wanted) <= 2e-5 * fabs(wanted) + 1e-6,
                  "%s: expected %.9g, found %.9g", what, wanted, found);
}

static inline const float *weights(const graph *x, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "layers.0.router.%s", name);
    const mf_param *p = mf_store_find(x->s->model->store, full);
    ck_assert_ptr_nonnull(p);
    return p->value;
}

#endif
