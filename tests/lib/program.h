/* program.h: the main function of unit tests that work as the program does: presets and plugins
 * come from where the program that the variable MOEFW names finds them, settings from nowhere.
 * Behind check_main.h. */
#ifndef MF_TESTS_PROGRAM_H
#define MF_TESTS_PROGRAM_H

#include <stdbool.h>

/* True: ready. False: *ret_status is how the program has to end; what there is to say is
 * said. */
bool program_ready(int *ret_status);

#define MF_CHECK_MAIN_PROGRAM(suite)                                                           \
    int main(void)                                                                             \
    {                                                                                          \
        int status;                                                                            \
        return program_ready(&status) ? check_run(suite(), CK_NOFORK) : status;                \
    }

#endif
