/* host: what a plugin may request from the program and return to it, and the messages after a
 * violation. The plugin is a descriptor in this program. */
#include "tests/unit/plugin/plugin_here.h"

#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "plugin/crash.h"
#include "plugin/guard.h"
#include "tests/lib/child.h"

static mf_graph *other;

static void begin(void)
{
    setup();
    other = mf_graph_new(&(mf_graph_options){.training = true});
    ck_assert_ptr_nonnull(other);
}

static void end(void)
{
    mf_graph_free(other);
    teardown();
}

static mf_tensor *logits_of(mf_ctx *ctx, mf_graph *g, const mf_router_in *in)
{
    return mf_linear(g, in->x, mf_slot->use(ctx, g, "weight"), NULL);
}

/* ---- parameters ---- */

#define INIT(name) static int name(mf_ctx *ctx, const mf_dims *d)

static const struct {
    const char *name;
    mf_shape shape;
    mf_init init;
    const char *part;
} params[] = {
    {NULL, {.rank = 1, .dim = {4}}, {0}, "found 'NULL'"},
    {"", {.rank = 1, .dim = {4}}, {0}, "1 to 64 letters, digits, '_' and '.', found ''"},
    {".w", {.rank = 1, .dim = {4}}, {0}, "found '.w'"},
    {"w.", {.rank = 1, .dim = {4}}, {0}, "found 'w.'"},
    {"w", {.rank = -1}, {0}, "param 'w': expected a rank from 0 to 4, found -1"},
    {"w", {.rank = 7}, {0}, "param 'w': expected a rank from 0 to 4, found 7"},
    {"w", {.rank = 1, .reserved = 3, .dim = {4}}, {0}, "reserved of its shape: expected 0"},
    {"w", {.rank = 1, .dim = {(int64_t)1 << 31}}, {0}, "found 2147483648 as number 0"},
    {"w", {.rank = 1, .dim = {4}}, {.flags = 1u << 30}, "found 0x40000000"},
    {"w", {.rank = 1, .dim = {4}}, {.kind = MF_INIT_EYE + 1}, "param 'w': unknown start kind"},
    {"w", {.rank = 0}, {.flags = MF_PARAM_BY_HEAD}, "for parameters of a layer"},
    {"w", {.rank = 1, .dim = {4}}, {.flags = MF_PARAM_HALVES}, "for matrices with an even"},
    {"w", {.rank = 2, .dim = {3, 4}}, {.flags = MF_PARAM_HALVES}, "an even number of rows"},
};

static int now;

INIT(declare_wrong)
{
    (void)d;
    return mf_slot->param(ctx, params[now].name, params[now].shape, params[now].init);
}

START_TEST(wrong_params)
{
    mf_ctx *a;
    on_init = declare_wrong;
    now = _i;
    ck_assert_int_eq(make("router", &a), MF_EPLUGIN);
    expect_message(params[_i].part);
    ck_assert_int_eq(mf_store_count(store), 0);
}
END_TEST

INIT(declare_long)
{
    (void)d;
    return mf_slot->param(ctx, "a_name_of_thirty_two_characters_", mf_shape1(4), MF_ZEROS);
}

START_TEST(a_name_that_is_too_long_with_its_path)
{
    mf_ctx *a;
    char path[240];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    on_init = declare_long;
    ck_assert_int_eq(make(path, &a), MF_EPLUGIN);
    expect_message("its full name is too long");
}
END_TEST

/* ---- what adapters declare ---- */

INIT(wants_unknown)
{
    (void)d;
    return mf_slot->want(ctx, 1u << 20);
}
INIT(taps_nowhere)
{
    (void)d;
    return mf_slot->tap(ctx, -1, MF_AT_FFN);
}
INIT(taps_too_often)
{
    (void)d;
    for (int i = 0; i < MF_ADAPTER_TAPS; i++)
        ck_assert_int_eq(mf_slot->tap(ctx, 0, MF_AT_FFN), MF_OK);
    return mf_slot->tap(ctx, 0, MF_AT_FFN);
}
INIT(gates_nothing)
{
    (void)d;
    return mf_slot->head_gates(ctx, "nothing", MF_GATE_RAW);
}
INIT(gates_a_matrix)
{
    good_init(ctx, d);
    return mf_slot->head_gates(ctx, "weight", MF_GATE_RAW);
}
INIT(gates_in_no_form)
{
    (void)d;
    mf_slot->param(ctx, "gate", mf_shape1(4), MF_ZEROS);
    return mf_slot->head_gates(ctx, "gate", 9);
}

static const struct {
    int (*init)(mf_ctx *, const mf_dims *);
    const char *part;
} notes[] = {
    {wants_unknown, "want: expected bits MF_ADAPTER_*, found 0x100000"},
    {taps_nowhere, "point 5 of block -1"},
    {taps_too_often, "tap: expected at most 4 of them"},
    {gates_nothing, "expected a parameter [heads] of this instance, found 'nothing'"},
    {gates_a_matrix, "expected a parameter [heads] of this instance, found 'weight'"},
    {gates_in_no_form, "expected MF_GATE_SIGMOID or MF_GATE_RAW, found 9"},
};

START_TEST(wrong_notes)
{
    mf_ctx *a;
    on_init = notes[_i].init;
    ck_assert_int_eq(make("router", &a), MF_EPLUGIN);
    expect_message(notes[_i].part);
}
END_TEST

/* ---- the program's state ---- */

static sigset_t signals(int how)
{
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    ck_assert_int_eq(pthread_sigmask(how, &set, &before), 0);
    return before;
}
INIT(blocks_a_signal)
{
    signals(SIG_BLOCK);
    return good_init(ctx, d);
}
INIT(unblocks_a_signal)
{
    signals(SIG_UNBLOCK);
    return good_init(ctx, d);
}

START_TEST(a_signal_mask_that_init_changes)
{
    mf_ctx *a;
    char expected[96];
    const sigset_t before = signals(_i ? SIG_BLOCK : SIG_UNBLOCK);
    on_init = _i ? unblocks_a_signal : blocks_a_signal;
    ck_assert_int_eq(make("router", &a), MF_EPLUGIN);
    snprintf(expected, sizeof expected,
             "router (plugin mine): %sblocks signal %d of the program in init", _i ? "un" : "",
             SIGUSR1);
    expect_message(expected);
    sigset_t after;
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
    ck_assert_int_eq(sigismember(&after, SIGUSR1), _i); /* the same as before init */
}
END_TEST

INIT(rounds_upward)
{
    ck_assert_int_eq(fesetround(FE_UPWARD), 0);
    return good_init(ctx, d);
}

START_TEST(a_rounding_mode_that_init_changes)
{
    mf_ctx *a;
    on_init = rounds_upward;
    const int rc = make("router", &a), mode = fegetround();
    fesetround(FE_TONEAREST);
    ck_assert_int_eq(rc, MF_EPLUGIN);
    ck_assert_int_eq(mode, FE_TONEAREST);
    expect_message("router (plugin mine): changes the rounding mode for the whole process in a "
                   "call: expected floating-point control 0x");
}
END_TEST

/* If no descriptor is free, the current folder is identified only by its inode. */
START_TEST(a_folder_that_is_out_of_reach)
{
    mf_guard g;
    struct rlimit before, none;
    const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(here, 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    mf_guard_save(&g);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(mf_guard_restore(&g, "in init"), MF_OK);
    ck_assert_int_eq(chdir("/"), 0);
    const int rc = mf_guard_check(&g, "in init");
    ck_assert_int_eq(fchdir(here), 0);
    close(here);
    ck_assert_int_eq(rc, MF_EPLUGIN);
    expect_message("changes the working directory of the program in init, and the old one is "
                   "out of reach");
}
END_TEST

/* ---- options that core sets ---- */

START_TEST(an_option_that_the_plugin_lacks)
{
    mf_ctx *a;
    const mf_option_value set = {"units", "3", "moe.shared_experts"};
    ck_assert_int_eq(mf_instance_new_with(host, &loaded, "router", ini, "router", NULL,
                                          "router", &set, &dims, &a),
                     MF_ECONFIG);
    expect_message("moe.shared_experts wants a plugin with the option 'units', which mine "
                   "lacks");
    ck_assert_int_eq(finis, 0); /* init was never called */
}
END_TEST

/* ---- graphs ---- */

#define ROUTE(name)                                                                            \
    static int name(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)

ROUTE(another_graph)
{
    out->logits = logits_of(ctx, g, in);
    mf_slot->use(ctx, other, "weight");
    return MF_OK;
}
ROUTE(value_of_another_graph)
{
    (void)ctx, (void)g, (void)in;
    out->logits = mf_graph_input(other, "y", MF_F32, mf_shape2(3, 4));
    return MF_OK;
}
ROUTE(live_word)
{
    out->logits = logits_of(ctx, g, in);
    mf_slot->live(ctx, g, "label");
    return MF_OK;
}
ROUTE(live_without_name)
{
    out->logits = logits_of(ctx, g, in);
    mf_slot->live(ctx, g, NULL);
    return MF_OK;
}
ROUTE(metric_without_name)
{
    out->logits = logits_of(ctx, g, in);
    mf_slot->metric(ctx, g, "two words", out->logits);
    return MF_OK;
}
ROUTE(use_without_name)
{
    out->logits = logits_of(ctx, g, in);
    mf_slot->use(ctx, g, NULL);
    return MF_OK;
}
ROUTE(reserved)
{
    out->logits = logits_of(ctx, g, in);
    out->reserved = 5;
    return MF_OK;
}
ROUTE(loss_without_name)
{
    out->logits = logits_of(ctx, g, in);
    out->n_losses = 1;
    return MF_OK;
}
ROUTE(loss_without_value)
{
    out->logits = logits_of(ctx, g, in);
    out->n_losses = 1;
    out->loss_name[0] = "mine";
    return MF_OK;
}
ROUTE(loss_that_is_a_matrix)
{
    out->loss[0] = out->logits = logits_of(ctx, g, in);
    out->n_losses = 1;
    out->loss_name[0] = "mine";
    return MF_OK;
}
ROUTE(loss_of_another_graph)
{
    out->logits = logits_of(ctx, g, in);
    out->n_losses = 1;
    out->loss_name[0] = "mine";
    out->loss[0] = mf_graph_input(other, "y", MF_F32, mf_shape1(1));
    return MF_OK;
}
ROUTE(dispatch_alone)
{
    out->logits = out->dispatch = logits_of(ctx, g, in);
    out->slots = 1;
    return MF_OK;
}
ROUTE(more_slots_than_tokens)
{
    out->dispatch = out->combine = out->logits = logits_of(ctx, g, in);
    out->slots = 4;
    return MF_OK;
}
ROUTE(no_slots)
{
    out->dispatch = out->combine = out->logits = logits_of(ctx, g, in);
    return MF_OK;
}
ROUTE(soft_with_scores)
{
    out->dispatch = out->combine = out->score = logits_of(ctx, g, in);
    out->slots = 1;
    return MF_OK;
}
ROUTE(experts_of_floats)
{
    (void)ctx, (void)g;
    out->expert = in->x;
    return MF_OK;
}
ROUTE(listed_experts_of_floats)
{
    (void)ctx;
    out->token = mf_graph_input(g, "t", MF_I32, mf_shape1(3));
    out->expert = in->x;
    return MF_OK;
}
ROUTE(too_many_of_its_own)
{
    (void)ctx, (void)in;
    out->expert = mf_graph_input(g, "e", MF_I32, mf_shape1(3));
    out->own_top_k = 5;
    return MF_OK;
}
ROUTE(gates_of_another_length)
{
    (void)ctx, (void)in;
    out->expert = mf_graph_input(g, "e", MF_I32, mf_shape1(3));
    out->gate = mf_graph_input(g, "w", MF_F32, mf_shape1(2));
    return MF_OK;
}
ROUTE(silent_without_gates)
{
    (void)ctx, (void)in;
    out->expert = mf_graph_input(g, "e", MF_I32, mf_shape1(3));
    out->silent = mf_graph_input(g, "s", MF_F32, mf_shape1(3));
    return MF_OK;
}
ROUTE(silent_of_another_length)
{
    (void)ctx, (void)in;
    out->expert = mf_graph_input(g, "e", MF_I32, mf_shape1(3));
    out->gate = mf_graph_input(g, "w", MF_F32, mf_shape1(3));
    out->silent = mf_graph_input(g, "s", MF_F32, mf_shape1(4));
    return MF_OK;
}

/* Ops of a newer program, or of a table that was overwritten. */
typedef struct newer_op {
    mf_opdef known;
    void *unknown;
} newer_op;

static void custom(mf_graph *g, mf_tensor *x, const mf_opdef *def)
{
    mf_tensor *y = x;
    mf_slot->custom(g, def, 1, &x, NULL, 1, &y);
    ck_assert_ptr_null(y);
}
ROUTE(op_of_odd_size)
{
    static const mf_opdef odd = {.size = sizeof odd + 3, .name = "odd"};
    out->logits = logits_of(ctx, g, in);
    custom(g, in->x, &odd);
    return MF_OK;
}
ROUTE(op_of_a_newer_table)
{
    static newer_op newer = {{.size = sizeof newer, .name = "newer"}, &newer};
    out->logits = logits_of(ctx, g, in);
    custom(g, in->x, &newer.known);
    return MF_OK;
}
ROUTE(op_with_a_new_flag)
{
    static const mf_opdef flag = {.size = sizeof flag, .name = "flag", .flags = 1u << 31};
    out->logits = logits_of(ctx, g, in);
    custom(g, in->x, &flag);
    return MF_OK;
}

static const struct {
    int (*route)(mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
    const char *part;
} routes[] = {
    {another_graph, "use: expected the graph that was handed to route, found another"},
    {value_of_another_graph, "logits: expected a value of this graph, found one of another"},
    {live_word, "live: option 'label' is not marked MF_OPT_LIVE: read it from conf"},
    {live_without_name, "live: this plugin has no option"},
    {metric_without_name, "metric: expected a name of 1 to 64 letters"},
    {use_without_name, "of this instance"},
    {reserved, "expected 0 in reserved, found 5"},
    {silent_without_gates, "silent: expected only in graphs that train, with expert and gate"},
    {silent_of_another_length, "silent: expected f32 [3], found f32 [4]"},
    {loss_without_name, "loss_name[0]: expected a name, found NULL"},
    {loss_without_value, "mine: expected a scalar, found NULL"},
    {loss_that_is_a_matrix, "mine: expected an f32 scalar, found 12 elements"},
    {loss_of_another_graph, "mine: expected a value of this graph, found one of another"},
    {dispatch_alone, "dispatch and combine: expected both or none"},
    {more_slots_than_tokens, "slots: expected 1 to 3 of each expert, found 4"},
    {no_slots, "slots: expected 1 to 3 of each expert, found 0"},
    {soft_with_scores, "soft routing assigns no tokens"},
    {experts_of_floats, "expert: expected i32 [3], found f32 [3,6]"},
    {listed_experts_of_floats, "expert: expected i32 [R], found f32 [3,6]"},
    {too_many_of_its_own, "own_top_k: expected 1 to 4 experts a token, found 5"},
    {gates_of_another_length, "gate: expected f32 [3], found f32 [2]"},
    {op_of_odd_size, "op odd: its table says that it has"},
    {op_of_a_newer_table, "op newer: its table uses a field at byte"},
    {op_with_a_new_flag, "op flag: expected flags of MF_OP_*"},
};

START_TEST(wrong_routes)
{
    mf_ctx *a;
    ck_assert_int_eq(make("layers.0.router", &a), MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    on_route = routes[_i].route;
    mf_routing r;
    ck_assert_int_ne(run_route(a, &r), MF_OK);
    expect_message(routes[_i].part);
    mf_instance_free(a);
}
END_TEST

ROUTE(looks_at_values)
{
    mf_tensor *ids = mf_graph_input(g, "ids", MF_I32, mf_shape1(3));
    ck_assert_int_eq(mf_slot->dtype(in->x), MF_F32);
    ck_assert_int_eq(mf_slot->dtype(ids), MF_I32);
    ck_assert_int_eq(mf_slot->dtype(NULL), MF_F32);
    ck_assert(mf_shape_equal(mf_slot->shape(ids), mf_shape1(3)));
    ck_assert_int_eq(mf_slot->shape(NULL).rank, 0);
    ck_assert(mf_slot->training(g));
    out->logits = logits_of(ctx, g, in);
    return mf_slot->status(g);
}

START_TEST(values_are_described)
{
    mf_ctx *a;
    mf_routing r;
    ck_assert_int_eq(make("layers.0.router", &a), MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    on_route = looks_at_values;
    ck_assert_int_eq(run_route(a, &r), MF_OK);
    mf_instance_free(a);
}
END_TEST

/* ---- results of other kinds ---- */

static mf_tensor *result;

static int forward_result(void *s, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                          mf_tensor **ret_y)
{
    (void)s, (void)ctx, (void)g, (void)in;
    *ret_y = result;
    return MF_OK;
}
static int apply_result(void *s, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                        mf_tensor **ret_y)
{
    (void)s, (void)ctx, (void)g, (void)in;
    *ret_y = result;
    return MF_OK;
}

/* An instance of an expert or adapter with the parameters of the router. */
static mf_ctx *instance_of(mf_kind kind)
{
    mf_ctx *a;
    loaded.kind = kind;
    memset(&loaded.table, 0, sizeof loaded.table);
    if (kind == MF_EXPERT)
        loaded.table.expert.forward = forward_result;
    else
        loaded.table.adapter.apply = apply_result;
    ck_assert_int_eq(make("layers.0.mine", &a), MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    return a;
}

START_TEST(an_expert_without_a_result)
{
    mf_ctx *a = instance_of(MF_EXPERT);
    const mf_expert_in in = {.size = sizeof in,
                             .x = mf_graph_input(graph, "x", MF_F32, mf_shape2(3, 6))};
    mf_tensor *y;
    result = in.x;
    ck_assert_int_eq(mf_instance_expert(a, graph, &in, &y), MF_OK);
    ck_assert_ptr_eq(y, in.x);
    result = NULL;
    ck_assert_int_eq(mf_instance_expert(a, graph, &in, &y), MF_EPLUGIN);
    expect_message("layers.0.mine (plugin mine): forward returned OK and no value: expected "
                   "rows of the input's shape");
    ck_assert_int_eq(mf_graph_status(graph), MF_EPLUGIN);
    mf_instance_free(a);
}
END_TEST

static const struct {
    const char *part; /* a part of the refusal; NULL: the result is accepted */
    mf_point point;
    int64_t width; /* width of the result; 0: there is no result */
    bool of_another;
} adapted[] = {
    {NULL, MF_AT_FFN, 6, false},
    {NULL, MF_AT_ATTENTION_BIAS, 0, false},
    {"apply returned OK and no value: expected y, or another value of its shape", MF_AT_FFN, 0,
     false},
    {"y: expected a value of this graph, found one of another", MF_AT_FFN, 6, true},
    {"y: expected the shape [3,6] in f32 or bf16, found [3,4]", MF_AT_FFN, 4, false},
};

START_TEST(results_of_adapters)
{
    mf_ctx *a = instance_of(MF_ADAPTER);
    const mf_adapter_in in = {.size = sizeof in,
                              .point = (int32_t)adapted[_i].point,
                              .y = mf_graph_input(graph, "y", MF_F32, mf_shape2(3, 6))};
    mf_graph *g = adapted[_i].of_another ? other : graph;
    mf_tensor *y;
    result = adapted[_i].width > 0
                 ? mf_graph_input(g, "z", MF_F32, mf_shape2(3, adapted[_i].width))
                 : NULL;
    const int rc = mf_instance_apply(a, graph, &in, &y);
    if (adapted[_i].part) {
        ck_assert_int_eq(rc, MF_EPLUGIN);
        expect_message(adapted[_i].part);
    } else {
        ck_assert_int_eq(rc, MF_OK);
        ck_assert_ptr_eq(y, result);
    }
    mf_instance_free(a);
}
END_TEST

/* ---- between steps ---- */

static int asks(mf_ctx *ctx, const mf_step *step)
{
    double past[2];
    float heads[2];
    ck_assert_int_eq(step->step, 5);
    ck_assert_int_eq(mf_slot->freeze(ctx, "nothing", true, "why"), MF_ENOTFOUND);
    expect_message("freeze: no parameter matches 'nothing'");
    ck_assert_int_eq(mf_slot->freeze(ctx, NULL, true, "why"), MF_ENOTFOUND);
    ck_assert_int_eq(mf_slot->freeze(ctx, "/layers.0.router.weight", true, "why"), MF_OK);
    ck_assert(mf_store_find(store, "layers.0.router.weight")->frozen);
    ck_assert_int_eq(mf_slot->rebuild(ctx, "why"), MF_OK);
    /* No value was recorded in this test. */
    ck_assert_int_eq(mf_slot->history(ctx, "loss", 2, past), 0);
    ck_assert_int_eq(mf_slot->head_importance(ctx, 2, heads), 0);
    ck_assert_ptr_null(mf_slot->find(ctx, NULL, 0));
    ck_assert_ptr_null(mf_slot->find(ctx, "*", -1));
    ck_assert_ptr_null(mf_slot->site(ctx, 0));
    ck_assert_ptr_null(mf_slot->extension("a draft"));
    return MF_OK;
}

START_TEST(between_steps)
{
    static const mf_step step = {.size = sizeof step, .step = 5};
    mf_ctx *a;
    ck_assert_int_eq(make("layers.0.router", &a), MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    on_turn = asks;
    ck_assert_int_eq(mf_instance_after_step(a, &step), MF_OK);
    mf_instance_free(a);
}
END_TEST

START_TEST(outside_of_any_call)
{
    mf_ctx *a;
    ck_assert_int_eq(make("layers.0.router", &a), MF_OK);
    ck_assert_int_eq(mf_slot->rebuild(a, "why"), MF_EPLUGIN);
    expect_message("rebuild: expected to be called between steps (on_step, after_step), found "
                   "outside of any call");
    expect_message("layers.0.router (plugin mine, in no call)");
    ck_assert_ptr_null(mf_plughost_rebuild(host));
    mf_instance_free(a);
}
END_TEST

static void call_missing(void *arg)
{
    void (*function)(void);
    memcpy(&function, (const char *)mf_slot + *(const size_t *)arg * sizeof function,
           sizeof function);
    mf_crash_watch();
    function();
}

/* Calls of functions that only a newer moefw has. The messages of the first 16 contain their
 * own numbers, and the messages of later functions say "or a later one". */
START_TEST(functions_that_are_missing)
{
    size_t n = sizeof(mf_host) / sizeof(void (*)(void)) + (size_t)_i;
    const size_t number = n - offsetof(mf_host, fail) / sizeof(void (*)(void)) + 1;
    char text[512], expected[128];
    const int status = child_status(call_missing, &n, text, sizeof text);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    snprintf(expected, sizeof expected,
             "plugin of a newer moefw called mf->function number %zu%s, which this moefw does "
             "not have: ",
             _i < 16 ? number : number - (size_t)_i + 16, _i < 16 ? "" : " or a later one");
    ck_assert_msg(strstr(text, expected) != NULL, "%s", text);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("host");
    TCase *t = tcase_create("host");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, wrong_params, 0, sizeof params / sizeof *params);
    tcase_add_test(t, a_name_that_is_too_long_with_its_path);
    tcase_add_loop_test(t, wrong_notes, 0, sizeof notes / sizeof *notes);
    tcase_add_loop_test(t, a_signal_mask_that_init_changes, 0, 2);
    tcase_add_test(t, a_rounding_mode_that_init_changes);
    tcase_add_test(t, a_folder_that_is_out_of_reach);
    tcase_add_test(t, an_option_that_the_plugin_lacks);
    tcase_add_loop_test(t, wrong_routes, 0, sizeof routes / sizeof *routes);
    tcase_add_test(t, values_are_described);
    tcase_add_test(t, an_expert_without_a_result);
    tcase_add_loop_test(t, results_of_adapters, 0, sizeof adapted / sizeof *adapted);
    tcase_add_test(t, between_steps);
    tcase_add_test(t, outside_of_any_call);
    tcase_add_loop_test(t, functions_that_are_missing, 0, 18);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
