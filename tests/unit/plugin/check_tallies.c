/* Tallies: what a plugin may declare, count and read, the messages after a violation, and what
 * core does with parts whose values are not whole numbers. The plugin is a descriptor in
 * this program. */
#include "tests/unit/plugin/plugin_here.h"

#include <math.h>
#include "plugin/tallies.h"

enum { E = 4, BINS = 3, LARGE = 2000 };

/* ---- init ---- */

static const struct {
    const char *name;
    mf_shape shape;
    uint32_t flags;
    const char *part;
} wrong[] = {
    {NULL, {.rank = 1, .dim = {4}}, 0, "tally: expected a name of 1 to 64 letters"},
    {"two words", {.rank = 1, .dim = {4}}, 0, "found 'two words'"},
    {"t", {.rank = 7}, 0, "tally 't': expected a rank from 0 to 4, found 7"},
    {"t", {.rank = 1, .dim = {0}}, 0, "expected dimensions of at least 1, found 0"},
    {"t", {.rank = 1, .dim = {4}}, 6, "expected flags of MF_TALLY_* (0x1), found 0x6"},
    {"weight", {.rank = 1, .dim = {4}}, 0, "a parameter or buffer of this instance has the"},
    {"seen", {.rank = 1, .dim = {4}}, 0, "a parameter or buffer of this instance has the"},
};
static int now;

static int declare_wrong(mf_ctx *ctx, const mf_dims *d)
{
    good_init(ctx, d);
    return mf_slot->tally(ctx, wrong[now].name, wrong[now].shape, wrong[now].flags);
}

START_TEST(wrong_tallies)
{
    mf_ctx *a;
    on_init = declare_wrong;
    now = _i;
    ck_assert_int_eq(make("router", &a), MF_EPLUGIN);
    expect_message(wrong[_i].part);
    ck_assert_int_eq(mf_tallies_numbers(host).whole + mf_tallies_numbers(host).real, 0);
}
END_TEST

static mf_shape declared;

static int declare_tallies(mf_ctx *ctx, const mf_dims *d)
{
    int rc = good_init(ctx, d);
    if (rc == MF_OK) rc = mf_slot->tally(ctx, "count", declared, MF_TALLY_WHOLE);
    if (rc == MF_OK) rc = mf_slot->tally(ctx, "sum", mf_shape2(LARGE, 2), 0);
    return rc;
}

static int declare_buffer_too(mf_ctx *ctx, const mf_dims *d)
{
    declare_tallies(ctx, d);
    return mf_slot->buffer(ctx, "sum", mf_shape1(4), MF_ZEROS);
}

START_TEST(a_name_belongs_to_one_of_both)
{
    mf_ctx *a;
    on_init = declare_buffer_too;
    ck_assert_int_eq(make("router", &a), MF_EPLUGIN);
    expect_message("buffer 'sum': a tally of this instance has the name");
}
END_TEST

/* Instances of one path share a tally if both declare it alike. */
START_TEST(two_instances_of_one_path)
{
    mf_ctx *a, *b, *c;
    on_init = declare_tallies;
    ck_assert_int_eq(make("router", &a), MF_OK);
    ck_assert_int_eq(make("router", &b), MF_OK);
    ck_assert_int_eq(mf_tallies_numbers(host).whole, E);
    ck_assert_int_eq(mf_tallies_numbers(host).real, LARGE * 2);
    declared = mf_shape2(E, 1);
    ck_assert_int_eq(make("router", &c), MF_EPLUGIN);
    expect_message("the tally /router.count exists with another shape or other flags");
    mf_instance_free(a);
    mf_instance_free(b);
}
END_TEST

START_TEST(too_many_numbers)
{
    mf_ctx *a;
    on_init = declare_tallies;
    declared = mf_shape4(1000, 1000, 1000, 1000);
    ck_assert_int_eq(make("router", &a), MF_ECONFIG);
    expect_message(
        "expected at most 16777216 numbers, found 1000000000000; the largest tally is "
        "/router.count with 1000000000000");
}
END_TEST

/* ---- graphs ---- */

#define ROUTE(name)                                                                            \
    static int name(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)

static mf_tensor *part_of(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    out->logits = mf_linear(g, in->x, mf_slot->use(ctx, g, "weight"), NULL);
    return mf_sum(g, out->logits, 1u, false);
}

ROUTE(counts_nothing)
{
    part_of(ctx, g, in, out);
    mf_slot->count(ctx, g, "count", NULL);
    return MF_OK;
}
ROUTE(counts_unknown)
{
    mf_slot->count(ctx, g, "cuont", part_of(ctx, g, in, out));
    return MF_OK;
}
ROUTE(counts_without_name)
{
    mf_slot->count(ctx, g, NULL, part_of(ctx, g, in, out));
    return MF_OK;
}
ROUTE(counts_another_shape)
{
    part_of(ctx, g, in, out);
    mf_slot->count(ctx, g, "count", out->logits);
    return MF_OK;
}
ROUTE(counts_another_type)
{
    mf_slot->count(ctx, g, "count", mf_cast(g, part_of(ctx, g, in, out), MF_BF16));
    return MF_OK;
}
ROUTE(sums_in_a_graph)
{
    part_of(ctx, g, in, out);
    ck_assert_ptr_null(mf_slot->sum(ctx, "count", NULL));
    return MF_OK;
}

static const struct {
    int (*route)(mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
    const char *part;
} routes[] = {
    {counts_nothing, "count 'count': expected a value, found NULL"},
    {counts_unknown, "count: no tally 'cuont' of this instance; did you mean 'count'?"},
    {counts_without_name, "count: no tally 'NULL' of this instance"},
    {counts_another_shape, "count 'count': expected f32 [4], found f32 [3,4]"},
    {counts_another_type, "count 'count': expected f32 [4], found bf16 [4]"},
    {sums_in_a_graph, "sum: expected to be called between steps (on_step, after_step)"},
};

static mf_ctx *instance(void)
{
    mf_ctx *a;
    on_init = declare_tallies;
    ck_assert_int_eq(make("router", &a), MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    return a;
}

START_TEST(wrong_parts)
{
    mf_ctx *a = instance();
    mf_routing out;
    on_route = routes[_i].route;
    ck_assert_int_eq(run_route(a, &out), MF_EPLUGIN);
    expect_message(routes[_i].part);
    mf_instance_free(a);
}
END_TEST

/* Counted parts of several sizes and forms: a value, twice; a part larger than small values
 * (MF_GRAPH_SMALL); an input, and another view of it. */
static mf_tensor *taken;

ROUTE(counts)
{
    mf_tensor *whole = mf_affine(g, part_of(ctx, g, in, out), 0, 3);
    taken = mf_graph_input(g, "taken", MF_F32, mf_shape1(E));
    mf_slot->count(ctx, g, "count", whole);
    mf_slot->count(ctx, g, "count", whole);
    mf_slot->count(ctx, g, "count", taken);
    mf_slot->count(ctx, g, "count",
                   mf_reshape(g, mf_reshape(g, taken, mf_shape2(2, 2)), mf_shape1(E)));
    mf_slot->count(ctx, g, "sum",
                   mf_affine(g, mf_random(g, "uniform", mf_shape2(LARGE, 2)), 0, 0.5));
    return mf_slot->status(g);
}

static const double *seen;
static int64_t n_seen;
static const char *asked;

static int look(mf_ctx *ctx, const mf_step *step)
{
    (void)step;
    seen = mf_slot->sum(ctx, asked, &n_seen);
    return MF_OK;
}

static const double *sum_of(mf_ctx *a, const char *name, int64_t n)
{
    static const mf_step step = {.size = sizeof step};
    asked = name;
    on_turn = look;
    ck_assert_int_eq(mf_instance_after_step(a, &step), MF_OK);
    ck_assert_int_eq(n_seen, n);
    return seen;
}

static void run_and_read(mf_ctx *a, const float values[E])
{
    mf_routing out;
    on_route = counts;
    ck_assert_int_eq(run_route(a, &out), MF_OK);
    ck_assert_int_eq(mf_graph_finish(graph), MF_OK);
    memset(mf_tensor_input(x_in), 0, sizeof(float) * 3 * 6);
    memcpy(mf_tensor_input(taken), values, E * sizeof *values);
    ck_assert_int_eq(mf_graph_run(graph, &(mf_run){0}), MF_OK);
    const mf_tally_sums to = mf_tallies_sums(host);
    mf_tallies_read(host, graph, 0, to.whole, to.real);
    mf_tallies_read(host, graph, 0, to.whole, to.real);
}

START_TEST(parts_add_up)
{
    static const float values[E] = {0, 1, -7, 16777215};
    mf_ctx *a = instance();
    run_and_read(a, values);
    ck_assert_int_eq(mf_tallies_judge(host), MF_OK);
    const double *whole = sum_of(a, "count", E);
    for (int i = 0; i < E; i++)
        ck_assert_double_eq(whole[i], 2 * (2 * 3 + 2 * (double)values[i]));
    const double *real = sum_of(a, "/router.sum", LARGE * 2);
    for (int i = 0; i < LARGE * 2; i++)
        ck_assert_double_eq(real[i], 1);
    ck_assert_ptr_null(sum_of(a, "nothing", 0));
    ck_assert_ptr_null(sum_of(a, NULL, 0));
    mf_tallies_clear(host);
    ck_assert_double_eq(sum_of(a, "count", E)[3], 0);
    mf_tallies_forget(host, graph);
    mf_tallies_read(host, graph, 0, mf_tallies_sums(host).whole, mf_tallies_sums(host).real);
    ck_assert_double_eq(sum_of(a, "count", E)[3], 0);
    mf_instance_free(a);
}
END_TEST

static const struct {
    float value;
    int code;
    const char *part;
} bad_parts[] = {
    {0.5f, MF_EPLUGIN,
     "tally /router.count, element 2: expected parts that are whole numbers below 2^24 "
     "(MF_TALLY_WHOLE), found 0.5"},
    {16777216, MF_EPLUGIN, "found 16777216"},
    {-INFINITY, MF_ENONFINITE, "tally /router.count, element 2: expected a finite sum"},
    {NAN, MF_ENONFINITE, "expected a finite sum over the step"},
};

START_TEST(parts_that_are_not_whole)
{
    const float values[E] = {0, 0, bad_parts[_i].value, 0};
    mf_ctx *a = instance();
    run_and_read(a, values);
    ck_assert_int_eq(mf_tallies_judge(host), bad_parts[_i].code);
    expect_message(bad_parts[_i].part);
    mf_tallies_clear(host);
    ck_assert_int_eq(mf_tallies_judge(host), MF_OK);
    mf_instance_free(a);
}
END_TEST

/* Graphs that do not train count nothing. */
START_TEST(evaluation_counts_nothing)
{
    mf_ctx *a = instance();
    mf_routing out;
    mf_graph_free(graph);
    graph = mf_graph_new(&(mf_graph_options){.training = false});
    on_route = counts;
    ck_assert_int_eq(run_route(a, &out), MF_OK);
    mf_graph_keep(out.logits);
    ck_assert_int_eq(mf_graph_finish(graph), MF_OK);
    mf_graph_info info;
    mf_graph_get_info(graph, &info);
    ck_assert_int_gt(info.dead, 0);
    ck_assert_int_eq(mf_graph_run(graph, &(mf_run){0}), MF_OK);
    mf_tallies_read(host, graph, 0, mf_tallies_sums(host).whole, mf_tallies_sums(host).real);
    ck_assert_double_eq(sum_of(a, "count", E)[0], 0);
    mf_instance_free(a);
}
END_TEST

/* ---- counts of scores ---- */

#define SIZE sizeof(mf_score_count)
static const struct {
    const char *name;
    mf_score_count what;
    const char *part;
} requests[] = {
    {"s", {8, MF_SCORE_PROB, BINS, 0, 0, 1}, "expected an mf_score_count with its size"},
    {"s", {SIZE, 0, BINS, 0, 0, 1}, "of: expected 1 to 4, found 0"},
    {"s", {SIZE, 5, BINS, 0, 0, 1}, "of: expected 1 to 4, found 5"},
    {"s", {SIZE, MF_SCORE_PROB, 1, 0, 0, 1}, "bins: expected 2 to 8192, found 1"},
    {"s", {SIZE, MF_SCORE_PROB, 8193, 0, 0, 1}, "bins: expected 2 to 8192, found 8193"},
    {"s", {SIZE, MF_SCORE_PROB, BINS, 2, 0, 1}, "with_bias: expected 0 or 1, found 2"},
    {"s", {SIZE, MF_SCORE_PROB, BINS, 0, 1, 1}, "expected lo < hi, found 1 and 1"},
    {"s", {SIZE, MF_SCORE_PROB, BINS, 0, 0, INFINITY}, "expected lo < hi, found 0 and inf"},
    {"", {SIZE, MF_SCORE_PROB, BINS, 0, 0, 1}, "count_scores: expected a name of 1 to 64"},
};

static int request(mf_ctx *ctx, const mf_dims *d)
{
    (void)d;
    return mf_slot->count_scores(ctx, requests[now].name, &requests[now].what);
}

START_TEST(wrong_requests)
{
    mf_ctx *a;
    const char *name;
    on_init = request;
    now = _i;
    ck_assert_int_eq(make("router", &a), MF_EPLUGIN);
    expect_message(requests[_i].part);
    ck_assert_ptr_null(mf_tallies_scores(host, 0, &name));
}
END_TEST

static double upper;

static int request_probabilities(mf_ctx *ctx, const mf_dims *d)
{
    (void)d;
    return mf_slot->count_scores(ctx, "p",
                                 &(mf_score_count){SIZE, MF_SCORE_PROB, BINS, 0, 0, upper});
}

START_TEST(two_requests_of_one_name)
{
    mf_ctx *a, *b, *c;
    const char *name;
    on_init = request_probabilities;
    upper = 1;
    ck_assert_int_eq(make("router", &a), MF_OK);
    ck_assert_int_eq(make("other", &b), MF_OK);
    ck_assert_ptr_nonnull(mf_tallies_scores(host, 0, &name));
    ck_assert_str_eq(name, "p");
    ck_assert_ptr_null(mf_tallies_scores(host, 1, &name));
    upper = 2;
    ck_assert_int_eq(make("third", &c), MF_EPLUGIN);
    expect_message("count_scores 'p': another instance counts something else by this name");
    mf_instance_free(a);
    mf_instance_free(b);
}
END_TEST

/* ---- quantiles of bins ---- */

START_TEST(quantiles_are_even_within_a_bin)
{
    static const double none[4] = {0}, some[4] = {0, 2, 0, 6}, one[2] = {0, 5};
    ck_assert_double_eq(mf_bins_quantile(none, 4, -1, 1, 0.5), -1);
    ck_assert_double_eq(mf_bins_quantile(some, 4, 0, 4, 0.125), 1.5);
    ck_assert_double_eq(mf_bins_quantile(some, 4, 0, 4, 0.25), 2);
    ck_assert_double_eq(mf_bins_quantile(some, 4, 0, 4, 0.625), 3.5);
    ck_assert_double_eq(mf_bins_quantile(some, 4, 0, 4, 1), 4);
    ck_assert_double_eq(mf_bins_quantile(one, 2, -1, 1, 0.5), 0.5);
}
END_TEST

static void begin(void)
{
    setup();
    declared = mf_shape1(E);
}

static Suite *suite(void)
{
    Suite *s = suite_create("tallies");
    TCase *t = tcase_create("tallies");
    tcase_add_checked_fixture(t, begin, teardown);
    tcase_add_loop_test(t, wrong_tallies, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(t, a_name_belongs_to_one_of_both);
    tcase_add_test(t, two_instances_of_one_path);
    tcase_add_test(t, too_many_numbers);
    tcase_add_loop_test(t, wrong_parts, 0, (int)(sizeof routes / sizeof *routes));
    tcase_add_test(t, parts_add_up);
    tcase_add_loop_test(t, parts_that_are_not_whole, 0,
                        (int)(sizeof bad_parts / sizeof *bad_parts));
    tcase_add_test(t, evaluation_counts_nothing);
    tcase_add_loop_test(t, wrong_requests, 0, (int)(sizeof requests / sizeof *requests));
    tcase_add_test(t, two_requests_of_one_name);
    tcase_add_test(t, quantiles_are_even_within_a_bin);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
