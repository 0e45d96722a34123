/* backend: the kernel set that the environment chooses. A process chooses only once, so each
 * test runs in a process of its own. */
#include "check_main.h"

#include "base/error.h"
#include "base/thread/parallel.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

START_TEST(the_fast_set_is_the_usual_one)
{
    unsetenv("MOEFW_KERNELS");
    unsetenv("MOEFW_ISA");
    ck_assert_int_eq(mf_backend_init(), MF_OK);
    ck_assert_str_eq(mf_backend_kernels()->name, "cpu");
    setenv("MOEFW_KERNELS", "ref", 1); /* too late: the choice was made before */
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

/* Whether a library is mapped into this process. */
static bool is_open(const char *library)
{
    char line[4096];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(f);
    while (!found && fgets(line, sizeof line, f))
        found = strstr(line, library) != NULL;
    fclose(f);
    return found;
}

START_TEST(a_library_is_opened_by_those_who_compute)
{
    unsetenv("MOEFW_KERNELS");
    unsetenv("MOEFW_GEMM");
    setenv("MOEFW_ISA", "generic", 1);
    ck_assert_int_eq(mf_backend_names(), MF_OK);
    ck_assert(!is_open("openblas"));
    ck_assert_int_eq(mf_backend_init(), MF_OK);
    ck_assert(is_open("openblas"));
}
END_TEST

/* A limited address space. OpenBLAS needs a buffer of 128 MiB for each thread and one for
 * itself; the rest of the program needs 64 MiB. */
START_TEST(too_few_addresses_for_a_library_are_an_error)
{
    const struct rlimit limit = {1 << 28, 1 << 28};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return;
#endif
    unsetenv("MOEFW_KERNELS");
    setenv("MOEFW_GEMM", "openblas", 1);
    mf_parallel_set_threads(64);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ck_assert_int_eq(mf_backend_names(), MF_OK);
    ck_assert_int_eq(mf_backend_init(), MF_EDEP);
    ck_assert(!is_open("openblas"));
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "MOEFW_GEMM=openblas: OpenBLAS cannot be "
                                                     "used: expected 8384 MiB of free "
                                                     "addresses for 64 threads"));
    ck_assert_ptr_null(mf_backend_kernels());
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
    tcase_add_test(t, a_library_is_opened_by_those_who_compute);
    tcase_add_test(t, too_few_addresses_for_a_library_are_an_error);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_FORK(suite)
