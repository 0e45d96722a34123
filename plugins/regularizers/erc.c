/* erc: couples experts and router (Lv et al. 2025, Coupling Experts and Routers in
 * Mixture-of-Experts via an Auxiliary Loss, eq. 3 and figure 8, in two public readings).
 *
 *     R~_i = R_i (1 + u),  u drawn from U(-eps_i, eps_i) for each element,
 *     eps_i = |R_i - nearest other row| / (2 |R_i|)       R [E,d]: the router's rows
 *     M_ij = |W_j R~_i|        W_j: the first matrix of expert j, of "w13" its gate half
 *     loss = 1 / E^2 sum over i != j of max(0, M_ij - alpha M_ii) + max(0, M_ij - alpha M_jj)
 *
 * Row i represents the tokens that the router sends to expert i. Expert i should respond to row
 * i more strongly than the other experts do, and more strongly than it responds to other rows.
 * No token is read, so the cost is E^2 rows. eps has no gradient; with detach = yes the rows
 * have none either, and only experts learn. With noise = no, and in evaluation, u = 0. Scaling
 * W down lowers the loss without improving the routing. The losses of layers are added; layers
 * without such parameters do not count.
 *
 * param names the router's matrix, expert the matrix of the experts (swiglu: w13, mlp: w1). If
 * ranks share the experts (parallel.expert), each rank holds only a part of W, and this
 * regularizer is refused. */
#include <moefw/moefw.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    double alpha;
    int64_t noise, detach;
    const char *param, *expert;
} conf;

typedef struct {
    const conf *c;
} regularizer;

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    (void)ctx;
    (void)dims;
    ((regularizer *)self)->c = conf_;
    return MF_OK;
}

/* Returns the parameter layers.N.PART.NAME; NULL without a failure: it does not exist. */
static mf_tensor *found(mf_ctx *ctx, mf_graph *g, int32_t layer, const char *part,
                        const char *name)
{
    char full[160];
    snprintf(full, sizeof full, "/layers.%d.%s.%s", (int)layer, part, name);
    return mf->find(ctx, full + 1, 0) ? mf->use(ctx, g, full) : NULL;
}

/* [E,E] matrix with `on` on the diagonal and `off` elsewhere */
static mf_tensor *diagonal(mf_ctx *ctx, mf_graph *g, int64_t E, float on, float off)
{
    float *v = malloc((size_t)(E * E) * sizeof *v);
    if (!v) {
        mf->fail(ctx, MF_ENOMEM, "no memory for a matrix of %d experts", (int)E);
        return NULL;
    }
    for (int64_t i = 0; i < E * E; i++)
        v[i] = i % (E + 1) == 0 ? on : off;
    mf_tensor *t = mf->constant(g, MF_F32, mf_shape2(E, E), v);
    free(v);
    return t;
}

/* eps [E,1] */
static mf_tensor *reach(mf_ctx *ctx, mf_graph *g, mf_tensor *rows, int64_t E)
{
    mf_tensor *r = mf_stop_gradient(g, rows);
    mf_tensor *square = mf_sum(g, mf_square(g, r), 2u, true); /* [E,1] */
    mf_tensor *inner = mf_matmul(g, r, false, r, true, -2);
    mf_tensor *apart = mf_add(g, mf_add(g, inner, square),
                              mf_reshape(g, square, mf_shape2(1, E))); /* |R_i - R_j|^2 */
    apart = mf_add(g, apart, diagonal(ctx, g, E, 1e30f, 0));
    mf_tensor *nearest = mf_scale(g, mf_row_max(g, mf_scale(g, apart, -1)), -1);
    nearest = mf_sqrt(g, mf_clamp(g, nearest, 0, 1e30));
    mf_tensor *length = mf_sqrt(g, mf_clamp(g, square, 1e-30, 1e30));
    return mf_scale(g, mf_div(g, nearest, length), 0.5);
}

static mf_tensor *of_layer(const conf *c, mf_ctx *ctx, mf_graph *g, mf_tensor *rows,
                           mf_tensor *w)
{
    const int64_t E = mf->shape(rows).dim[0], d = mf->shape(rows).dim[1];
    const int64_t h = mf->shape(w).dim[1];
    if (c->detach) rows = mf_stop_gradient(g, rows);
    if (c->noise && E > 1 && mf->training(g)) {
        mf_tensor *u = mf_affine(g, mf_uniform(g, mf_shape2(E, d)), 2, -1);
        rows = mf_mul(g, rows, mf_affine(g, mf_mul(g, u, reach(ctx, g, rows, E)), 1, 1));
    }
    w = mf_reshape(g, w, mf_shape2(E * h, d));
    mf_tensor *a = mf_reshape(g, mf_linear(g, rows, w, NULL), mf_shape3(E, E, h));
    mf_tensor *M = mf_sqrt(g, mf_affine(g, mf_sum(g, mf_square(g, a), 4u, false), 1, 1e-20));
    mf_tensor *own = mf_mul(g, M, diagonal(ctx, g, E, 1, 0));
    mf_tensor *by_row = mf_scale(g, mf_sum(g, own, 2u, true), c->alpha),
              *by_column = mf_scale(g, mf_sum(g, own, 1u, true), c->alpha);
    mf_tensor *over =
        mf_add(g, mf_relu(g, mf_sub(g, M, by_row)), mf_relu(g, mf_sub(g, M, by_column)));
    over = mf_mul(g, over, diagonal(ctx, g, E, 0, 1));
    return mf_mean(g, over, MF_ALL, false);
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    const conf *c = ((regularizer *)self)->c;
    const float zero = 0;
    mf_tensor *total = mf->constant(g, MF_F32, mf_shape0(), &zero);
    for (int32_t i = 0; i < n; i++) {
        const int64_t E = routing[i]->experts;
        mf_tensor *rows = found(ctx, g, routing[i]->layer, "router", c->param),
                  *w = rows ? found(ctx, g, routing[i]->layer, "expert", c->expert) : NULL;
        if (!rows || !w) continue;
        const mf_shape r = mf->shape(rows), s = mf->shape(w);
        if (r.rank != 2 || r.dim[0] != E || s.rank != 3 || s.dim[0] != E ||
            s.dim[2] != r.dim[1])
            continue;
        const bool halves = s.dim[1] % 2 == 0 && c->expert[0] == 'w' && c->expert[1] == '1' &&
                            c->expert[2] == '3' && c->expert[3] == '\0';
        if (halves) w = mf_slice(g, w, 1, 0, s.dim[1] / 2);
        total = mf_add(g, total, of_layer(c, ctx, g, rows, w));
    }
    *ret_loss = total;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, alpha, "1", 0, 10, 0,
                   "share of an own answer that others may have; smaller is stricter"),
    MF_OPTION_BOOL(conf, noise, "yes", 0, "move the rows at random in training"),
    MF_OPTION_BOOL(conf, detach, "no", 0, "no gradient to the router"),
    MF_OPTION_STR(conf, param, "weight", "name of the router's matrix [E,d]"),
    MF_OPTION_STR(conf, expert, "w13", "name of the experts' first matrix [E,h,d]"),
    MF_END_OPTIONS,
};

static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "erc", "1.0", "MIT",
                                  "experts answer their own router row strongest (ERC)",
                                  options, conf, regularizer, &vtable);
