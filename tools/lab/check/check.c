/* Runs the checks of a plugin in a child process and collects their results. A crash is
 * attributed to the check that was running; the remaining checks run in a new child. */
#include "lab/check/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread/parallel.h"
#include "base/text/ini.h"
#include "lab/check/checks.h"
#include "plugin/load/allow.h"
#include "plugin/load/child.h"
#include "plugin/crash.h"

extern char **environ;

enum { SILENCE_SECONDS = 20, CPU_SECONDS = 7200, DEFAULT_EXPERTS = 4, DEFAULT_TOP_K = 2 };

const mf_check mf_checks[] = {
    {"options", mf_check_options},
    {"shapes", mf_check_shapes},
    {"determinism", mf_check_determinism},
    {"drawn models", mf_check_drawn},
    {"long runs", mf_check_long_runs},
    {"gradients", mf_check_gradients},
    {"ops alone", mf_check_ops},
    {"ops on a device", mf_check_device},
    {"batch split", mf_check_batch_split},
    {"causality", mf_check_causality},
    {"decoding", mf_check_decoding},
    {"padding", mf_check_padding},
    {"losses", mf_check_losses},
    {"records", mf_check_records},
    {"labels", mf_check_labels},
    {"statistics", mf_check_statistics},
    {"sums over a step", mf_check_sums},
    {"live options", mf_check_live},
    {"inactive heads", mf_check_inactive},
    {"odd numbers", mf_check_odd_numbers},
    {"save and restore", mf_check_restore},
    {"instances", mf_check_instances},
    {"parameters", mf_check_parameters},
    {"bounds", mf_check_bounds},
    {"leaks", mf_check_leaks},
    {"speed", mf_check_speed},
    {"process", mf_check_process}, /* runs in a process that no other check has changed */
    {NULL, NULL},
};
enum { CHECKS = sizeof mf_checks / sizeof *mf_checks - 1 };
_Static_assert(CHECKS + 4 <= MF_CHECK_ROWS, "room for all, descriptor, exit, processes");

/* ---- shared by the checks ---- */

/* The settings that the user chose for all checks. They are set once, before the
 * first check. */
static struct {
    int32_t experts, top_k; /* 0: the user chose none */
    const char *given[MF_CHECK_SETS + 1];
    int n;
    bool thorough, any_order, order; /* order: whether the user has set model.causal */
    uint64_t seed;
} chosen;

bool mf_check_thorough(void)
{
    return chosen.thorough;
}

uint64_t mf_check_seed(void)
{
    return chosen.seed;
}

mf_harness_spec mf_check_spec(const mf_loaded *plugin)
{
    const bool sees_all = plugin->kind != MF_ROUTER && plugin->kind != MF_EXPERT;
    mf_harness_spec spec = {.plugin = plugin,
                            .layers = sees_all ? 2 : 1,
                            .batch = 2,
                            .seq = 6,
                            .dim = 16,
                            .any_order = chosen.any_order,
                            .given = chosen.given};
    mf_check_sizes(&spec, DEFAULT_EXPERTS, DEFAULT_TOP_K);
    return spec;
}

void mf_check_sizes(mf_harness_spec *spec, int32_t experts, int32_t top_k)
{
    spec->experts = chosen.experts > 0 ? chosen.experts : experts;
    spec->top_k = chosen.top_k > 0 ? chosen.top_k : top_k;
    if (spec->top_k <= spec->experts) return;
    /* the user has not chosen this top_k: take_settings refuses a chosen top_k above E */
    if (chosen.experts > 0)
        spec->top_k = chosen.experts;
    else
        spec->experts = spec->top_k;
}

mf_verdict mf_check_failed(char detail[MF_CHECK_DETAIL], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, MF_CHECK_DETAIL, fmt, args);
    va_end(args);
    return MF_CHECK_FAIL;
}

void mf_check_add(char detail[MF_CHECK_DETAIL], const char *text)
{
    const size_t n = strlen(detail);
    snprintf(detail + n, MF_CHECK_DETAIL - n, "%s", text);
}

mf_verdict mf_check_broke(char detail[MF_CHECK_DETAIL], const char *when)
{
    /* a plugin may support only other sizes, or require other option values than those tried */
    const bool declined = mf_error_code() == MF_ECONFIG;
    return mf_check_failed(detail, "%s: %s%s", when, mf_error_message(),
                           declined && chosen.n == 0 && chosen.top_k == 0 && chosen.experts == 0
                               ? "; --set moe.top_k=N, moe.experts=N or an option of the "
                                 "plugin tries others"
                               : "");
}

bool mf_check_declined(int rc)
{
    return rc == MF_ECONFIG || rc == MF_ENOMEM;
}

/* ---- settings ---- */

/* Reads model.causal=yes or no. Returns MF_ENOTFOUND if the text sets another key. */
static int take_causal(const char *text)
{
    static const char key[] = "model.causal=";
    if (strncmp(text, key, sizeof key - 1) != 0) return MF_ENOTFOUND;
    const char *value = text + sizeof key - 1;
    chosen.any_order = strcmp(value, "no") == 0;
    chosen.order = true;
    if (chosen.any_order || strcmp(value, "yes") == 0) return MF_OK;
    return mf_fail(MF_ECONFIG, "--set %s: expected model.causal=yes or no", text);
}

/* Reads KEY=NUMBER. Returns MF_ENOTFOUND if the text sets another key, MF_ECONFIG if the number
 * is not in 1 .. 64. */
static int take_size(const char *text, const char *key, int32_t *ret)
{
    long long n;
    const size_t length = strlen(key);
    if (strncmp(text, key, length) != 0 || text[length] != '=') return MF_ENOTFOUND;
    if (!mf_parse_i64(text + length + 1, &n) || n < 1 || n > 64)
        return mf_fail(MF_ECONFIG, "--set %s: expected %s=1 to 64", text, key);
    *ret = (int32_t)n;
    return MF_OK;
}

/* Checks KIND.OPTION=VALUE or KIND.NAME.OPTION=VALUE against the plugin's schema, and adds
 * OPTION=VALUE to chosen.given. */
static int take_option(const mf_loaded *p, const char *text, mf_arena *arena)
{
    char key[80], hint[256];
    const char *kind = mf_kind_name(p->kind), *equals = strchr(text, '='), *dot = NULL;
    const size_t n = strlen(kind);
    for (const char *c = text; equals && c < equals; c++)
        if (*c == '.') dot = c;
    const bool fits = dot && strncmp(text, kind, n) == 0 && (text[n] == '.') &&
                      equals - dot - 1 < (ptrdiff_t)sizeof key;
    if (!fits)
        return mf_fail(MF_EUSAGE,
                       "--set %s: expected moe.top_k=N, moe.experts=N, model.causal=no or an "
                       "option of the plugin, %s%s.OPTION=VALUE",
                       text, kind, p->kind == MF_ROUTER || p->kind == MF_EXPERT ? "" : ".NAME");
    snprintf(key, sizeof key, "%.*s", (int)(equals - dot - 1), dot + 1);
    const mf_option *o = mf_schema_find(&p->schema, key);
    if (!o)
        return mf_fail(MF_ECONFIG, "--set %s: plugin %s has no option '%s'%s", text, p->name,
                       key, mf_did_you_mean(key, p->schema.names, hint, sizeof hint));
    void *conf = mf_arena_alloc(arena, p->conf_size + 1);
    if (!conf) return MF_ENOMEM;
    int rc = mf_option_set(&p->schema, o, conf, arena, equals + 1, kind, NULL, NULL);
    if (rc != MF_OK) return mf_fail_context(rc, "--set %s", text);
    chosen.given[chosen.n++] = dot + 1;
    return MF_OK;
}

static int take_settings(const mf_loaded *p, int n, const char *const *set)
{
    mf_arena *arena = mf_arena_new();
    int rc = arena ? MF_OK : MF_ENOMEM;
    if (n > MF_CHECK_SETS)
        rc = mf_fail(MF_EUSAGE, "--set: expected at most %d of them", MF_CHECK_SETS);
    for (int i = 0; i < n && rc == MF_OK; i++) {
        rc = take_size(set[i], "moe.experts", &chosen.experts);
        if (rc == MF_ENOTFOUND) rc = take_size(set[i], "moe.top_k", &chosen.top_k);
        if (rc == MF_ENOTFOUND) rc = take_causal(set[i]);
        if (rc == MF_ENOTFOUND) rc = take_option(p, set[i], arena);
    }
    if (rc == MF_OK && chosen.experts > 0 && chosen.top_k > chosen.experts)
        rc = mf_fail(MF_ECONFIG, "--set: expected moe.top_k of at most moe.experts");
    mf_arena_free(arena);
    return rc;
}

/* ---- the child ----
 *
 * Lines that the child writes to its parent:
 *
 *   begin INDEX
 *   any order                  the plugin declines a decoder and accepts another model
 *   at TEXT                    progress within a check; the parent shows it after a hang
 *   draw NUMBER                progress; number of the draw within the last TEXT
 *   row INDEX VERDICT DETAIL
 *   refused REASON             instead of rows: this process refuses the plugin or settings
 *   digest HASH                instead of rows, if the first check is DIGEST
 *   died FUNCTION              from plugin/crash.h
 *   done                       the last line
 *
 * Its arguments: the plugin's file, the first check, "thorough" or "quick", seed, settings. */

/* OTHER: like DIGEST, but in another environment. FIXED: number of arguments before
 * the settings. */
enum { OTHER = -2, DIGEST = -1, ALONE = CHECKS - 1, FIXED = 4 };

/* Changes the environment to that of another user in another folder. Variables that the program
 * itself and its libraries read do not change. */
static int change_environment(void)
{
    static const char *const kept[] = {"PATH=", "LD_",    "MOEFW_", "XDG_",  "OMP_",  "GOMP_",
                                       "ASAN_", "UBSAN_", "TSAN_",  "LSAN_", "GCOV_", "QEMU_"};
    static char *fresh[256] = {"HOME=/nonexistent/moefw/another",
                               "USER=another",
                               "LOGNAME=another",
                               "TZ=Pacific/Apia",
                               "LANG=C.UTF-8",
                               "TMPDIR=/nonexistent",
                               "HOSTNAME=another"};
    int n = 7;
    for (char **e = environ; *e && n < 255; e++)
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (strncmp(*e, kept[i], strlen(kept[i])) == 0) {
                fresh[n++] = *e;
                break;
            }
    environ = fresh;
    return MF_OK;
}

/* Finds out whether the plugin accepts a decoder. Some plugins fit only into a model that is
 * not a decoder. */
static void find_order(const mf_loaded *plugin)
{
    if (chosen.order) return;
    for (int i = 0; i < 2; i++) {
        mf_harness *harness = NULL;
        chosen.any_order = i == 1;
        const mf_harness_spec spec = mf_check_spec(plugin);
        const int rc = mf_harness_new(&spec, &harness);
        mf_harness_free(harness);
        if (rc == MF_ECONFIG) continue;
        if (chosen.any_order) mf_child_say("any order");
        return;
    }
    chosen.any_order = false;
}

static int say_digest(const mf_loaded *plugin)
{
    char hash[33];
    if (mf_check_digest(plugin, hash) == MF_OK) mf_child_say("digest %s", hash);
    mf_child_say("done");
    return 0;
}

int mf_check_main(int argc, char **argv)
{
    static char detail[MF_CHECK_DETAIL];
    const mf_loaded *plugin;
    long long first, seed;
    int rc = mf_child_begin(argc, argv, CPU_SECONDS);
    if (rc != MF_OK) return mf_status_exit(rc);
    if (argc < 3 + FIXED || !mf_parse_i64(argv[4], &first) || first < OTHER || first > CHECKS ||
        !mf_parse_i64(argv[6], &seed))
        return 2;
    chosen.thorough = strcmp(argv[5], "thorough") == 0;
    chosen.seed = (uint64_t)seed;
    if (first == OTHER) change_environment();
    mf_crash_report_to(mf_child_report());
    mf_plugin_allow_unsafe(true); /* the parent has already checked the file */
    const mf_found found = {.path = argv[3]};
    rc = mf_plugin_load_found(&found, NULL, 0, &plugin);
    if (rc == MF_OK)
        rc = take_settings(plugin, argc - 3 - FIXED,
                           (const char *const *)(const void *)(argv + 3 + FIXED));
    if (rc == MF_OK) rc = mf_backend_init();
    /* with more threads, graphs this small are slower; check_same.c compares numbers
     * of threads */
    mf_parallel_set_threads(1);
    if (rc == MF_OK && first != ALONE) find_order(plugin); /* calls route to find the order */
    if (rc == MF_OK && first == OTHER && chdir("/") != 0) rc = MF_ERUN;
    if (rc == MF_OK && first < 0) return say_digest(plugin);
    if (rc != MF_OK) {
        mf_child_say("refused %s", mf_error_message());
        mf_child_say("done");
        return 0;
    }
    for (int i = (int)first; i < (first < ALONE ? ALONE : CHECKS); i++) {
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
    mf_check_watch told;
    int begun, next; /* begun: index of the running check; next: index of the first check that
                      * has not run */
    const mf_check_request *request;
    double start;
    bool any_order;                    /* the plugin requires a model that is not a decoder */
    bool done, hung, refused;          /* hung, refused: no further checks run */
    char function[200], digest[2][33]; /* digest: of the first and of the last process */
    char at[400];                      /* the progress text of the running check */
    int digests;
} watcher;

static void add_row(watcher *w, const char *name, mf_verdict v, const char *detail)
{
    mf_check_report *r = w->report;
    if (r->n == MF_CHECK_ROWS) return;
    const mf_check_row *cause = v == MF_CHECK_FAIL ? mf_check_follows(r, name, detail) : NULL;
    if (cause) v = MF_CHECK_SKIP;
    mf_check_row *row = &r->rows[r->n++];
    *row =
        (mf_check_row){.name = name, .pass = v != MF_CHECK_FAIL, .skipped = v == MF_CHECK_SKIP};
    if (cause) row->cause = cause->name;
    snprintf(row->detail, sizeof row->detail, "%s", detail);
    r->failed += v == MF_CHECK_FAIL;
    if (w->told.row) w->told.row(w->told.arg, row);
}

static void take_line(void *arg, char *line)
{
    watcher *w = arg;
    int i = 0, v = 0, chars = 0;
    if (strcmp(line, "done") == 0) {
        w->done = true;
    } else if (sscanf(line, "begin %d", &i) == 1 && i >= w->next && i < CHECKS) {
        w->begun = i;
        w->function[0] = w->at[0] = '\0';
        if (w->told.begins) w->told.begins(w->told.arg, mf_checks[i].name);
    } else if (strcmp(line, "any order") == 0) {
        w->any_order = true;
    } else if (strncmp(line, "at ", 3) == 0) {
        snprintf(w->at, sizeof w->at, "%s", line + 3);
    } else if (sscanf(line, "row %d %d %n", &i, &v, &chars) == 2 && chars > 0 &&
               i == w->begun && v >= MF_CHECK_PASS && v <= MF_CHECK_SKIP) {
        add_row(w, mf_checks[i].name, (mf_verdict)v, line + chars);
        w->next = i + 1;
    } else if (strncmp(line, "refused ", 8) == 0) {
        const char *name = w->next < CHECKS ? mf_checks[w->next].name : "processes";
        if (!w->refused) add_row(w, name, MF_CHECK_FAIL, line + 8);
        w->refused = true;
    } else if (strncmp(line, "digest ", 7) == 0 && w->digests < 2) {
        snprintf(w->digest[w->digests++], sizeof w->digest[0], "%s", line + 7);
    } else if (strncmp(line, "died ", 5) == 0) {
        snprintf(w->function, sizeof w->function, "%s", line + 5);
    }
}

/* Reports that the child was killed at a time limit. No further check runs. at: what the child
 * was doing, or "". */
static void add_hang(watcher *w, const char *name, const char *at)
{
    char detail[800];
    const char *in = w->function[0] != '\0' ? " in " : "";
    const int whole = w->request->seconds;
    w->hung = true;
    if (whole > 0 && mf_clock() - w->start >= whole)
        snprintf(detail, sizeof detail,
                 "did not return%s%s: the %d s for all checks are over (--seconds); the checks "
                 "end here",
                 in, w->function, whole);
    else
        snprintf(detail, sizeof detail,
                 "did not return%s%s within %d s; the checks end here%s%s%s", in, w->function,
                 SILENCE_SECONDS, at[0] != '\0' ? " (" : "", at, at[0] != '\0' ? ")" : "");
    add_row(w, name, MF_CHECK_FAIL, detail);
}

/* Reports that the child ended early. The running check counts as the cause. */
static void add_death(watcher *w, const mf_child_end *end)
{
    char detail[800], at[420] = "";
    if (w->begun < w->next) w->begun = w->next;
    const char *name = mf_checks[w->begun].name;
    w->next = w->begun + 1;
    if (!end->in_time) {
        add_hang(w, name, w->at);
        return;
    }
    if (w->at[0] != '\0') snprintf(at, sizeof at, " (%s)", w->at);
    snprintf(detail, sizeof detail, "%s%s%s: expected it to return%s", end->text,
             w->function[0] != '\0' ? " in " : "", w->function, at);
    add_row(w, name, MF_CHECK_FAIL, detail);
}

/* Reports that the child did not end normally after the checks were done. */
static void add_exit(watcher *w, const mf_child_end *end)
{
    char detail[200];
    snprintf(detail, sizeof detail, "%s when the process ended: expected nothing left to do",
             end->in_time ? end->text : "did not return");
    add_row(w, "exit", MF_CHECK_FAIL, detail);
}

static int run_child(watcher *w, int first, mf_child_end *ret)
{
    char number[16], seed[24];
    const mf_check_request *r = w->request;
    const char *arguments[FIXED + MF_CHECK_SETS + 1] = {
        w->report->plugin->path, number, r->thorough ? "thorough" : "quick", seed};
    snprintf(seed, sizeof seed, "%lld", (long long)r->seed);
    const int used = (int)(mf_clock() - w->start);
    const mf_child_limits limits = {SILENCE_SECONDS, r->seconds > used ? r->seconds - used : 1};
    snprintf(number, sizeof number, "%d", first);
    for (int i = 0; i < r->n_set; i++)
        arguments[FIXED + i] = r->set[i];
    const int told = w->any_order && first == ALONE && r->n_set < MF_CHECK_SETS;
    if (told) arguments[FIXED + r->n_set] = "model.causal=no";
    return mf_child_run(MF_CHECK_VERB, FIXED + r->n_set + told, arguments, limits, take_line, w,
                        ret);
}

/* Computes a digest in a child. The first call is before the checks, the second call after
 * them. The second child has another environment, and so another stack and other addresses. It
 * works in another folder, and it starts in another second. */
static int run_digest(watcher *w)
{
    mf_child_end end = {.in_time = true};
    char filler[3000];
    const bool last = w->digests > 0;
    memset(filler, 'x', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    const double passed = mf_clock() - w->start;
    if (last && passed < 1.1) usleep((useconds_t)(1e6 * (1.1 - passed)));
    if (last && setenv("MOEFW_CHECK_FILLER", filler, 1) != 0) return MF_ENOMEM;
    int rc = run_child(w, last ? OTHER : DIGEST, &end);
    if (last) unsetenv("MOEFW_CHECK_FILLER");
    if (rc == MF_OK && !end.in_time) add_hang(w, "processes", "in some steps of training");
    w->done = false;
    return rc;
}

static void compare_digests(watcher *w)
{
    static const char name[] = "processes";
    if (w->digests < 2)
        add_row(w, name, MF_CHECK_SKIP, "not asked: steps of training end this process");
    else if (strcmp(w->digest[0], w->digest[1]) != 0)
        add_row(w, name, MF_CHECK_FAIL,
                "steps in two processes: expected the same bits, found others; results may not "
                "depend on time, process, addresses or environment");
    else
        add_row(w, name, MF_CHECK_PASS, "the same bits in another process");
}

static int run_children(watcher *w)
{
    if (!mf_child_possible())
        return mf_fail(MF_ERUN, "checks need a child process, and this program has no way to "
                                "start itself");
    w->start = mf_clock();
    int rc = run_digest(w);
    while (rc == MF_OK && !w->hung && !w->refused && w->next < CHECKS) {
        mf_child_end end;
        w->begun = w->next;
        w->done = false;
        rc = run_child(w, w->next, &end);
        if (rc == MF_OK && !w->done && w->next < CHECKS)
            add_death(w, &end);
        else if (rc == MF_OK && (!end.in_time || end.status != 0))
            add_exit(w, &end);
    }
    if (rc != MF_OK || w->hung || w->refused) return rc;
    if (w->digests > 0) rc = run_digest(w);
    if (rc == MF_OK && !w->hung && !w->refused) compare_digests(w);
    return rc;
}

int mf_check_plugin(const mf_check_request *request, const mf_check_watch *watch,
                    mf_check_report *ret)
{
    watcher w = {.report = ret, .request = request};
    if (watch) w.told = *watch;
    char detail[256];
    *ret = (mf_check_report){.seed = request->seed};
    int rc = mf_plugin_load(0, request->what, NULL, 0, &ret->plugin);
    if (rc != MF_OK && rc != MF_EPLUGIN) return rc;
    if (rc == MF_EPLUGIN) {
        ret->plugin = NULL;
        add_row(&w, "descriptor", MF_CHECK_FAIL, mf_error_message());
        return MF_OK;
    }
    rc = take_settings(ret->plugin, request->n_set, request->set);
    if (rc != MF_OK) return rc;
    snprintf(detail, sizeof detail, "%s, ABI %u, %d options; seed %lld",
             mf_kind_a_name(ret->plugin->kind), (unsigned)ret->plugin->abi,
             (int)ret->plugin->schema.count, (long long)request->seed);
    add_row(&w, "descriptor", MF_CHECK_PASS, detail);
    rc = run_children(&w);
    ret->pass = rc == MF_OK && ret->failed == 0;
    return rc;
}
