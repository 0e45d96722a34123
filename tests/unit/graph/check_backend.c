/* backend: the kernel set that the environment chooses. The choice is made once per process, so
 * each test runs in a process of its own. */
#include "check_main.h"

#include "base/error.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

#include <stdlib.h>
#include <string.h>

START_TEST(the_fast_set_is_the_usual_one)
{
    unsetenv("MOEFW_KERNELS");
    unsetenv("MOEFW_ISA");
    ck_assert_int_eq(mf_backend_init(), MF_OK);
    ck_assert_str_eq(mf_backend_kernels()->name, "cpu");
    setenv("MOEFW_KERNELS", "ref", 1); /* too late: the choice is made */
    ck_assert_str_eq(mf_backend_kernels()->name, "cpu");
}
END_TEST

START_TEST(a_set_can_be_named)
{
    setenv("MOEFW_KERNELS", "ref", 1);
    ck_assert_ptr_eq(mf_backend_kernels(), &mf_kernels_ref);
}
END_TEST

START_TEST(an_unknown_set_is_refused_each_time)
{
    setenv("MOEFW_KERNELS", "reff", 1);
    for (int i = 0; i < 2; i++) {
        mf_error_clear();
        ck_assert_int_eq(mf_backend_init(), MF_ECONFIG);
        ck_assert_str_eq(mf_error_message(),
                         "MOEFW_KERNELS: expected cpu or ref, found \"reff\"; "
                         "did you mean ref?");
        ck_assert_ptr_null(mf_backend_kernels());
    }
    mf_graph *g = mf_graph_new(NULL);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert_int_eq(mf_graph_run(g, NULL), MF_ECONFIG);
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){.kernels = &mf_kernels_ref}), MF_OK);
    mf_graph_free(g);
}
END_TEST

START_TEST(an_unknown_instruction_set_is_refused)
{
    unsetenv("MOEFW_KERNELS");
    setenv("MOEFW_ISA", "generik", 1);
    ck_assert_int_eq(mf_backend_init(), MF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "MOEFW_ISA: expected "));
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "did you mean generic?"));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("backend");
    TCase *t = tcase_create("backend");
    tcase_add_test(t, the_fast_set_is_the_usual_one);
    tcase_add_test(t, a_set_can_be_named);
    tcase_add_test(t, an_unknown_set_is_refused_each_time);
    tcase_add_test(t, an_unknown_instruction_set_is_refused);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_FORK(suite)
