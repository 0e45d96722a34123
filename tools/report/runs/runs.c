/* Finds the runs below a folder and reads small parts of their files. Only the last lines of
 * metrics.jsonl are read, so listing many long runs is fast. */
#include "report/runs/runs.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "plugin/option.h"
#include "run/metrics/metrics.h"
#include "run/folder/rundir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 3, FILE_MAX = 1 << 22 };

/* ---- reading ---- */

static void read_config(mf_listed_run *r)
{
    char *path = mf_path_join(r->dir, "config.ini");
    r->config = path ? mf_ini_new() : NULL;
    if (r->config && mf_ini_load(r->config, path) != MF_OK) {
        mf_ini_free(r->config);
        r->config = NULL;
    }
    mf_free(path);
}

static void read_manifest(mf_listed_run *r)
{
    char *path = mf_path_join(r->dir, "manifest.json"), *text = NULL;
    size_t n;
    if (path && mf_read_file(path, FILE_MAX, &text, &n) == MF_OK &&
        mf_json_parse(path, text, n, &r->manifest) != MF_OK)
        r->manifest = NULL;
    mf_free(text);
    mf_free(path);
}

/* Parses a line of metrics.jsonl; NULL: the line is not a record. */
static mf_json *record_of(const char *line, size_t n)
{
    mf_json *v = NULL;
    int64_t step;
    if (n == 0 || mf_json_parse("metrics.jsonl", line, n, &v) != MF_OK) return NULL;
    if (mf_json_int(mf_json_get(v, "step"), &step)) return v;
    mf_json_free(v);
    return NULL;
}

static bool validates(const mf_json *record)
{
    const char *split = mf_json_string(mf_json_get(record, "split"), NULL);
    return split && strcmp(split, "val") == 0;
}

/* Whether the line may be a record of validation. This avoids parsing all lines, which would
 * take long. */
static bool may_validate(const char *line, size_t n)
{
    static const char word[] = "\"split\":\"val\"";
    return memmem(line, n, word, sizeof word - 1) != NULL;
}

/* The step of the best validation; -1: there are fewer than two validations. */
static int64_t best_step(const char *text, size_t n)
{
    mf_metrics_record *all = NULL;
    size_t count = 0, room = 0;
    for (size_t begin = 0, end; begin < n; begin = end) {
        const char *next = memchr(text + begin, '\n', n - begin);
        end = next ? (size_t)(next - text) + 1 : n;
        if (!next || !may_validate(text + begin, end - begin)) continue;
        mf_json *v = record_of(text + begin, end - begin);
        if (v && validates(v) && count == room) {
            const size_t more = room ? 2 * room : 32;
            mf_metrics_record *larger =
                mf_realloc(all, room * sizeof *all, more * sizeof *larger);
            if (larger) {
                all = larger;
                room = more;
            }
        }
        if (v && all && validates(v) && count < room) mf_metrics_read_quality(v, &all[count++]);
        mf_json_free(v);
    }
    const int best = mf_metrics_best((int)count, all);
    const int64_t step = best >= 0 && all ? all[best].step : -1;
    mf_free(all);
    return step;
}

/* Keeps the last record of each kind. The records are passed from the last to the first. */
static void keep_record(mf_listed_run *r, mf_json *v)
{
    mf_json **place = v && validates(v) ? &r->val : &r->train;
    if (!v || *place) {
        mf_json_free(v);
        return;
    }
    *place = v;
    if (!r->last) r->last = v;
}

static void read_metrics(mf_listed_run *r)
{
    char *path = mf_path_join(r->dir, "metrics.jsonl"), *text = NULL;
    size_t n = 0;
    if (!path || mf_read_file(path, 0, &text, &n) != MF_OK) n = 0;
    r->best_step = best_step(text, n);
    while (n > 0 && (!r->train || !r->val)) {
        const char *before = n > 1 ? memrchr(text, '\n', n - 1) : NULL;
        const size_t begin = before ? (size_t)(before - text) + 1 : 0;
        const bool known = may_validate(text + begin, n - begin) ? r->val : r->train;
        if (text[n - 1] == '\n' && !known) keep_record(r, record_of(text + begin, n - begin));
        n = begin;
    }
    mf_free(text);
    mf_free(path);
}

/* Whether training ended before its last step, which happens with train.patience. */
static bool has_ended(const char *dir)
{
    char *path = mf_path_join(dir, MF_RUN_ENDED);
    const bool ended = path && mf_exists(path);
    mf_free(path);
    return ended;
}

static int add_run(mf_listed_runs *list, const char *dir)
{
    if (list->n == list->room) {
        const int room = list->room ? 2 * list->room : 16;
        mf_listed_run *larger = mf_realloc(list->run, (size_t)list->n * sizeof *larger,
                                           (size_t)room * sizeof *larger);
        if (!larger) return MF_ENOMEM;
        list->run = larger;
        list->room = room;
    }
    mf_listed_run *r = &list->run[list->n];
    *r = (mf_listed_run){.dir = mf_strdup(dir), .place = list->n};
    if (!r->dir) return MF_ENOMEM;
    list->n++;
    mf_error_clear();
    read_config(r);
    read_manifest(r);
    read_metrics(r);
    if (mf_error_code() == MF_ENOMEM) return MF_ENOMEM;
    mf_error_clear();
    r->step = mf_json_int_or_0(r->last, "step");
    const int64_t steps = mf_json_int_or_0(r->manifest, "steps");
    r->finished = (steps > 0 && r->step >= steps) || has_ended(dir);
    return MF_OK;
}

/* Whether a folder with config.ini is not a run itself, but contains runs. In a comparison, the
 * folder of a router is such a folder, with a run for each seed. */
static bool holds_runs(const char *folder)
{
    char **names, *manifest = mf_path_join(folder, "manifest.json");
    const bool is_run = !manifest || mf_exists(manifest);
    bool holds = false;
    int n;
    mf_free(manifest);
    if (is_run || mf_list_dir(folder, &names, &n) != MF_OK) return false;
    for (int i = 0; i < n && !holds; i++) {
        char *path = mf_path_join(folder, names[i]);
        holds = path && mf_rundir_is(path);
        mf_free(path);
    }
    mf_list_free(names, n);
    return holds;
}

static int add_below(mf_listed_runs *list, const char *folder, int depth)
{
    char **names;
    int n, rc = mf_list_dir(folder, &names, &n);
    /* folders that cannot be read are skipped */
    if (rc != MF_OK) return rc == MF_ENOMEM ? rc : MF_OK;
    for (int i = 0; rc == MF_OK && i < n; i++) {
        char *path =
            strcmp(folder, ".") == 0 ? mf_strdup(names[i]) : mf_path_join(folder, names[i]);
        if (!path)
            rc = MF_ENOMEM;
        else if (mf_rundir_is(path) && !holds_runs(path))
            rc = add_run(list, path);
        else if (depth > 1 && names[i][0] != '.' && mf_is_dir(path))
            rc = add_below(list, path, depth - 1);
        mf_free(path);
    }
    mf_list_free(names, n);
    return rc;
}

int mf_listed_runs_add(mf_listed_runs *list, const char *path)
{
    const int had = list->n;
    char *folder = mf_strdup(path);
    if (!folder) return MF_ENOMEM;
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--)
        folder[n - 1] = 0;
    const bool one = mf_rundir_is(folder) && !holds_runs(folder);
    int rc = one                 ? add_run(list, folder)
             : mf_is_dir(folder) ? add_below(list, folder, DEPTH)
                                 : mf_rundir_missing(folder, NULL);
    if (rc == MF_OK && list->n == had)
        rc = mf_fail(MF_EINPUT, "%s: there is no run in this folder", path);
    mf_free(folder);
    return rc;
}

static void free_run(mf_listed_run *r)
{
    mf_free(r->dir);
    mf_ini_free(r->config);
    mf_json_free(r->manifest);
    mf_json_free(r->val);
    mf_json_free(r->train);
}

void mf_listed_runs_free(mf_listed_runs *list)
{
    for (int i = 0; i < list->n; i++)
        free_run(&list->run[i]);
    mf_free(list->run);
    *list = (mf_listed_runs){0};
}

/* ---- values ---- */

static const char *config_value(const mf_listed_run *r, const char *key)
{
    char section[64];
    const char *dot = strrchr(key, '.');
    if (!r->config || !dot || (size_t)(dot - key) >= sizeof section) return NULL;
    snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
    const mf_ini_entry *e = mf_ini_get(r->config, section, dot + 1);
    return e ? e->value : NULL;
}

/* The number at a path in the record, such as moe.0.load_cv; NaN: none. */
static double number_at(const mf_json *v, const char *path)
{
    char part[64];
    double x;
    while (v && *path) {
        const size_t n = strcspn(path, ".");
        if (n >= sizeof part) return NAN;
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        v = mf_json_typeof(v) == MF_JSON_ARRAY ? mf_json_at(v, strtoul(part, NULL, 10))
                                               : mf_json_get(v, part);
        path += n + (path[n] == '.');
    }
    return v && mf_json_real(v, &x) ? x : (double)NAN;
}

double mf_listed_run_number(const mf_listed_run *r, const char *key)
{
    double x;
    if (strcmp(key, "best_step") == 0)
        return r->best_step >= 0 ? (double)r->best_step : (double)NAN;
    if (strcmp(key, "data") == 0 || strcmp(key, "tokenizer") == 0) return NAN;
    if (strcmp(key, "step") == 0) return (double)r->step;
    if (strcmp(key, "tokens") == 0) return number_at(r->train, "tokens");
    if (strcmp(key, "val_loss") == 0) return number_at(r->val, "task_loss");
    if (strcmp(key, "params") == 0 || strcmp(key, "seed") == 0)
        return mf_json_real_or_nan(r->manifest, key);
    const char *text = strcmp(key, "run") == 0 ? NULL : config_value(r, key);
    if (text) return mf_parse_f64(text, &x) ? x : (double)NAN;
    return number_at(r->val, key);
}

const char *mf_listed_run_text(const mf_listed_run *r, const char *key, char *buf, size_t size)
{
    if (strcmp(key, "run") == 0) return r->dir;
    if (strcmp(key, "router") == 0) {
        const char *every = config_value(r, "model.moe_every");
        return every && strcmp(every, "0") == 0 ? "none" : config_value(r, "router.plugin");
    }
    if (strcmp(key, "finished") == 0) return r->finished ? "yes" : "no";
    if (strcmp(key, "data") == 0) return config_value(r, "data.path");
    if (strcmp(key, "tokenizer") == 0) return config_value(r, "data.tokenizer");
    const char *text = config_value(r, key);
    if (text) return text;
    const double x = mf_listed_run_number(r, key);
    if (isnan(x)) return NULL;
    if (x == floor(x) && fabs(x) < 1e15)
        snprintf(buf, size, "%.0f", x);
    else
        snprintf(buf, size, "%.5g", x);
    return buf;
}

const char *mf_listed_run_router(const mf_listed_run *r)
{
    const char *set = mf_listed_run_text(r, "router", NULL, 0);
    const mf_json *all = mf_json_get(r->manifest, "plugins");
    if (!set || !strchr(set, '/')) return set;
    for (size_t i = 0; mf_json_typeof(all) == MF_JSON_ARRAY && i < mf_json_size(all); i++) {
        const mf_json *one = mf_json_at(all, i);
        const char *name = mf_json_string(mf_json_get(one, "name"), NULL),
                   *kind = mf_json_string(mf_json_get(one, "kind"), NULL);
        if (name && kind && strcmp(kind, "router") == 0) return name;
    }
    return set;
}

bool mf_listed_run_higher(const char *key)
{
    static const char *const higher[] = {"accuracy", "macro_f1",     "pearson", "spearman",
                                         "nmi",      "tokens_per_s", "step",    "tokens"};
    const char *dot = strrchr(key, '.'), *leaf = dot ? dot + 1 : key;
    for (size_t i = 0; i < sizeof higher / sizeof *higher; i++)
        if (strcmp(leaf, higher[i]) == 0) return true;
    return false;
}

const char *mf_listed_runs_measure(const mf_listed_runs *list)
{
    bool any = false;
    for (int i = 0; i < list->n; i++) {
        if (!list->run[i].val) continue;
        if (isnan(mf_listed_run_number(&list->run[i], "bits_per_byte"))) return "val_loss";
        any = true;
    }
    return any ? "bits_per_byte" : "val_loss";
}

static bool same_value(const mf_listed_run *a, const mf_listed_run *b, const char *key)
{
    const char *x = config_value(a, key), *y = config_value(b, key);
    return !x || !y ? x == y : strcmp(x, y) == 0;
}

bool mf_listed_runs_alike(const mf_listed_run *a, const mf_listed_run *b, const char *key)
{
    static const char *const data[] = {"data.path",  "data.val_path", "data.split",
                                       "data.limit", "data.pick",     "model.task"};
    static const char *const tokens[] = {"val_loss", "task_loss", "loss", "ppl"};
    bool alike = true;
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        alike = alike && same_value(a, b, data[i]);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (strcmp(key, tokens[i]) == 0) alike = alike && same_value(a, b, "data.tokenizer");
    return alike;
}

bool mf_listed_runs_is_best(const mf_listed_runs *list, int i, const char *key)
{
    const double sign = mf_listed_run_higher(key) ? -1 : 1,
                 own = sign * mf_listed_run_number(&list->run[i], key);
    for (int k = 0; k < list->n; k++) {
        const double x = sign * mf_listed_run_number(&list->run[k], key);
        if (!mf_listed_runs_alike(&list->run[i], &list->run[k], key)) continue;
        if (x < own || (x == own && k < i)) return false;
    }
    return !isnan(own);
}

/* ---- choice and order ---- */

/* The names of values that most runs have in addition to the keys of their configuration. */
static const char *const usual[] = {"run",           "router", "step",      "val_loss",
                                    "bits_per_byte", "params", "tokens",    "seed",
                                    "finished",      "data",   "tokenizer", "best_step"};
enum { USUAL = sizeof usual / sizeof *usual };

/* "train.lr" for "lr", if the first configuration has such a key; else NULL. */
static const char *full_key(const mf_listed_runs *list, mf_arena *arena, const char *key)
{
    mf_ini *ini = list->n > 0 ? list->run[0].config : NULL;
    for (int i = 0; ini && arena && i < mf_ini_count(ini); i++) {
        const mf_ini_entry *e = mf_ini_at(ini, i);
        if (strcmp(e->key, key) == 0) return mf_arena_strf(arena, "%s.%s", e->section, key);
    }
    return NULL;
}

/* Writes "; did you mean 'train.lr'?", chosen from the usual keys and the keys of the
 * first configuration. */
static void near_key(const mf_listed_runs *list, const char *key, char *out, size_t size)
{
    mf_ini *ini = list->n > 0 ? list->run[0].config : NULL;
    const int n = ini ? mf_ini_count(ini) : 0;
    mf_arena *arena = mf_arena_new();
    const char **names =
        arena ? mf_arena_alloc(arena, (USUAL + (size_t)n + 1) * sizeof *names) : NULL;
    int m = 0;
    out[0] = '\0';
    for (; names && m < USUAL; m++)
        names[m] = usual[m];
    for (int i = 0; names && i < n; i++) {
        const mf_ini_entry *e = mf_ini_at(ini, i);
        names[m] = mf_arena_strf(arena, "%s.%s", e->section, e->key);
        m += names[m] != NULL;
    }
    const char *full = full_key(list, arena, key);
    if (full) {
        snprintf(out, size, "; did you mean '%s'?", full);
    } else if (names) {
        names[m] = NULL;
        mf_did_you_mean(key, names, out, size);
    }
    mf_arena_free(arena);
}

static int judge_key(const mf_listed_runs *list, const char *key)
{
    char buf[64], hint[256], keys[160] = "";
    for (int i = 0; i < list->n; i++)
        if (mf_listed_run_text(&list->run[i], key, buf, sizeof buf)) return MF_OK;
    near_key(list, key, hint, sizeof hint);
    for (int i = 0; i < USUAL; i++)
        snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%s, ", usual[i]);
    return mf_fail(MF_EUSAGE,
                   "'%s': no run here has it%s expected %sa key of the configuration such as "
                   "train.lr, or a number of the validation such as accuracy",
                   key, hint[0] != '\0' ? hint : ";", keys);
}

static bool meets(const char *text, const char *op, const char *wanted)
{
    double x, y;
    const bool numbers = mf_parse_f64(text, &x) && mf_parse_f64(wanted, &y);
    const bool equal = numbers ? x == y : strcmp(text, wanted) == 0;
    if (strcmp(op, "=") == 0) return equal;
    if (strcmp(op, "!=") == 0) return !equal;
    if (!numbers) return false;
    return (strchr(op, '=') && equal) || (op[0] == '<' ? x < y : x > y);
}

int mf_listed_runs_keep(mf_listed_runs *list, const char *condition)
{
    char key[128], op[3] = "", buf[64];
    const size_t n = strcspn(condition, "=!<>");
    const char *at = condition + n;
    size_t length = *at ? 1 + (at[0] != '=' && at[1] == '=') : 0;
    if (n == 0 || n >= sizeof key || length == 0 || (at[0] == '!' && length == 1))
        return mf_fail(MF_EUSAGE,
                       "'%s': expected KEY=VALUE, or with !=, <, <=, > or >= between the two",
                       condition);
    snprintf(op, sizeof op, "%.*s", (int)length, at);
    snprintf(key, sizeof key, "%.*s", (int)n, condition);
    for (size_t i = n; i > 0 && key[i - 1] == ' '; i--)
        key[i - 1] = 0;
    const char *wanted = at + length + strspn(at + length, " ");
    const int rc = judge_key(list, key);
    int kept = 0;
    for (int i = 0; rc == MF_OK && i < list->n; i++) {
        const char *text = mf_listed_run_text(&list->run[i], key, buf, sizeof buf);
        if (text && meets(text, op, wanted))
            list->run[kept++] = list->run[i];
        else
            free_run(&list->run[i]);
    }
    if (rc == MF_OK) list->n = kept;
    return rc;
}

typedef struct order {
    const char *key;
    bool falling;
} order;

/* Orders runs by the value of a key. Equal runs keep the order in which they were added;
 * qsort_r alone does not guarantee this. */
static int compare(const void *a, const void *b, void *arg)
{
    const order *o = arg;
    const int placed = ((const mf_listed_run *)a)->place - ((const mf_listed_run *)b)->place;
    char x[64], y[64];
    const char *s = mf_listed_run_text(a, o->key, x, sizeof x),
               *t = mf_listed_run_text(b, o->key, y, sizeof y);
    const double u = mf_listed_run_number(a, o->key), v = mf_listed_run_number(b, o->key);
    if (!s && !t) return placed;
    if (!s || !t) return s ? -1 : 1; /* runs without a value come last */
    const int c = isnan(u) || isnan(v) ? strcmp(s, t) : (u > v) - (u < v);
    if (c == 0) return placed;
    return o->falling ? -c : c;
}

int mf_listed_runs_sort(mf_listed_runs *list, const char *key, bool falling)
{
    order o = {key, falling};
    const int rc = list->n > 0 ? judge_key(list, key) : MF_OK;
    if (rc == MF_OK && list->n > 1)
        qsort_r(list->run, (size_t)list->n, sizeof *list->run, compare, &o);
    return rc;
}
