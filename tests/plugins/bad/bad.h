/* bad.h: a correct router. Files in the folders below include it, and each breaks one rule.
 *
 * Before it includes this header, a file defines what it changes: MAGIC, ABI, SIZE, ... of the
 * descriptor, OPTIONS, INIT, ROUTE, AFTER, FINI (its own functions) or BEFORE (code at the
 * start of init). Files named rule_* have valid descriptors and break a rule when they run.
 *
 * FORWARD, and optionally BACKWARD, define an op called OP with one input and one output of the
 * same shape. Each is the statement for one element: y[i] from x[i], and dx[i] from dy[i]. The
 * router's function is then `spoiled`, which applies the op to the logits. If a file defines
 * SPOILED, it contains its own function `spoiled`. */
#include <moefw/moefw.h>

#ifndef MAGIC
#define MAGIC MF_MAGIC
#endif
#ifndef ABI
#define ABI MF_ABI
#endif
#ifndef SIZE
#define SIZE sizeof(mf_plugin)
#endif
#ifndef HOST_SIZE
#define HOST_SIZE sizeof(mf_host)
#endif
#ifndef OPTION_SIZE
#define OPTION_SIZE sizeof(mf_option)
#endif
#ifndef VTABLE_SIZE
#define VTABLE_SIZE sizeof(mf_router)
#endif
#ifndef KIND
#define KIND MF_ROUTER
#endif
#ifndef NAME
#define NAME "bad"
#endif
#ifndef BRIEF
#define BRIEF "spoiled on purpose"
#endif
#ifndef OPTIONS
#define OPTIONS MF_OPTION_REAL(conf, scale, "1", 0, 10, MF_OPT_LIVE, "multiplies the logits"),
#endif
#ifndef BEFORE
#define BEFORE
#endif
#ifndef INIT
#define INIT init
#endif
#ifndef ROUTE
#ifdef FORWARD
#define ROUTE spoiled
#else
#define ROUTE route
#endif
#endif
#ifdef BACKWARD
#define OP_BACKWARD .backward = op_backward, .diff_in = 1
#elif !defined OP_BACKWARD
#define OP_BACKWARD .diff_in = 1
#endif
#ifndef AFTER
#define AFTER NULL
#endif
#ifndef FINI
#define FINI NULL
#endif
#ifndef FLAGS
#define FLAGS 0
#endif
#ifndef RESERVED
#define RESERVED 0
#endif
#ifndef OP_SIZE
#define OP_SIZE sizeof(mf_opdef)
#endif
#ifndef OP_FLAGS
#define OP_FLAGS 0
#endif
#ifndef VTABLE
#define VTABLE &vtable
#endif
#ifndef SLOT
#define SLOT &mf
#endif

typedef struct {
    double scale;
    int64_t count;
} conf;

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self;
    (void)c;
    BEFORE
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.02));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)self;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}

#ifdef FORWARD
static int op_infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

static int op_forward(const mf_call *c)
{
    float *x = (float *)(uintptr_t)c->in[0].data, *y = c->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(c->in[0].shape); i++) {
        FORWARD
    }
    return MF_OK;
}

#ifdef BACKWARD
static int op_backward(const mf_call *c)
{
    const float *dy = c->in[2].data;
    float *dx = c->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(c->in[0].shape); i++) {
        BACKWARD
    }
    return MF_OK;
}
#endif

static const mf_opdef op = {.size = OP_SIZE,
                            .flags = OP_FLAGS,
                            .name = OP,
                            .infer = op_infer,
                            .forward = op_forward,
                            OP_BACKWARD};

#ifdef SPOILED
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#else
static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    out->logits = mf->custom(g, &op, 1, &out->logits, NULL, 1, NULL);
    return mf->status(g);
}
#endif
#endif

static const mf_option options[] = {OPTIONS MF_END_OPTIONS};

static const mf_router vtable = {.size = VTABLE_SIZE,
                                 .flags = FLAGS,
                                 .init = INIT,
                                 .fini = FINI,
                                 .route = ROUTE,
                                 .after_step = AFTER};

/* This array avoids compiler warnings about those of these names that a file does not use. */
const void *const bad_unused[] = {(const void *)options, (const void *)&vtable,
                                  (const void *)init, (const void *)route, (const void *)&mf};

#ifndef NO_DESCRIPTOR
MF_EXPORT_PLUGIN = {.magic = MAGIC,
                    .abi = ABI,
                    .size = SIZE,
                    .host_size = HOST_SIZE,
                    .option_size = OPTION_SIZE,
                    .vtable_size = VTABLE_SIZE,
                    .kind = KIND,
                    .reserved = RESERVED,
                    .name = NAME,
                    .version = "1",
                    .license = "MIT",
                    .brief = BRIEF,
                    .options = options,
                    .conf_size = sizeof(conf),
                    .self_size = 8,
                    .vtable = VTABLE,
                    .host = SLOT};
#endif
