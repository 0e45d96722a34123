/* oracle: routing by the corpus's own labels.
 *
 *     expert = label mod E,   gate = 1
 *
 * The upper bound of a comparison in specialisation: NMI(expert, label) is 1 when E is at least the
 * number of labels. One expert per token, whatever top_k says. Tokens without a label (generated
 * ones) go to expert 0. Needs a labelled corpus, such as builtin:topics. No parameters.
 */
#include <moefw/moefw.h>

typedef struct {
    int32_t labels;
} router;

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)conf;
    ((router *)self)->labels = dims->labels;
    if (dims->labels < 1)
        return mf->fail(ctx, MF_ECONFIG, "the corpus has no labels to follow; expected one with "
                                         "labels, such as data.path = builtin:topics");
    return MF_OK;
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const int64_t L = ((const router *)self)->labels, E = in->experts;
    float map[256 * 64] = {0}; /* [L,E] one-hot of label mod E */
    if (L * E > (int64_t)(sizeof map / sizeof *map) || !in->labels)
        return mf->fail(ctx, MF_ECONFIG, "expected labels, and at most %d of labels x experts",
                        (int)(sizeof map / sizeof *map));
    for (int64_t l = 0; l < L; l++)
        map[l * E + l % E] = 1;
    mf_tensor *hot = mf_one_hot(g, in->labels, L); /* [T,L], zero rows where unknown */
    mf_tensor *m = mf->constant(g, MF_F32, mf_shape2(L, E), map);
    out->prob = mf_matmul(g, hot, false, m, false, 1);
    mf_tensor *best = mf_topk(g, out->prob, 1);
    out->expert = mf_reshape(g, best, mf_shape1((int64_t)in->batch * in->seq));
    out->own_top_k = 1;
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "oracle", "1.0", "MIT",
                                  "follows the labels of the corpus: the upper bound", options,
                                  char, router, &vtable);
