/* refusals: models, graphs and caches that are refused, and similar valid ones: a priority that
 * is passed through a cache, blocks and experts that share weights. The plugins are parts of
 * this program. Each has one special property. */
#include "check_main.h"

#include <moefw/plugin.h>
#include "base/error.h"
#include "base/mem.h"
#include "generate/generator.h"
#include "model/heads.h"
#include "ops/ops.h"
#include "plugin/load/open.h"
#include "tests/lib/fault.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/run_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 11, DIM = 16, SEQ = 8, EXPERTS = 2 };

/* ---- plugins ---- */

static const mf_host *mf; /* the slot of the host table */
static const mf_option no_options[] = {MF_END_OPTIONS};

#define PLUGIN(kind, type, name, table)                                                        \
    MF_PLUGIN_INIT(kind, type, name, "1", "MIT", "a test", no_options, char, char, table)
#define INIT(name) static int name(void *self, mf_ctx *ctx, const void *conf, const mf_dims *d)
#define ROUTE(name)                                                                            \
    static int name(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,              \
                    mf_routing *out)
#define FORWARD(name)                                                                          \
    static int name(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,              \
                    mf_tensor **ret_y)

INIT(one_weight)
{
    (void)self, (void)conf;
    return mf->param(ctx, "weight", mf_shape2(d->experts, d->dim), MF_NORMAL(1));
}

/* A soft router. The weights of its slots do not matter in these tests. */
ROUTE(route_softly)
{
    (void)self;
    out->dispatch = out->combine = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->slots = 1;
    return mf->status(g);
}

/* A router of sequences that gives late tokens priority. */
ROUTE(route_late_first)
{
    (void)self;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->priority = mf_cast(g, in->positions, MF_F32);
    return mf->status(g);
}

/* A router of sequences in which expert 0 takes token 0. */
ROUTE(route_by_list)
{
    static const int32_t none[1];
    (void)self, (void)ctx, (void)in;
    out->expert = mf->constant(g, MF_I32, mf_shape1(1), none);
    out->token = mf->constant(g, MF_I32, mf_shape1(1), none);
    return mf->status(g);
}

static const mf_router softly = {
    .size = sizeof softly, .init = one_weight, .route = route_softly};
static const mf_router late_first = {.size = sizeof late_first,
                                     .flags = MF_ROUTER_SEQUENCE,
                                     .init = one_weight,
                                     .route = route_late_first};
static const mf_router by_list = {.size = sizeof by_list,
                                  .flags = MF_ROUTER_SEQUENCE,
                                  .init = one_weight,
                                  .route = route_by_list};

enum { MANY = 17 }; /* number of parameters of an expert */

INIT(many_weights)
{
    char name[8];
    int rc = MF_OK;
    (void)self, (void)conf;
    for (int i = 0; rc == MF_OK && i < MANY; i++) {
        snprintf(name, sizeof name, "w%d", i);
        rc = mf->param(ctx, name, mf_shape3(d->experts, d->dim, d->dim),
                       mf_init_of(MF_INIT_NORMAL, 1, MF_PARAM_BY_EXPERT));
    }
    return rc;
}

FORWARD(through_all)
{
    char name[8];
    mf_tensor *y = in->x;
    (void)self;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "w%d", i);
        y = mf_grouped_linear(g, y, mf->use(ctx, g, name), in->offset, NULL);
    }
    *ret_y = y;
    return mf->status(g);
}

INIT(nothing)
{
    (void)self, (void)ctx, (void)conf, (void)d;
    return MF_OK;
}

FORWARD(by_chance)
{
    (void)self, (void)ctx;
    *ret_y = mf_dropout(g, in->x, 0.5);
    return mf->status(g);
}

INIT(a_table)
{
    (void)self, (void)conf;
    return mf->param(ctx, "table", mf_shape2(3, d->dim), MF_NORMAL(1));
}

/* An expert whose table is added to the input instead of multiplied. */
FORWARD(plus_table)
{
    (void)self;
    *ret_y = mf_add(g, in->x, mf_sum(g, mf->use(ctx, g, "table"), 1u, false));
    return mf->status(g);
}

static const mf_expert many = {
    .size = sizeof many, .init = many_weights, .forward = through_all};
static const mf_expert chance = {.size = sizeof chance, .init = nothing, .forward = by_chance};
static const mf_expert tabled = {.size = sizeof tabled, .init = a_table, .forward = plus_table};

INIT(taps_the_end)
{
    (void)self, (void)conf;
    return mf->tap(ctx, d->layer, MF_AT_FFN);
}

static int use_tap(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                   mf_tensor **ret_y)
{
    (void)self, (void)ctx, (void)g, (void)in, (void)ret_y;
    ck_abort_msg("called without the value that it has tapped");
    return MF_OK;
}

static const mf_adapter early = {.size = sizeof early,
                                 .init = taps_the_end,
                                 .apply = use_tap,
                                 .points = MF_POINT_BIT(MF_AT_BLOCK_IN),
                                 .at = "block_in"};

static const mf_plugin plugins[] = {
    PLUGIN(MF_ROUTER, mf_router, "softly", &softly),
    PLUGIN(MF_ROUTER, mf_router, "late_first", &late_first),
    PLUGIN(MF_ROUTER, mf_router, "by_list", &by_list),
    PLUGIN(MF_EXPERT, mf_expert, "many", &many),
    PLUGIN(MF_EXPERT, mf_expert, "chance", &chance),
    PLUGIN(MF_EXPERT, mf_expert, "tabled", &tabled),
    PLUGIN(MF_ADAPTER, mf_adapter, "early", &early),
};

/* ---- models ---- */

typedef struct made {
    mf_config *config;
    mf_model *model;
} made;

#define ROUTER(name) "[router]\nplugin = " name "\n"
#define EXPERT(name) "[expert]\nplugin = " name "\n"
#define GATES        "[adapter.gates]\nplugin = head_gates\n"

static int blocks = 2;

/* Makes a model. text begins with further keys of [model]. */
static int make(made *x, const char *text, int ranks)
{
    const char *path = scratch_path("model.ini");
    char *all = mf_strf("[moe]\nexperts = %d\ntop_k = 1\n[model]\ndim = %d\nheads = 2\n"
                        "layers = %d\nseq = %d\n%s",
                        EXPERTS, DIM, blocks, SEQ, text);
    const mf_model_dims dims = {.vocab = VOCAB, .train_steps = 1};
    const mf_model_options options = {.training = true, .seed = 1, .expert_ranks = ranks};
    scratch_write(path, all, strlen(all));
    mf_free(all);
    *x = (made){0};
    ck_assert_msg(mf_config_load(path, 0, NULL, &x->config) == MF_OK, "%s", mf_error_message());
    const mf_model_settings settings = mf_config_model(x->config);
    return mf_model_new(&settings, &dims, &options, &x->model);
}

static void must_make(made *x, const char *text)
{
    ck_assert_msg(make(x, text, 0) == MF_OK, "%s", mf_error_message());
}

static void unmake(made *x)
{
    mf_model_free(x->model);
    mf_config_free(x->config);
}

#define ASSERT_SAYS(words)                                                                     \
    ck_assert_msg(strstr(mf_error_message(), words) != NULL, "expected \"%s\" in \"%s\"",      \
                  words, mf_error_message())

static const struct {
    const char *text, *words;
} models[] = {
    {"latent = 6\nrope_dims = 2\n" GATES,
     "adapters that switch heads off want model.latent = 0"},
    {"qk_norm = all\n" GATES, "want model.qk_norm = none or head: 'all' norms"},
    {"[router.b]\nplugin = linear\nlayers = 1-\n",
     "router.b.layers: expected all, or numbers of blocks from 0 as 2-5 or 0,3, found '1-'"},
    {"share_layers = yes\n[router.b]\nplugin = linear\nlayers = 1\n",
     "router.b: expected one router with model.share_layers = yes"},
    {"[adapter.a]\nplugin = lora\nat = ,\n", "model.ini:10: [adapter.a]: at: expected "},
    {"[adapter.a]\nplugin = lora\nat = ,\n", "names of linear layers, found nothing"},
    {"[adapter.a]\nplugin = lora\nat = a b c d e f g h i j k l m n o p q\n",
     "[adapter.a]: at: expected at most 16 names of linear layers"},
};

START_TEST(models_that_cannot_be)
{
    made x;
    ck_assert_int_eq(make(&x, models[_i].text, 0), MF_ECONFIG);
    ck_assert_ptr_null(x.model);
    ASSERT_SAYS(models[_i].words);
    mf_config_free(x.config);
}
END_TEST

/* ---- graphs ---- */

static const mf_moe_forced five[2] = {{.rows = 5}, {.rows = 5}};

static const struct {
    const char *text;
    int ranks;
    const mf_moe_forced *forced;
    int code;
    const char *words;
} graphs[] = {
    {EXPERT("many"), 2, NULL, MF_ECONFIG,
     "parallel.expert: an expert of at most 16 parameters, found more"},
    {EXPERT("chance"), 2, NULL, MF_ECONFIG,
     "parallel.expert: expected an expert without random numbers"},
    {ROUTER("softly") EXPERT("swiglu"), 2, NULL, MF_ECONFIG,
     "expected a router that gives tokens to experts, found soft routing"},
    {ROUTER("softly"), 0, five, MF_EINPUT,
     "soft routing has no assignments that could be forced"},
    {"", 0, five, MF_EINPUT, "a forced choice of 5 rows does not fit 8 tokens"},
    {ROUTER("late_first") "[moe]\ncapacity_factor = 0.5\nadmit = rank\n", 0, NULL, MF_ECONFIG,
     "moe.admit = rank: expected a router without priorities of its own, found another"},
    {ROUTER("by_list") "[moe]\ncapacity_factor = 0.5\nadmit = rank\n", 0, NULL, MF_ECONFIG,
     "moe.admit = rank: expected a router that gives experts to tokens, found another"},
    {"[adapter.a]\nplugin = early\nlayers = 1\n", 0, NULL, MF_EPLUGIN,
     "layers.1.a (plugin early): the tap at ffn of block 1 comes after block_in of block 1"},
    {EXPERT("tabled") "[adapter.a]\nplugin = lora\nat = expert.table\n", 0, NULL, MF_ECONFIG,
     "[adapter.a]: at: 'expert.table' is no linear layer, or is not used as one"},
};

START_TEST(graphs_that_cannot_be)
{
    made x;
    mf_model_graph *mg = NULL;
    const mf_model_shape shape = {
        .mode = MF_MODE_TRAIN, .batch = 1, .seq = SEQ, .forced = graphs[_i].forced};
    ck_assert_msg(make(&x, graphs[_i].text, graphs[_i].ranks) == MF_OK, "%s",
                  mf_error_message());
    ck_assert_int_eq(mf_model_graph_new(x.model, &shape, &mg), graphs[_i].code);
    ck_assert_ptr_null(mg);
    ASSERT_SAYS(graphs[_i].words);
    unmake(&x);
}
END_TEST

/* ---- caches ---- */

static const int32_t ids[SEQ] = {3, 1, 4, 1, 5, 9, 2, 6};

static void feed_fails(mf_generator *g, int code, const char *words)
{
    const float *logits;
    ck_assert_int_eq(mf_generator_feed(g, ids, SEQ, &logits), code);
    ASSERT_SAYS(words);
    mf_generator_free(g);
}

static mf_generator *generator(const made *x, bool use_cache)
{
    mf_generator *g = NULL;
    ck_assert_msg(mf_generator_new(x->model, use_cache, &g) == MF_OK, "%s", mf_error_message());
    return g;
}

START_TEST(caches_that_do_not_fit)
{
    made x, other;
    must_make(&x, ROUTER("by_list"));
    feed_fails(generator(&x, true), MF_EPLUGIN,
               "a router that says MF_ROUTER_SEQUENCE chooses experts for tokens");
    unmake(&x);

    must_make(&x, "moe_every = 0\n" GATES);
    mf_generator *g = generator(&x, true);
    const float pruned = 0;
    ck_assert_int_eq(mf_param_write(mf_head_param(x.model, 1, "active"), &pruned, 0, 4), MF_OK);
    feed_fails(g, MF_EINVAL, "the cache was made before heads were pruned");
    unmake(&x);

    must_make(&x, ROUTER("late_first"));
    must_make(&other, ROUTER("linear"));
    mf_cache *cache = NULL;
    mf_model_graph *mg = NULL;
    ck_assert_int_eq(mf_cache_new(other.model, 1, SEQ, &cache), MF_OK);
    const mf_model_shape shape = {
        .mode = MF_MODE_GENERATE, .batch = 1, .seq = 1, .cache = cache};
    ck_assert_int_eq(mf_model_graph_new(x.model, &shape, &mg), MF_EINVAL);
    ASSERT_SAYS("the cache has no room for 'layers.0.router.x'");
    unmake(&x);
    must_make(&x, EXPERT("attention") "[moe]\nforce_causal = yes\n");
    ck_assert_int_eq(mf_model_graph_new(x.model, &shape, &mg), MF_ECONFIG);
    ASSERT_SAYS("a model that looks at whole sequences decodes without a cache");
    ck_assert_ptr_null(mg);
    mf_cache_free(cache);
    unmake(&x);
    unmake(&other);
}
END_TEST

/* For each expert the latest tokens must be admitted, because the router gives
 * them priority. */
START_TEST(a_priority_comes_through_the_cache)
{
    made x;
    const float *logits;
    must_make(&x, ROUTER("late_first") "[moe]\ncapacity_factor = 0.5\n");
    for (int cached = 0; cached < 2; cached++) {
        mf_generator *g = generator(&x, cached);
        ck_assert_msg(mf_generator_feed(g, ids, SEQ, &logits) == MF_OK, "%s",
                      mf_error_message());
        const mf_model_graph *mg = mf_generator_graph(g);
        for (int l = 0; l < 2; l++) {
            const mf_routing *r = &mg->moe[l].routing;
            const int32_t *chosen = mf_tensor_host(r->chosen),
                          *admitted = mf_tensor_host(r->admitted);
            int taken[EXPERTS] = {0}, dropped = 0;
            ck_assert_int_eq(r->rows, SEQ);
            for (int t = SEQ - 1; t >= 0; t--) {
                const bool room = taken[chosen[t]]++ < 2; /* the capacity is floor(0.5 8 1
                                                           * / 2) */
                ck_assert_int_eq(admitted[t], room ? chosen[t] : -1);
                dropped += !room;
            }
            ck_assert_int_ge(dropped, SEQ - 2 * EXPERTS);
        }
        mf_generator_free(g);
    }
    unmake(&x);
}
END_TEST

START_TEST(memory_for_a_cache_fails)
{
    made x;
    must_make(&x, ROUTER("late_first"));
    for (long n = 1;; n++) {
        mf_cache *cache = NULL;
        fault_alloc(n, FAULT_ONCE);
        const int rc = mf_cache_new(x.model, 1, SEQ, &cache);
        const bool hit = fault_hit();
        if (rc != MF_OK) ck_assert_int_eq(fault_alloc_live(), 0);
        fault_off();
        ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
        mf_cache_free(cache);
        if (hit) continue;
        ck_assert_int_gt(n, 5);
        break;
    }
    unmake(&x);
}
END_TEST

/* ---- blocks that share weights ---- */

/* Block 0 is dense. Blocks 1 and 2 share the experts of block 1, and all blocks share the
 * attention of block 0. */
START_TEST(blocks_share_with_the_first_of_their_kind)
{
    static const char *const there[] = {"layers.0.ffn.w1", "layers.1.expert.w13",
                                        "layers.1.router.weight",
                                        "layers.0.attention.qkv.weight"};
    static const char *const gone[] = {"layers.2.expert.w13", "layers.2.router.weight",
                                       "layers.1.attention.qkv.weight", "layers.0.expert.w13"};
    made x;
    blocks = 3;
    must_make(&x, "share_layers = yes\ndense_layers = 0\n");
    blocks = 2;
    for (int i = 0; i < 4; i++) {
        ck_assert_msg(mf_store_find(x.model->store, there[i]) != NULL, "no %s", there[i]);
        ck_assert_msg(mf_store_find(x.model->store, gone[i]) == NULL, "%s", gone[i]);
    }
    unmake(&x);
}
END_TEST

/* The weights of these gates begin with N(0, init_std), or are uniform within 1 / sqrt(dim). */
START_TEST(gates_of_shared_experts_begin_as_the_model)
{
    static const char *const starts[] = {"init = uniform\n", "init = normal\ninit_std = 3\n"};
    for (int normal = 0; normal < 2; normal++) {
        made x;
        char text[128];
        double square = 0, most = 0;
        snprintf(text, sizeof text, "%s[moe]\nshared_experts = 4\nshared_gate = yes\n",
                 starts[normal]);
        must_make(&x, text);
        const mf_param *w = mf_store_find(x.model->store, "layers.1.shared_gate.weight");
        ck_assert_ptr_nonnull(w);
        ck_assert_int_eq(w->count, 4 * DIM);
        for (int64_t i = 0; i < w->count; i++) {
            square += pow((double)w->value[i], 2);
            most = fmax(most, fabs((double)w->value[i]));
        }
        if (normal)
            ck_assert_double_eq_tol(sqrt(square / (4 * DIM)), 3, 0.9);
        else
            ck_assert(most <= 0.25 && most > 0.2);
        unmake(&x);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("refusals");
    TCase *c = tcase_create("refusals");
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++)
        if (mf_plugin_register(&plugins[i]) != MF_OK || mf_backend_init() != MF_OK) exit(1);
    tcase_add_loop_test(c, models_that_cannot_be, 0, sizeof models / sizeof *models);
    tcase_add_loop_test(c, graphs_that_cannot_be, 0, sizeof graphs / sizeof *graphs);
    tcase_add_test(c, caches_that_do_not_fit);
    tcase_add_test(c, a_priority_comes_through_the_cache);
    tcase_add_test(c, memory_for_a_cache_fails);
    tcase_add_test(c, blocks_share_with_the_first_of_their_kind);
    tcase_add_test(c, gates_of_shared_experts_begin_as_the_model);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
