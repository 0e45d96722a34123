/* live: options that plugins require may be registered later, also by core's trainer. When a
 * run begins, they must be registered. */
#include "plugin/live.h"
#include "plugin/instance.h"

#include "base/error.h"
#include "check_main.h"
#include "graph/graph.h"

START_TEST(needs_are_judged)
{
    static const char *const later[] = {"train.lr", "train.clip", NULL};
    const char *option = NULL, *by = NULL;
    double value = 1;
    mf_store *store = mf_store_new();
    mf_plughost *h = mf_plughost_new(store);
    ck_assert_int_eq(mf_live_judge(h, later, &option, &by), MF_OK);
    ck_assert_int_eq(mf_live_want(h, "train.lr", "controller.a"), MF_OK);
    ck_assert_int_eq(mf_live_judge(h, later, &option, &by), MF_OK);
    ck_assert_int_eq(mf_live_want(h, "router.scale", "controller.b"), MF_OK);
    ck_assert_int_eq(mf_live_judge(h, later, &option, &by), MF_ENOTFOUND);
    ck_assert_str_eq(option, "router.scale");
    ck_assert_str_eq(by, "controller.b");
    ck_assert_str_eq(mf_error_message(),
                     "no live option 'router.scale'; live here: train.lr, train.clip");
    ck_assert_int_eq(mf_live_register_real(h, "router.scales", &value, 0, 2), MF_OK);
    ck_assert_int_eq(mf_live_judge(h, later, &option, &by), MF_ENOTFOUND);
    ck_assert_str_eq(mf_error_message(),
                     "no live option 'router.scale'; did you mean 'router.scales'? live here: "
                     "router.scales, train.lr, train.clip");
    ck_assert_int_eq(mf_live_register_real(h, "router.scale", &value, 0, 2), MF_OK);
    ck_assert_int_eq(mf_live_judge(h, later, &option, &by), MF_OK);
    mf_plughost_free(h);
    mf_store_free(store);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("live");
    TCase *t = tcase_create("needs");
    tcase_add_test(t, needs_are_judged);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
