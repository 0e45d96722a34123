/* program.h: the main function of unit tests that work as the program does. Presets and plugins
 * come from the folders that the program named by the variable MOEFW would use; settings of the
 * user and of the system are not read. Include it after check_main.h. */
#ifndef MF_TESTS_PROGRAM_H
#define MF_TESTS_PROGRAM_H

#include <stdbool.h>

/* True if the test can run. False: the program must exit with *ret_status; without MOEFW the
 * test is skipped, with a message. */
bool program_ready(int *ret_status);

#define MF_CHECK_MAIN_PROGRAM(suite)                                                           \
    int main(void)                                                                             \
    {                                                                                          \
        int status;                                                                            \
        return program_ready(&status) ? check_run(suite(), CK_NOFORK) : status;                \
    }

#endif
