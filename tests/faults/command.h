/* command.h: runs the program with a call that fails, and collects its output. */
#ifndef MF_TESTS_COMMAND_H
#define MF_TESTS_COMMAND_H

#include "tests/faults/preload.h"

#include <stdbool.h>

enum { TEXT = 8192, PATH = 2048, NO_END = -2 };

typedef struct result {
    bool ended; /* by itself, in time */
    int status; /* of a process that ended, minus a signal, or NO_END */
    char out[TEXT], err[TEXT];
    char report[TEXT]; /* the report of a sanitizer, shortened; "" without one */
} result;

extern struct setup {
    const char *faults_so, *moefw, *sources;
    const char *sanitizer; /* the library that looks for leaks; NULL: no leaks are looked for */
    bool stacks;           /* reports name the functions that led to an allocation: slow */
    char base[PATH];       /* holds the plan, and folders in which commands run */
    fault_plan *plan;
} setup;

/* Makes the folder of `setup` and the plan, and the environment of all commands. */
void command_prepare(void);
/* Calls of the kind fail in the next command. */
void command_arm(int kind, long nth, bool always, int error);
/* Runs the words of `format`, in which %s is the folder of sources, without "moefw". */
result command_run(const char *folder, const char *format);
/* The same between two faults: no call fails, and the plan does not change. */
result command_run_healthy(const char *folder, const char *format);

#endif
