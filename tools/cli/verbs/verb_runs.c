/* moefw runs: lists, filters, sorts and compares the runs of a folder, and removes runs after a
 * question. The list is printed before anything is removed. */
#include "cli/cli.h"

#include "base/file/io.h"
#include "base/log.h"
#include "io/json.h"
#include "cli/cli_parse.h"
#include "cli/table.h"
#include "report/runs/runs.h"
#include "report/terminal/terminal.h"
#include "run/folder/rundir.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const mf_cli_form forms[] = {
    {NULL, "[DIR|RUN]...", 0, -1, "list the runs of folders (runs), or some runs"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "sort", .kind = MF_CLI_TEXT, .arg = "KEY", .help = "order by this value, rising"},
    {.name = "reverse", .kind = MF_CLI_FLAG, .help = "the other way round"},
    {.name = "where",
     .kind = MF_CLI_TEXT,
     .arg = "KEY=VALUE",
     .help = "only runs with this value; also with !=, <, <=, > and >= (repeatable)"},
    {.name = "rank",
     .kind = MF_CLI_TEXT,
     .arg = "KEY",
     .help = "best first by this number, with its rank"},
    {.name = "show", .kind = MF_CLI_TEXT, .arg = "KEY,KEY", .help = "further columns"},
    {.name = "diff",
     .kind = MF_CLI_FLAG,
     .help = "the keys of the configuration in which the runs differ"},
    {.name = "remove",
     .kind = MF_CLI_FLAG,
     .help = "remove the listed runs, after a question; needs RUN or --where"},
    {.name = "yes", .letter = 'y', .kind = MF_CLI_FLAG, .help = "with --remove: do not ask"},
    MF_CLI_END};

/* ---- the list ---- */

/* Adds a run or the runs of a folder. A folder without runs results in an empty list, which is
 * not an error. */
static int add(mf_listed_runs *list, const char *path)
{
    const int had = list->n;
    const int rc = mf_listed_runs_add(list, path);
    if (rc != MF_EINPUT || list->n > had || !mf_is_dir(path)) return rc;
    mf_error_clear();
    return MF_OK;
}

static int read_runs(const mf_cli *cli, mf_listed_runs *list, bool *ret_none)
{
    int rc = MF_OK;
    if (mf_cli_operands(cli) == 0 && mf_exists("runs")) rc = add(list, "runs");
    for (int i = 0; rc == MF_OK && i < mf_cli_operands(cli); i++)
        rc = add(list, mf_cli_operand(cli, i));
    *ret_none = list->n == 0;
    if (*ret_none) return rc; /* without runs, the keys of a condition cannot be checked */
    for (int i = 0; rc == MF_OK && i < cli->n_given; i++)
        if (strcmp(cli->given[i].option->name, "where") == 0)
            rc = mf_listed_runs_keep(list, cli->given[i].text);
    return rc;
}

static int sort(const mf_cli *cli, mf_listed_runs *list)
{
    const char *rank = mf_cli_text(cli, "rank", NULL), *key = mf_cli_text(cli, "sort", NULL);
    const bool reverse = mf_cli_flag(cli, "reverse");
    if (rank && key)
        return mf_fail(MF_EUSAGE, "--sort and --rank both order the runs; give one of them");
    if (rank) return mf_listed_runs_sort(list, rank, mf_listed_run_higher(rank) != reverse);
    return key ? mf_listed_runs_sort(list, key, reverse) : MF_OK;
}

/* ---- as a table ---- */

static const char *const usual[] = {"run",    "router", "step", "val_loss", "bits_per_byte",
                                    "params", "tokens", "seed", "finished"};
enum { USUAL = sizeof usual / sizeof *usual, SHOWN_MAX = 32 };

/* Whether the runs have different values of the key. */
static bool differs(const mf_listed_runs *list, const char *key)
{
    char a[64], b[64];
    const char *first = mf_listed_run_text(&list->run[0], key, a, sizeof a);
    for (int i = 1; i < list->n; i++) {
        const char *other = mf_listed_run_text(&list->run[i], key, b, sizeof b);
        if (!first != !other || (first && strcmp(first, other) != 0)) return true;
    }
    return false;
}

/* Whether to show a column. Columns that tell which numbers are comparable are shown only if
 * the runs differ in them. */
static bool wants_column(const mf_cli *cli, const mf_listed_runs *list, const char *key)
{
    if (mf_cli_json(cli)) return true;
    if (strcmp(key, "best_step") != 0) return differs(list, key);
    for (int i = 0; i < list->n; i++)
        if (list->run[i].best_step >= 0 && list->run[i].best_step != list->run[i].step)
            return true;
    return false;
}

/* Chooses the columns: the usual columns, and the keys of --rank, --sort and --show. The names
 * of these keys are stored in buf. */
static int choose_columns(const mf_cli *cli, const mf_listed_runs *list,
                          const char *key[SHOWN_MAX], int *ret_n, char *buf)
{
    static const char *const more_usual[] = {"data", "tokenizer", "best_step"};
    const char *from[] = {mf_cli_text(cli, "rank", NULL), mf_cli_text(cli, "sort", NULL), buf};
    int n = USUAL;
    memcpy(key, usual, sizeof usual);
    for (int i = 0; i < 3 && list->n > 0; i++)
        if (wants_column(cli, list, more_usual[i])) key[n++] = more_usual[i];
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        char *more = (char *)from[i], *one;
        while (more && *more && (one = i < 2 ? more : strsep(&more, ",")) != NULL) {
            bool there = false;
            for (int k = 0; k < n; k++)
                there = there || strcmp(key[k], one) == 0;
            if (!there && n == SHOWN_MAX)
                return mf_fail(MF_EUSAGE, "--show: expected at most %d columns",
                               SHOWN_MAX - USUAL);
            if (!there && *one) key[n++] = one;
            if (i < 2) break;
        }
    }
    *ret_n = n;
    return MF_OK;
}

static int put_run(mf_table *t, const mf_listed_run *r, int rank, bool best, int n,
                   const char *const *key)
{
    char buf[64], count[24], name[512];
    int rc = mf_table_row(t);
    snprintf(name, sizeof name, "%s%s", r->dir, best ? " *" : "");
    for (int i = 0; rc == MF_OK && i < n; i++) {
        const char *text = mf_listed_run_text(r, key[i], buf, sizeof buf);
        const double x = mf_listed_run_number(r, key[i]);
        if (i == 0) text = name;
        if (strcmp(key[i], "router") == 0) text = mf_listed_run_router(r);
        if (text && (strcmp(key[i], "params") == 0 || strcmp(key[i], "tokens") == 0))
            text = mf_count_text(x, count);
        rc = mf_table_put(t, i, text);
    }
    snprintf(buf, sizeof buf, "%d", rank);
    return rc == MF_OK && rank >= 0 ? mf_table_put(t, n, rank > 0 ? buf : NULL) : rc;
}

/* Returns the heading of a column. Headings are short so that the usual columns fit in one line
 * of 80 characters. */
static const char *heading(const char *key)
{
    if (strcmp(key, "bits_per_byte") == 0) return "bits/byte";
    if (strcmp(key, "best_step") == 0) return "best step";
    return strcmp(key, "finished") == 0 ? "done" : key;
}

static int print(const mf_cli *cli, const mf_listed_runs *list)
{
    const char *key[SHOWN_MAX], *rank = mf_cli_text(cli, "rank", NULL);
    const char *measure = rank ? rank : mf_listed_runs_measure(list);
    const mf_terminal terminal = mf_terminal_of(stdout);
    mf_table t = {0};
    int n;
    char *show = mf_strdup(mf_cli_text(cli, "show", ""));
    int rc = show ? choose_columns(cli, list, key, &n, show) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_table_start(&t, n + (rank != NULL));
    if (rc == MF_OK) rc = mf_table_row(&t);
    for (int i = 0; rc == MF_OK && i < n; i++)
        rc = mf_table_put(&t, i, heading(key[i]));
    if (rc == MF_OK && rank) rc = mf_table_put(&t, n, "rank");
    bool any = false, alike = true;
    for (int i = 0, place = 0; rc == MF_OK && i < list->n; i++) {
        const bool known = rank && !isnan(mf_listed_run_number(&list->run[i], rank));
        const bool best = mf_listed_runs_is_best(list, i, measure);
        any = any || best;
        alike = alike && mf_listed_runs_alike(&list->run[0], &list->run[i], measure);
        rc = put_run(&t, &list->run[i], known ? ++place : rank ? 0 : -1, best, n, key);
    }
    if (rc == MF_OK) mf_table_print(&t, mf_terminal_columns(&terminal));
    if (rc == MF_OK && any && list->n > 1) {
        printf("* best%s by %s; %d runs\n", alike ? "" : " of the same data", measure, list->n);
        if (!alike && rank)
            printf("the runs have different data or tokenizers: their ranks do not compare\n");
    }
    mf_table_clear(&t);
    mf_free(show);
    return rc;
}

static void put_value(mf_jw *w, const mf_listed_run *r, const char *key)
{
    char buf[64];
    const double x = mf_listed_run_number(r, key);
    const char *text = mf_listed_run_text(r, key, buf, sizeof buf);
    mf_jw_key(w, key);
    if (strcmp(key, "finished") == 0)
        mf_jw_bool(w, r->finished);
    else if (!isnan(x) && x == floor(x) && fabs(x) < 1e15)
        mf_jw_int(w, (int64_t)x);
    else if (!isnan(x) || !text)
        mf_jw_real(w, x);
    else
        mf_jw_string(w, text);
}

static int put_json(const mf_cli *cli, const mf_listed_runs *list)
{
    const char *key[SHOWN_MAX], *rank = mf_cli_text(cli, "rank", NULL);
    const char *measure = rank ? rank : mf_listed_runs_measure(list);
    char *show = mf_strdup(mf_cli_text(cli, "show", ""));
    mf_jw *w = mf_jw_new();
    int n, rc = show && w ? choose_columns(cli, list, key, &n, show) : MF_ENOMEM;
    if (w) mf_jw_array(w);
    for (int i = 0; rc == MF_OK && i < list->n; i++) {
        mf_jw_object(w);
        for (int k = 0; k < n; k++)
            put_value(w, &list->run[i], key[k]);
        mf_jw_kv_bool(w, "best", mf_listed_runs_is_best(list, i, measure));
        mf_jw_end(w);
    }
    if (w) mf_jw_end(w);
    const char *text = rc == MF_OK ? mf_jw_text(w, NULL) : NULL;
    if (text) puts(text);
    mf_jw_free(w);
    mf_free(show);
    return rc == MF_OK && !text ? MF_ENOMEM : rc;
}

/* ---- differences of configurations ---- */

/* Returns the keys in which the runs differ, each once, in the order of the files. They belong
 * to the arena. */
static int differing(const mf_listed_runs *list, mf_arena *arena, const char ***ret, int *ret_n)
{
    int total = 0, n = 0;
    for (int i = 0; i < list->n; i++)
        total += list->run[i].config ? mf_ini_count(list->run[i].config) : 0;
    const char **keys = mf_arena_alloc(arena, ((size_t)total + 1) * sizeof *keys);
    if (!keys) return MF_ENOMEM;
    for (int i = 0; i < list->n; i++)
        for (int k = 0; list->run[i].config && k < mf_ini_count(list->run[i].config); k++) {
            const mf_ini_entry *e = mf_ini_at(list->run[i].config, k);
            const char *key = mf_arena_strf(arena, "%s.%s", e->section, e->key);
            bool there = false;
            if (!key) return MF_ENOMEM;
            for (int j = 0; j < n && !there; j++)
                there = strcmp(keys[j], key) == 0;
            if (!there && differs(list, key)) keys[n++] = key;
        }
    *ret = keys;
    *ret_n = n;
    return MF_OK;
}

static int diff_json(const mf_listed_runs *list, int n, const char *const *keys)
{
    char buf[64];
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_array(w);
    for (int k = 0; k < n; k++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "key", keys[k]);
        mf_jw_key(w, "values");
        mf_jw_object(w);
        for (int i = 0; i < list->n; i++) {
            const char *text = mf_listed_run_text(&list->run[i], keys[k], buf, sizeof buf);
            mf_jw_key(w, list->run[i].dir);
            text ? mf_jw_string(w, text) : mf_jw_null(w);
        }
        mf_jw_end(w);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

static int diff_table(const mf_listed_runs *list, int n, const char *const *keys)
{
    const mf_terminal terminal = mf_terminal_of(stdout);
    char buf[64];
    mf_table t = {0};
    int rc = mf_table_start(&t, 1 + list->n);
    if (rc == MF_OK) rc = mf_table_row(&t);
    if (rc == MF_OK) rc = mf_table_put(&t, 0, "key");
    for (int i = 0; rc == MF_OK && i < list->n; i++)
        rc = mf_table_put(&t, 1 + i, list->run[i].dir);
    for (int k = 0; rc == MF_OK && k < n; k++) {
        rc = mf_table_row(&t);
        if (rc == MF_OK) rc = mf_table_put(&t, 0, keys[k]);
        for (int i = 0; rc == MF_OK && i < list->n; i++)
            rc = mf_table_put(&t, 1 + i,
                              mf_listed_run_text(&list->run[i], keys[k], buf, sizeof buf));
    }
    if (rc == MF_OK && n > 0) mf_table_print(&t, mf_terminal_columns(&terminal));
    if (rc == MF_OK && n == 0) printf("the configurations of %d runs are the same\n", list->n);
    mf_table_clear(&t);
    return rc;
}

static int diff(const mf_cli *cli, const mf_listed_runs *list)
{
    const char **keys;
    int n = 0;
    mf_arena *arena = mf_arena_new();
    int rc = arena ? differing(list, arena, &keys, &n) : MF_ENOMEM;
    if (rc == MF_OK)
        rc = mf_cli_json(cli) ? diff_json(list, n, keys) : diff_table(list, n, keys);
    mf_arena_free(arena);
    return rc;
}

/* ---- removing ---- */

/* Asks the user whether to remove the runs. Fails if they may not be removed. *ret_agreed: the
 * user's answer. */
static int ask(const mf_cli *cli, int n, bool *ret_agreed)
{
    char line[16] = "";
    *ret_agreed = true;
    if (mf_cli_flag(cli, "yes")) return MF_OK;
    if (!isatty(STDIN_FILENO))
        return mf_fail(MF_EUSAGE, "--remove asks on a terminal, and standard input is none; "
                                  "--yes removes without a question");
    fprintf(stderr, "remove %d run%s? [y/N] ", n, n == 1 ? "" : "s");
    *ret_agreed = fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
    return MF_OK;
}

/* Removes a run. The lock of the run shows whether a process is still training it. */
static int remove_run(const mf_cli *cli, const char *path)
{
    char *kept;
    const int rc = mf_run_remove(path, &kept);
    if (rc == MF_OK && kept)
        mf_log(MF_LOG_WARN, "%s: removed but for what moefw did not write, as %s", path, kept);
    else if (rc == MF_OK && !mf_cli_json(cli))
        mf_log(MF_LOG_INFO, "removed %s", path);
    mf_free(kept);
    return rc;
}

static int judge_remove(const mf_cli *cli)
{
    bool chosen = mf_cli_operands(cli) > 0;
    for (int i = 0; i < mf_cli_operands(cli); i++)
        chosen = chosen && mf_rundir_is(mf_cli_operand(cli, i));
    if (chosen || mf_cli_count(cli, "where") > 0) return MF_OK;
    for (int i = 0; i < mf_cli_operands(cli); i++) {
        const char *path = mf_cli_operand(cli, i);
        mf_listed_runs list = {0};
        if (mf_rundir_is_left(path))
            return mf_fail(MF_EINPUT,
                           "%s: no run: it holds only the lock of a start that failed", path);
        const int rc = mf_listed_runs_add(&list, path);
        mf_listed_runs_free(&list);
        if (rc != MF_OK) return rc;
    }
    return mf_fail(MF_EUSAGE,
                   "--remove: expected the runs to remove, or --where KEY=VALUE that "
                   "chooses them");
}

/* Whether run i may be removed. It must not be the same run as an earlier one in the list under
 * another path. */
static int judge_removable(const mf_listed_runs *list, int i)
{
    struct stat one, other;
    const char *dir = list->run[i].dir;
    const int rc = mf_run_removable(dir);
    if (rc != MF_OK || stat(dir, &one) != 0) return rc;
    for (int j = 0; j < i; j++)
        if (stat(list->run[j].dir, &other) == 0 && one.st_ino == other.st_ino &&
            one.st_dev == other.st_dev)
            return mf_fail(MF_EUSAGE, "%s: the same run as %s: expected each run once", dir,
                           list->run[j].dir);
    return MF_OK;
}

static int remove_runs(const mf_cli *cli, const mf_listed_runs *list)
{
    bool agreed = false;
    int rc = MF_OK;
    /* every run is checked before the first is removed */
    for (int i = 0; rc == MF_OK && i < list->n; i++)
        rc = judge_removable(list, i);
    if (rc == MF_OK) rc = ask(cli, list->n, &agreed);
    if (rc == MF_OK && !agreed) mf_log(MF_LOG_INFO, "nothing was removed");
    for (int i = 0; rc == MF_OK && agreed && i < list->n; i++)
        rc = remove_run(cli, list->run[i].dir);
    return rc;
}

static int run(const mf_cli *cli)
{
    const bool remove = mf_cli_flag(cli, "remove");
    mf_listed_runs list = {0};
    bool none = false;
    int rc = remove ? judge_remove(cli) : MF_OK;
    if (rc == MF_OK) rc = read_runs(cli, &list, &none);
    if (rc == MF_OK && !none) rc = sort(cli, &list);
    if (rc == MF_OK && list.n == 0 && !mf_cli_json(cli)) {
        puts(!none                      ? "no run meets the conditions"
             : mf_cli_operands(cli) > 0 ? "no runs here: the folder has none"
             : mf_exists("runs")
                 ? "no runs here: the folder runs has none; 'moefw train' makes one"
                 : "no runs here: there is no folder runs; 'moefw train' makes it");
    } else if (rc == MF_OK && mf_cli_flag(cli, "diff")) {
        rc = list.n > 0 ? diff(cli, &list) : put_json(cli, &list);
    } else if (rc == MF_OK) {
        rc = mf_cli_json(cli) ? put_json(cli, &list) : print(cli, &list);
    }
    if (rc == MF_OK && remove && list.n > 0) rc = remove_runs(cli, &list);
    mf_listed_runs_free(&list);
    return rc;
}

const mf_verb mf_verb_runs = {
    .name = "runs",
    .brief = "list, choose, rank, compare and remove runs",
    .forms = forms,
    .options = options,
    .run = run,
    .plain = true,
    .notes =
        "KEY is run, router, step, val_loss, bits_per_byte, params, tokens, seed, finished,\n"
        "data, tokenizer, best_step, a key of the configuration (train.lr), or a number of "
        "the\n"
        "last validation (accuracy, moe.0.load_cv). The best run of the same data has a *.\n"
        "  moefw runs --where router=linear --where 'val_loss<2' --rank val_loss\n"
        "  moefw runs --diff\n"
        "  moefw runs --where finished=no --remove\n"};
