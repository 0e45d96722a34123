/* Sums of tallies over micro-batches and ranks. They must equal the sums of the definition bit
 * for bit, whichever rank ran a micro-batch. */
#include "check_main.h"

#include <math.h>
#include <string.h>
#include "graph/graph.h"
#include "ops/ops.h"
#include "train/parallel/tally_sum.h"

/* LARGE: more values than the small tallies have (MF_GRAPH_SMALL). */
enum { MOST = 16, COUNT = 5, LARGE = 2000 };

static mf_store *store;
static mf_plughost *host;
static mf_graph *graph;
static mf_tensor *in;

static void setup(void)
{
    store = mf_store_new();
    host = mf_plughost_new(store);
    graph = mf_graph_new(&(mf_graph_options){.training = true, .payload = {.slots = MOST}});
    ck_assert(store && host && graph);
    in = mf_graph_input(graph, "in", MF_F32, mf_shape1(COUNT));
    ck_assert_int_eq(mf_tallies_declare(host, "whole", mf_shape1(COUNT), MF_TALLY_WHOLE),
                     MF_OK);
    ck_assert_int_eq(mf_tallies_declare(host, "real", mf_shape1(COUNT), 0), MF_OK);
    ck_assert_int_eq(mf_tallies_count(host, "real", in), MF_OK);
    ck_assert_int_eq(mf_tallies_count(host, "whole", mf_sign(graph, in)), MF_OK);
    mf_tensor *one = mf_slice(graph, mf_sign(graph, in), 0, 1, 1);
    ck_assert_int_eq(mf_tallies_declare(host, "large", mf_shape1(LARGE), MF_TALLY_WHOLE),
                     MF_OK);
    ck_assert_int_eq(
        mf_tallies_count(host, "large", mf_broadcast(graph, one, mf_shape1(LARGE))), MF_OK);
    ck_assert_int_eq(mf_graph_finish(graph), MF_OK);
}

static void teardown(void)
{
    mf_graph_free(graph);
    mf_plughost_free(host);
    mf_store_free(store);
}

/* Element i of the part of leaf j. Sums of such values are rounded, also in f64. */
static float part_of(int64_t j, int i)
{
    static const float cancel[] = {1e8f, 1, -1e8f, 1, 1, 1, 1, 1};
    if (i == 0) return j < 8 ? cancel[j] : 0;
    return sinf((float)(j * 131 + i * 17 + 1)) * exp2f((float)((j * 37 + i) % 100));
}

static double tree_value(int64_t first, int64_t end, int i)
{
    int64_t part = 1;
    if (end - first == 1) return (double)part_of(first, i);
    while (2 * part < end - first)
        part *= 2;
    return tree_value(first, first + part, i) + tree_value(first + part, end, i);
}

/* Runs all micro-batches. Each has its own slot. */
static void run_leaves(int64_t leaves)
{
    for (int64_t j = 0; j < leaves; j++) {
        float *v = mf_tensor_input(in);
        for (int i = 0; i < COUNT; i++)
            v[i] = part_of(j, i);
        ck_assert_int_eq(mf_graph_run(graph, &(mf_run){.queued = true}), MF_OK);
        ck_assert_int_eq(mf_graph_fetch(graph, (int)j), MF_OK);
    }
    for (int64_t j = 0; j < leaves; j++)
        ck_assert_int_eq(mf_graph_collect(graph, (int)j), MF_OK);
}

/* Adds the leaves of all ranks, exchanges the messages, and compares the sums of each rank.
 * turns: rank r has the leaves r, r + ranks, ..; otherwise each rank has consecutive leaves. */
static void sum_over(int64_t leaves, int ranks, bool turns)
{
    mf_tally_sum *s[MOST] = {NULL};
    for (int r = 0; r < ranks; r++) {
        const mf_tally_plan plan = {leaves, r, ranks, turns};
        const mf_piece share = turns ? (mf_piece){r, leaves} : mf_tree_share(leaves, r, ranks);
        ck_assert_int_eq(mf_tally_sum_new(host, &plan, &s[r]), MF_OK);
        for (int again = 0; again < 2; again++) { /* the second step must begin at 0 */
            mf_tally_sum_begin(s[r]);
            for (int64_t j = share.first; j < share.end; j += turns ? ranks : 1)
                mf_tally_sum_add(s[r], graph, j);
        }
    }
    for (int r = 0; r < ranks; r++)
        for (int q = 0; q < ranks; q++) {
            const mf_comm_piece from = mf_tally_sum_of(s[q], r, q),
                                to = mf_tally_sum_of(s[r], q, q);
            ck_assert_int_eq(from.bytes, to.bytes);
            ck_assert_int_eq(from.peer, r);
            if (q != r) memcpy(to.data, from.data, (size_t)to.bytes);
        }
    for (int r = 0; r < ranks; r++) {
        mf_tallies_clear(host);
        mf_tally_sum_fold(s[r]);
        const mf_tally_sums sums = mf_tallies_sums(host);
        for (int i = 0; i < COUNT; i++) {
            double whole = 0;
            for (int64_t j = 0; j < leaves; j++)
                whole += (part_of(j, i) > 0) - (part_of(j, i) < 0);
            ck_assert_double_eq(sums.whole[i], whole);
            ck_assert_msg(sums.real[i] == tree_value(0, leaves, i),
                          "%d leaves, rank %d of %d, element %d: %.17g", (int)leaves, r, ranks,
                          i, sums.real[i]);
        }
        for (int i = 0; i < LARGE; i++)
            ck_assert_double_eq(sums.whole[COUNT + i], sums.whole[1]);
    }
    for (int r = 0; r < ranks; r++)
        mf_tally_sum_free(s[r]);
}

START_TEST(ranks_have_the_sums_of_one_process)
{
    const int64_t leaves = _i;
    run_leaves(leaves);
    for (int ranks = 1; ranks <= leaves; ranks++)
        for (int turns = 0; turns < (ranks > 1 ? 2 : 1); turns++)
            sum_over(leaves, ranks, turns != 0);
}
END_TEST

/* If ranks share the experts, a rank may have no micro-batch of its own. */
START_TEST(ranks_without_a_leaf)
{
    run_leaves(3);
    sum_over(3, 4, true);
}
END_TEST

/* In f32 the first element would be 4 (added in the tree) or 5 (added in order). */
START_TEST(numbers_of_different_size_are_added_in_f64)
{
    run_leaves(8);
    sum_over(8, 4, false);
    ck_assert_double_eq(mf_tallies_sums(host).real[0], 6);
}
END_TEST

START_TEST(a_model_without_tallies_has_no_sums)
{
    mf_plughost *none = mf_plughost_new(store);
    mf_tally_sum *s = NULL;
    ck_assert_int_eq(mf_tally_sum_new(none, &(mf_tally_plan){8, 0, 2, false}, &s), MF_OK);
    ck_assert_ptr_null(s);
    mf_tally_sum_begin(s);
    mf_tally_sum_add(s, graph, 0);
    mf_tally_sum_fold(s);
    ck_assert_int_eq(mf_tally_sum_of(s, 1, 0).bytes, 0);
    mf_plughost_free(none);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tally sums");
    TCase *c = tcase_create("tally sums");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, ranks_have_the_sums_of_one_process, 1, MOST + 1);
    tcase_add_test(c, ranks_without_a_leaf);
    tcase_add_test(c, numbers_of_different_size_are_added_in_f64);
    tcase_add_test(c, a_model_without_tallies_has_no_sums);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
