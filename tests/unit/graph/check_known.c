/* known: in a run on a device an index is checked where nothing is known of it, and only there;
 * what ops say of their indices is true. The set of kernels of this test counts checks. */
#include "check_main.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/internal.h"
#include "ops/moe/dispatch.h"
#include "ops/ops.h"
#include "tests/lib/device.h"

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

static mf_kernels counting;
static const mf_kernels *counted; /* the set that does the work */
static int checks;

static void check_index(const mf_kctx *x, const mf_check_index_args *a)
{
    checks++;
    counted->check_index(x, a);
}
static void check_offset(const mf_kctx *x, const mf_check_offset_args *a)
{
    checks++;
    counted->check_offset(x, a);
}
static const mf_kernels *counting_set(mf_device *d, const mf_kernels *host)
{
    (void)host;
    counting = *(counted = d->kernels);
    counting.check_index = check_index;
    counting.check_offset = check_offset;
    return &counting;
}

static mf_device *device(void)
{
    static mf_device_ops ops;
    mf_device *d = mf_test_device();
    if (d->ops != &ops) {
        ops = *d->ops;
        ops.kernels_like = counting_set;
        d->ops = &ops;
    }
    return d;
}

/* Runs the graph, and returns the number of checks that it launched. */
static int checks_of(mf_graph *g, bool metrics)
{
    checks = 0;
    must(mf_graph_run(g, &(mf_run){.metrics = metrics}));
    return checks;
}

static mf_tensor *numbers(mf_graph *g, int rows, int columns)
{
    float of[64];
    for (int i = 0; i < rows * columns; i++)
        of[i] = (float)(i * 7 % 11);
    return mf_graph_const(g, MF_F32, mf_shape2(rows, columns), of);
}

static mf_graph *new_graph(void)
{
    return mf_graph_new(&(mf_graph_options){.device = device()});
}

static void keep_and_finish(mf_graph *g, int n, mf_tensor *const *t)
{
    for (int i = 0; i < n; i++)
        mf_graph_keep(t[i]);
    must(mf_graph_finish(g));
}

/* Indices of core's own kernels, read in another shape, by gradients' ops and after groups. */
START_TEST(indices_of_our_kernels_are_not_checked)
{
    mf_graph *g = new_graph();
    mf_tensor *x = numbers(g, 6, 5), *best = mf_topk(g, x, 2), *y[4];
    mf_tensor *expert = mf_reshape(g, best, mf_shape1(12));
    y[0] = mf_put(g, mf_take(g, x, best), best, 5);
    mf_row_groups groups = mf_group_rows(g, expert, NULL, 2, 5);
    mf_tensor *rows = mf_dispatch_rows(g, x, &groups, NULL, 2);
    y[1] = mf_combine_rows(g, rows, NULL, &groups, NULL, 6, 2);
    y[2] =
        mf_grouped_linear(g, rows, mf_broadcast(g, x, mf_shape3(5, 6, 5)), groups.offset, NULL);
    y[3] = mf_bincount(g, expert, NULL, 5);
    keep_and_finish(g, 4, y);
    ck_assert_int_eq(checks_of(g, false), 0);
    mf_graph_free(g);
}
END_TEST

/* The same indices for fewer rows than there are experts: what is known is not enough. */
START_TEST(a_bound_that_is_not_known_is_checked)
{
    mf_graph *g = new_graph();
    mf_tensor *best = mf_reshape(g, mf_topk(g, numbers(g, 6, 5), 1), mf_shape1(6)), *y[2];
    y[0] = mf_gather_rows(g, numbers(g, 4, 3), best);
    y[1] = mf_gather_rows(g, numbers(g, 5, 3), best);
    keep_and_finish(g, 2, y);
    checks = 0;
    ck_assert_int_eq(mf_graph_run(g, NULL), MF_EPLUGIN); /* a row whose largest is the last */
    ck_assert_int_eq(checks, 1);
    mf_graph_free(g);
}
END_TEST

START_TEST(inputs_are_checked_once_in_each_run)
{
    mf_graph *g = new_graph();
    mf_tensor *at = mf_graph_input(g, "at", MF_I32, mf_shape1(3)), *y[4];
    const int32_t good[] = {3, -1, 0}, bad[] = {3, -1, 4};
    mf_graph_metrics(g, true); /* a run without metrics does not do this check */
    y[0] = mf_gather_rows(g, numbers(g, 4, 2), at);
    mf_graph_metrics(g, false);
    y[1] = mf_gather_rows(g, numbers(g, 6, 2), at);
    y[2] = mf_gather_rows(g, numbers(g, 5, 2), at); /* fewer rows: checked again */
    y[3] = mf_gather_rows(g, numbers(g, 7, 2), at);
    keep_and_finish(g, 4, y);
    must(mf_tensor_write(at, good, 0, sizeof good));
    for (int run = 0; run < 2; run++) {
        ck_assert_int_eq(checks_of(g, true), 1);
        ck_assert_int_eq(checks_of(g, false), 2);
    }
    must(mf_tensor_write(at, bad, 0, sizeof bad));
    must(mf_graph_run(g, NULL)); /* 4 is a row of all that is computed now */
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){.metrics = true}), MF_EPLUGIN);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "gather_rows"));
    mf_graph_free(g);
}
END_TEST

static void holds(mf_tensor *t)
{
    int32_t v[64];
    const int64_t n = mf_shape_count(t->shape);
    must(mf_tensor_read(t, v, 0, (size_t)n * sizeof *v));
    ck_assert_uint_eq(t->known.run, t->graph->runs);
    for (int64_t i = 0; i < n; i++) {
        ck_assert_int_ge(v[i], t->known.lo);
        ck_assert_int_lt(v[i], t->known.hi);
        if (t->known.rises && i > 0) ck_assert_int_ge(v[i], v[i - 1]);
    }
}

/* With and without padding, and with assignments that were not admitted. */
START_TEST(what_ops_say_of_their_indices_is_true)
{
    for (int padded = 0; padded < 2; padded++) {
        static const float real[6] = {1, 0, 1, 1, 0, 1}, room[5] = {2, 1, 2, 1, 3};
        mf_graph *g = new_graph();
        mf_tensor *x = numbers(g, 6, 5), *moved, *t[9];
        mf_tensor *mask = padded ? mf_graph_const(g, MF_F32, mf_shape1(6), real) : NULL,
                  *cap = mf_graph_const(g, MF_F32, mf_shape1(5), room);
        t[0] = mf_route_select(g, x, mask, 2);
        t[1] = mf_capacity(g, t[0], NULL, cap);
        t[2] = mf_reassign(g, t[0], t[1], x, NULL, cap, 2, 0, &moved);
        t[3] = mf_mask_rows(g, t[2], mf_graph_const(g, MF_F32, mf_shape1(6), real), NULL, 2);
        t[4] = mf_topk(g, x, 3);
        mf_row_groups groups = mf_group_rows(g, t[3], NULL, 2, 5);
        t[5] = groups.order, t[6] = groups.offset, t[7] = groups.token, t[8] = groups.place;
        keep_and_finish(g, 9, t);
        ck_assert_int_eq(checks_of(g, false), 0);
        for (int i = 0; i < 9; i++)
            holds(t[i]);
        mf_graph_free(g);
    }
}
END_TEST

/* A router that lists the token of each assignment: the list is checked where it is read. */
START_TEST(tokens_of_groups_are_known_if_the_list_of_tokens_is)
{
    const int32_t e[] = {1, 0, 1}, tokens[] = {0, 1, 2};
    for (int checked = 0; checked < 2; checked++) {
        mf_graph *g = new_graph();
        mf_tensor *x = numbers(g, 3, 2), *y[2] = {NULL};
        mf_tensor *list = mf_graph_const(g, MF_I32, mf_shape1(3), tokens);
        if (checked) y[1] = mf_gather_rows(g, x, list);
        mf_row_groups groups =
            mf_group_rows(g, mf_graph_const(g, MF_I32, mf_shape1(3), e), list, 1, 2);
        y[0] = mf_gather_rows(g, x, groups.token);
        keep_and_finish(g, 1 + checked, y);
        ck_assert_int_eq(checks_of(g, false), 2); /* experts; tokens, here or there */
        mf_graph_free(g);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("known");
    TCase *c = tcase_create("known");
    tcase_add_test(c, indices_of_our_kernels_are_not_checked);
    tcase_add_test(c, a_bound_that_is_not_known_is_checked);
    tcase_add_test(c, inputs_are_checked_once_in_each_run);
    tcase_add_test(c, what_ops_say_of_their_indices_is_true);
    tcase_add_test(c, tokens_of_groups_are_known_if_the_list_of_tokens_is);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    setenv("MOEFW_TEST_DEVICE", "strict", 0);
    mf_test_find_strict(false);
    return check_run(suite(), CK_NOFORK);
}
