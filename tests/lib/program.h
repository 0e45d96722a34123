/* program.h: the main function of unit tests that work like the program. Presets and plugins
 * come from the folders that the program named by the variable MOEFW would use. Settings of the
 * user and of the system are not read. Include this header after check_main.h. */
#ifndef MF_TESTS_PROGRAM_H
#define MF_TESTS_PROGRAM_H

#include <stdbool.h>

/* Returns true if the test can run. If it returns false, the program must exit with
 * *ret_status. Without MOEFW the test is skipped, with a message. */
bool program_ready(int *ret_status);

#define MF_CHECK_MAIN_PROGRAM(suite)                                                           \
    int main(void)                                                                             \
    {                                                                                          \
        int status;                                                                            \
        return program_ready(&status) ? check_run(suite(), CK_NOFORK) : status;                \
    }

#endif
