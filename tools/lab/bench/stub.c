/* The stubs: a linear router and an expert of one matrix. They use the same ABI as plugins in
 * files, so a check runs the same code around a stub and around a plugin. */
#include "plugin/host.h"
#define MF_HOST_SLOT (mf_plugin_host())
#include <moefw/moefw.h>

#include "lab/bench/stub.h"

typedef struct {
    double temperature;
} router_conf;

static int router_init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self;
    (void)conf;
    return MF_HOST_SLOT->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                               MF_NORMAL(0.3));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)self;
    mf_tensor *logits = mf_linear(g, in->x, MF_HOST_SLOT->use(ctx, g, "weight"), NULL);
    out->logits = mf_div(g, logits, MF_HOST_SLOT->live(ctx, g, "temperature"));
    return MF_HOST_SLOT->status(g);
}

/* A router in which experts choose tokens. It makes about half as many assignments as k experts
 * for each token would, and their number is no multiple of T. The record contains the token of
 * each assignment. */
static int route_listed(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                        mf_routing *out)
{
    const int64_t T = (int64_t)in->batch * in->seq, E = in->experts;
    const int64_t half = T * in->top_k / (2 * E) + 1, C = half < T ? half : T;
    (void)self;
    mf_tensor *logits = mf_linear(g, in->x, MF_HOST_SLOT->use(ctx, g, "weight"), NULL);
    out->logits = mf_div(g, logits, MF_HOST_SLOT->live(ctx, g, "temperature"));
    out->prob = mf_softmax(g, out->logits);
    mf_tensor *by_expert = mf_transpose(g, out->prob, 1, 0, 0, 0);
    mf_tensor *token = mf_topk(g, by_expert, C);
    mf_tensor *expert =
        mf_broadcast(g, mf_reshape(g, mf_cast(g, mf_arange(g, E), MF_F32), mf_shape2(E, 1)),
                     mf_shape2(E, C));
    out->gate = mf_reshape(g, mf_take(g, by_expert, token), mf_shape1(E * C));
    out->token = mf_reshape(g, token, mf_shape1(E * C));
    out->expert = mf_reshape(g, mf_cast(g, expert, MF_I32), mf_shape1(E * C));
    return MF_HOST_SLOT->status(g);
}

/* A router that chooses k + 1 experts for each token, if there are so many, and records
 * no probabilities. */
static int route_bare(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                      mf_routing *out)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    const int32_t k = in->top_k < in->experts ? in->top_k + 1 : in->top_k;
    (void)self;
    mf_tensor *logits = mf_linear(g, in->x, MF_HOST_SLOT->use(ctx, g, "weight"), NULL);
    logits = mf_div(g, logits, MF_HOST_SLOT->live(ctx, g, "temperature"));
    out->expert = mf_reshape(g, mf_topk(g, logits, k), mf_shape1(T * k));
    out->own_top_k = k;
    return MF_HOST_SLOT->status(g);
}

static int expert_init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self;
    (void)conf;
    return MF_HOST_SLOT->param(ctx, "weight", mf_shape3(dims->experts, dims->dim, dims->dim),
                               mf_init_of(MF_INIT_NORMAL, 0.3, MF_PARAM_BY_EXPERT));
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    (void)self;
    *ret_y = mf_grouped_linear(g, in->x, MF_HOST_SLOT->use(ctx, g, "weight"), in->offset, NULL);
    return MF_HOST_SLOT->status(g);
}

static const mf_option router_options[] = {
    MF_OPTION_REAL(router_conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE, "divides the logits"),
    MF_END_OPTIONS};
static const mf_option expert_options[] = {MF_END_OPTIONS};
static const mf_router router_table = {sizeof(mf_router), 0, router_init, NULL, route, NULL};
static const mf_router listed_table = {
    sizeof(mf_router), MF_ROUTER_NOT_CAUSAL, router_init, NULL, route_listed, NULL};
static const mf_router bare_table = {sizeof(mf_router), 0, router_init, NULL, route_bare, NULL};
static const mf_expert expert_table = {sizeof(mf_expert), 0, expert_init, NULL, forward, NULL};

/* Every descriptor must contain the address of a slot for the host table. The stubs never read
 * it: their MF_HOST_SLOT above is the table itself. */
static const mf_host *slot;

#define DESCRIPTOR(kind_, type, name_, options_, conf_, table_)                                \
    {                                                                                          \
        .magic = MF_MAGIC, .abi = MF_ABI, .size = sizeof(mf_plugin),                           \
        .host_size = sizeof(mf_host), .option_size = sizeof(mf_option),                        \
        .vtable_size = sizeof(type), .kind = kind_, .name = name_, .version = "1",             \
        .license = "MIT", .brief = "a stub", .options = options_, .conf_size = sizeof(conf_),  \
        .vtable = &(table_), .host = &slot                                                     \
    }
static const mf_plugin router_descriptor =
    DESCRIPTOR(MF_ROUTER, mf_router, "stub_router", router_options, router_conf, router_table);
static const mf_plugin listed_descriptor =
    DESCRIPTOR(MF_ROUTER, mf_router, "stub_listed", router_options, router_conf, listed_table);
static const mf_plugin bare_descriptor =
    DESCRIPTOR(MF_ROUTER, mf_router, "stub_bare", router_options, router_conf, bare_table);
static const mf_plugin expert_descriptor =
    DESCRIPTOR(MF_EXPERT, mf_expert, "stub_expert", expert_options, char, expert_table);

static const mf_loaded *judged(const mf_plugin *descriptor, mf_loaded *loaded)
{
    static mf_arena *arena; /* lives as long as the program, like plugins do */
    if (loaded->name) return loaded;
    if (!arena) arena = mf_arena_new();
    if (!arena || mf_judge(descriptor, 0, 0, NULL, NULL, arena, loaded) != MF_OK) return NULL;
    loaded->path = "part of the program";
    loaded->own = true;
    return loaded;
}

const mf_loaded *mf_stub_router(void)
{
    static mf_loaded loaded;
    return judged(&router_descriptor, &loaded);
}

const mf_loaded *mf_stub_router_listed(void)
{
    static mf_loaded loaded;
    return judged(&listed_descriptor, &loaded);
}

const mf_loaded *mf_stub_router_bare(void)
{
    static mf_loaded loaded;
    return judged(&bare_descriptor, &loaded);
}

const mf_loaded *mf_stub_expert(void)
{
    static mf_loaded loaded;
    return judged(&expert_descriptor, &loaded);
}
