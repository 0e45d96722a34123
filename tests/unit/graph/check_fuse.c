/* fuse: on a device whose gemms have an epilogue, the gemm of gated experts and its activation
 * become one node; on every device, casts that change no bit have no node. The device of this
 * test has no epilogue: its set of kernels only claims to have one. */
#include "check_main.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/graph.h"
#include "kernels/bf16.h"
#include "ops/gemm.h"
#include "ops/ops.h"
#include "tests/lib/device.h"

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

static mf_kernels one_node;

static bool never_in_one_kernel(const mf_gemm *g)
{
    (void)g;
    return false;
}

static const mf_kernels *one_node_set(mf_device *d, const mf_kernels *host)
{
    (void)host;
    one_node = *d->kernels;
    one_node.can_swiglu = never_in_one_kernel;
    return &one_node;
}

/* Computes swiglu(x w^T) of two experts. as_metric: the activation runs only for metrics, so it
 * must not become part of the gemm's node. Returns the number of nodes that were merged
 * into others. */
static int experts_on(mf_device *d, bool as_metric, float y[6])
{
    static const int32_t groups[] = {0, 1, 3};
    mf_graph *g = mf_graph_new(&(mf_graph_options){.device = d});
    float numbers[24];
    for (int i = 0; i < 24; i++)
        numbers[i] = (float)(i % 5) - 1.5f;
    mf_tensor *x = mf_graph_const(g, MF_F32, mf_shape2(3, 3), numbers),
              *w = mf_graph_const(g, MF_F32, mf_shape3(2, 4, 3), numbers),
              *offset = mf_graph_const(g, MF_I32, mf_shape1(3), groups),
              *h = mf_grouped_linear(g, x, w, offset, NULL);
    mf_graph_keep(h);
    mf_graph_metrics(g, as_metric);
    mf_tensor *out = mf_swiglu(g, h, NULL);
    mf_graph_keep(out);
    must(mf_graph_finish(g));
    must(mf_graph_run(g, &(mf_run){.metrics = true}));
    must(mf_tensor_read(out, y, 0, 6 * sizeof *y));
    mf_graph_info info;
    mf_graph_get_info(g, &info);
    mf_graph_free(g);
    return info.dead;
}

START_TEST(an_activation_for_metrics_is_a_node_of_its_own)
{
    float on_host[6], y[6];
    mf_device *d = mf_test_device();
    const mf_device_ops *before = d->ops;
    mf_device_ops ops = *before;
    ops.kernels_like = one_node_set;
    d->ops = &ops;
    ck_assert_int_eq(experts_on(NULL, false, on_host), 0);
    ck_assert_float_ne(on_host[5], 0);
    for (int as_metric = 0; as_metric < 2; as_metric++) {
        ck_assert_int_eq(experts_on(d, as_metric, y), !as_metric);
        ck_assert_mem_eq(y, on_host, sizeof y);
    }
    d->ops = before;
}
END_TEST

/* ---- casts ---- */

enum { NONE, OTHER_READER, KEPT, F32_GEMM, CAST_KEPT }; /* why a cast is needed */

/* Computes what queries of attention and their gradients go through: a gemm whose f32 is cast
 * to bf16, that bf16 as f32, its sum, and the cast back, which a gemm reads. Returns the number
 * of nodes that no step runs. */
static int casts_on(mf_device *d, int why, float y[28])
{
    mf_graph *g = mf_graph_new(&(mf_graph_options){.device = d, .bf16 = true});
    float numbers[32];
    for (int i = 0; i < 32; i++)
        numbers[i] = 1 / (float)(i + 3);
    mf_tensor *x = mf_graph_const(g, MF_F32, mf_shape2(4, 8), numbers),
              *w = mf_graph_const(g, MF_F32, mf_shape2(4, 8), numbers), *other = NULL;
    mf_graph_set_bf16(g, why != F32_GEMM);
    mf_tensor *h = mf_linear_as(g, x, w, NULL, MF_F32);
    mf_graph_set_bf16(g, true);
    mf_tensor *h16 = mf_cast(g, h, MF_BF16), *h32 = mf_cast(g, h16, MF_F32),
              *sum = mf_sum(g, h32, 1u, false),
              *again = mf_cast(g, mf_reshape(g, h32, mf_shape2(2, 8)), MF_BF16),
              *out = mf_linear_as(g, again, w, NULL, MF_F32);
    if (why == OTHER_READER) other = mf_scale(g, h, 3);
    if (why == KEPT) other = h;
    if (why == CAST_KEPT) other = again;
    if (other) mf_graph_keep(other);
    mf_graph_keep(sum);
    mf_graph_keep(out);
    must(mf_graph_finish(g));
    for (int run = 0; run < 2; run++)
        must(mf_graph_run(g, &(mf_run){0}));
    memset(y, 0, 28 * sizeof *y);
    must(mf_tensor_read(sum, y, 0, 4 * sizeof *y));
    must(mf_tensor_read(out, y + 4, 0, 8 * sizeof *y));
    if (other)
        must(mf_tensor_read(other, y + 12, 0, 16 * (why == CAST_KEPT ? sizeof(mf_bf16) : 4)));
    mf_graph_info info;
    mf_graph_get_info(g, &info);
    mf_graph_free(g);
    return info.dead;
}

START_TEST(casts_that_change_no_bit_are_not_run)
{
    static const int dead[] = {
        [NONE] = 4, [OTHER_READER] = 3, [KEPT] = 3, [F32_GEMM] = 3, [CAST_KEPT] = 1};
    float on_host[28], y[28];
    for (int why = NONE; why <= CAST_KEPT; why++) {
        ck_assert_int_eq(casts_on(NULL, why, on_host), 0);
        ck_assert_float_ne(on_host[4], 0);
        ck_assert_int_eq(casts_on(mf_test_device(), why, y), dead[why]);
        ck_assert_mem_eq(y, on_host, sizeof y);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("fuse");
    TCase *c = tcase_create("fuse");
    tcase_add_test(c, an_activation_for_metrics_is_a_node_of_its_own);
    tcase_add_test(c, casts_that_change_no_bit_are_not_run);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    setenv("MOEFW_TEST_DEVICE", "strict", 0);
    mf_test_find_strict(false);
    return check_run(suite(), CK_NOFORK);
}
