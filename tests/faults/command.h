/* command.h: runs the program while a chosen call fails, and collects its output. */
#ifndef MF_TESTS_COMMAND_H
#define MF_TESTS_COMMAND_H

#include "tests/faults/preload.h"

#include <stdbool.h>

enum { TEXT = 8192, PATH = 2048, NO_END = -2 };

typedef struct result {
    bool ended; /* the process ended by itself, in time */
    int status; /* status of a process that ended, or minus its signal, or NO_END */
    char out[TEXT], err[TEXT];
    char report[TEXT]; /* report of a sanitizer, shortened; "" if there was none */
} result;

extern struct setup {
    const char *faults_so, *moefw, *sources;
    const char *sanitizer; /* library that looks for leaks; NULL: leaks are not looked for */
    bool stacks;           /* reports contain the functions that led to an allocation, which
                            * is slow */
    char base[PATH];       /* folder of the plan, and of the folders in which commands run */
    fault_plan *plan;
} setup;

/* Makes the folder of `setup` and the plan, and the environment of all commands. */
void command_prepare(void);
/* Arms a fault: calls of this kind fail in the next command. */
void command_arm(int kind, long nth, bool always, int error);
/* Runs the program with the words of `format`, which does not begin with "moefw". In it, %s is
 * the folder of sources. */
result command_run(const char *folder, const char *format);
/* Like command_run, between two faults: no call fails, and the plan does not change. */
result command_run_healthy(const char *folder, const char *format);

#endif
