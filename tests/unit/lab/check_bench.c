/* benchmarks: runs that alternate with another program, the limits of the machine, and gemms on
 * a device that has no kernel for them. */
#include "check_main.h"

#include "base/error.h"
#include "graph/device/device.h"
#include "lab/bench/gemm_bench.h"
#include "lab/bench/timing.h"
#include "run/backend.h"
#include "tests/lib/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- turns ---- */

static int runs;
static int count_run(void *arg, double *ret_ms)
{
    (void)arg;
    *ret_ms = ++runs;
    return MF_OK;
}

/* Makes the runs that the text `lines` requests. The reply is written to a file. */
static int take_turns(const char *lines, const char *reply_to, mf_timing *ret)
{
    mf_timing_how how = {.turns_in = fmemopen((void *)(uintptr_t)lines, strlen(lines), "r"),
                         .turns_out = fopen(reply_to, "w")};
    ck_assert(how.turns_in && how.turns_out);
    runs = 0;
    mf_error_clear();
    const int rc = mf_timing_run(&how, 1, count_run, NULL, ret);
    fclose(how.turns_in);
    fclose(how.turns_out);
    return rc;
}

START_TEST(turns)
{
    static const char *const wrong[] = {"x\n", "0\n", "-1\n", "100001\n", "2 3\n", "1\nx\n"};
    mf_timing t;
    ck_assert_int_eq(take_turns("2\n1\n", "/dev/null", &t), MF_OK);
    ck_assert_int_eq(runs, 4); /* 3 runs and a warm-up run */
    ck_assert_double_eq(t.ms, 3);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(take_turns(wrong[i], "/dev/null", &t), MF_EINPUT);
        ck_assert_ptr_nonnull(strstr(mf_error_message(),
                                     "turns: expected a number of runs from 1 to 100000 on "
                                     "each line, found '"));
    }
    FILE *empty = fopen("/dev/null", "r");
    const mf_timing_how how = {.turns_in = empty, .turns_out = stderr};
    ck_assert_int_eq(mf_timing_run(&how, 0, count_run, NULL, &t), MF_EINPUT);
    ck_assert_str_eq(mf_error_message(), "turns: expected a number of runs on standard input");
    ck_assert(isnan(t.ms));
    fclose(empty);
    ck_assert_int_eq(take_turns("1\n", "/dev/full", &t), MF_ERUN);
    ck_assert_str_eq(mf_error_message(), "turns: the reply could not be written");
}
END_TEST

/* ---- gemms, and limits ---- */

/* A round on pairs of bf16 has twice the operations of one on f32, on matrix registers more. */
START_TEST(registers_of_bf16_are_those_of_the_processor)
{
    const double f32 = mf_kernels_multiply(false, 1), bf16 = mf_kernels_multiply(true, 1);
    ck_assert_double_gt(f32, 0);
#if defined(__x86_64__)
    if (strcmp(mf_kernels_isa(), "avx512") == 0 && __builtin_cpu_supports("avx512bf16")) {
        ck_assert_double_ge(bf16, 2 * f32);
        return;
    }
#endif
    ck_assert_double_eq(bf16, f32);
}
END_TEST

START_TEST(limits_of_the_processor)
{
    mf_machine_limits l;
    ck_assert_int_eq(mf_machine_limits_measure(NULL, false, &l), MF_OK);
    ck_assert(l.peak_gflops > 0 && isfinite(l.peak_gflops));
    ck_assert(l.peak_bf16_gflops >= l.peak_gflops && isfinite(l.peak_bf16_gflops));
    ck_assert(isnan(l.read_gb));
    ck_assert_int_eq(mf_machine_limits_measure(NULL, true, &l), MF_OK);
    ck_assert(l.read_gb > 0 && isfinite(l.read_gb));
}
END_TEST

/* The limits of the strict device, for which there is no data sheet. */
START_TEST(limits_of_a_device)
{
    mf_machine_limits l;
    mf_device *d = NULL;
    ck_assert_msg(mf_backend_open("strict", &d) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(mf_machine_limits_measure(d, true, &l), MF_OK);
    ck_assert(isnan(l.peak_gflops) && isnan(l.peak_bf16_gflops));
    ck_assert(l.read_gb > 0 && isfinite(l.read_gb));
    mf_device_close(d);
}
END_TEST

static void count_result(void *arg, const mf_gemm_bench *r)
{
    (void)r;
    ++*(int *)arg;
}

START_TEST(a_device_without_gemm)
{
    int n = 0;
    mf_device *d = NULL;
    setenv("MOEFW_STRICT_LACKS", "gemm", 1);
    ck_assert_msg(mf_backend_open("strict", &d) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(mf_gemm_bench_run(d, mf_gemm_bench_least(), 1, count_result, &n), MF_EDEP);
    ck_assert_str_eq(mf_error_message(), "device strict has no kernel gemm");
    ck_assert_int_eq(n, 0);
    mf_device_close(d);
    unsetenv("MOEFW_STRICT_LACKS");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("bench");
    TCase *t = tcase_create("bench");
    tcase_add_test(t, turns);
    tcase_add_test(t, registers_of_bf16_are_those_of_the_processor);
    tcase_add_test(t, limits_of_the_processor);
    tcase_add_test(t, limits_of_a_device);
    tcase_add_test(t, a_device_without_gemm);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    mf_test_find_strict(true);
    return check_run(suite(), CK_NOFORK);
}
