/* published.h: runs a plugin in the harness of `plugin check` with the inputs and parameters of
 * a test. The results are compared with numbers that were computed from the published formula
 * by other means. If a router's weight is the identity, the logits equal the tokens. */
#ifndef MF_TESTS_PUBLISHED_H
#define MF_TESTS_PUBLISHED_H

#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/harness.h"
#include "ops/ops.h"

enum { PUBLISHED_NUMBERS = 24, PUBLISHED_LISTS = 8 };

/* A name and numbers. Names of parameters are full names. Names of results are logits, score,
 * prob, gate, chosen, dispatch, combine, loss (the router's first), y (what the layer adds),
 * penalty (of a regularizer), and "grad PARAMETER". With the prefix "1:" the result is that of
 * the second layer. */
typedef struct numbers {
    const char *name;
    int n;
    double v[PUBLISHED_NUMBERS];
} numbers;
#define NUMBERS(name, ...)                                                                     \
    {                                                                                          \
        name, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)),                         \
        {                                                                                      \
            __VA_ARGS__                                                                        \
        }                                                                                      \
    }
#define EYE2 1, 0, 0, 1
#define EYE3 1, 0, 0, 0, 1, 0, 0, 0, 1
#define EYE4 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1

typedef struct published {
    const char *label;
    mf_kind kind;
    const char *plugin;
    const char *given[PUBLISHED_LISTS]; /* options such as "scale=2" */
    int32_t experts, top_k, batch, seq, dim, layers;
    bool training;
    int length; /* number of real tokens of the first sequence; 0: all are real */
    numbers x;  /* [batch seq, dim] */
    numbers set[PUBLISHED_LISTS], want[PUBLISHED_LISTS];
} published;

static inline const mf_loaded *published_load(mf_kind kind, const char *name)
{
    const mf_loaded *plugin = NULL;
    ck_assert_msg(mf_plugin_load(kind, name, NULL, 0, &plugin) == MF_OK, "%s: %s", name,
                  mf_error_message());
    return plugin;
}

static inline mf_param *published_param(mf_harness *h, const char *name)
{
    mf_param *p = mf_store_find(h->store, name);
    ck_assert_msg(p != NULL, "no parameter %s", name);
    return p;
}

static inline mf_tensor *published_result(mf_harness *h, const char *name)
{
    const int layer = name[1] == ':' ? name[0] - '0' : 0;
    const char *of = name[1] == ':' ? name + 2 : name;
    mf_moe_out *o = &h->out[layer];
    const struct {
        const char *name;
        mf_tensor *t;
    } all[] = {{"logits", o->routing.logits},   {"score", o->score},
               {"prob", o->routing.prob},       {"gate", o->gate},
               {"chosen", o->routing.chosen},   {"dispatch", o->routing.dispatch},
               {"combine", o->routing.combine}, {"loss", o->routing.loss[0]},
               {"token", o->routing.token},     {"y", o->y},
               {"penalty", h->penalty}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, of) == 0) return all[i].t;
    ck_abort_msg("no result %s", name);
}

static inline void published_keep(const published *c, mf_harness *h)
{
    for (int i = 0; i < PUBLISHED_LISTS && c->want[i].name; i++)
        if (strncmp(c->want[i].name, "grad ", 5) != 0) {
            mf_tensor *t = published_result(h, c->want[i].name);
            ck_assert_msg(t != NULL, "%s: no %s", c->label, c->want[i].name);
            mf_graph_keep(t);
        }
}

/* Fills in the inputs and parameters of the case. `ones`: the weights of y in the loss are
 * all 1. */
static inline void published_fill(const published *c, mf_harness *h)
{
    float *x = mf_tensor_input(h->x), *ones = mf_tensor_input(h->weights);
    ck_assert_int_eq(c->x.n, c->batch * c->seq * c->dim);
    for (int i = 0; i < c->x.n; i++) {
        x[i] = (float)c->x.v[i];
        if (ones) ones[i] = 1;
    }
    float *mask = h->in.mask ? mf_tensor_input(h->in.mask) : NULL;
    for (int t = 0; mask && t < c->batch * c->seq; t++)
        mask[t] = t >= c->seq || t < c->length;
    for (int i = 0; i < PUBLISHED_LISTS && c->set[i].name; i++) {
        mf_param *p = published_param(h, c->set[i].name);
        ck_assert_msg(p->count == c->set[i].n, "%s: %s has %d numbers", c->label, p->name,
                      (int)p->count);
        for (int k = 0; k < c->set[i].n; k++)
            p->value[k] = (float)c->set[i].v[k];
    }
}

static inline mf_harness *published_open(const published *c)
{
    const mf_harness_spec spec = {.plugin = published_load(c->kind, c->plugin),
                                  .layers = c->layers > 0 ? c->layers : 1,
                                  .batch = c->batch,
                                  .seq = c->seq,
                                  .dim = c->dim,
                                  .experts = c->experts,
                                  .top_k = c->top_k,
                                  .masked = c->length > 0,
                                  .training = c->training,
                                  .open = true,
                                  .any_order = true,
                                  .beside = c->kind == MF_REGULARIZER,
                                  .given = c->given};
    mf_harness *h = NULL;
    ck_assert_msg(mf_harness_new(&spec, &h) == MF_OK, "%s: %s", c->label, mf_error_message());
    published_keep(c, h);
    int rc = mf_graph_backward(h->g, h->loss, 1, &h->x);
    if (rc == MF_OK) rc = mf_graph_finish(h->g);
    ck_assert_msg(rc == MF_OK, "%s: %s", c->label, mf_error_message());
    published_fill(c, h);
    return h;
}

static inline double published_number(const mf_tensor *t, int64_t i)
{
    const void *v = mf_tensor_host(t);
    ck_assert_ptr_nonnull(v);
    return t->dtype == MF_I32 ? (double)((const int32_t *)v)[i] : (double)((const float *)v)[i];
}

static inline void published_expect(const published *c, mf_harness *h)
{
    for (int i = 0; i < PUBLISHED_LISTS && c->want[i].name; i++) {
        const numbers *w = &c->want[i];
        const bool grad = strncmp(w->name, "grad ", 5) == 0;
        const mf_param *p = grad ? published_param(h, w->name + 5) : NULL;
        const mf_tensor *t = grad ? NULL : published_result(h, w->name);
        const int64_t n = grad ? p->count : mf_shape_count(t->shape);
        ck_assert_msg(n >= w->n, "%s: %s has %d numbers", c->label, w->name, (int)n);
        for (int k = 0; k < w->n; k++) {
            const double found = grad ? (double)p->grad[k] : published_number(t, k);
            ck_assert_msg(fabs(found - w->v[k]) <= 2e-6 * (1 + fabs(w->v[k])),
                          "%s: %s[%d]: expected %.7g, found %.7g", c->label, w->name, k,
                          w->v[k], found);
        }
    }
}

static inline void published_run(const published *c)
{
    mf_harness *h = published_open(c);
    ck_assert_msg(mf_harness_run(h, NULL) == MF_OK, "%s: %s", c->label, mf_error_message());
    published_expect(c, h);
    mf_harness_free(h);
}

#endif
