/* check_main.h: the main function of a unit test.
 *
 * A test file defines its Suite and ends with one of
 *     MF_CHECK_MAIN(suite)        tests run in this process
 *     MF_CHECK_MAIN_FORK(suite)   each test runs in its own child
 * where `static Suite *suite(void)` builds the suite. Results go to stdout as TAP. Most suites
 * do not fork, because a child that is forked after an OpenMP region hangs in its own first
 * region. A suite that forks (to survive aborts, to catch signals) must not use mf_parallel in
 * the parent. In the environment, CK_FORK=yes|no overrides the suite's choice, and CK_RUN_CASE
 * selects one case. */
#ifndef MF_CHECK_MAIN_H
#define MF_CHECK_MAIN_H

#include <check.h>
#undef fail /* Check defines this old macro; mf_host and others have a member of this name */
#include <stdlib.h>
#include <unistd.h>

/* Time limit in seconds. A test program that runs longer is killed and fails.
 * MOEFW_CHECK_SECONDS sets another limit. */
#define MF_CHECK_SECONDS 600

static int check_run(Suite *suite, enum fork_status mode)
{
    SRunner *runner = srunner_create(suite);
    if (!getenv("CK_FORK")) srunner_set_fork_status(runner, mode);
    srunner_set_tap(runner, "-");
    const char *seconds = getenv("MOEFW_CHECK_SECONDS");
    alarm(seconds ? (unsigned)atoi(seconds) : MF_CHECK_SECONDS);
    srunner_run_all(runner, CK_SILENT);
    int run = srunner_ntests_run(runner), failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (run == 0) return 1;
    /* Automake's harness reads the "not ok" lines. A status of failure would count as one more
     * failed test. */
    return failed != 0 && !getenv("HARNESS_ACTIVE");
}

#define MF_CHECK_MAIN(suite)                                                                   \
    int main(void)                                                                             \
    {                                                                                          \
        return check_run(suite(), CK_NOFORK);                                                  \
    }

#define MF_CHECK_MAIN_FORK(suite)                                                              \
    int main(void)                                                                             \
    {                                                                                          \
        return check_run(suite(), CK_FORK);                                                    \
    }

#endif
