/* lora: low-rank changes of linear layers (Hu et al. 2021, LoRA, eq. 3; rank-stabilised:
 * Kalajdzievski 2023).
 *
 *     y' = y + s B A dropout(x)     A [r,in], B [out,r]; s = alpha / r, rslora: alpha / sqrt(r)
 *
 * A begins as U(-1, 1) / sqrt(in), B begins at 0, so a new adapter changes nothing. Weights of
 * experts have one A and B for each expert. Heads that are switched off are not computed: only
 * the rows of B (for q, k and v) or the columns of A (for o) that belong to active heads are
 * used. The layer's own weights are also trained, unless they are frozen.
 *
 * Parameters: r (in + out) for each layer, or for each expert of a layer of experts. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t rank, rslora;
    double alpha, dropout;
} conf;
typedef struct {
    conf conf;
} state;

typedef struct {
    char text[64];
} name;

/* Returns the name of a site's parameter, for example "attention.q.a". */
static name name_of(const mf_linear_site *site, const char *part)
{
    name n;
    size_t length = strlen(site->name);
    if (length > 7 && strcmp(site->name + length - 7, ".weight") == 0) length -= 7;
    snprintf(n.text, sizeof n.text, "%.*s.%s", (int)(length > 60 ? 60 : length), site->name,
             part);
    return n;
}

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    state *s = self;
    const mf_linear_site *site;
    (void)dims;
    s->conf = *(const conf *)conf_;
    const int64_t r = s->conf.rank;
    for (int32_t i = 0; (site = mf->site(ctx, i)) != NULL; i++) {
        const int64_t E = site->experts;
        const uint32_t split = E > 0 ? MF_PARAM_BY_EXPERT : 0;
        int rc = mf->param(ctx, name_of(site, "a").text,
                           E > 0 ? mf_shape3(E, r, site->inputs) : mf_shape2(r, site->inputs),
                           mf_init_of(MF_INIT_KAIMING, 1, split));
        if (rc == MF_OK)
            rc = mf->param(ctx, name_of(site, "b").text,
                           E > 0 ? mf_shape3(E, site->outputs, r) : mf_shape2(site->outputs, r),
                           mf_init_of(MF_INIT_ZERO, 0, split));
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

/* Returns the part of a parameter [outer, heads, width] that belongs to active heads,
 * as [outer n, width]. */
static mf_tensor *active_part(mf_ctx *ctx, mf_graph *g, mf_tensor *w, int64_t outer,
                              int64_t width, const mf_adapter_in *in)
{
    const int64_t H = in->heads, n = in->n_active;
    int32_t *index = malloc((size_t)(outer * n) * sizeof *index);
    if (!index) {
        mf->fail(ctx, MF_ENOMEM, "no memory for the order of %d heads", (int)H);
        return NULL;
    }
    for (int64_t i = 0; i < outer * n; i++)
        index[i] = (int32_t)(i / n * H + in->active[i % n]);
    mf_tensor *rows = mf->constant(g, MF_I32, mf_shape1(outer * n), index);
    free(index);
    return mf_gather_rows(g, mf_reshape(g, w, mf_shape2(outer * H, width)), rows);
}

static int apply(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                 mf_tensor **ret_y)
{
    const state *s = self;
    const conf *c = &s->conf;
    const mf_linear_site *site = in->site;
    const int64_t r = c->rank;
    const double scale = c->alpha / (c->rslora ? sqrt((double)r) : (double)r);
    mf_tensor *a = mf->use(ctx, g, name_of(site, "a").text),
              *b = mf->use(ctx, g, name_of(site, "b").text), *x = in->x, *y;
    if (site->heads > 0 && in->n_active < in->heads) {
        /* For attention.o the heads are inputs of the layer. */
        const bool out = strcmp(site->name, "attention.o") == 0;
        const int64_t width = (out ? site->inputs : site->outputs) / site->heads;
        if (out)
            a = mf_reshape(g, active_part(ctx, g, a, r, width, in),
                           mf_shape2(r, in->n_active * width));
        else
            b = mf_reshape(g, active_part(ctx, g, b, 1, width * r, in),
                           mf_shape2(in->n_active * width, r));
    }
    if (c->dropout > 0) x = mf_dropout(g, x, c->dropout);
    if (site->experts > 0)
        y = mf_grouped_linear(g, mf_grouped_linear(g, x, a, in->offset, NULL), b, in->offset,
                              NULL);
    else
        y = mf_linear(g, mf_linear(g, x, a, NULL), b, NULL);
    *ret_y = mf_add(g, in->y, mf_scale(g, y, scale));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, rank, "8", 1, 65536, 0, "r: inner width of the change"),
    MF_OPTION_REAL(conf, alpha, "16", 0, 1e6, 0, "factor on the change, divided by the rank"),
    MF_OPTION_REAL(conf, dropout, "0", 0, 0.99, 0, "dropout on what goes into the change"),
    MF_OPTION_BOOL(conf, rslora, "no", 0, "divide alpha by the root of the rank"),
    MF_END_OPTIONS,
};

static const mf_adapter vtable = {.size = sizeof(mf_adapter),
                                  .init = init,
                                  .apply = apply,
                                  .points = MF_POINT_BIT(MF_AT_LINEAR),
                                  .at = "attention.q, attention.v"};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ADAPTER, mf_adapter, "lora", "1.0", "MIT",
                   "low-rank changes of linear layers", options, conf, state, &vtable);
