/* moefw plugin list|info|check|new|trust|distrust: lists plugins, describes or checks a plugin,
 * writes the first version of a new plugin, and changes which files are trusted. A plugin that
 * cannot be loaded is listed with the reason. */
#include "io/json.h"
#include "base/mem.h"
#include "base/file/paths.h"
#include "base/text/shown.h"
#include "base/text/wrap.h"
#include "cli/cli.h"
#include "lab/check/check.h"
#include "lab/plugin_groups.h"
#include "base/error.h"
#include "base/file/io.h"
#include "lab/scaffold.h"
#include "plugin/load/allow.h"
#include "plugin/load/device_code.h"
#include "plugin/load/open.h"
#include "plugin/load/symbols.h"
#include "report/terminal/terminal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- list ---- */

/* One line of the list: a plugin, its group, and the position of the group in the order
 * of groups. */
typedef struct entry {
    const mf_found *found;
    const char *group; /* NULL: the plugin has no group */
    int place;
} entry;

/* Compares by kind, then group, then name. */
static int in_order(const void *a_, const void *b_)
{
    const entry *a = a_, *b = b_;
    if (a->found->kind != b->found->kind) return (int)a->found->kind - (int)b->found->kind;
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    return strcmp(a->found->name, b->found->name);
}

static void list_json(mf_jw *w, const entry *x, const mf_loaded *p, const char *error)
{
    const mf_found *f = x->found;
    mf_jw_object(w);
    mf_jw_kv_string(w, "name", f->name);
    const char *kind = mf_kind_name(f->kind);
    mf_jw_key(w, "kind");
    kind ? mf_jw_string(w, kind) : mf_jw_null(w);
    mf_jw_key(w, "file");
    f->path ? mf_jw_string(w, f->path) : mf_jw_null(w);
    mf_jw_kv_bool(w, "own", f->own);
    mf_jw_key(w, "dropin");
    f->dropin ? mf_jw_string(w, f->dropin) : mf_jw_null(w);
    mf_jw_key(w, "group");
    x->group ? mf_jw_string(w, x->group) : mf_jw_null(w);
    if (p) {
        mf_jw_kv_string(w, "version", p->version);
        mf_jw_kv_int(w, "abi", p->abi);
        mf_jw_kv_string(w, "license", p->license);
        mf_jw_kv_string(w, "brief", p->brief);
    }
    mf_jw_key(w, "error");
    error ? mf_jw_string(w, error) : mf_jw_null(w);
    mf_jw_end(w);
}

/* Prints the heading of a group, or of a kind without groups, before the first plugin
 * below it. */
static void list_heading(const entry *x, const entry *before)
{
    const char *folder = mf_kind_folder(x->found->kind);
    const bool same = before && before->found->kind == x->found->kind;
    if (same && before->place == x->place) return;
    printf("%s%s", before ? "\n" : "", folder ? folder : "?");
    if (x->group || same) printf(": %s", x->group ? x->group : "others");
    printf("\n");
}

static void list_row(const entry *x, const mf_loaded *p, const char *error)
{
    const mf_found *f = x->found;
    if (!p)
        printf("  %-20s REFUSED  %s\n", mf_shown(f->name), mf_shown(error));
    else if (!f->own)
        printf("  %-20s %-8s %s  [%s]\n", mf_shown(f->name), mf_shown(p->version),
               mf_shown(p->brief), mf_shown(f->path));
    else {
        const int at = printf("  %-20s %-4s ", mf_shown(f->name), mf_shown(p->version));
        mf_cli_wrapped(p->brief, at);
    }
}

/* Returns all plugins, in the order of the list. */
static int all_entries(mf_arena *arena, entry **ret, int *ret_n)
{
    mf_plugin_groups *groups = NULL;
    mf_found *found = NULL;
    int rc = arena ? mf_find_all(arena, 0, &found, ret_n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_plugin_groups_read(arena, &groups);
    entry *list =
        rc == MF_OK ? mf_arena_alloc(arena, ((size_t)*ret_n + 1) * sizeof *list) : NULL;
    if (rc == MF_OK && !list) rc = MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < *ret_n; i++) {
        list[i].found = &found[i];
        list[i].group =
            mf_plugin_group_of(groups, found[i].kind, found[i].name, &list[i].place);
    }
    if (rc == MF_OK) qsort(list, (size_t)*ret_n, sizeof *list, in_order);
    *ret = list;
    return rc;
}

static int list(const mf_cli *cli)
{
    mf_arena *arena = mf_arena_new();
    entry *all = NULL;
    int n = 0;
    int rc = all_entries(arena, &all, &n);
    mf_jw *w = mf_cli_json(cli) && rc == MF_OK ? mf_jw_new() : NULL;
    if (w) {
        mf_jw_object(w);
        mf_jw_key(w, "plugins");
        mf_jw_array(w);
    }
    for (int i = 0; rc == MF_OK && i < n; i++) {
        const mf_found *f = all[i].found;
        const mf_loaded *p = NULL;
        const char *error = f->fault;
        if (!error && mf_plugin_load_found(f, NULL, 0, &p) != MF_OK) error = mf_error_message();
        if (w) {
            list_json(w, &all[i], p, error);
        } else {
            list_heading(&all[i], i > 0 ? &all[i - 1] : NULL);
            list_row(&all[i], p, error);
        }
    }
    if (w) {
        mf_jw_end(w);
        mf_jw_end(w);
        rc = mf_cli_print_json(w);
    }
    mf_arena_free(arena);
    return rc;
}

/* ---- info ---- */

/* Writes an option's default as a JSON value; null if the option is required. */
static void default_json(mf_jw *w, const mf_option *o)
{
    long long whole;
    double real;
    bool yes;
    mf_jw_key(w, "default");
    if (!o->value)
        mf_jw_null(w);
    else if (o->type == MF_OPT_INT && mf_parse_i64(o->value, &whole))
        mf_jw_int(w, whole);
    else if (o->type == MF_OPT_REAL && mf_parse_f64(o->value, &real))
        mf_jw_real(w, real);
    else if (o->type == MF_OPT_BOOL && mf_parse_bool(o->value, &yes))
        mf_jw_bool(w, yes);
    else
        mf_jw_string(w, o->value);
}

static bool has_bounds(const mf_option *o)
{
    return o->type == MF_OPT_INT || o->type == MF_OPT_REAL;
}

static void option_json(mf_jw *w, const mf_option *o)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "name", o->name);
    mf_jw_kv_string(w, "type", mf_option_type_name(o));
    default_json(w, o);
    mf_jw_kv_real(w, "lo", has_bounds(o) ? o->lo : (double)NAN); /* NaN is written as null */
    mf_jw_kv_real(w, "hi", has_bounds(o) ? o->hi : (double)NAN);
    mf_jw_key(w, "choices");
    if (!o->choices) {
        mf_jw_null(w);
    } else {
        mf_jw_array(w);
        for (int i = 0; o->choices[i] != NULL; i++)
            mf_jw_string(w, o->choices[i]);
        mf_jw_end(w);
    }
    mf_jw_kv_bool(w, "live", (o->flags & MF_OPT_LIVE) != 0);
    mf_jw_kv_string(w, "help", o->help);
    mf_jw_end(w);
}

/* Whether example i is the first one of its op. */
static bool first_of_op(const mf_loaded *p, int i)
{
    for (int j = 0; j < i; j++)
        if (p->examples[j]->op == p->examples[i]->op) return false;
    return true;
}

/* Writes the ops for which the descriptor has examples. Other ops are unknown until a graph
 * is built. */
static void ops_json(mf_jw *w, const mf_loaded *p)
{
    char devices[512];
    mf_jw_key(w, "ops");
    mf_jw_array(w);
    for (int i = 0; i < p->n_examples; i++) {
        if (!first_of_op(p, i)) continue;
        mf_device_code_text(p->examples[i]->op, devices, sizeof devices);
        mf_jw_object(w);
        mf_jw_kv_string(w, "name", p->examples[i]->op->name);
        mf_jw_key(w, "devices");
        devices[0] ? mf_jw_string(w, devices) : mf_jw_null(w);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static void ops_text(const mf_loaded *p)
{
    char devices[512];
    for (int i = 0; i < p->n_examples; i++) {
        if (!first_of_op(p, i)) continue;
        mf_device_code_text(p->examples[i]->op, devices, sizeof devices);
        printf("  op       %s: %s\n", mf_shown(p->examples[i]->op->name),
               devices[0] ? mf_shown(devices) : "no code for a device");
    }
}

static int info_json(const mf_loaded *p)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "name", p->name);
    mf_jw_kv_string(w, "kind", mf_kind_name(p->kind));
    mf_jw_kv_string(w, "version", p->version);
    mf_jw_kv_int(w, "abi", p->abi);
    mf_jw_kv_string(w, "license", p->license);
    mf_jw_kv_string(w, "brief", p->brief);
    mf_jw_kv_string(w, "file", p->path);
    mf_jw_kv_string(w, "xxh128", p->hash);
    mf_jw_key(w, "options");
    mf_jw_array(w);
    for (int i = 0; i < p->schema.count; i++)
        option_json(w, &p->schema.options[i]);
    mf_jw_end(w);
    ops_json(w, p);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

static const char *section_of(mf_kind kind)
{
    return kind == MF_ROUTER        ? "router"
           : kind == MF_EXPERT      ? "expert"
           : kind == MF_REGULARIZER ? "regularizer.NAME"
           : kind == MF_ADAPTER     ? "adapter.NAME"
                                    : "controller.NAME";
}

static void info_text(const mf_loaded *p)
{
    mf_wrap_line(stdout, 2, "%s %s: %s", mf_shown(p->name), mf_shown(p->version),
                 mf_shown(p->brief));
    printf("  kind     %s\n  licence  %s\n  ABI      %u\n  file     %s\n  xxh128   %s\n",
           mf_kind_name(p->kind), mf_shown(p->license), (unsigned)p->abi, mf_shown(p->path),
           p->hash);
    ops_text(p);
    if (p->schema.count == 0) {
        printf("no options\n");
        return;
    }
    printf("options, in [%s]:\n", section_of(p->kind));
    for (int i = 0; i < p->schema.count; i++) {
        const mf_option *o = &p->schema.options[i];
        char expected[512];
        mf_option_expected(o, expected, sizeof expected);
        printf("  %s = %s\n", mf_shown(o->name),
               !o->value             ? "(must be given)"
               : o->value[0] == '\0' ? "\"\""
                                     : mf_shown(o->value));
        mf_wrap_line(stdout, 6, "      %s; %s%s%s", mf_shown(o->help), mf_shown(expected),
                     (o->flags & MF_OPT_LIVE) != 0 ? "; live" : "",
                     !o->value ? "; no default" : "");
    }
}

/* Prints the options as a list for the manual pages; called by tests/regenerate.sh. */
static void info_mdoc(const mf_loaded *p)
{
    if (p->schema.count == 0) {
        puts("It has no options.");
        return;
    }
    puts(".Bl -tag -width indent");
    for (int i = 0; i < p->schema.count; i++) {
        const mf_option *o = &p->schema.options[i];
        char expected[512];
        mf_option_expected(o, expected, sizeof expected);
        printf(".It Cm %s No = Ar \"%s\"\n%s;\n%s%s.\n", o->name, o->value ? o->value : "",
               o->help, expected,
               !o->value                       ? "; no default"
               : (o->flags & MF_OPT_LIVE) != 0 ? "; live"
                                               : "");
    }
    puts(".El");
}

static int info(const mf_cli *cli)
{
    const mf_loaded *p;
    int rc = mf_plugin_load(0, mf_cli_operand(cli, 0), NULL, 0, &p);
    if (rc != MF_OK) return rc;
    if (mf_cli_json(cli)) return info_json(p);
    if (strcmp(mf_cli_action(cli), "mdoc") == 0)
        info_mdoc(p);
    else
        info_text(p);
    return MF_OK;
}

/* ---- check ---- */

enum { CHECK_SECONDS = 600, CHECK_SEED = 1 };

/* The text of a row, with the failed check that the row follows. */
static const char *row_text(const mf_check_row *row, char out[900])
{
    snprintf(out, 900, "%s%s%s%s", row->cause ? "after '" : "", row->cause ? row->cause : "",
             row->cause ? "' failed: " : "", row->detail);
    return out;
}

/* Rows that follow the same failed check with the same words share one line. After a crash, all
 * further rows are of this kind. */
typedef struct check_lines {
    mf_terminal live;  /* terminal of stderr; its line names the running check */
    mf_check_row kept; /* the first of the rows that are not printed yet */
    int n;             /* number of rows that are not printed yet */
    char names[700];   /* names of the other rows: ", NAME" each */
} check_lines;

static void write_row(const char *mark, const char *name, const char *text)
{
    mf_wrap_line(stdout, 24, "%-5s %-17s %s", mark, name, mf_shown(text));
}

static void write_kept(check_lines *l)
{
    char text[900], all[1700];
    if (l->live.live) fputs("\r\033[K", l->live.out);
    if (l->n > 0) {
        row_text(&l->kept, text);
        snprintf(all, sizeof all, "%s%s%s", text, l->n > 1 ? "; the same in" : "", l->names);
        write_row("-", l->kept.name, all);
    }
    l->n = 0;
    l->names[0] = '\0';
}

/* Length of the text without the draw, which is in parentheses at the end. */
static size_t length_without_draw(const char *text)
{
    const size_t n = strlen(text);
    const char *draw = strrchr(text, '(');
    return draw && draw > text && text[n - 1] == ')' ? (size_t)(draw - 1 - text) : n;
}

static bool same_failure(const mf_check_row *a, const mf_check_row *b)
{
    const size_t n = length_without_draw(a->detail);
    return a->cause && b->cause && strcmp(a->cause, b->cause) == 0 &&
           length_without_draw(b->detail) == n && strncmp(a->detail, b->detail, n) == 0;
}

static void check_row(void *arg, const mf_check_row *row)
{
    check_lines *l = arg;
    char text[900];
    const size_t used = strlen(l->names);
    if (l->n > 0 && same_failure(row, &l->kept)) {
        l->n++;
        snprintf(l->names + used, sizeof l->names - used, "%s%s", used > 0 ? ", " : " ",
                 row->name);
        return;
    }
    write_kept(l);
    if (row->cause) {
        l->kept = *row;
        l->n = 1;
    } else {
        write_row(row->skipped ? "-"
                  : row->pass  ? "ok"
                               : "FAIL",
                  row->name, row_text(row, text));
    }
    fflush(stdout);
}

static void check_begins(void *arg, const char *name)
{
    const check_lines *l = arg;
    if (l->live.live)
        fprintf(l->live.out, "\r\033[K%s      %s ...%s", mf_ink_begin(&l->live, MF_INK_DIM),
                name, mf_ink_end(&l->live));
    fflush(l->live.out);
}

static int check_json(const char *what, const mf_check_report *r)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "plugin", r->plugin ? r->plugin->name : what);
    mf_jw_key(w, "kind");
    r->plugin ? mf_jw_string(w, mf_kind_name(r->plugin->kind)) : mf_jw_null(w);
    mf_jw_key(w, "abi");
    r->plugin ? mf_jw_int(w, r->plugin->abi) : mf_jw_null(w);
    mf_jw_kv_bool(w, "pass", r->pass);
    mf_jw_key(w, "checks");
    mf_jw_array(w);
    for (int i = 0; i < r->n; i++) {
        char text[900];
        mf_jw_object(w);
        mf_jw_kv_string(w, "name", r->rows[i].name);
        mf_jw_kv_bool(w, "pass", r->rows[i].pass);
        mf_jw_kv_bool(w, "skipped", r->rows[i].skipped);
        mf_jw_kv_string(w, "detail", row_text(&r->rows[i], text));
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_kv_int(w, "seed", r->seed);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

/* Prints the object for a plugin that does not exist. The recorded error is kept. */
static void not_found_json(const char *what)
{
    static mf_check_report none = {.n = 1, .failed = 1};
    none.rows[0] = (mf_check_row){.name = "found"};
    snprintf(none.rows[0].detail, sizeof none.rows[0].detail, "%s", mf_error_message());
    (void)check_json(what, &none);
}

/* Collects the texts of --set, in their order. */
static int settings(const mf_cli *cli, mf_arena *arena, mf_check_request *to)
{
    mf_assignment *all;
    int n;
    int rc = mf_cli_assignments(cli, arena, &all, &n);
    if (rc != MF_OK) return rc;
    const char **set = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *set);
    if (!set) return MF_ENOMEM;
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].origin, "--set") == 0) set[to->n_set++] = all[i].text;
    to->set = set;
    return MF_OK;
}

static int check(const mf_cli *cli)
{
    static mf_check_report report;
    mf_check_request request = {.what = mf_cli_operand(cli, 0),
                                .seconds = (int)mf_cli_int(cli, "seconds", CHECK_SECONDS),
                                .seed = mf_cli_int(cli, "seed", CHECK_SEED),
                                .thorough = mf_cli_flag(cli, "thorough")};
    mf_arena *arena = mf_arena_new();
    int rc = arena ? settings(cli, arena, &request) : MF_ENOMEM;
    check_lines lines = {.live = mf_terminal_of(stderr)};
    const mf_check_watch watch = {check_row, check_begins, &lines};
    if (rc == MF_OK) rc = mf_check_plugin(&request, mf_cli_json(cli) ? NULL : &watch, &report);
    write_kept(&lines);
    mf_arena_free(arena);
    if (rc == MF_ENOTFOUND && mf_cli_json(cli)) not_found_json(request.what);
    if (rc == MF_OK && mf_cli_json(cli)) rc = check_json(request.what, &report);
    if (rc != MF_OK || report.pass) return rc;
    char failed[300] = "";
    for (int i = 0; i < report.n; i++)
        if (!report.rows[i].pass)
            snprintf(failed + strlen(failed), sizeof failed - strlen(failed), "%s%s",
                     failed[0] != '\0' ? ", " : "", report.rows[i].name);
    return mf_fail(MF_EPLUGIN, "plugin %s: %d of %d checks failed: %s",
                   report.plugin ? report.plugin->name : request.what, report.failed, report.n,
                   failed);
}

/* ---- new ---- */

static int new_plugin(const mf_cli *cli)
{
    char *folder;
    const bool cuda = mf_cli_flag(cli, "cuda");
    const char *kind = mf_cli_operand(cli, 0);
    int rc = mf_scaffold(kind, mf_cli_operand(cli, 1), mf_cli_operand(cli, 2), cuda, &folder);
    if (rc != MF_OK) return rc;
    rc = mf_cli_put_name(cli, "folder", folder);
    const char *shown = mf_shown_on(stderr, folder);
    if (rc == MF_OK && !mf_cli_quiet(cli))
        fprintf(stderr,
                "a%s %s that builds and trains is in %s; next:\n"
                "    make -C %s && make -C %s check%s%s%s\n"
                "    %s --plugin %s/%s.so --steps 50\n",
                strchr("aeo", kind[0]) ? "n" : "", kind, shown, shown, shown,
                cuda ? " && make -C " : "", cuda ? shown : "", cuda ? " emulate" : "",
                mf_shown_on(stderr, mf_paths_called()), shown, mf_cli_operand(cli, 1));
    mf_free(folder);
    return rc;
}

/* ---- trust ---- */

static int list_trusted(const mf_cli *cli)
{
    mf_arena *arena = mf_arena_new();
    mf_trusted *lines = NULL;
    int n = 0;
    int rc = arena ? mf_trusted_read(arena, &lines, &n) : MF_ENOMEM;
    mf_jw *w = mf_cli_json(cli) && rc == MF_OK ? mf_jw_new() : NULL;
    const char *file = rc == MF_OK ? mf_trusted_file(arena) : NULL;
    if (w) {
        mf_jw_object(w);
        mf_jw_key(w, "file");
        file ? mf_jw_string(w, file) : mf_jw_null(w);
        mf_jw_key(w, "trusted");
        mf_jw_array(w);
    }
    for (int i = 0; i < n; i++) {
        if (!w) {
            printf("%s  %s\n", lines[i].hash, mf_shown(lines[i].path));
            continue;
        }
        mf_jw_object(w);
        mf_jw_kv_string(w, "sha256", lines[i].hash);
        mf_jw_kv_string(w, "file", lines[i].path);
        mf_jw_end(w);
    }
    if (w) {
        mf_jw_end(w);
        mf_jw_end(w);
        rc = mf_cli_print_json(w);
    }
    mf_arena_free(arena);
    return rc;
}

/* Computes the hash of a file without running its code. judged: the file must be a plugin or a
 * module that would be loaded. *ret_path: freed with free. */
static int identify(const char *path, bool judged, mf_code_id *ret, char **ret_path)
{
    struct stat st;
    int fd;
    unsigned char *bytes = NULL;
    *ret_path = realpath(path, NULL);
    if (!*ret_path) return mf_fail_errno(MF_ENOTFOUND, "%s", path);
    int rc = mf_plugin_file_open(path, judged ? mf_plugin_trust(false) : MF_FILE_ANY, &fd, &st);
    if (rc == MF_OK) {
        rc = mf_plugin_file_read(path, fd, &st, &bytes);
        mf_io()->close(fd);
    }
    if (rc == MF_OK && judged && !mf_symbols_export(bytes, (size_t)st.st_size, "moefw_comm"))
        rc = mf_plugin_symbols(bytes, (size_t)st.st_size);
    if (rc == MF_OK) *ret = mf_code_id_of(bytes, (size_t)st.st_size, *ret_path);
    mf_free(bytes);
    return rc == MF_OK ? rc : mf_fail_context(rc, "%s", path);
}

static int trust(const mf_cli *cli)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_cli_operands(cli); i++) {
        mf_code_id id = {.path = NULL};
        char *path = NULL;
        rc = identify(mf_cli_operand(cli, i), true, &id, &path);
        if (rc == MF_OK) rc = mf_trusted_add(&id);
        if (rc == MF_OK && !mf_cli_quiet(cli))
            printf("%s  %s\n", id.hash, mf_shown_on(stdout, path));
        free(path);
    }
    return rc;
}

/* Removes a file from the trusted files. The file is looked up by its content and by its path.
 * So earlier versions of a plugin that was built again are removed, too. */
static int distrust_one(const char *what)
{
    mf_code_id id = {.path = NULL};
    char *path = NULL;
    int n = 0, by_path = 0;
    int rc = MF_OK;
    if (!mf_exists(what)) {
        rc = mf_trusted_remove(what, &n);
    } else if (identify(what, false, &id, &path) == MF_OK) {
        rc = mf_trusted_remove(id.hash, &n);
    }
    if (rc == MF_OK && path) rc = mf_trusted_remove(path, &by_path);
    free(path);
    if (rc == MF_OK && n + by_path == 0)
        rc = mf_fail(MF_ENOTFOUND,
                     "%s is not trusted; moefw plugin list --trusted shows what is", what);
    return rc;
}

static int distrust(const mf_cli *cli)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_cli_operands(cli); i++)
        rc = distrust_one(mf_cli_operand(cli, i));
    return rc;
}

static int run(const mf_cli *cli)
{
    const char *action = mf_cli_action(cli);
    if (strcmp(action, "check") != 0) {
        const int rc = mf_cli_no_config(cli);
        if (rc != MF_OK) return rc;
    }
    if (strcmp(action, "list") == 0)
        return mf_cli_flag(cli, "trusted") ? list_trusted(cli) : list(cli);
    if (strcmp(action, "trust") == 0) return trust(cli);
    if (strcmp(action, "distrust") == 0) return distrust(cli);
    if (strcmp(action, "info") == 0 || strcmp(action, "mdoc") == 0) return info(cli);
    if (strcmp(action, "check") == 0) return check(cli);
    return new_plugin(cli);
}

static const mf_cli_option options[] = {
    {.name = "seconds",
     .of = "check",
     .arg = "N",
     .kind = MF_CLI_INT,
     .lo = 1,
     .hi = 86400,
     .help = "check: longest time for all checks (600); the first one that hangs ends them"},
    {.name = "seed",
     .of = "check",
     .arg = "N",
     .kind = MF_CLI_INT,
     .lo = 0,
     .hi = 2147483647,
     .help = "check: of the sizes, values and options that are drawn (1)"},
    {.name = "thorough",
     .of = "check",
     .help = "check: more sizes, values and draws; takes some ten times as long"},
    {.name = "cuda",
     .of = "new",
     .help = "new op: with a kernel for GPUs, and its test on the emulator"},
    {.name = "trusted",
     .of = "list",
     .help = "list: the files that a configuration may name since you have named them"},
    MF_CLI_END};

static const mf_cli_form forms[] = {
    {"list", NULL, 0, 0, "every plugin that a name can find, and whether it loads"},
    {"info", "NAME|FILE", 1, 1, "what it is and which options it has"},
    {"check", "NAME|FILE", 1, 1, "does it keep the rules? descriptor, options, gradients, ..."},
    {"new", "KIND NAME [FOLDER]", 2, 3,
     "write the sources of a new one: router, expert, regularizer, controller, adapter or op"},
    {"trust", "FILE...", 1, -1, "a configuration or a run may name this file, too"},
    {"distrust", "FILE|HASH...", 1, -1, "no longer"},
    {"mdoc", "NAME|FILE", 1, 1, NULL},
    MF_CLI_FORM_END};

const mf_verb mf_verb_plugin = {
    .name = "plugin",
    .brief = "list, describe, check, begin and trust plugins",
    .forms = forms,
    .options = options,
    .run = run,
    .names_code = true,
    .notes =
        "A plugin is a name (drop-in files, then the plugin folders) or a file: a text with\n"
        "'/' or ending in .so, looked up under each plugin folder and then as given; with /,\n"
        "./ or ../ at its start only as given.\n"
        "MOEFW_PLUGIN_PATH adds folders. In a folder, NAME is routers/NAME.so, "
        "experts/NAME.so,\n"
        "and so on, then NAME.so.\n"
        "check tries the plugin with --set KIND.OPTION=VALUE, moe.top_k=N and moe.experts=N,\n"
        "if they are given: a router of one expert a token needs --set moe.top_k=1.\n",
};
