/* check_main.h: the main function of a unit test.
 *
 * A test file defines its Suite and ends with one of
 *     MF_CHECK_MAIN(suite)        tests run in this process
 *     MF_CHECK_MAIN_FORK(suite)   each test runs in a child of its own
 * where `static Suite *suite(void)` builds the suite. Results go to stdout as TAP. No fork is
 * the rule because a child forked after an OpenMP region never returns from its first one; a
 * suite that asks for fork (to survive aborts, to catch signals) must not use mf_parallel in
 * the parent. CK_FORK=yes|no in the environment overrides either; CK_RUN_CASE picks one case.
 */
#ifndef MF_CHECK_MAIN_H
#define MF_CHECK_MAIN_H

#include <check.h>
#undef fail /* an old macro of Check; calls into ops have a member of this name */
#include <stdlib.h>
#include <unistd.h>

#define MF_CHECK_SECONDS 600 /* a test program that hangs is ended, which fails it */

static int check_run(Suite *suite, enum fork_status mode)
{
    SRunner *runner = srunner_create(suite);
    if (getenv("CK_FORK") == NULL)
        srunner_set_fork_status(runner, mode);
    srunner_set_tap(runner, "-");
    alarm(MF_CHECK_SECONDS);
    srunner_run_all(runner, CK_SILENT);
    int run = srunner_ntests_run(runner), failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (run == 0)
        return 1;
    /* Under a harness the "not ok" lines tell; a bad status would count as one failure more. */
    return failed != 0 && getenv("HARNESS_ACTIVE") == NULL;
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
