/* judge.c: implements judge.h. */
#include "tests/faults/judge.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the content of the file may differ in each run. */
static bool differs_always(const char *name)
{
    const size_t n = strlen(name);
    return strstr(name, "memory.jsonl") || strstr(name, ".lock") || strstr(name, "claim") ||
           (n > 4 && strcmp(name + n - 4, ".log") == 0);
}

static bool is_leftover(const char *name)
{
    return strstr(name, ".tmp") != NULL;
}

/* Whether the result of a comparison depends on the file. */
static bool is_result(const char *name)
{
    const char *slash = strrchr(name, '/'), *leaf = slash ? slash + 1 : name;
    return strcmp(leaf, "metrics.jsonl") == 0 || strcmp(leaf, "config.ini") == 0 ||
           strcmp(leaf, "comparison.json") == 0 || strcmp(leaf, "plan.json") == 0;
}

static bool has_checkpoint(const tree *t, const char *run)
{
    char folder[64];
    snprintf(folder, sizeof folder, "%s/ckpt/step-", run);
    for (int i = 0; i < t->n; i++)
        if (strncmp(t->files[i].name, folder, strlen(folder)) == 0 &&
            !is_leftover(t->files[i].name))
            return true;
    return false;
}

/* Whether b begins with a, and a ends with a line end. */
static bool is_prefix(const file *a, const file *b)
{
    return a->size <= b->size && memcmp(a->data, b->data, a->size) == 0;
}

static bool same(const file *a, const file *b)
{
    return a && b && a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

/* ---- judgement ---- */

static const char *const kinds[FAULT_KINDS] = {"alloc",  "open",  "read",   "write",  "fsync",
                                               "rename", "mmap",  "lock",   "thread", "stat",
                                               "dir",    "close", "stdout", "stderr"};

const char *judge_kind(int kind)
{
    return kinds[kind];
}

static void complain(counts *c, const verb *v, const char *what, const result *r)
{
    c->lost++;
    printf("# %s: %s %ld %s, errno %d: %s; status %d: %.300s\n", v->name,
           kinds[setup.plan->kind], setup.plan->nth, setup.plan->always ? "and on" : "once",
           setup.plan->error, what, r->status, r->err);
    fflush(stdout);
    /* the folders are kept for inspection by the developer */
    if (getenv("MOEFW_FAULT_KEEP")) exit(1);
}

/* Whether a comparison reported that runs failed and compared the other runs. */
static bool lacks_runs(const verb *v, const result *r)
{
    return strcmp(v->name, "compare") == 0 && strstr(r->err, "moefw: warning: ") &&
           strstr(r->err, " failed: ");
}

/* Blanks the numbers below "tokens/s" in a table. Steps repeated after a fault, and steps that
 * read the clock less often, have the same results but other times. */
static void blank_speeds(char *table)
{
    static const char title[] = "tokens/s";
    char *at = strstr(table, title), *line = at;
    if (!at) return;
    while (line > table && line[-1] != '\n')
        line--;
    const size_t begin = (size_t)(at - line), end = begin + strlen(title);
    while ((line = strchr(line, '\n')) != NULL && line[1] != '\n' && line[1] != '\0') {
        const size_t n = strcspn(++line, "\n");
        for (size_t i = begin; i < end && i < n; i++)
            line[i] = ' ';
    }
}

static bool same_table(const char *a, const char *b)
{
    static char one[TEXT], other[TEXT];
    snprintf(one, sizeof one, "%s", a);
    snprintf(other, sizeof other, "%s", b);
    blank_speeds(one);
    blank_speeds(other);
    return strcmp(one, other) == 0;
}

/* Whether two files differ only in times, after blank_speeds, and in hashes of files that
 * contain times: the hash of a manifest, and that of stored.json in the checksums of
 * a manifest. */
static bool same_but_times(const file *f, const file *g)
{
    static const char *const keys[] = {
        "\"tokens_per_s\":", "\"wall_s\":", "\"changed\":", "\"self\":", "\"stored.json\":"};
    enum { KEYS = sizeof keys / sizeof *keys };
    static const char value[] = "+-.0123456789abcdef\"";
    size_t i = 0, j = 0;
    if (!g) return false;
    while (i < f->size && j < g->size && f->data[i] == g->data[j]) {
        size_t skip = 0;
        for (int k = 0; k < KEYS; k++) {
            const size_t n = strlen(keys[k]);
            if (f->size - i > n && g->size - j > n && memcmp(f->data + i, keys[k], n) == 0 &&
                memcmp(g->data + j, keys[k], n) == 0)
                skip = n;
        }
        i += skip ? skip : 1, j += skip ? skip : 1;
        if (!skip) continue;
        while (i < f->size && strchr(value, f->data[i]) && f->data[i])
            i++;
        while (j < g->size && strchr(value, g->data[j]) && g->data[j])
            j++;
    }
    return i == f->size && j == g->size;
}

/* Whether the file may be missing or different although the run succeeded, because a warning
 * names the cause. */
static bool is_excused(const char *name, const char *err)
{
    static const struct {
        const char *warning, *leaf;
    } excuses[] = {{"moefw: warning: no report: ", "report.html"},
                   {" of the processor: ", "manifest.json"}, /* has the processor's name */
                   {" of the processor: ", "MANIFEST.json"},
                   {" of the processor: ", "report.html"},
                   {" of the processor: ", "run.trace"}};
    const char *slash = strrchr(name, '/'), *leaf = slash ? slash + 1 : name;
    for (size_t i = 0; i < sizeof excuses / sizeof *excuses; i++)
        if (strcmp(leaf, excuses[i].leaf) == 0 && strstr(err, excuses[i].warning)) return true;
    return false;
}

/* Whether a report differs from the expected one only because the metrics in its folder differ.
 * It must equal the page that the command `report` makes of the run when no call fails. */
static bool is_of_its_run(const file *page)
{
    static const char leaf[] = "/report.html", again[] = "again.html";
    static char work[2 * PATH];
    char text[TEXT];
    const size_t n = strlen(page->name), m = strlen(leaf);
    if (n <= m || strcmp(page->name + n - m, leaf) != 0) return false;
    snprintf(work, sizeof work, "%s/work", setup.base);
    snprintf(text, sizeof text, "report %.*s -o %s", (int)(n - m), page->name, again);
    const result r = command_run_healthy(work, text);
    tree all = tree_read(work);
    const file *made = tree_find(&all, again);
    const bool is = r.ended && r.status == 0 && same(page, made);
    tree_free(&all);
    return is;
}

/* Checks that every file is as expected. */
static void judge_files(counts *c, const verb *v, const result *r, const tree *now,
                        const tree *good)
{
    char what[512];
    const bool compared = strcmp(v->name, "compare") == 0;
    for (int i = 0; i < good->n; i++) {
        const file *f = &good->files[i], *g = tree_find(now, f->name);
        if (differs_always(f->name) ? g != NULL : same(f, g) || same_but_times(f, g)) continue;
        /* A run of a comparison is complete when it has measured. Files that it could not write
         * after that are named in its log. */
        if (compared && !is_result(f->name)) continue;
        if (is_excused(f->name, r->err)) continue;
        if (g && is_of_its_run(g)) continue;
        snprintf(what, sizeof what, "%s is %s", f->name, g ? "different" : "missing");
        complain(c, v, what, r);
        return;
    }
}

static void judge_passed(counts *c, const verb *v, const result *r, const result *expected,
                         const tree *now, const tree *good)
{
    if (lacks_runs(v, r)) return;
    if (!same_table(r->out, expected->out))
        complain(c, v, "other output", r);
    else
        judge_files(c, v, r, now, good);
}

/* Checks a command of which only the results or the messages could not be written: the work
 * itself must be complete. */
static void judge_silent(counts *c, const verb *v, const result *r, const tree *now,
                         const tree *good)
{
    if (setup.plan->kind == FAULT_STDERR)
        complain(c, v, "fails for want of messages", r);
    else if (r->status != 1 || !strstr(r->err, "moefw: cannot write the results to standard"))
        complain(c, v, "does not say that results are lost", r);
    else
        judge_files(c, v, r, now, good);
}

/* Whether a file that contains times is complete. The times may differ from those of a run
 * without faults, because the clock moves with each reading, and a failed call reads it
 * less often. */
static bool is_whole(const file *f)
{
    static const char *const ends[][2] = {
        {".html", "</html>\n"}, {".jsonl", "}\n"}, {"/MANIFEST.json", "}"}};
    size_t n = f->size, k;
    for (int i = 0; i < 3; i++) {
        if (!strstr(f->name, ends[i][0])) continue;
        while (n > 0 && i == 2 && f->data[n - 1] == '\n')
            n--;
        k = strlen(ends[i][1]);
        return n >= k && memcmp(f->data + n - k, ends[i][1], k) == 0;
    }
    return false;
}

/* Whether the message is OpenMP's own, about a thread that it cannot start. LLVM's library
 * then aborts. */
static bool is_openmp_word(const result *r)
{
    return strstr(r->err, "libgomp: ") || strstr(r->err, "OMP: Error #34: ");
}

/* Whether a line of the message says what failed. A warning alone is not enough. */
static bool has_message(const result *r)
{
    static const char ours[] = "moefw: ", warning[] = "warning: ";
    for (const char *line = r->err; *line; line += strcspn(line, "\n"), line += *line != '\0')
        if (strncmp(line, ours, strlen(ours)) == 0 &&
            strncmp(line + strlen(ours), warning, strlen(warning)) != 0)
            return true;
    return false;
}

/* Checks a run that failed: every file is either an old file or a finished new file, and none
 * is missing. */
static void judge_failed(counts *c, const verb *v, const result *r, const tree *now,
                         const tree *start, const tree *good)
{
    char what[512];
    if (!has_message(r) && !is_openmp_word(r)) {
        complain(c, v, "no message", r);
        return;
    }
    for (int i = 0; i < now->n; i++) {
        const file *f = &now->files[i], *g = tree_find(good, f->name);
        if (is_leftover(f->name)) {
            if (strstr(f->name, ".gone.tmp/") && strstr(r->err, "an old checkpoint stays: "))
                continue;
            if (setup.plan->always || setup.plan->error == 0) continue;
            if (setup.plan->kind == FAULT_DIR || setup.plan->kind == FAULT_STAT) continue;
            snprintf(what, sizeof what, "%s is left", f->name);
            complain(c, v, what, r);
            return;
        }
        if (strstr(f->name, "/best/step-")) continue; /* verified when it is read */
        /* these files are checked by judge_compare */
        if (strcmp(v->name, "compare") == 0) continue;
        if (differs_always(f->name) || same(f, g) || same_but_times(f, g)) continue;
        if (same(f, tree_find(start, f->name))) continue;
        if (strstr(f->name, ".jsonl") && g && is_prefix(f, g)) continue;
        if (g && is_whole(f)) continue;
        if (strstr(f->name, "/latest") && f->size == 7 && strncmp(f->data, "step-", 5) == 0)
            continue;
        /* A folder without a checkpoint does not count as a run. */
        if (setup.plan->always && v->run && !has_checkpoint(now, v->run)) continue;
        snprintf(what, sizeof what, "%s is %s", f->name, g ? "unfinished" : "unexpected");
        complain(c, v, what, r);
        return;
    }
    for (int i = 0; i < start->n; i++) {
        const char *name = start->files[i].name;
        if (tree_find(now, name) || strstr(name, "/best/step-")) continue;
        snprintf(what, sizeof what, "%s is gone", name);
        complain(c, v, what, r);
        return;
    }
}

/* Checks that a run with a checkpoint resumes, and ends with the bits of an
 * uninterrupted run. */
static void judge_resume(counts *c, const verb *v, const result *r, const char *work,
                         const tree *now, const tree *good)
{
    char text[TEXT], name[256];
    if (!has_checkpoint(now, v->run)) return;
    snprintf(text, sizeof text, "train --resume %s -q", v->run);
    const result again = command_run_healthy(work, text);
    if (!again.ended || again.status != 0) {
        complain(c, v, "does not resume", &again);
        return;
    }
    snprintf(name, sizeof name, "%s/ckpt/step-3/model.safetensors", v->run);
    tree later = tree_read(work);
    if (tree_find(good, name) && !same(tree_find(good, name), tree_find(&later, name)))
        complain(c, v, "resumes to other bits", r);
    tree_free(&later);
}

/* Checks that a comparison that failed can be continued, and ends with the same table. */
static void judge_compare(counts *c, const verb *v, const char *work, const tree *now,
                          const result *expected)
{
    char text[] = "compare cmp -q";
    if (!tree_find(now, "cmp/plan.json")) return;
    const result again = command_run_healthy(work, text);
    if (!again.ended || again.status != 0)
        complain(c, v, "does not continue", &again);
    else if (!same_table(again.out, expected->out))
        complain(c, v, "continues to another table", &again);
}

static bool is_documented(const result *r)
{
    if (!r->ended)
        return setup.plan->kind == FAULT_THREAD && r->status == -SIGABRT && is_openmp_word(r);
    return r->status <= 7 || r->status == 75 || r->status == 130;
}

/* Repeats a run that had a report of a leak, to find the functions that led to
 * the allocation. */
static void tell_report(counts *c, const verb *v, const record *r, const char *work,
                        const result *got)
{
    c->leaked++;
    command_arm(setup.plan->kind, setup.plan->nth, setup.plan->always, setup.plan->error);
    tree_write(&r->start, work);
    setup.stacks = true;
    const result again = command_run(work, v->command);
    setup.stacks = false;
    printf("# %s: %s %ld %s, errno %d: status %d: %.300s # %.1500s\n", v->name,
           kinds[setup.plan->kind], setup.plan->nth, setup.plan->always ? "and on" : "once",
           setup.plan->error, got->status, got->err,
           again.report[0] ? again.report : got->report);
    fflush(stdout);
    if (getenv("MOEFW_FAULT_KEEP")) exit(1);
}

void judge_one(counts *c, const verb *v, const record *r)
{
    static char work[2 * PATH];
    snprintf(work, sizeof work, "%s/work", setup.base);
    tree_write(&r->start, work);
    const result got = command_run(work, v->command);
    if (setup.plan->hits == 0) return;
    const long lost = c->lost;
    c->tried++;
    tree now = tree_read(work);
    if (!is_documented(&got))
        complain(c, v, got.status == NO_END ? "does not end" : "a crash or an unknown status",
                 &got);
    else if (got.status == 0)
        judge_passed(c, v, &got, &r->said, &now, &r->good);
    else if (setup.plan->kind == FAULT_STDOUT || setup.plan->kind == FAULT_STDERR)
        judge_silent(c, v, &got, &now, &r->good);
    else
        judge_failed(c, v, &got, &now, &r->start, &r->good);
    if (c->lost == lost && v->run && got.status != 0 && strcmp(v->name, "import") != 0 &&
        strcmp(v->name, "quantize") != 0 && strcmp(v->name, "swap") != 0)
        judge_resume(c, v, &got, work, &now, &r->good);
    if (c->lost == lost && strcmp(v->name, "compare") == 0 &&
        (got.status != 0 || lacks_runs(v, &got)))
        judge_compare(c, v, work, &now, &r->said);
    c->survived += c->lost == lost && got.status == 0;
    c->failed += c->lost == lost && got.status != 0;
    tree_free(&now);
    if (got.report[0]) tell_report(c, v, r, work, &got);
}
