/* lab/check/check.h: the conformance suite of `moefw plugin check`.
 *
 * The checks run in a child process. A crash is a failed check that names signal and function;
 * the checks after it run in a new child. moefw-plugin(7) and the comment above each function
 * say what the check requires.
 */
#ifndef MF_LAB_CHECK_H
#define MF_LAB_CHECK_H

#include "plugin/load/open.h"

#define MF_CHECK_VERB "--check-plugin"
#define MF_CHECK_ROWS 16

typedef struct mf_check_row {
    const char *name; /* "gradients" */
    bool pass, skipped;
    char detail[800];
} mf_check_row;

typedef struct mf_check_report {
    const mf_loaded *plugin; /* NULL if it was refused */
    bool pass;
    int n, failed;
    mf_check_row rows[MF_CHECK_ROWS];
} mf_check_report;

/* Checks a plugin. what: a name or a path. row: called for each result as it comes; may be
 * NULL. Returns MF_OK whatever the results are, and the error of mf_plugin_load if there
 * is no such plugin. */
int mf_check_plugin(const char *what, void (*row)(void *arg, const mf_check_row *row),
                    void *arg, mf_check_report *ret);
/* The main function of the child. Returns its exit status. */
int mf_check_main(int argc, char **argv);

#endif
