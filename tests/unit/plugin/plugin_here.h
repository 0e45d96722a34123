/* A plugin in this program, for tests of the checks of plugins, and of what plugins may do.
 * Each test sets its functions. Include this header only once in a program. */
#ifndef MF_TESTS_PLUGIN_HERE_H
#define MF_TESTS_PLUGIN_HERE_H

#define MF_HOST_SLOT mf_slot
#include <moefw/host.h>
static const mf_host *mf_slot;
#include <moefw/moefw.h>

#include <string.h>

#include "check_main.h"
#include "plugin/host.h"
#include "plugin/instance.h"
#include "plugin/load/open.h"
#include "tests/lib/expect.h"

typedef struct conf {
    double scale;
    int64_t rounds;
    const char *label;
} conf;

typedef struct self {
    int64_t inits, finis;
} self;

static int (*on_init)(mf_ctx *ctx, const mf_dims *dims);
static int (*on_route)(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out);
static int (*on_turn)(mf_ctx *ctx, const mf_step *step);
static int finis;

static int good_init(mf_ctx *ctx, const mf_dims *dims)
{
    int rc =
        mf_slot->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.02));
    return rc != MF_OK ? rc : mf_slot->buffer(ctx, "seen", mf_shape1(2), MF_ZEROS);
}

static int init(void *s, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)c;
    ((self *)s)->inits++;
    return on_init(ctx, dims);
}

static void fini(void *s)
{
    finis += (int)((self *)s)->inits;
}

static int route(void *s, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)s;
    return on_route(ctx, g, in, out);
}

static int turn(void *s, mf_ctx *ctx, const mf_step *step)
{
    (void)s;
    return on_turn(ctx, step);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, scale, "2", 0.5, 8, MF_OPT_LIVE, "multiplies the logits"),
    MF_OPTION_INT(conf, rounds, "3", 0, 9, MF_OPT_LIVE, "how often"),
    MF_OPTION_STR(conf, label, "", "a word"), MF_END_OPTIONS};
static const mf_router table = {sizeof(mf_router), 0, init, fini, route, turn};

static const mf_plugin good = {.magic = MF_MAGIC,
                               .abi = MF_ABI,
                               .size = sizeof(mf_plugin),
                               .host_size = sizeof(mf_host),
                               .option_size = sizeof(mf_option),
                               .vtable_size = sizeof(mf_router),
                               .kind = MF_ROUTER,
                               .name = "mine",
                               .version = "1",
                               .license = "MIT",
                               .brief = "a test",
                               .options = options,
                               .conf_size = sizeof(conf),
                               .self_size = sizeof(self),
                               .vtable = &table,
                               .host = &mf_slot};

static mf_arena *arena;
static mf_loaded loaded;

static int judge(const mf_plugin *d)
{
    return mf_judge(d, sizeof *d, MF_ROUTER, NULL, NULL, arena, &loaded);
}

static mf_store *store;
static mf_plughost *host;
static mf_ini *ini;
static mf_graph *graph;
static const mf_dims dims = {
    .size = sizeof dims, .n_layers = 2, .dim = 6, .experts = 4, .top_k = 2};
static void setup(void)
{
    arena = mf_arena_new();
    store = mf_store_new();
    host = mf_plughost_new(store);
    ini = mf_ini_new();
    graph = mf_graph_new(&(mf_graph_options){.training = true});
    ck_assert(arena && store && host && ini && graph);
    on_init = good_init, on_route = NULL, on_turn = NULL;
    finis = 0;
    mf_slot = mf_plugin_host();
    loaded = (mf_loaded){0};
    ck_assert_int_eq(judge(&good), MF_OK);
    loaded.path = "here";
}

static void teardown(void)
{
    mf_graph_free(graph);
    mf_plughost_free(host);
    mf_store_free(store);
    mf_ini_free(ini);
    mf_arena_free(arena);
}

static int make(const char *path, mf_ctx **ret)
{
    static const char *const reserved[] = {"plugin", NULL};
    return mf_instance_new(host, &loaded, path, ini, "router", reserved, "router", &dims, ret);
}

static mf_tensor *x_in;

static int run_route(mf_ctx *ctx, mf_routing *out)
{
    mf_tensor *x = x_in = mf_graph_input(graph, "x", MF_F32, mf_shape2(3, 6));
    const mf_router_in in = {
        .size = sizeof in, .batch = 1, .seq = 3, .experts = 4, .top_k = 2, .x = x};
    *out = (mf_routing){
        .size = sizeof *out, .experts = 4, .top_k = 2, .tokens = 3, .own_top_k = 1};
    return mf_instance_route(ctx, graph, &in, out);
}

#endif
