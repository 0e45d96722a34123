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
#define MF_CHECK_ROWS 32

typedef struct mf_check_row {
    const char *name; /* "gradients" */
    bool pass, skipped;
    const char *cause; /* for a skipped row: the name of the failed check that it follows;
                        * else NULL */
    /* what the check found; if cause is set, additions to what the cause reports */
    char detail[800];
} mf_check_row;

typedef struct mf_check_report {
    const mf_loaded *plugin; /* NULL if the plugin was refused */
    bool pass;
    int n, failed;
    int64_t seed; /* seed of the request */
    mf_check_row rows[MF_CHECK_ROWS];
} mf_check_report;

#define MF_CHECK_SETS 32
typedef struct mf_check_request {
    const char *what; /* name or path of the plugin */
    /* [n_set] settings for all checks: moe.experts=N, moe.top_k=N, KIND.OPTION=VALUE
     * or KIND.NAME.OPTION=VALUE */
    const char *const *set;
    int n_set;
    int seconds;   /* time limit for all checks together */
    int64_t seed;  /* seed of the drawn values */
    bool thorough; /* more sizes, ranges of values and draws */
} mf_check_request;

/* Callbacks while the checks run; functions may be NULL. */
typedef struct mf_check_watch {
    void (*row)(void *arg, const mf_check_row *row); /* receives a result as soon as it
                                                      * is known */
    void (*begins)(void *arg, const char *name);     /* receives the name of the check
                                                      * that begins */
    void *arg;
} mf_check_watch;

/* Checks a plugin. watch: may be NULL. If a check does not return in time, no further checks
 * run. Returns MF_OK whatever the results are. Fails with MF_EUSAGE or MF_ECONFIG for a setting
 * that does not fit, with MF_ERUN if no child can start, and with the error of mf_plugin_load
 * if no plugin is found. Call this only once in a process. */
int mf_check_plugin(const mf_check_request *request, const mf_check_watch *watch,
                    mf_check_report *ret);
/* The main function of the child. Returns its exit status. */
int mf_check_main(int argc, char **argv);

#endif
