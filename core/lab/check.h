/* lab/check.h: does a plugin keep the rules? The conformance suite of `moefw plugin check`.
 *
 * The checks run in a child process, so that a crash is a failed row which names signal and
 * function; the rows after it run in a further child. What each check demands stands in
 * moefw-plugin(7) and above its function.
 */
#ifndef MF_LAB_CHECK_H
#define MF_LAB_CHECK_H

#include "plugin/open.h"

#define MF_CHECK_VERB "--check-plugin"
#define MF_CHECK_ROWS 16

typedef struct mf_check_row {
    const char *name; /* "gradients" */
    bool pass, skipped;
    char detail[800];
} mf_check_row;

typedef struct mf_check_report {
    const mf_loaded *plugin; /* NULL when it was refused */
    bool pass;
    int n, failed;
    mf_check_row rows[MF_CHECK_ROWS];
} mf_check_report;

/* what: a name or a file. row: called for each row as it comes; may be NULL. MF_OK whatever the
 * rows say; else what mf_plugin_load says of a plugin that is not there. */
int mf_check_plugin(const char *what, void (*row)(void *arg, const mf_check_row *row),
                    void *arg, mf_check_report *ret);
/* What the child does; returns the exit status. */
int mf_check_main(int argc, char **argv);

#endif
