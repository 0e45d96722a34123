/* check_expert_merge: the op that merges rows from several ranks into one order, and its
 * reverse. The test needs no other ranks. */
#include "check_main.h"

#include <string.h>

#include "base/error.h"
#include "comm/expert_merge.h"
#include "lab/check/gradcheck.h"

enum { RANKS = 4, ROWS = 5, WIDTH = 3, EXPERTS = 3, ALL = RANKS * ROWS };

/* The second rank sends nothing. The third rank sends as many rows as possible, all to
 * one expert. */
static const int32_t counts[RANKS * (EXPERTS + 1)] = {0, 1, 1, 4, 0, 0, 0, 0,
                                                      0, 0, 5, 5, 0, 2, 3, 4};
static const int32_t merged_offset[EXPERTS + 1] = {0, 3, 9, 13};
/* The rank and the row from which each merged row comes. */
static const int from[13][2] = {{0, 0}, {3, 0}, {3, 1}, {2, 0}, {2, 1}, {2, 2}, {2, 3},
                                {2, 4}, {3, 2}, {0, 1}, {0, 2}, {0, 3}, {3, 3}};

typedef struct rows {
    mf_graph *g;
    mf_tensor *x, *merged, *back, *offset;
} rows;

static rows build(void)
{
    rows r = {.g = mf_graph_new(&(mf_graph_options){.training = true})};
    ck_assert_ptr_nonnull(r.g);
    mf_expert_routes routes = {
        .counts = mf_graph_const(r.g, MF_I32, mf_shape2(RANKS, EXPERTS + 1), counts)};
    r.x = mf_graph_input(r.g, "x", MF_F32, mf_shape2(ALL, WIDTH));
    mf_graph_want_grad(r.x);
    r.merged = mf_expert_merge(r.g, &routes, r.x);
    r.back = mf_expert_unmerge(r.g, &routes, r.merged);
    r.offset = mf_expert_merged_offset(r.g, &routes);
    mf_graph_keep(r.merged);
    mf_graph_keep(r.back);
    mf_graph_keep(r.offset);
    return r;
}

static void fill(const rows *r)
{
    for (int i = 0; i < ALL * WIDTH; i++)
        ((float *)mf_tensor_input(r->x))[i] = (float)(i + 1);
}

static void expect_row(const float *row, int value_of)
{
    for (int i = 0; i < WIDTH; i++)
        ck_assert_float_eq(row[i], value_of < 0 ? 0 : (float)(value_of * WIDTH + i + 1));
}

START_TEST(rows_of_an_expert_are_neighbours)
{
    rows r = build();
    ck_assert_int_eq(mf_graph_finish(r.g), MF_OK);
    fill(&r);
    ck_assert_int_eq(mf_graph_run(r.g, &(mf_run){.forward_only = true}), MF_OK);
    const float *merged = mf_tensor_host(r.merged), *back = mf_tensor_host(r.back);
    for (int i = 0; i < ALL; i++)
        expect_row(merged + i * WIDTH, i < 13 ? from[i][0] * ROWS + from[i][1] : -1);
    for (int i = 0; i < ALL; i++)
        expect_row(back + i * WIDTH, i % ROWS < counts[i / ROWS * 4 + EXPERTS] ? i : -1);
    ck_assert_mem_eq(mf_tensor_host(r.offset), merged_offset, sizeof merged_offset);
    mf_graph_free(r.g);
}
END_TEST

START_TEST(gradients)
{
    rows r = build();
    mf_tensor *out[] = {r.merged, r.back};
    mf_gradcheck_report report;
    fill(&r);
    ck_assert_msg(mf_gradcheck(r.g, 1, &out[_i], 1, &r.x, NULL, &report) == MF_OK, "%s",
                  mf_error_message());
    ck_assert_int_gt(report.points, 20);
    mf_graph_free(r.g);
}
END_TEST

START_TEST(rows_that_do_not_fit)
{
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = false});
    const mf_expert_routes routes = {
        .counts = mf_graph_const(g, MF_I32, mf_shape2(RANKS, EXPERTS + 1), counts)};
    mf_expert_merge(g, &routes, mf_graph_input(g, "x", MF_F32, mf_shape2(ALL + 1, WIDTH)));
    ck_assert_int_eq(mf_graph_status(g), MF_ESHAPE);
    ck_assert_pstr_ne(strstr(mf_error_message(), "expected a multiple of 4 rows, found 21"),
                      NULL);
    mf_graph_free(g);
}
END_TEST

/* The ops refuse numbers of experts that the ranks cannot share, as the model does before it
 * builds. They also refuse inputs of wrong types. */
START_TEST(experts_that_cannot_be_shared)
{
    const mf_expert_ranks four = {.ranks = RANKS};
    static const char *const words[] = {
        "expected a multiple of 4 experts, for so many, found 6",
        "expected offset of type i32, found f32", "expected counts of type i32, found f32"};
    for (int i = 0; i < 3; i++) {
        mf_graph *g = mf_graph_new(NULL);
        mf_tensor *in = mf_graph_input(g, "in", i ? MF_F32 : MF_I32,
                                       i < 2 ? mf_shape1(7) : mf_shape2(RANKS, EXPERTS + 1));
        const mf_expert_routes made = {.counts = in};
        if (i < 2)
            mf_expert_routes_new(g, &four, in);
        else
            mf_expert_merged_offset(g, &made);
        ck_assert_int_eq(mf_graph_status(g), MF_ESHAPE);
        ck_assert_msg(strstr(mf_error_message(), words[i]) != NULL, "%s", mf_error_message());
        mf_graph_free(g);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("expert_merge");
    TCase *c = tcase_create("merge");
    tcase_add_test(c, rows_of_an_expert_are_neighbours);
    tcase_add_loop_test(c, gradients, 0, 2);
    tcase_add_test(c, rows_that_do_not_fit);
    tcase_add_test(c, experts_that_cannot_be_shared);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
