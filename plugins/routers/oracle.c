/* oracle: routes by the corpus's own labels.
 *
 *     expert = label mod E,   gate = 1
 *
 * In a comparison it is the upper bound of specialisation: NMI(expert, label) is 1 if E is at
 * least the number of labels. Each token has one expert, regardless of top_k. With wrong = w a
 * share w of the tokens, drawn again in each step, goes to a random expert instead. This known
 * amount of wrong routing shows what a comparison can detect. Tokens without a label (generated
 * tokens) go to expert 0. It requires a labelled corpus: builtin:topics, or
 * texts with data.labels. There are no parameters. */
#include <moefw/moefw.h>

#define MAX_TABLE 16384 /* maximum of labels x experts */

typedef struct {
    double wrong;
} conf;

typedef struct {
    const conf *c;
    int64_t labels, experts;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    self->c = conf_;
    self->labels = dims->labels;
    self->experts = dims->experts;
    if (dims->labels < 1)
        return mf->fail(ctx, MF_ECONFIG,
                        "the corpus has no labels to follow; expected data.labels, or "
                        "data.path = builtin:topics");
    if (self->labels * self->experts > MAX_TABLE)
        return mf->fail(ctx, MF_ECONFIG,
                        "expected labels x experts of at most %d, found %d x %d", MAX_TABLE,
                        (int)self->labels, (int)self->experts);
    return MF_OK;
}

/* [T,E] one-hot of label mod E; all zeros if the label is unknown */
static mf_tensor *by_label(const router *self, mf_graph *g, mf_tensor *labels)
{
    const int64_t L = self->labels, E = self->experts;
    float map[MAX_TABLE] = {0};
    for (int64_t l = 0; l < L; l++)
        map[l * E + l % E] = 1;
    mf_tensor *m = mf->constant(g, MF_F32, mf_shape2(L, E), map);
    return mf_matmul(g, mf_one_hot(g, labels, L), false, m, false, 1);
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const int64_t T = (int64_t)in->batch * in->seq, E = self->experts;
    if (!in->labels) return mf->fail(ctx, MF_ECONFIG, "the batch has no labels");
    out->prob = by_label(self, g, in->labels);
    /* A random 0 or 1 per token chooses between two one-hot matrices. */
    if (self->c->wrong > 0) {
        const float share = (float)self->c->wrong;
        mf_tensor *p = mf->constant(g, MF_F32, mf_shape1(1), &share);
        mf_tensor *coin = mf_greater(g, p, mf_uniform(g, mf_shape2(T, 1)));
        mf_tensor *other = mf_one_hot(g, mf_topk(g, mf_uniform(g, mf_shape2(T, E)), 1), E);
        other = mf_reshape(g, other, mf_shape2(T, E));
        out->prob =
            mf_add(g, mf_mul(g, out->prob, mf_affine(g, coin, -1, 1)), mf_mul(g, other, coin));
    }
    out->expert = mf_reshape(g, mf_topk(g, out->prob, 1), mf_shape1(T));
    out->own_top_k = 1;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, wrong, "0", 0, 1, 0, "share of tokens sent to a random expert"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "oracle", "1.0", "MIT",
                                  "follows the labels of the corpus: the upper bound", options,
                                  conf, router, &vtable);
