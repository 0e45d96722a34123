/* The meter of plan --device: the bytes and launches of a call of a kernel, by the formula of
 * kernels.def: each array is read or written once, in elements of 4 bytes. plan_device.bats
 * counts whole steps. */
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

/* Checks what the calls since the last check have added to the row of a kernel. */
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
    k->set(&x, 100, 1, NULL);
    added("set", 1, 4 * 100);
    k->scale_inplace(&x, 100, 2, NULL);
    added("scale_inplace", 1, 2 * 4 * 100);
    k->dropout(&x, 1, 100, 0.5f, NULL, NULL);
    added("dropout", 1, 2 * 4 * 100);
    k->one_hot(&x, 10, 7, NULL, NULL);
    added("one_hot", 1, 4 * (10 + 10 * 7));
    k->group_sum(&x, MF_CAST_F32, 3, 10, 7, NULL, NULL, NULL);
    added("group_sum", 1, 4 * (10 * 7 + 3 * 7));
    k->group_sum(&x, MF_CAST_BF16, 3, 10, 7, NULL, NULL, NULL);
    added("group_sum", 1, 2 * 10 * 7 + 4 * 3 * 7);
    k->cross_entropy(&x, 10, 7, NULL, NULL, NULL, NULL, NULL, NULL);
    added("cross_entropy", 2, 4 * (10 * 7 + 3 * 10)); /* target, row_loss, lse */
    k->cross_entropy_backward(&x, 10, 7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                              NULL);
    /* read: logits, target, lse, and weight or row_loss; written: dlogits */
    added("cross_entropy_backward", 2, 4 * (2 * 10 * 7 + 3 * 10));
    k->cache_append(&x, 3, 10, 4, 5, NULL, NULL, NULL);
    added("cache_append", 2, 2 * 4 * 3 * 4 * 5);
}
END_TEST

/* Without weights a pass counts; with them the indices are listed first, and weights and list
 * are read. */
START_TEST(counts)
{
    k->bincount(&x, 10, 7, NULL, NULL, NULL, NULL);
    added("bincount", 3, 4 * (10 + 3 * 7));
    k->bincount(&x, 0, 7, NULL, NULL, NULL, NULL);
    added("bincount", 2, 4 * 3 * 7);
    k->score_bins(&x, 10, 7, 5, 0, 1, NULL, NULL, NULL, NULL, NULL);
    added("score_bins", 4, 4 * (10 * 7 + 3 * 7 * 5));
    k->index_lists(&x, 10, 7, NULL, NULL, NULL);
    const int launches = (int)m.row[0].launches;
    const double bytes = m.row[0].bytes;
    setup();
    k->bincount(&x, 10, 7, NULL, some, NULL, NULL);
    added("bincount", launches + 1, bytes + 2 * 4 * 10);
    k->capacity(&x, 10, 7, NULL, NULL, NULL, NULL, NULL);
    added("capacity", launches + 2, bytes + 3 * 4 * 10); /* chosen, priority, admitted */
}
END_TEST

START_TEST(routing)
{
    k->routing_stats(&x, 5, 10, 7, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                     NULL, NULL);
    added("routing_stats", 3, 4 * (5 * 7 + 3 * 10)); /* prob; chosen, admitted, gate */
    k->joint_count(&x, 10, 2, 7, 3, NULL, NULL, NULL, NULL, NULL);
    added("joint_count", 3, 4 * (2 * 10 + 3 * 7 * 3)); /* sums of tiles, and their sum */
    k->mask_rows(&x, 10, 2, NULL, NULL, NULL, NULL);
    added("mask_rows", 1, 3 * 4 * 10); /* expert, mask, the masked expert */
    k->capacity_of(&x, 10, 2, 7, NULL, NULL, NULL);
    added("capacity_of", 1, 4 * (10 + 7));
    k->reassign(&x, 10, 7, 2, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    added("reassign", 1, 3 * 4 * 10 * 2);
    k->group_rows(&x, 10, 2, 7, NULL, NULL, NULL, NULL, NULL, NULL);
    added("group_rows", 2, 4 * 4 * 10);
    k->group_rows(&x, 10, 2, 7, NULL, index_, NULL, NULL, NULL, NULL);
    added("group_rows", 3, 4 * 4 * 10);
}
END_TEST

/* dout is read for both gradients; dy is written, and y read for dgate. */
START_TEST(gradients_of_a_combination)
{
    k->combine_grad(&x, MF_CAST_F32, 10, 2, 7, NULL, NULL, NULL, NULL, NULL, some, NULL);
    added("combine_grad", 2, 10 * (7 * (4 + 4) + 12));
    k->combine_grad(&x, MF_CAST_F32, 10, 2, 7, NULL, NULL, NULL, NULL, NULL, NULL, some);
    added("combine_grad", 1, 10 * (7 * (4 + 4) + 12));
    k->combine_grad(&x, MF_CAST_BF16, 10, 2, 7, NULL, NULL, NULL, NULL, NULL, some, some);
    added("combine_grad", 2, 10 * (7 * (2 + 2 + 4) + 12));
}
END_TEST

START_TEST(optimizers)
{
    k->lion(&x, 100, NULL, NULL, NULL, NULL, NULL);
    added("lion", 1, 5 * 4 * 100); /* read: grad; read and written: value and m */
    k->lion(&x, 100, NULL, NULL, copies, NULL, NULL);
    added("lion", 1, (5 * 4 + 2) * 100);
    k->momentum(&x, 100, NULL, NULL, NULL, NULL);
    added("momentum", 1, 4 * 4 * 100); /* read: grad, u; read and written: m */
    k->descend(&x, 100, NULL, 1, NULL, NULL, NULL);
    added("descend", 1, 3 * 4 * 100); /* read: u; read and written: value */
    k->descend(&x, 100, NULL, 1, NULL, NULL, copies);
    added("descend", 1, (3 * 4 + 2) * 100);
    k->adafactor(&x, 2, 3, 5, NULL, NULL, NULL, NULL, NULL, NULL);
    added("adafactor", 6, 24 * 2 * 3 * 5);
    k->adafactor(&x, 2, 0, 5, NULL, NULL, NULL, NULL, NULL, NULL);
    added("adafactor", 6, 24 * 2 * 5);
}
END_TEST

/* 4 rows keys width: scores, and the sum of values; backward 2.5 times as many. Each expert has
 * its share of the rows as keys if they are its own, else all s. */
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

/* Nothing is packed on a device; kernels of stored weights, which do not train, count calls. */
START_TEST(weights_of_files)
{
    ck_assert(!k->can_pack(MF_CAST_F32, 64, 64));
    k->pack_weights(&x, MF_CAST_F32, 1, 64, 64, NULL);
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
