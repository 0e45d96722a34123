/* The meter of plan --device: bytes and launches of calls of kernels, according to kernels.def.
 * Each array is read or written once, in elements of 4 bytes. plan_device.bats counts
 * whole steps. */
#include "check_main.h"

#include "lab/plan/meter.h"

#include <string.h>

static mf_meter m;
static mf_kctx x;

static void setup(void)
{
    m = (mf_meter){.device = &mf_meter_devices[0]};
    x = (mf_kctx){.stream = &m};
}

/* Checks what a single call has added to the row of its kernel, and clears the meter. */
static void added(const char *name, int launches, double bytes)
{
    ck_assert_msg(m.n == 1 && strcmp(m.row[0].name, name) == 0, "%s: %d rows, first %s", name,
                  m.n, m.n > 0 ? m.row[0].name : "none");
    ck_assert_int_eq(m.row[0].calls, 1);
    ck_assert_msg(m.row[0].launches == launches, "%s: %d launches", name,
                  (int)m.row[0].launches);
    ck_assert_msg(m.row[0].bytes == bytes, "%s: %g bytes", name, m.row[0].bytes);
    setup();
}

static const mf_kernels *const k = &mf_meter_kernels;
static float some[4];
static int32_t index_[4];
static mf_bf16 copies[4];

START_TEST(elements)
{
    MF_RUN(k, &x, set, .n = 100, .value = 1);
    added("set", 1, 4 * 100);
    MF_RUN(k, &x, scale_inplace, .count = 100, .factor = 2);
    added("scale_inplace", 1, 2 * 4 * 100);
    MF_RUN(k, &x, dropout, .stream = 1, .n = 100, .p = 0.5f);
    added("dropout", 1, 2 * 4 * 100);
    MF_RUN(k, &x, one_hot, .m = 10, .n = 7);
    added("one_hot", 1, 4 * (10 + 10 * 7));
    MF_RUN(k, &x, group_sum, .type = MF_CAST_F32, .groups = 3, .rows = 10, .n = 7);
    added("group_sum", 1, 4 * (10 * 7 + 3 * 7));
    MF_RUN(k, &x, group_sum, .type = MF_CAST_BF16, .groups = 3, .rows = 10, .n = 7);
    added("group_sum", 1, 2 * 10 * 7 + 4 * 3 * 7);
    MF_RUN(k, &x, cross_entropy, .rows = 10, .n = 7);
    added("cross_entropy", 2, 4 * (10 * 7 + 3 * 10)); /* arrays: target, row_loss, lse */
    MF_RUN(k, &x, cross_entropy_backward, .rows = 10, .n = 7);
    /* read: logits, target, lse, and weight or row_loss; written: dlogits */
    added("cross_entropy_backward", 2, 4 * (2 * 10 * 7 + 3 * 10));
    MF_RUN(k, &x, cache_append, .batch = 3, .s = 10, .t = 4, .n = 5);
    added("cache_append", 2, 2 * 4 * 3 * 4 * 5);
}
END_TEST

/* Without weights only the pass itself counts. With weights the indices are listed first, and
 * weights and list are read. */
START_TEST(counts)
{
    MF_RUN(k, &x, bincount, .m = 10, .n = 7);
    added("bincount", 3, 4 * (10 + 3 * 7));
    MF_RUN(k, &x, bincount, .m = 0, .n = 7);
    added("bincount", 2, 4 * 3 * 7);
    MF_RUN(k, &x, score_bins, .tokens = 10, .experts = 7, .bins = 5, .hi = 1);
    added("score_bins", 4, 4 * (10 * 7 + 3 * 7 * 5));
    MF_RUN(k, &x, index_lists, .m = 10, .n = 7);
    const int launches = (int)m.row[0].launches;
    const double bytes = m.row[0].bytes;
    setup();
    MF_RUN(k, &x, bincount, .m = 10, .n = 7, .weight = some);
    added("bincount", launches + 1, bytes + 2 * 4 * 10);
    MF_RUN(k, &x, capacity, .rows = 10, .experts = 7);
    added("capacity", launches + 2, bytes + 3 * 4 * 10); /* arrays: chosen,
                                                          * priority, admitted */
}
END_TEST

START_TEST(routing)
{
    MF_RUN(k, &x, routing_stats, .tokens = 5, .rows = 10, .experts = 7, .k = 2);
    added("routing_stats", 3, 4 * (5 * 7 + 3 * 10)); /* arrays: prob; chosen, admitted, gate */
    MF_RUN(k, &x, joint_count, .rows = 10, .k = 2, .experts = 7, .labels = 3);
    added("joint_count", 3, 4 * (2 * 10 + 3 * 7 * 3)); /* arrays: sums of tiles, and
                                                        * their sum */
    MF_RUN(k, &x, mask_rows, .rows = 10, .k = 2);
    added("mask_rows", 1, 3 * 4 * 10); /* arrays: expert, mask, the masked expert */
    MF_RUN(k, &x, capacity_of, .tokens = 10, .k = 2, .experts = 7);
    added("capacity_of", 1, 4 * (10 + 7));
    MF_RUN(k, &x, reassign, .tokens = 10, .experts = 7, .k = 2, .most = 0);
    added("reassign", 1, 3 * 4 * 10 * 2);
    MF_RUN(k, &x, group_rows, .rows = 10, .k = 2, .experts = 7);
    added("group_rows", 2, 4 * 4 * 10);
    MF_RUN(k, &x, group_rows, .rows = 10, .k = 2, .experts = 7, .token_of_row = index_);
    added("group_rows", 3, 4 * 4 * 10);
}
END_TEST

/* dout is read for both gradients; dy is written, and y is read for dgate. */
START_TEST(gradients_of_a_combination)
{
    MF_RUN(k, &x, combine_grad, .type = MF_CAST_F32, .rows = 10, .k = 2, .d = 7, .dy = some);
    added("combine_grad", 2, 10 * (7 * (4 + 4) + 12));
    MF_RUN(k, &x, combine_grad, .type = MF_CAST_F32, .rows = 10, .k = 2, .d = 7, .dgate = some);
    added("combine_grad", 1, 10 * (7 * (4 + 4) + 12));
    MF_RUN(k, &x, combine_grad, .type = MF_CAST_BF16, .rows = 10, .k = 2, .d = 7, .dy = some,
           .dgate = some);
    added("combine_grad", 2, 10 * (7 * (2 + 2 + 4) + 12));
}
END_TEST

START_TEST(optimizers)
{
    MF_RUN(k, &x, lion, .count = 100);
    added("lion", 1, 5 * 4 * 100); /* read: grad; read and written: value and m */
    MF_RUN(k, &x, lion, .count = 100, .copy = copies);
    added("lion", 1, (5 * 4 + 2) * 100);
    MF_RUN(k, &x, momentum, .count = 100);
    added("momentum", 1, 4 * 4 * 100); /* read: grad, u; read and written: m */
    MF_RUN(k, &x, descend, .count = 100, .scale = 1);
    added("descend", 1, 3 * 4 * 100); /* read: u; read and written: value */
    MF_RUN(k, &x, descend, .count = 100, .scale = 1, .copy = copies);
    added("descend", 1, (3 * 4 + 2) * 100);
    MF_RUN(k, &x, adafactor, .groups = 2, .rows = 3, .columns = 5);
    added("adafactor", 6, 24 * 2 * 3 * 5);
    MF_RUN(k, &x, adafactor, .groups = 2, .rows = 0, .columns = 5);
    added("adafactor", 6, 24 * 2 * 5);
}
END_TEST

/* 4 x rows x keys x width operations: scores, and the sum of values. Backward counts 2.5 times
 * as many. If the keys are the expert's own, each expert has its share of the rows as keys,
 * else all s keys. */
START_TEST(attention_of_groups)
{
    const mf_meter_device *d = m.device;
    mf_grouped_attention_args args = {
        .rows = 60, .experts = 3, .batch = 1, .s = 50, .heads = 2, .head_dim = 8};
    for (int own = 0; own < 2; own++) {
        const double flops = 4.0 * 60 * (own ? 20 : 50) * 16;
        args.own = own == 1;
        k->grouped_attention(&x, &args);
        ck_assert_double_eq(m.sum.flops, flops);
        ck_assert_double_eq_tol(m.sum.seconds, flops / (d->f32 * d->attention) + 3 * d->launch,
                                1e-12);
        added("grouped_attention", 3, 0);
        k->grouped_attention_backward(&x, &args);
        ck_assert_double_eq(m.sum.flops, 2.5 * flops);
        ck_assert_double_eq_tol(m.sum.seconds,
                                2.5 * flops / (d->f32 * d->attention_backward) + 4 * d->launch,
                                1e-12);
        added("grouped_attention_backward", 4, 0);
    }
}
END_TEST

/* On a device weights are not packed. Kernels of stored weights, which are not trained,
 * count calls. */
START_TEST(weights_of_files)
{
    ck_assert(!k->can_pack(MF_CAST_F32, 64, 64));
    MF_RUN(k, &x, pack_weights, .type = MF_CAST_F32, .parts = 1, .n = 64, .k = 64);
    ck_assert_int_eq(m.n, 0);
    k->stored_gemm(&x, NULL);
    added("stored_gemm", 1, 0);
    k->stored_rows(&x, NULL);
    added("stored_rows", 1, 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("meter");
    TCase *t = tcase_create("meter");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, elements);
    tcase_add_test(t, counts);
    tcase_add_test(t, routing);
    tcase_add_test(t, gradients_of_a_combination);
    tcase_add_test(t, optimizers);
    tcase_add_test(t, attention_of_groups);
    tcase_add_test(t, weights_of_files);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
