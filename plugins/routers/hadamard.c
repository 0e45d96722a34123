/* hadamard: the deterministic router without parameters of DBGW (arXiv 2506.16419, section I):
 * experts are rows of Sylvester's matrix of +1 and -1.
 *
 *     logit_e = <H_(first + e), x> / (sqrt(d) temperature),   H[i,j] = (-1)^popcount(i & j)
 *     P = softmax(logits)
 *
 * The router learns nothing; only x changes. Two rows are orthogonal if d is a power of 2, so
 * experts select independent directions. Row 0 sums all features, so its expert would win by
 * any common offset; therefore the first expert has row 1. The paper's own attempt sent all
 * tokens to one expert. That attempt corresponds to first = 0 without the square root
 * (temperature = 1 / sqrt(d)). The router mlp_hadamard has this step within an MLP.
 * Parameters: none. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdlib.h>

typedef struct {
    int64_t first;
    double temperature;
} conf;

typedef struct {
    const conf *c;
    int64_t dim, experts;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    self->c = conf_;
    self->dim = dims->dim;
    self->experts = dims->experts;
    /* In the first d columns row i equals row i + n, where n is d rounded up to a power of 2.
     * So only n rows differ. */
    int64_t rows = 1;
    while (rows < dims->dim)
        rows *= 2;
    if (self->c->first + dims->experts <= rows) return MF_OK;
    return mf->fail(ctx, MF_ECONFIG,
                    "first = %d and %d experts want more rows than the %d that differ over %d "
                    "columns",
                    (int)self->c->first, (int)dims->experts, (int)rows, (int)dims->dim);
}

static bool odd(int64_t bits)
{
    bool is = false;
    for (; bits != 0; bits &= bits - 1)
        is = !is;
    return is;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const int64_t n = self->dim;
    const float one = (float)(1 / sqrt((double)n));
    float *h = malloc((size_t)(self->experts * n) * sizeof *h);
    if (!h) return mf->fail(ctx, MF_ENOMEM, "no memory for the rows of the matrix");
    for (int64_t e = 0; e < self->experts; e++)
        for (int64_t j = 0; j < n; j++)
            h[e * n + j] = odd((self->c->first + e) & j) ? -one : one;
    mf_tensor *rows = mf->constant(g, MF_F32, mf_shape2(self->experts, n), h);
    free(h);
    out->logits = mf_div(g, mf_linear(g, in->x, rows, NULL), mf->live(ctx, g, "temperature"));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, first, "1", 0, 65536, 0, "row of the matrix that the first expert has"),
    MF_OPTION_REAL(conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE, "divides the logits"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "hadamard", "1.0", "MIT",
                                  "rows of a Hadamard matrix as experts: no parameters",
                                  options, conf, router, &vtable);
