/* Runs the checks of a plugin in a child process and collects their results. A crash is
 * attributed to the check that was running; the remaining checks run in a new child. */
#include "lab/check/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/text/ini.h"
#include "lab/check/checks.h"
#include "plugin/load/child.h"
#include "plugin/crash.h"

enum { SILENCE_SECONDS = 60, CPU_SECONDS = 1800 };

const mf_check mf_checks[] = {
    {"options", mf_check_options},
    {"shapes", mf_check_shapes},
    {"gradients", mf_check_gradients},
    {"determinism", mf_check_determinism},
    {"batch split", mf_check_batch_split},
    {"causality", mf_check_causality},
    {"padding", mf_check_padding},
    {"inactive heads", mf_check_inactive},
    {"odd numbers", mf_check_odd_numbers},
    {"save and restore", mf_check_restore},
    {"leaks", mf_check_leaks},
    {"speed", mf_check_speed},
    {NULL, NULL},
};
enum { CHECKS = sizeof mf_checks / sizeof *mf_checks - 1 };
_Static_assert(CHECKS + 1 <= MF_CHECK_ROWS, "room for all rows and the descriptor's");

/* ---- shared by the checks ---- */

mf_harness_spec mf_check_spec(const mf_loaded *plugin)
{
    const bool sees_all = plugin->kind != MF_ROUTER && plugin->kind != MF_EXPERT;
    return (mf_harness_spec){.plugin = plugin,
                             .layers = sees_all ? 2 : 1,
                             .batch = 2,
                             .seq = 6,
                             .dim = 16,
                             .experts = 4,
                             .top_k = 2};
}

mf_verdict mf_check_failed(char detail[MF_CHECK_DETAIL], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, MF_CHECK_DETAIL, fmt, args);
    va_end(args);
    return MF_CHECK_FAIL;
}

mf_verdict mf_check_broke(char detail[MF_CHECK_DETAIL], const char *when)
{
    return mf_check_failed(detail, "%s: %s", when, mf_error_message());
}

bool mf_check_declined(int rc)
{
    return rc == MF_ECONFIG || rc == MF_ENOMEM;
}

/* ---- the child ----
 *
 * Lines of its report:
 *   begin INDEX
 *   row INDEX VERDICT DETAIL
 *   died FUNCTION              from plugin/crash.h
 *   done                       the last line
 */

int mf_check_main(int argc, char **argv)
{
    static char detail[MF_CHECK_DETAIL];
    const mf_loaded *plugin;
    long long first;
    int rc = mf_child_begin(argc, argv, CPU_SECONDS);
    if (rc != MF_OK) return mf_status_exit(rc);
    if (argc != 5 || !mf_parse_i64(argv[4], &first) || first < 0 || first > CHECKS) return 2;
    mf_crash_report_to(mf_child_report());
    mf_plugin_allow_unsafe(true); /* the parent has judged the file */
    const mf_found found = {.path = argv[3]};
    rc = mf_plugin_load_found(&found, NULL, 0, &plugin);
    if (rc == MF_OK) rc = mf_backend_init();
    if (rc != MF_OK) {
        mf_child_say("begin %d", (int)first);
        mf_child_say("row %d %d %s", (int)first, MF_CHECK_FAIL, mf_error_message());
        return 0;
    }
    for (int i = (int)first; i < CHECKS; i++) {
        mf_child_say("begin %d", i);
        detail[0] = '\0';
        mf_verdict v = mf_checks[i].run(plugin, detail);
        mf_child_say("row %d %d %s", i, (int)v, detail);
    }
    mf_child_say("done");
    return 0;
}

/* ---- the parent ---- */

typedef struct watcher {
    mf_check_report *report;
    void (*row)(void *arg, const mf_check_row *row);
    void *arg;
    int begun, next; /* the check that is running; the first one that has not run */
    bool done;
    char function[200];
} watcher;

static void add_row(watcher *w, const char *name, mf_verdict v, const char *detail)
{
    mf_check_report *r = w->report;
    if (r->n == MF_CHECK_ROWS) return;
    mf_check_row *row = &r->rows[r->n++];
    *row =
        (mf_check_row){.name = name, .pass = v != MF_CHECK_FAIL, .skipped = v == MF_CHECK_SKIP};
    snprintf(row->detail, sizeof row->detail, "%s", detail);
    r->failed += v == MF_CHECK_FAIL;
    if (w->row != NULL) w->row(w->arg, row);
}

static void take_line(void *arg, char *line)
{
    watcher *w = arg;
    int i = 0, v = 0, chars = 0;
    if (strcmp(line, "done") == 0) {
        w->done = true;
    } else if (sscanf(line, "begin %d", &i) == 1 && i >= w->next && i < CHECKS) {
        w->begun = i;
        w->function[0] = '\0';
    } else if (sscanf(line, "row %d %d %n", &i, &v, &chars) == 2 && chars > 0 &&
               i == w->begun && v >= MF_CHECK_PASS && v <= MF_CHECK_SKIP) {
        add_row(w, mf_checks[i].name, (mf_verdict)v, line + chars);
        w->next = i + 1;
    } else if (strncmp(line, "died ", 5) == 0) {
        snprintf(w->function, sizeof w->function, "%s", line + 5);
    }
}

/* The child ended early: the check that was running is reported as the cause. */
static void add_death(watcher *w, const mf_child_end *end)
{
    char detail[400];
    if (w->begun < w->next) w->begun = w->next;
    const char *in = w->function[0] != '\0' ? " in " : "";
    if (end->in_time)
        snprintf(detail, sizeof detail, "%s%s%s: expected it to return", end->text, in,
                 w->function);
    else
        snprintf(detail, sizeof detail, "did not return%s%s within %d s", in, w->function,
                 SILENCE_SECONDS);
    add_row(w, mf_checks[w->begun].name, MF_CHECK_FAIL, detail);
    w->next = w->begun + 1;
}

static int run_children(watcher *w)
{
    if (!mf_child_possible())
        return mf_fail(MF_ERUN, "checks need a child process, and this program has no way to "
                                "start itself");
    while (!w->done && w->next < CHECKS) {
        char first[16];
        snprintf(first, sizeof first, "%d", w->next);
        const char *arguments[] = {w->report->plugin->path, first};
        mf_child_end end;
        w->begun = w->next;
        int rc = mf_child_run(MF_CHECK_VERB, 2, arguments, SILENCE_SECONDS, take_line, w, &end);
        if (rc != MF_OK) return rc;
        if (!w->done && w->next < CHECKS) add_death(w, &end);
    }
    return MF_OK;
}

int mf_check_plugin(const char *what, void (*row)(void *arg, const mf_check_row *row),
                    void *arg, mf_check_report *ret)
{
    watcher w = {.report = ret, .row = row, .arg = arg};
    char detail[256];
    *ret = (mf_check_report){0};
    int rc = mf_plugin_load(0, what, NULL, 0, &ret->plugin);
    if (rc != MF_OK && rc != MF_EPLUGIN) return rc;
    if (rc == MF_EPLUGIN) {
        ret->plugin = NULL;
        add_row(&w, "descriptor", MF_CHECK_FAIL, mf_error_message());
        return MF_OK;
    }
    snprintf(detail, sizeof detail, "%s, ABI %u, %d options", mf_kind_a_name(ret->plugin->kind),
             (unsigned)ret->plugin->abi, (int)ret->plugin->schema.count);
    add_row(&w, "descriptor", MF_CHECK_PASS, detail);
    rc = run_children(&w);
    ret->pass = rc == MF_OK && ret->failed == 0;
    return rc;
}
