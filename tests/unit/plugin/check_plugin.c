/* plugin: how plugins are found, checked and instantiated, and checked while they run. The
 * plugins are descriptors in this program; tests/cli/plugins/refuse.bats tests files. */
#include "tests/unit/plugin/plugin_here.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../lib/scratch.h"
#include "base/file/io.h"

static int good_route(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    mf_tensor *logits = mf_linear(g, in->x, mf_slot->use(ctx, g, "weight"), NULL);
    out->logits = mf_mul(g, logits, mf_slot->live(ctx, g, "scale"));
    return mf_slot->status(g);
}

static void begin(void)
{
    setup();
    on_route = good_route;
}

/* ---- checks of descriptors ---- */

static mf_plugin spoil(int i, const char **ret_part)
{
    static const mf_router no_route = {sizeof(mf_router), 0, init, NULL, NULL, NULL};
    static const mf_router other_size = {8, 0, init, NULL, route, NULL};
    mf_plugin d = good;
    switch (i) {
    case 0:
        d.magic = 1, *ret_part = "wrong magic: expected 0x6d6f6566, found 0x00000001";
        break;
    case 1:
        d.abi = 0, *ret_part = "older plugin ABI: expected 1, found 0";
        break;
    case 2:
        d.abi = 3, *ret_part = "newer plugin ABI: expected 1, found 3";
        break;
    case 3:
        d.size = 8, *ret_part = "too short: expected at least";
        break;
    case 4:
        d.size = 1u << 30, *ret_part = "found 1073741824";
        break;
    case 5:
        d.host_size = 16, *ret_part = "host_size";
        break;
    case 6:
        d.option_size = 8, *ret_part = "option_size";
        break;
    case 7:
        d.vtable_size = 8, *ret_part = "vtable_size";
        break;
    case 8:
        d.vtable = &other_size, *ret_part = "the function table's size";
        break;
    case 9:
        d.kind = 0, *ret_part = "kind: expected 1";
        break;
    case 10:
        d.kind = MF_EXPERT, *ret_part = "expected a router, found an expert";
        break;
    case 11:
        d.name = NULL, *ret_part = "name: expected a text, found NULL";
        break;
    case 12:
        d.name = "a-b", *ret_part = "[a-z0-9_], found 'a-b'";
        break;
    case 13:
        d.version = NULL, *ret_part = "version: expected a text";
        break;
    case 14:
        d.license = "", *ret_part = "license: expected a text";
        break;
    case 15:
        d.brief = "two\nlines", *ret_part = "brief: expected one line";
        break;
    case 16:
        d.options = NULL, *ret_part = "the option table is NULL";
        break;
    case 17:
        d.conf_size = 8, *ret_part = "outside conf";
        break;
    case 18:
        d.self_size = (size_t)-1, *ret_part = "conf_size and self_size";
        break;
    case 19:
        d.vtable = NULL, *ret_part = "the function table is NULL";
        break;
    case 20:
        d.vtable = &no_route, *ret_part = "function route: expected a function, found NULL";
        break;
    case 21:
        d.host = NULL, *ret_part = "host slot";
        break;
    }
    return d;
}

START_TEST(spoiled)
{
    const char *part = NULL;
    mf_plugin d = spoil(_i, &part);
    ck_assert_int_eq(judge(&d), MF_EPLUGIN);
    expect_message(part);
}
END_TEST

START_TEST(accepted)
{
    ck_assert_int_eq(judge(&good), MF_OK);
    ck_assert_str_eq(loaded.name, "mine");
    ck_assert_ptr_eq(loaded.table.router.after_step, turn);
    ck_assert_int_eq(loaded.schema.count, 3);
    ck_assert_int_eq(mf_judge(&good, 0, 0, "mine", "x", arena, &loaded), MF_OK);
    ck_assert_int_eq(mf_judge(&good, 0, 0, "yours", "x.ini:1", arena, &loaded), MF_EPLUGIN);
    expect_message("expected 'yours' (said by x.ini:1), found 'mine'");
    ck_assert_int_eq(mf_judge(&good, 4, 0, NULL, NULL, arena, &loaded), MF_EPLUGIN);
    expect_message("found 4");
}
END_TEST

static int any_loss(void *of, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                    int32_t n, mf_tensor **ret_loss)
{
    (void)of, (void)ctx, (void)g, (void)routing, (void)n, (void)ret_loss;
    return MF_OK;
}
static int any_loss_of(void *of, mf_ctx *ctx, mf_graph *g, const mf_regularizer_in *in,
                       mf_tensor **ret_loss)
{
    (void)of, (void)ctx, (void)g, (void)in, (void)ret_loss;
    return MF_OK;
}

/* A regularizer has loss or loss_of. */
START_TEST(one_of_two_functions)
{
    mf_regularizer t = {.size = sizeof t, .init = init};
    mf_plugin d = good;
    d.kind = MF_REGULARIZER, d.vtable = &t, d.vtable_size = sizeof t;
    ck_assert_int_eq(mf_judge(&d, 0, MF_REGULARIZER, NULL, NULL, arena, &loaded), MF_EPLUGIN);
    expect_message("function loss: expected a function, found NULL");
    t.loss = any_loss;
    ck_assert_int_eq(mf_judge(&d, 0, MF_REGULARIZER, NULL, NULL, arena, &loaded), MF_OK);
    t.loss = NULL, t.loss_of = any_loss_of;
    ck_assert_int_eq(mf_judge(&d, 0, MF_REGULARIZER, NULL, NULL, arena, &loaded), MF_OK);
}
END_TEST

/* A descriptor from a newer moefw, with and without use of new fields. */
START_TEST(newer)
{
    struct {
        mf_plugin known;
        uint64_t more[2];
    } d = {good, {0, 0}};
    struct {
        mf_router known;
        void (*more)(void);
    } t = {table, NULL};
    d.known.size = sizeof d;
    d.known.host_size += 8;
    t.known.size = d.known.vtable_size = sizeof t;
    d.known.vtable = &t;
    ck_assert_int_eq(mf_judge(&d.known, sizeof d, 0, NULL, NULL, arena, &loaded), MF_OK);
    t.more = (void (*)(void))good_route;
    ck_assert_int_eq(mf_judge(&d.known, sizeof d, 0, NULL, NULL, arena, &loaded), MF_EPLUGIN);
    expect_message("the function table uses a field");
    t.more = NULL;
    d.more[1] = 1;
    ck_assert_int_eq(mf_judge(&d.known, sizeof d, 0, NULL, NULL, arena, &loaded), MF_EPLUGIN);
    expect_message("get a newer moefw");
    ck_assert_int_eq(mf_judge(&d.known, sizeof good, 0, NULL, NULL, arena, &loaded),
                     MF_EPLUGIN);
    expect_message("expected at most the");
}
END_TEST

/* ---- finding ---- */

static mf_found found;

static int find(const char *what, mf_kind kind)
{
    return mf_find(arena, what, kind, "a.ini", 7, &found);
}

static void write_text(const char *name, const char *text)
{
    const char *path = scratch_path(name);
    char *slash = strrchr(path, '/'), *folder = strndup(path, (size_t)(slash - path));
    ck_assert_int_eq(mf_mkdirs(folder), MF_OK);
    free(folder);
    scratch_write(path, text, strlen(text));
}

/* Two plugin folders and two drop-ins, for a test that may have a process of its own. */
static void lay_out(void)
{
    write_text("one/routers/alpha.so", "x");
    write_text("one/experts/alpha.so", "x");
    write_text("one/experts/omega.so", "x");
    write_text("one/routers/not_a_plugin.txt", "x");
    write_text("two/routers/alpha.so", "x");
    write_text("two/routers/beta.so", "x");
    write_text("config/moefw/plugins.d/a.ini",
               "[plugin gamma]\nkind = router\nfile = ./gamma.so\n"
               "[plugin beta]\nkind = router\nfile = routers/alpha.so\n");
    write_text("config/moefw/plugins.d/gamma.so", "x");
    write_text("config/moefw/plugins.d/b.ini",
               "[plugin gone]\nkind = router\nfile = no/such.so\n"
               "[plugin odd]\nkind = rooter\nfile = x.so\n"
               "[plugin key]\nkind = router\nfile = x.so\nweight = 1\n");
    char path[600];
    snprintf(path, sizeof path, "relative:%s::%s", scratch_path("one"), scratch_path("two"));
    setenv("MOEFW_PLUGIN_PATH", path, 1);
    setenv("XDG_CONFIG_HOME", scratch_path("config"), 1);
    setenv("XDG_DATA_HOME", scratch_path("data"), 1);
}

START_TEST(names)
{
    lay_out();
    ck_assert_int_eq(find("alpha", MF_ROUTER), MF_OK);
    ck_assert_str_eq(found.path, scratch_path("one/routers/alpha.so"));
    ck_assert(!found.own);
    ck_assert_int_eq(find("omega", 0), MF_OK);
    ck_assert_int_eq(found.kind, MF_EXPERT);
    ck_assert_str_eq(found.name, "omega");
    ck_assert_int_eq(find("alpha", 0), MF_ECONFIG);
    expect_message("is a router and an expert");
    ck_assert_int_eq(find("omega", MF_ROUTER), MF_ECONFIG);
    expect_message("a.ini:7: plugin 'omega': expected a router, found an expert");

    /* Drop-ins are searched before folders. ./FILE is in the folder of the drop-in, other files
     * are in a plugin folder. */
    ck_assert_int_eq(find("gamma", MF_ROUTER), MF_OK);
    ck_assert_ptr_nonnull(strstr(found.path, "plugins.d/./gamma.so"));
    ck_assert_int_eq(find("beta", MF_ROUTER), MF_OK);
    ck_assert_str_eq(found.path, scratch_path("one/routers/alpha.so"));
    ck_assert_str_eq(found.name, "beta");
    ck_assert_int_eq(find("gone", MF_ROUTER), MF_ECONFIG);
    expect_message("b.ini:3: file 'no/such.so' of plugin gone is not there");
    ck_assert_int_eq(find("odd", MF_ROUTER), MF_ECONFIG);
    expect_message("expected router, expert, regularizer, controller or adapter, found "
                   "'rooter'");
    ck_assert_int_eq(find("key", MF_ROUTER), MF_ECONFIG);
    expect_message("unknown key 'weight'");

    ck_assert_int_eq(find("alpah", MF_ROUTER), MF_ENOTFOUND);
    expect_message("a.ini:7: unknown router plugin 'alpah'; did you mean 'alpha'?");
    ck_assert_int_eq(find("not_a_plugin", MF_ROUTER), MF_ENOTFOUND);
}
END_TEST

START_TEST(files)
{
    char here[600];
    lay_out();
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    ck_assert_int_eq(find("routers/beta.so", 0), MF_OK); /* below a plugin folder */
    ck_assert_str_eq(found.path, scratch_path("two/routers/beta.so"));
    ck_assert_ptr_null(found.name);
    write_text("two/routers/ab/deep.so", "x"); /* only the part ".." leads out of it */
    ck_assert_int_eq(find("routers/ab/deep.so", 0), MF_OK);
    ck_assert_str_eq(found.path, scratch_path("two/routers/ab/deep.so"));
    ck_assert_int_eq(find("beta.so", 0), MF_OK);
    ck_assert_int_eq(find("omega.so", MF_ROUTER), MF_ENOTFOUND);
    ck_assert_int_eq(find("routers/betta.so", 0), MF_ENOTFOUND);
    expect_message("did you mean 'beta'?");
    /* Plugin folders come before the path as given. A file without '/' is searched only in
     * plugin folders. */
    ck_assert_int_eq(chdir(scratch_path("config")), 0);
    write_text("config/routers/beta.so", "x");
    write_text("config/own.so", "x");
    ck_assert_int_eq(find("routers/beta.so", 0), MF_OK);
    ck_assert_str_eq(found.path, scratch_path("two/routers/beta.so"));
    ck_assert(find("./routers/beta.so", 0) == MF_OK && found.as_given);
    ck_assert_int_eq(find("own.so", 0), MF_ENOTFOUND);
    expect_message("./own.so");
    ck_assert_int_eq(find("./own.so", 0), MF_OK);
    ck_assert_int_eq(chdir(here), 0);
}
END_TEST

START_TEST(loading_what_is_no_plugin)
{
    const mf_loaded *p;
    lay_out();
    ck_assert_int_eq(mf_plugin_load(MF_ROUTER, "alpha", "a.ini", 7, &p), MF_EPLUGIN);
    expect_message("a.ini:7: plugin '");
    expect_message(
        "not an ELF shared object: expected the bytes 7f 45 4c 46 at its start, found 78");
    ck_assert_int_eq(mf_plugin_load(MF_ROUTER, "/dev/null", NULL, 0, &p), MF_EPLUGIN);
    expect_message("expected a regular file");
}
END_TEST

/* ---- instances ---- */

static const mf_step at_step = {.size = sizeof at_step, .step = 5};

START_TEST(life)
{
    mf_ctx *a, *b;
    mf_routing r;
    const char *text = "[router]\nplugin = mine\nscale = 4\n";
    ck_assert_int_eq(mf_ini_load_text(ini, "c.ini", text, strlen(text)), MF_OK);
    ck_assert_int_eq(make("layers.0.router", &a), MF_OK);
    ck_assert_int_eq(make("layers.1.router", &b), MF_OK);
    ck_assert_double_eq(((const conf *)mf_instance_conf(a))->scale, 4);
    ck_assert_int_eq(((const conf *)mf_instance_conf(a))->rounds, 3);
    ck_assert_int_eq(mf_store_count(store), 4);
    ck_assert_ptr_nonnull(mf_store_find(store, "layers.1.router.weight"));
    ck_assert(mf_store_find(store, "layers.0.router.seen")->buffer);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    ck_assert_int_eq(run_route(a, &r), MF_OK);
    ck_assert(mf_shape_equal(r.logits->shape, mf_shape2(3, 4)));
    mf_instance_free(a);
    mf_instance_free(b);
    ck_assert_int_eq(finis, 2);
}
END_TEST

START_TEST(bad_option)
{
    mf_ctx *a;
    const char *text = "[router]\nplugin = mine\nscael = 4\n";
    ck_assert_int_eq(mf_ini_load_text(ini, "c.ini", text, strlen(text)), MF_OK);
    ck_assert_int_eq(make("layers.0.router", &a), MF_ECONFIG);
    expect_message(
        "c.ini:3: unknown key 'scael' in [router] (plugin mine); did you mean 'scale'?");
    ck_assert_int_eq(finis, 0); /* init was never called */
}
END_TEST

/* Returns an error without a message. */
static int fails_silently(mf_ctx *ctx, const mf_dims *d)
{
    return ctx && d ? MF_ECONFIG : MF_OK;
}
static int fails_aloud(mf_ctx *ctx, const mf_dims *d)
{
    return mf_slot->fail(ctx, MF_ECONFIG, "%d experts are too many", (int)d->experts);
}
static int returns_nonsense(mf_ctx *ctx, const mf_dims *d)
{
    return ctx && d ? 77 : MF_OK;
}
static int looks_at_data(mf_ctx *ctx, const mf_dims *d)
{
    mf_slot->data(ctx, "weight", NULL);
    return d->experts > 0 ? MF_OK : MF_ERUN; /* ignores the failure */
}
static int uses_too_early(mf_ctx *ctx, const mf_dims *d)
{
    mf_slot->use(ctx, NULL, "weight");
    return d->experts > 0 ? MF_OK : MF_ERUN;
}
static int declares_nonsense(mf_ctx *ctx, const mf_dims *d)
{
    return mf_slot->param(ctx, "no/slash", mf_shape1(d->experts), MF_ZEROS);
}
static int declares_nothing(mf_ctx *ctx, const mf_dims *d)
{
    return mf_slot->param(ctx, "w", mf_shape2(d->experts, 0), MF_ZEROS);
}

static const struct {
    int (*init)(mf_ctx *, const mf_dims *);
    int code;
    const char *part;
} inits[] = {
    {fails_silently, MF_ECONFIG, "init failed (MF_ECONFIG) and gave no reason"},
    {fails_aloud, MF_ECONFIG, "layers.0.router (plugin mine): 4 experts are too many"},
    {returns_nonsense, MF_EPLUGIN, "init returned 77"},
    {looks_at_data, MF_EPLUGIN, "data: expected to be called between steps"},
    {uses_too_early, MF_EPLUGIN, "use: expected to be called while a graph is built"},
    {declares_nonsense, MF_EPLUGIN, "found 'no/slash'"},
    {declares_nothing, MF_EPLUGIN, "expected dimensions of at least 1, found 0"},
};

START_TEST(bad_init)
{
    mf_ctx *a;
    on_init = inits[_i].init;
    ck_assert_int_eq(make("layers.0.router", &a), inits[_i].code);
    expect_message(inits[_i].part);
    ck_assert_int_eq(finis, 0);
}
END_TEST

/* Invalid results of route. */
static int routes_nothing(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)ctx;
    (void)in;
    (void)out;
    return mf_slot->status(g);
}
static int routes_wrong_shape(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)ctx;
    out->logits = in->x; /* its shape is [3,6] instead of [3,4] */
    return mf_slot->status(g);
}
static int routes_unknown_param(mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                                mf_routing *out)
{
    out->logits = mf_linear(g, in->x, mf_slot->use(ctx, g, "wieght"), NULL);
    return MF_OK; /* returns without checking the status */
}
static int routes_late_param(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    mf_slot->param(ctx, "late", mf_shape1(4), MF_ZEROS);
    return good_route(ctx, g, in, out);
}
static int routes_dead_option(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)in;
    out->logits = mf_slot->live(ctx, g, "scal");
    return mf_slot->status(g);
}
static int routes_bad_op(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    out->logits = mf_linear(g, in->x, mf_slot->use(ctx, g, "seen"), NULL);
    return mf_slot->status(g);
}
static int routes_gates_only(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    out->gate = in->x;
    return good_route(ctx, g, in, out);
}
static int routes_too_many_losses(mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                                  mf_routing *out)
{
    out->n_losses = 5;
    return good_route(ctx, g, in, out);
}
static int turns_while_building(mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                                mf_routing *out)
{
    mf_slot->set_live(ctx, "router.scale", 1, "now");
    return good_route(ctx, g, in, out);
}

static const struct {
    int (*route)(mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
    const char *part;
} routes[] = {
    {routes_nothing, "set none of logits, prob and expert"},
    {routes_wrong_shape, "logits: expected f32 [3,4], found f32 [3,6]"},
    {routes_unknown_param, "'wieght' of this instance; did you mean 'weight'?"},
    {routes_late_param, "param: expected to be called while the instance is set up"},
    {routes_dead_option, "no option 'scal'; did you mean 'scale'?"},
    {routes_bad_op, "linear"},
    {routes_gates_only, "gate and token: expected only together with expert"},
    {routes_too_many_losses, "n_losses: expected 0 to 4, found 5"},
    {turns_while_building, "set_live: expected to be called between steps"},
};

START_TEST(bad_route)
{
    mf_ctx *a;
    mf_routing r;
    ck_assert_int_eq(make("layers.0.router", &a), MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    on_route = routes[_i].route;
    ck_assert_int_ne(run_route(a, &r), MF_OK);
    expect_message(routes[_i].part);
    expect_message("router");
    ck_assert_int_ne(mf_graph_status(graph), MF_OK);
    mf_instance_free(a);
}
END_TEST

/* ---- between steps ---- */

static int turn_all(mf_ctx *ctx, const mf_step *step)
{
    int64_t n;
    double v;
    (void)step;
    ck_assert_ptr_nonnull(mf_slot->data(ctx, "weight", &n));
    ck_assert_int_eq(n, 24);
    ck_assert_ptr_nonnull(mf_slot->data(ctx, "/layers.1.router.seen", &n));
    ck_assert_ptr_null(mf_slot->data(ctx, "nothing", &n));
    ck_assert_int_eq(n, 0);
    ck_assert_str_eq(mf_slot->find(ctx, "*.weight", 1), "/layers.1.router.weight");
    ck_assert_ptr_nonnull(mf_slot->data(ctx, mf_slot->find(ctx, "/*.weight", 0), &n));
    ck_assert_ptr_null(mf_slot->find(ctx, "*.weight", 2));
    ck_assert_int_eq(mf_slot->get_live(ctx, "router.scale", &v), MF_OK);
    ck_assert_double_eq(v, 2);
    ck_assert_int_eq(mf_slot->set_live(ctx, "router.scale", 3, "why not"), MF_OK);
    ck_assert_int_eq(mf_slot->set_live(ctx, "router.scale", 3, "again"), MF_OK);
    ck_assert_int_eq(mf_slot->set_live(ctx, "layers.1.router.rounds", 5, NULL), MF_OK);
    ck_assert_int_eq(mf_slot->set_live(ctx, "router.scale", 9, "too much"), MF_ECONFIG);
    expect_message("from 0.5 to 8, found 9");
    ck_assert_int_eq(mf_slot->set_live(ctx, "router.rounds", 1.5, "half"), MF_ECONFIG);
    ck_assert_int_eq(mf_slot->set_live(ctx, "router.scalle", 1, "typo"), MF_ENOTFOUND);
    expect_message("did you mean 'router.scale'?");
    ck_assert_int_eq(mf_slot->set_live(ctx, "train.lr", 0.25, "slower"), MF_OK);
    ck_assert_int_eq(mf_slot->freeze(ctx, "/layers.*.weight", true, "done"), MF_OK);
    ck_assert_int_eq(mf_slot->freeze(ctx, "nothing.*", true, "done"), MF_ENOTFOUND);
    ck_assert_int_eq(mf_slot->history(ctx, "loss", 3, &v), 0);
    ck_assert_ptr_null(mf_slot->extension("moefw.draft.none/1"));
    return MF_OK;
}

START_TEST(live_options)
{
    mf_ctx *a, *b;
    const mf_change *turns;
    double lr = 1;
    ck_assert_int_eq(make("layers.0.router", &a), MF_OK);
    ck_assert_int_eq(make("layers.1.router", &b), MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    ck_assert_int_eq(mf_live_register_real(host, "train.lr", &lr, 0, 10), MF_OK);
    ck_assert_int_eq(mf_live_count(host), 7); /* 2 shared options, 2 of each layer, and lr */
    mf_plughost_set_step(host, 5);
    on_turn = turn_all;
    ck_assert_int_eq(mf_instance_after_step(a, &at_step), MF_OK);
    ck_assert_double_eq(((const conf *)mf_instance_conf(b))->scale, 3);
    ck_assert_int_eq(((const conf *)mf_instance_conf(a))->rounds, 3);
    ck_assert_int_eq(((const conf *)mf_instance_conf(b))->rounds, 5);
    ck_assert_double_eq(lr, 0.25);
    ck_assert_int_eq(mf_changes(host, &turns), 3);
    ck_assert_str_eq(turns[0].option, "router.scale");
    ck_assert_str_eq(turns[0].by, "layers.0.router");
    ck_assert_str_eq(turns[0].reason, "why not");
    ck_assert_double_eq(turns[0].from, 2);
    ck_assert_double_eq(turns[0].to, 3);
    ck_assert_int_eq(turns[0].step, 5);
    ck_assert_str_eq(turns[2].option, "train.lr");
    mf_changes_clear(host);
    ck_assert_int_eq(mf_changes(host, &turns), 0);
    ck_assert(mf_store_find(store, "layers.1.router.weight")->frozen);
    ck_assert_str_eq(mf_plughost_rebuild(host), "layers.0.router: done");
    ck_assert_ptr_null(mf_plughost_rebuild(host));
    mf_instance_free(a);
    mf_instance_free(b);
}
END_TEST

/* The graph uses the new value without being rebuilt. */
START_TEST(live_in_graph)
{
    mf_ctx *a;
    mf_routing r;
    ck_assert_int_eq(make("layers.0.router", &a), MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    ck_assert_int_eq(run_route(a, &r), MF_OK);
    mf_graph_keep(r.logits);
    ck_assert_int_eq(mf_graph_finish(graph), MF_OK);
    float *x = mf_tensor_data(x_in), before[12];
    for (int i = 0; i < 18; i++)
        x[i] = (float)(i - 7);
    mf_run run = {.seed = 1, .forward_only = true};
    ck_assert_int_eq(mf_graph_run(graph, &run), MF_OK);
    memcpy(before, mf_tensor_data(r.logits), sizeof before);
    ck_assert_int_eq(mf_live_set(host, "router.scale", 4, "test", "twice"), MF_OK);
    ck_assert_int_eq(mf_graph_run(graph, &run), MF_OK);
    const float *after = mf_tensor_data(r.logits);
    for (int i = 0; i < 12; i++) {
        ck_assert_float_ne(before[i], 0);
        ck_assert_float_eq(after[i], 2 * before[i]);
    }
    mf_instance_free(a);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("plugin");
    TCase *t = tcase_create("judge");
    tcase_add_checked_fixture(t, begin, teardown);
    tcase_add_loop_test(t, spoiled, 0, 22);
    tcase_add_test(t, accepted);
    tcase_add_test(t, one_of_two_functions);
    tcase_add_test(t, newer);
    suite_add_tcase(s, t);
    t = tcase_create("find");
    tcase_add_checked_fixture(t, begin, teardown);
    tcase_add_test(t, names);
    tcase_add_test(t, files);
    tcase_add_test(t, loading_what_is_no_plugin);
    suite_add_tcase(s, t);
    t = tcase_create("instance");
    tcase_add_checked_fixture(t, begin, teardown);
    tcase_add_test(t, life);
    tcase_add_test(t, bad_option);
    tcase_add_loop_test(t, bad_init, 0, sizeof inits / sizeof *inits);
    tcase_add_loop_test(t, bad_route, 0, sizeof routes / sizeof *routes);
    tcase_add_test(t, live_options);
    tcase_add_test(t, live_in_graph);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
