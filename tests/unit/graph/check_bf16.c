/* bf16: which tensors of a graph are bf16, and how gradients pass conversions. Gemms read
 * and write bf16. An op that accepts bf16 keeps the type of its input. Any other op
 * receives f32. */
#include "check_main.h"

#include "base/error.h"
#include "graph/internal.h"
#include "graph_ops.h"
#include "ops/layers/linear_cross_entropy.h"
#include "ops/ops.h"
#include "train/optim/optim.h"

enum { ROWS = 3, IN = 4, OUT = 5 };

typedef struct bench {
    mf_store *store;
    mf_param *w;
    mf_graph *g;
    mf_tensor *x;
} bench;

static bench setup(bool bf16)
{
    bench b = {.store = mf_store_new()};
    const mf_init init = {.kind = MF_INIT_NORMAL, .a = 1};
    ck_assert_int_eq(mf_store_declare(b.store, "w", mf_shape2(OUT, IN), init, false, &b.w),
                     MF_OK);
    if (bf16) mf_store_want_bf16(b.store);
    ck_assert_int_eq(mf_store_seal(b.store, 1, true), MF_OK);
    b.g = mf_graph_new(&(mf_graph_options){.training = true, .bf16 = bf16});
    b.x = mf_graph_input(b.g, "x", MF_F32, mf_shape2(ROWS, IN));
    for (int i = 0; i < ROWS * IN; i++)
        ((float *)b.x->data)[i] = (float)(i % 5) - 2;
    return b;
}

static void finish(bench *b)
{
    mf_graph_free(b->g);
    mf_store_free(b->store);
}

static int count(const mf_graph *g, const char *op)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += strcmp(g->nodes[i]->op->name, op) == 0;
    return n;
}

/* An output head whose weight is in a file rounds its input to bf16 only if the gemms of the
 * graph use bf16. */
START_TEST(a_stored_head_is_rounded_where_gemms_are)
{
    static const uint16_t numbers[OUT * IN];
    const mf_stored_part part = {
        .type = MF_STORED_BF16, .rows = OUT, .ld = IN, .data = numbers};
    const mf_stored w = {1, OUT, IN, 1, &part, NULL};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        mf_store *s = mf_store_new();
        mf_param *p, *own;
        const mf_init zero = {.kind = MF_INIT_CONST};
        ck_assert_int_eq(mf_store_declare(s, "w", mf_shape2(OUT, IN), zero, false, &p), MF_OK);
        ck_assert_int_eq(mf_store_declare(s, "own", mf_shape2(OUT, IN), zero, false, &own),
                         MF_OK);
        ck_assert_int_eq(mf_store_bind(s, p, &w), MF_OK);
        if (bf16) mf_store_want_bf16(s);
        ck_assert_int_eq(mf_store_seal(s, 1, true), MF_OK);
        mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true, .bf16 = bf16});
        mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape2(ROWS, IN)),
                  *target = mf_graph_input(g, "target", MF_I32, mf_shape1(ROWS));
        mf_param *const params[] = {p, own};
        for (int i = 0; i < 2; i++) {
            const mf_tensor *loss = mf_linear_cross_entropy(g, x, mf_graph_param(g, params[i]),
                                                            NULL, target, NULL, NULL);
            ck_assert_ptr_nonnull(loss);
            ck_assert_int_eq(g->nodes[loss->node]->attr.i[1], bf16 && i == 0);
        }
        mf_graph_free(g);
        mf_store_free(s);
    }
}
END_TEST

START_TEST(without_the_option_all_is_f32)
{
    bench b = setup(false);
    mf_tensor *y = mf_linear(b.g, b.x, mf_graph_param(b.g, b.w), NULL);
    ck_assert_int_eq(y->dtype, MF_F32);
    ck_assert_ptr_null(b.w->bf16);
    ck_assert(!mf_graph_set_bf16(b.g, true));
    ck_assert(!mf_graph_is_bf16(b.g));
    ck_assert_int_eq(count(b.g, "cast"), 0);
    finish(&b);
}
END_TEST

START_TEST(a_gemm_gets_the_copy_and_one_cast)
{
    bench b = setup(true);
    mf_tensor *w = mf_graph_param(b.g, b.w);
    mf_tensor *y = mf_linear(b.g, b.x, w, NULL), *z = mf_linear(b.g, b.x, w, NULL);
    ck_assert_int_eq(y->dtype, MF_BF16);
    ck_assert_int_eq(count(b.g, "cast"), 1);
    const mf_node *node = b.g->nodes[y->node];
    ck_assert_ptr_eq(node->in[1]->data, b.w->bf16);
    ck_assert_ptr_eq(node->in[1], b.g->nodes[z->node]->in[1]);
    ck_assert_ptr_eq(mf_graph_param(b.g, b.w), w);
    finish(&b);
}
END_TEST

START_TEST(ops_that_know_bf16_go_on_with_it_and_others_see_f32)
{
    bench b = setup(true);
    mf_tensor *y = mf_linear(b.g, b.x, mf_graph_param(b.g, b.w), NULL);
    ck_assert_int_eq(mf_gelu(b.g, y)->dtype, MF_BF16);
    ck_assert_int_eq(mf_add(b.g, y, y)->dtype, MF_BF16);
    ck_assert_int_eq(count(b.g, "cast"), 1);
    ck_assert_int_eq(mf_softmax(b.g, y)->dtype, MF_F32);
    mf_tensor *own = op1(b.g, &t_square, y); /* an op like those of plugins */
    ck_assert_int_eq(own->dtype, MF_F32);
    ck_assert_int_eq(count(b.g, "cast"), 2);
    /* with an f32 operand the result is f32; a gemm would read the original bf16 tensor */
    ck_assert_int_eq(mf_mul(b.g, own, y)->dtype, MF_F32);
    ck_assert_ptr_eq(y->as_f32->as_bf16, y);
    finish(&b);
}
END_TEST

START_TEST(with_bf16_off_gemms_are_f32)
{
    bench b = setup(true);
    mf_tensor *w = mf_graph_param(b.g, b.w);
    ck_assert(mf_graph_set_bf16(b.g, false));
    ck_assert_int_eq(mf_linear(b.g, b.x, w, NULL)->dtype, MF_F32);
    ck_assert(!mf_graph_set_bf16(b.g, true));
    mf_tensor *y = mf_linear(b.g, b.x, w, NULL);
    mf_graph_set_bf16(b.g, false);
    ck_assert_int_eq(mf_matmul(b.g, y, true, b.x, false, 1)->dtype, MF_F32);
    finish(&b);
}
END_TEST

/* Computes the gradient of a loss that is the sum of square(x w^T), in bf16 or in f32. both:
 * the loss is the sum of the bf16 and the f32 loss. */
static void gradient_of(bool bf16, bool both, float *ret)
{
    bench b = setup(bf16);
    mf_tensor *w = mf_graph_param(b.g, b.w);
    mf_tensor *loss = mf_sum(b.g, mf_square(b.g, mf_linear(b.g, b.x, w, NULL)), MF_ALL, false);
    if (both) {
        mf_graph_set_bf16(b.g, false);
        loss = mf_add(b.g, loss,
                      mf_sum(b.g, mf_square(b.g, mf_linear(b.g, b.x, w, NULL)), MF_ALL, false));
        mf_graph_set_bf16(b.g, true);
    }
    ck_assert_int_eq(loss->dtype, MF_F32);
    ck_assert_msg(mf_graph_backward(b.g, loss, 0, NULL) == MF_OK, "%s", mf_error_message());
    ck_assert_msg(mf_graph_finish(b.g) == MF_OK, "%s", mf_error_message());
    ck_assert_msg(mf_graph_run(b.g, NULL) == MF_OK, "%s", mf_error_message());
    memcpy(ret, b.w->grad, IN * OUT * sizeof *ret);
    finish(&b);
}

START_TEST(gradients_of_copies_are_f32_and_end_at_the_master)
{
    float f32[IN * OUT], bf16[IN * OUT];
    for (int both = 0; both < 2; both++) {
        double largest = 0, off = 0;
        bool rounded = true;
        gradient_of(false, both, f32);
        gradient_of(true, both, bf16);
        for (int i = 0; i < IN * OUT; i++) {
            uint32_t bits;
            memcpy(&bits, &bf16[i], sizeof bits);
            rounded &= (bits & 0xffff) == 0;
            largest = fmax(largest, fabs((double)f32[i]));
            off = fmax(off, fabs((double)f32[i] - bf16[i]));
        }
        ck_assert_msg(off <= largest / 64, "off by %g of %g", off, largest);
        ck_assert(!rounded);
    }
}
END_TEST

START_TEST(the_optimizer_keeps_copies_up_to_date)
{
    bench b = setup(true);
    const mf_train_config config = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
    mf_optim *o;
    uint16_t before[IN * OUT], after[IN * OUT];
    memcpy(before, b.w->bf16, sizeof before);
    for (int i = 0; i < IN * OUT; i++)
        b.w->grad[i] = (float)(i + 1);
    ck_assert_int_eq(mf_optim_new(b.store, &config, &o), MF_OK);
    mf_optim_step s = {.lr = 0.5, .grad_scale = 1};
    mf_optim_measure(o);
    mf_optim_update(o, &s);
    memcpy(after, b.w->bf16, sizeof after);
    mf_store_refresh_bf16(b.store);
    ck_assert_mem_eq(after, b.w->bf16, sizeof after);
    ck_assert_mem_ne(after, before, sizeof after);
    mf_optim_free(o);
    finish(&b);
}
END_TEST

START_TEST(values_that_no_graph_reads_are_given_back)
{
    enum { SIDE = 64, INSIDE = SIDE * SIDE / 2 };
    mf_store *s = mf_store_new();
    mf_param *w, *v;
    const mf_init init = {.kind = MF_INIT_NORMAL, .a = 1};
    ck_assert_int_eq(mf_store_declare(s, "w", mf_shape2(SIDE, SIDE), init, false, &w), MF_OK);
    ck_assert_int_eq(mf_store_declare(s, "v", mf_shape1(SIDE), init, false, &v), MF_OK);
    mf_store_want_bf16(s);
    ck_assert_int_eq(mf_store_seal(s, 1, false), MF_OK);
    mf_graph *g = mf_graph_new(&(mf_graph_options){.bf16 = true});
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape2(1, SIDE));
    mf_tensor *y = mf_mul(g, mf_linear(g, x, mf_graph_param(g, w), NULL), mf_graph_param(g, v));
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert(!mf_graph_reads(g, w) && mf_graph_reads(g, v));
    float before[SIDE];
    const uint16_t half = w->bf16[INSIDE];
    for (int i = 0; i < SIDE; i++)
        ((float *)x->data)[i] = (float)(i % 7) - 3;
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){0}), MF_OK);
    memcpy(before, mf_tensor_data(y), sizeof before);
    ck_assert(w->value[INSIDE] != 0);
    mf_store_release_f32(s, w);
    ck_assert(w->f32_released && w->value[INSIDE] == 0);
    mf_store_refresh_bf16(s);
    ck_assert_uint_eq(w->bf16[INSIDE], half);
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){0}), MF_OK);
    ck_assert_mem_eq(before, mf_tensor_data(y), sizeof before);
    mf_graph_free(g);

    g = mf_graph_new(&(mf_graph_options){.bf16 = true});
    y = mf_relu(g, mf_graph_param(g, w));
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_EINVAL);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "w: its f32 values were given back"));
    mf_graph_free(g);
    mf_store_free(s);

    bench b = setup(true); /* in training the f32 values are needed */
    mf_store_release_f32(b.store, b.w);
    ck_assert(!b.w->f32_released && b.w->value[0] != 0);
    finish(&b);
}
END_TEST

#define SIDE 32

/* Computes y = x w^T [1,SIDE] in a graph of its own, into out. */
static int gemm_with(mf_param *w, bool bf16, float *out)
{
    mf_graph *g = mf_graph_new(&(mf_graph_options){.bf16 = bf16});
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape2(1, SIDE));
    mf_tensor *y = mf_linear(g, x, mf_graph_param(g, w), NULL);
    if (bf16) y = mf_graph_to_f32(g, y);
    mf_graph_keep(y);
    int rc = mf_graph_finish(g);
    for (int i = 0; rc == MF_OK && i < SIDE; i++)
        ((float *)x->data)[i] = (float)(i % 7) - 3;
    if (rc == MF_OK) ck_assert(mf_graph_multiplies(g, w));
    if (rc == MF_OK) rc = mf_graph_run(g, &(mf_run){0});
    if (rc == MF_OK) memcpy(out, mf_tensor_data(y), SIDE * sizeof *out);
    mf_graph_free(g);
    return rc;
}

static int sum_with(mf_param *w, bool *ret_multiplies)
{
    mf_graph *g = mf_graph_new(&(mf_graph_options){0});
    mf_graph_keep(mf_relu(g, mf_graph_param(g, w)));
    int rc = mf_graph_finish(g);
    *ret_multiplies = mf_graph_multiplies(g, w);
    mf_graph_free(g);
    return rc;
}

START_TEST(weights_in_panels_are_for_gemms_only)
{
    const bool bf16 = _i;
    mf_store *s = mf_store_new();
    mf_param *w;
    const mf_init init = {.kind = MF_INIT_NORMAL, .a = 1};
    float before[SIDE], after[SIDE];
    bool multiplies;
    ck_assert_int_eq(mf_store_declare(s, "w", mf_shape2(SIDE, SIDE), init, false, &w), MF_OK);
    if (bf16) mf_store_want_bf16(s);
    ck_assert_int_eq(mf_store_seal(s, 1, false), MF_OK);
    ck_assert_int_eq(gemm_with(w, bf16, before), MF_OK);
    ck_assert_int_eq(sum_with(w, &multiplies), MF_OK);
    ck_assert(multiplies == bf16); /* relu reads the f32 values, not the bf16 copy */
    mf_store_pack(s, w);
    if (w->packed) {
        ck_assert_int_eq(gemm_with(w, bf16, after), MF_OK);
        for (int i = 0; i < SIDE; i++)
            ck_assert_float_eq_tol(before[i], after[i], bf16 ? 0.5f : 1e-3f);
        ck_assert_int_eq(sum_with(w, &multiplies), bf16 ? MF_OK : MF_EINVAL);
        if (!bf16)
            ck_assert_ptr_nonnull(strstr(mf_error_message(), "w: its values are in panels"));
        const uint16_t half = bf16 ? w->bf16[1] : 0;
        mf_store_refresh_bf16(s);
        ck_assert(!bf16 || w->bf16[1] == half);
    }
    mf_store_free(s);

    bench b = setup(true); /* in training the values change in each step */
    mf_store_pack(b.store, b.w);
    ck_assert(!b.w->packed);
    finish(&b);
}
END_TEST

/* The type of the keys that attention reads, with QUERIES queries and a cache of `room`
 * positions. prefers: the option bf16_attention of the graph. metric: attention is only part of
 * a metric. */
static mf_dtype keys_of(int room, bool prefers, bool metric)
{
    enum { QUERIES = 2, WIDTH = 8 };
    mf_store *store = mf_store_new();
    mf_param *cache[2];
    const mf_init zeros = {.kind = MF_INIT_ZERO};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(mf_store_declare(store, i ? "v" : "k", mf_shape2(room, WIDTH), zeros,
                                          true, &cache[i]),
                         MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, false), MF_OK);
    mf_graph *g = mf_graph_new(&(mf_graph_options){.bf16 = true, .bf16_attention = prefers});
    mf_tensor *q = mf_graph_input(g, "q", MF_F32, mf_shape2(QUERIES, WIDTH));
    mf_graph_metrics(g, metric);
    mf_tensor *y = mf_attention(g, q, mf_graph_param(g, cache[0]), mf_graph_param(g, cache[1]),
                                NULL, NULL, 1, 1, 1, true, 1);
    mf_graph_metrics(g, false);
    ck_assert_ptr_nonnull(y);
    const mf_dtype type = g->nodes[y->node]->in[1]->dtype;
    ck_assert_int_eq(g->nodes[y->node]->in[0]->dtype, type);
    ck_assert_int_eq(g->nodes[y->node]->attr.i[MF_AS_BF16], !metric);
    ck_assert_int_eq(y->dtype, type);
    mf_graph_free(g);
    mf_store_free(store);
    return type;
}

START_TEST(attention_reads_bf16_where_that_is_faster)
{
    ck_assert_int_eq(keys_of(2 * MF_BF16_CACHE, true, false), MF_BF16);
    ck_assert_int_eq(keys_of(2 * MF_BF16_CACHE + 1, true, false), MF_F32); /* in decoding */
    ck_assert_int_eq(keys_of(2, false, false), MF_F32);
    ck_assert_int_eq(keys_of(2, true, true), MF_F32); /* for a metric */
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("bf16");
    TCase *t = tcase_create("bf16");
    tcase_add_loop_test(t, weights_in_panels_are_for_gemms_only, 0, 2);
    tcase_add_test(t, a_stored_head_is_rounded_where_gemms_are);
    tcase_add_test(t, without_the_option_all_is_f32);
    tcase_add_test(t, a_gemm_gets_the_copy_and_one_cast);
    tcase_add_test(t, ops_that_know_bf16_go_on_with_it_and_others_see_f32);
    tcase_add_test(t, with_bf16_off_gemms_are_f32);
    tcase_add_test(t, attention_reads_bf16_where_that_is_faster);
    tcase_add_test(t, gradients_of_copies_are_f32_and_end_at_the_master);
    tcase_add_test(t, the_optimizer_keeps_copies_up_to_date);
    tcase_add_test(t, values_that_no_graph_reads_are_given_back);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
