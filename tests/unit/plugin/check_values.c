/* values: which parameters and buffers a plugin receives between steps. Its own buffers are not
 * copied. For all others it receives a copy of every element. If it changes the copy, the
 * call fails. */
#include "tests/unit/plugin/plugin_here.h"

#include <stdio.h>

static int late;   /* 1: the write happens after the values were requested again */
static int writes; /* where the plugin writes: 0 nowhere, 1 to the last weight, 2 to another
                    * plugin's buffer */

/* Checks that a copy contains all elements, and that the own buffer is not a copy. */
static int reads(mf_ctx *ctx, const mf_step *step)
{
    static const char *const names[] = {"weight", "/layers.1.router.seen"};
    int64_t n = 0;
    (void)step;
    for (int i = 0; i < 2; i++) {
        char full[64];
        snprintf(full, sizeof full, "%s%s", i == 0 ? "layers.0.router." : "", names[i] + i);
        const mf_param *p = mf_store_find(store, full);
        for (int again = 0; again < 2; again++) {
            float *v = mf_slot->data(ctx, names[i], &n);
            ck_assert(v && v != p->value && n == p->count);
            ck_assert_mem_eq(v, p->value, (size_t)n * sizeof *v);
            if (writes == i + 1 && again == late) v[n - 1] += 1;
        }
    }
    ck_assert_ptr_null(mf_slot->data(ctx, "/layers.1.router.none", &n));
    ck_assert_int_eq(n, 0);
    float *own = mf_slot->data(ctx, "seen", &n);
    ck_assert_ptr_eq(own, mf_store_find(store, "layers.0.router.seen")->value);
    own[1] = 7;
    return MF_OK;
}

START_TEST(values_of_others_are_copies)
{
    static const mf_step step = {.size = sizeof step, .step = 5};
    static const char *const told[] = {NULL, "it wrote to layers.0.router.weight: expected",
                                       "it wrote to layers.1.router.seen: expected"};
    mf_ctx *a, *b;
    ck_assert_int_eq(make("layers.0.router", &a), MF_OK);
    ck_assert_int_eq(make("layers.1.router", &b), MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    on_turn = reads;
    for (int i = 0; i < 12; i++) { /* after a failed call the next call is checked on its own */
        writes = i % 3;
        late = i / 3 % 2;
        const int rc = mf_instance_after_step(a, &step);
        ck_assert_int_eq(rc, writes == 0 ? MF_OK : MF_EPLUGIN);
        if (told[writes]) expect_message(told[writes]);
        ck_assert_float_eq(mf_store_find(store, "layers.0.router.seen")->value[1], 7);
        ck_assert_float_eq(mf_store_find(store, "layers.1.router.seen")->value[1], 0);
    }
    mf_instance_free(a);
    mf_instance_free(b);
}
END_TEST

static int logits_only(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    out->logits = mf_linear(g, in->x, mf_slot->use(ctx, g, "weight"), NULL);
    return mf_slot->status(g);
}

/* A call of route after a failed call is not affected. */
START_TEST(a_fault_does_not_stay)
{
    static const mf_step step = {.size = sizeof step, .step = 5};
    mf_ctx *a, *b;
    mf_routing out;
    ck_assert_int_eq(make("layers.0.router", &a), MF_OK);
    ck_assert_int_eq(make("layers.1.router", &b), MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    on_turn = reads;
    on_route = logits_only;
    writes = 1;
    ck_assert_int_eq(mf_instance_after_step(a, &step), MF_EPLUGIN);
    ck_assert_int_eq(run_route(a, &out), MF_OK);
    ck_assert_ptr_nonnull(x_in);
    mf_instance_free(a);
    mf_instance_free(b);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("values");
    TCase *t = tcase_create("values");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, values_of_others_are_copies);
    tcase_add_test(t, a_fault_does_not_stay);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
