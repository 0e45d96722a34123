/* loop.c: runs whole commands again and again, each time with another call that fails.
 *
 *     loop FAULTS.SO MOEFW SOURCES STRIDE [VERB[:KIND[:FROM]]...]
 *
 * For each verb and each kind of call, the n-th call fails, for n = 1, 1 + STRIDE, ... up to
 * the number that a run without faults makes: once and from then on, with the errors that such
 * a call can have. All these calls have an order, in which FROM is the number of the first.
 * Kinds with fewer calls fail at three places at least; with a STRIDE over 1,
 * allocations, reads and a comparison, which is four runs, have longer strides. With a STRIDE
 * of 1, of a kind with more than MANY calls those fail to which the same functions led not more
 * than once before, or never again: each path that leads to a call, not each turn of a loop.
 *
 * Each run starts from the same files. It must end by itself with a documented status; with
 * status 0 its output and its files are those of a run without faults; with any other, it says
 * why, every file is an old one or a finished one, and a run with a checkpoint resumes to the
 * same bits. Prints TAP, one test for each verb. */
#include "tests/faults/preload.h"
#include "tests/faults/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 60, TEXT = 8192, WORDS = 40, PATH = 2048, MANY = 4000 };

static const char *faults_so, *moefw, *sources;
static char base[PATH]; /* holds start/, expected/ and work/ */
static fault_plan *plan;
static long stride;
static const char *only; /* the one kind of calls that fails, NULL: all */
static size_t only_length;
static long from; /* the first of the chosen calls that fails, counted from 1 */

/* ---- commands ---- */

typedef struct result {
    bool ended; /* by itself, in time */
    int status;
    char out[TEXT], err[TEXT];
} result;

static void read_text(const char *path, char *to)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, to, TEXT - 1) : 0;
    to[n > 0 ? n : 0] = '\0';
    if (fd >= 0) close(fd);
}

static void child(const char *folder, char *const *argv)
{
    char out[2 * PATH], err[2 * PATH];
    snprintf(out, sizeof out, "%s/out", base);
    snprintf(err, sizeof err, "%s/err", base);
    setpgid(0, 0);
    if (chdir(folder) != 0) _exit(99);
    const int nul = open("/dev/null", O_RDONLY),
              o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666),
              e = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(nul, 0);
    dup2(o, 1);
    dup2(e, 2);
    for (int fd = 3; fd < 20; fd++)
        close(fd);
    setenv("LD_PRELOAD", faults_so, 1);
    execv(moefw, argv);
    _exit(99);
}

/* Seconds that a run may take: more on a machine that has other work. A file of a megabyte that
 * is read byte by byte takes half a second alone. */
static time_t patience(void)
{
    double load = 0;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&load, 1) != 1 || cores < 1) return SECONDS;
    return (time_t)(SECONDS * (1 + load / (double)cores));
}

static result run_command(const char *folder, char *const *argv)
{
    static char out[2 * PATH], err[2 * PATH];
    result r = {0};
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) child(folder, argv);
    const time_t end = time(NULL) + patience();
    for (long pause = 100000;; pause = 1000000) {
        const pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid) break;
        if (time(NULL) > end) {
            kill(-pid, SIGKILL);
            waitpid(pid, &status, 0);
            r.status = -2;
            return r;
        }
        nanosleep(&(struct timespec){0, pause}, NULL);
    }
    kill(-pid, SIGKILL); /* children that outlived it */
    r.ended = WIFEXITED(status);
    r.status = r.ended ? WEXITSTATUS(status) : -WTERMSIG(status);
    snprintf(out, sizeof out, "%s/out", base);
    snprintf(err, sizeof err, "%s/err", base);
    read_text(out, r.out);
    read_text(err, r.err);
    return r;
}

static void arm(int kind, long nth, bool always, int error)
{
    memset(plan, 0, offsetof(fault_plan, stacks));
    plan->kind = kind;
    plan->nth = nth;
    plan->always = always;
    plan->error = error;
}

/* Splits a command at spaces; "moefw" is not given. */
static char **words(char *text)
{
    static char *list[WORDS];
    int n = 0;
    list[n++] = (char *)moefw;
    for (char *w = strtok(text, " "); w && n < WORDS - 1; w = strtok(NULL, " "))
        list[n++] = w;
    list[n] = NULL;
    return list;
}

/* Between two faults: no call fails, and the plan is what it was. */
static result run_healthy(const char *folder, char *text)
{
    const int kind = plan->kind, error = plan->error, always = plan->always;
    const long nth = plan->nth;
    arm(FAULT_NONE, 0, false, 0);
    const result r = run_command(folder, words(text));
    arm(kind, nth, always, error);
    return r;
}

static result run_text(const char *folder, const char *format)
{
    char text[TEXT];
    snprintf(text, sizeof text, format, sources);
    return run_command(folder, words(text));
}

/* ---- verbs ---- */

static const char config[] =
    "[model]\ndim=16\nlayers=1\nheads=2\nseq=16\n[moe]\nexperts=2\n"
    "[data]\npath=text.txt\n[train]\nbatch=2\nsteps=3\n"
    "eval_context=8\neval_every=2\neval_batches=2\nsave_every=1\nkeep=100\n";

typedef struct verb {
    const char *name, *before, *command; /* %s: the folder of sources */
    const char *run;                     /* of the files that it makes; NULL: none */
    bool cut;     /* the run that `before` makes loses its last checkpoint */
    bool threads; /* computes with several threads */
} verb;

#define TRAIN  "train tiny.ini -q --out run"
#define IMPORT "import %s/tests/golden/pretrained/"
static const verb verbs[] = {
    {"train", NULL, TRAIN " --set train.keep_best=yes", "run", false, true},
    {"resume", TRAIN, "train --resume run -q", "run", true, true},
    {"change", TRAIN, "train --resume run -q --set train.time_limit=9000", "run", true, true},
    {"eval", TRAIN, "eval run --batches 1 --json", NULL, false, true},
    {"generate", TRAIN, "generate run -p Some -n 12 --seed 3", NULL, false, false},
    {"report", TRAIN, "report run -o page.html", NULL, false, false},
    {"export", TRAIN, "export csv run -o table.csv", NULL, false, false},
    {"swap", TRAIN, "swap run --router hash -o new --batches 1 -q", "new", false, false},
    {"config", NULL, "config check tiny.ini", NULL, false, false},
    {"data", NULL, "data info text.txt", NULL, false, false},
    {"tokenize", NULL, "tokenize train bpe_bytes text.txt --vocab-size 300 -o tok.json", NULL,
     false, false},
    {"plugin", NULL, "plugin info routers/hash.so", NULL, false, false},
    {"graph", NULL, "graph tiny.ini", NULL, false, false},
    {"ckpt", TRAIN, "ckpt verify run", NULL, false, false},
    {"runs", TRAIN, "runs . --json", NULL, false, false},
    {"trace", TRAIN, "trace record run -o run.trace -q", NULL, false, false},
    {"import", NULL, IMPORT "gpt2/hf -o new -q", "new", false, false},
    {"quantize", IMPORT "mixtral/hf -o run -q",
     "quantize run -o new --group 16 -q --batches 1 --set data.path=text.txt", "new", false,
     false},
    {"compare", NULL,
     "compare tiny.ini --routers linear,hash --seeds 2 --steps 2 --equal steps "
     "-o cmp -q",
     NULL, false, false}};
enum { VERBS = sizeof verbs / sizeof *verbs };

/* Files whose content another run need not repeat. */
static bool differs_always(const char *name)
{
    const size_t n = strlen(name);
    return strstr(name, "memory.jsonl") || strstr(name, ".lock") || strstr(name, "claim") ||
           strstr(name, "/stored.json") || /* it has the time of another file */
           (n > 4 && strcmp(name + n - 4, ".log") == 0);
}

static bool is_leftover(const char *name)
{
    return strstr(name, ".tmp") != NULL;
}

/* Whether a comparison rests on the file. */
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

/* Whether b begins with a, which ends with a line. */
static bool is_prefix(const file *a, const file *b)
{
    return a->size <= b->size && memcmp(a->data, b->data, a->size) == 0;
}

static bool same(const file *a, const file *b)
{
    return a && b && a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

/* ---- judgement ---- */

typedef struct counts {
    long tried, survived, failed, lost;
} counts;

static const char *const kinds[FAULT_KINDS] = {"alloc",  "open",   "read", "write",
                                               "fsync",  "rename", "mmap", "lock",
                                               "thread", "stat",   "dir",  "close"};

static void complain(counts *c, const verb *v, const char *what, const result *r)
{
    c->lost++;
    printf("# %s: %s %ld %s, errno %d: %s; status %d: %.300s\n", v->name, kinds[plan->kind],
           plan->nth, plan->always ? "and on" : "once", plan->error, what, r->status, r->err);
    fflush(stdout);
    if (getenv("MOEFW_FAULT_KEEP")) exit(1); /* the folders stay for a look at them */
}

/* Whether a comparison named runs that failed and compared the others. */
static bool lacks_runs(const verb *v, const result *r)
{
    return strcmp(v->name, "compare") == 0 && strstr(r->err, "moefw: warning: ") &&
           strstr(r->err, " failed: ");
}

/* Blanks the numbers below "tokens/s" in a table: steps repeated after a fault, and steps that
 * read the clock less often, have the same results but their own times. */
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

/* Whether two files of results differ only in times: for these, too, what blank_speeds says. */
static bool same_but_times(const file *f, const file *g)
{
    static const char *const keys[] = {"\"tokens_per_s\":", "\"wall_s\":"};
    size_t i = 0, j = 0;
    if (!g) return false;
    while (i < f->size && j < g->size && f->data[i] == g->data[j]) {
        size_t skip = 0;
        for (int k = 0; k < 2; k++) {
            const size_t n = strlen(keys[k]);
            if (f->size - i > n && g->size - j > n && memcmp(f->data + i, keys[k], n) == 0 &&
                memcmp(g->data + j, keys[k], n) == 0)
                skip = n;
        }
        i += skip ? skip : 1, j += skip ? skip : 1;
        if (!skip) continue;
        while (i < f->size && strchr("+-.0123456789e", f->data[i]) && f->data[i])
            i++;
        while (j < g->size && strchr("+-.0123456789e", g->data[j]) && g->data[j])
            j++;
    }
    return i == f->size && j == g->size;
}

/* A run that passed: every file as expected. */
static void judge_passed(counts *c, const verb *v, const result *r, const result *expected,
                         const tree *now, const tree *good)
{
    char what[512];
    const bool warned = strstr(r->err, "warning") != NULL;
    if (lacks_runs(v, r)) return;
    if (!same_table(r->out, expected->out)) {
        complain(c, v, "other output", r);
        return;
    }
    for (int i = 0; i < good->n; i++) {
        const file *f = &good->files[i], *g = tree_find(now, f->name);
        if (differs_always(f->name) ? g != NULL : same(f, g)) continue;
        /* A run of a comparison has done its work when it has measured; what it could not
         * write after that is in its log. */
        const bool compared = strcmp(v->name, "compare") == 0;
        if (warned || (compared && (!is_result(f->name) || same_but_times(f, g)))) continue;
        snprintf(what, sizeof what, "%s is %s", f->name, g ? "different" : "missing");
        complain(c, v, what, r);
        return;
    }
}

/* Whether a file with times in it is whole. They may differ from those of a run without faults,
 * since the clock moves with each reading, and what failed reads it less often. */
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

/* OpenMP's own word for a thread that it cannot start. LLVM's library aborts then. */
static bool is_openmp_word(const result *r)
{
    return strstr(r->err, "libgomp: ") || strstr(r->err, "OMP: Error #34: ");
}

/* A run that failed: no file that is neither old nor finished. */
static void judge_failed(counts *c, const verb *v, const result *r, const tree *now,
                         const tree *start, const tree *good)
{
    char what[512];
    if (strncmp(r->err, "moefw: ", 7) != 0 && !strstr(r->err, "\nmoefw: ") &&
        !is_openmp_word(r)) {
        complain(c, v, "no message", r);
        return;
    }
    for (int i = 0; i < now->n; i++) {
        const file *f = &now->files[i], *g = tree_find(good, f->name);
        if (is_leftover(f->name)) {
            if (plan->always || plan->error == 0) continue;
            if (plan->kind == FAULT_DIR || plan->kind == FAULT_STAT) continue;
            snprintf(what, sizeof what, "%s is left", f->name);
            complain(c, v, what, r);
            return;
        }
        if (strstr(f->name, "/best/step-")) continue;  /* judged when it is read */
        if (strcmp(v->name, "compare") == 0) continue; /* judged by the comparison's end */
        if (differs_always(f->name) || same(f, g)) continue;
        if (same(f, tree_find(start, f->name))) continue;
        if (strstr(f->name, ".jsonl") && g && is_prefix(f, g)) continue;
        if (g && is_whole(f)) continue;
        if (strstr(f->name, "/latest") && f->size == 7 && strncmp(f->data, "step-", 5) == 0)
            continue;
        /* Nobody takes a folder for a run while it has no checkpoint. */
        if (plan->always && v->run && !has_checkpoint(now, v->run)) continue;
        snprintf(what, sizeof what, "%s is %s", f->name, g ? "unfinished" : "unexpected");
        complain(c, v, what, r);
        return;
    }
}

/* A run with a checkpoint resumes to the bits of an unbroken one. */
static void judge_resume(counts *c, const verb *v, const result *r, const char *work,
                         const tree *now, const tree *good)
{
    char text[TEXT], name[256];
    if (!has_checkpoint(now, v->run)) return;
    snprintf(text, sizeof text, "train --resume %s -q", v->run);
    const result again = run_healthy(work, text);
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

/* A comparison that failed continues to the same table. */
static void judge_compare(counts *c, const verb *v, const char *work, const tree *now,
                          const result *expected)
{
    char text[] = "compare cmp -q";
    if (!tree_find(now, "cmp/plan.json")) return;
    const result again = run_healthy(work, text);
    if (!again.ended || again.status != 0)
        complain(c, v, "does not continue", &again);
    else if (!same_table(again.out, expected->out))
        complain(c, v, "continues to another table", &again);
}

static bool is_documented(const result *r)
{
    if (!r->ended)
        return plan->kind == FAULT_THREAD && r->status == -SIGABRT && is_openmp_word(r);
    return r->status <= 7 || r->status == 75 || r->status == 130;
}

/* One run with one fault; it does not count if no call failed. */
static void try_one(counts *c, const verb *v, const tree *start, const tree *good,
                    const result *expected)
{
    static char work[2 * PATH];
    snprintf(work, sizeof work, "%s/work", base);
    tree_write(start, work);
    const result r = run_text(work, v->command);
    if (plan->hits == 0) return;
    const long lost = c->lost;
    c->tried++;
    tree now = tree_read(work);
    if (!is_documented(&r))
        complain(c, v, r.status == -2 ? "does not end" : "a crash or an unknown status", &r);
    else if (r.status == 0)
        judge_passed(c, v, &r, expected, &now, good);
    else
        judge_failed(c, v, &r, &now, start, good);
    if (c->lost == lost && v->run && r.status != 0 && strcmp(v->name, "import") != 0 &&
        strcmp(v->name, "quantize") != 0 && strcmp(v->name, "swap") != 0)
        judge_resume(c, v, &r, work, &now, good);
    if (c->lost == lost && strcmp(v->name, "compare") == 0 &&
        (r.status != 0 || lacks_runs(v, &r)))
        judge_compare(c, v, work, &now, expected);
    c->survived += c->lost == lost && r.status == 0;
    c->failed += c->lost == lost && r.status != 0;
    tree_free(&now);
}

static const struct {
    int kind, error;
    bool always;
} forms[] = {{FAULT_ALLOC, ENOMEM, false},      {FAULT_ALLOC, ENOMEM, true},
             {FAULT_OPEN, EIO, false},          {FAULT_OPEN, EMFILE, true},
             {FAULT_OPEN, EINTR, false},        {FAULT_READ, EIO, false},
             {FAULT_READ, EIO, true},           {FAULT_READ, EINTR, false},
             {FAULT_READ, FAULT_SHORT, true},   {FAULT_WRITE, EIO, false},
             {FAULT_WRITE, ENOSPC, true},       {FAULT_WRITE, EINTR, false},
             {FAULT_WRITE, FAULT_SHORT, false}, {FAULT_FSYNC, EIO, false},
             {FAULT_FSYNC, EIO, true},          {FAULT_FSYNC, EINTR, false},
             {FAULT_RENAME, EIO, false},        {FAULT_RENAME, EIO, true},
             {FAULT_MMAP, ENOMEM, false},       {FAULT_MMAP, ENOMEM, true},
             {FAULT_LOCK, ENOLCK, false},       {FAULT_LOCK, EINTR, false},
             {FAULT_THREAD, EAGAIN, false},     {FAULT_THREAD, EAGAIN, true},
             {FAULT_STAT, EIO, false},          {FAULT_STAT, EIO, true},
             {FAULT_DIR, EIO, false},           {FAULT_DIR, ENOSPC, true},
             {FAULT_CLOSE, EIO, false},         {FAULT_CLOSE, EINTR, false}};
enum { FORMS = sizeof forms / sizeof *forms };

/* Whether calls of the kind are to fail. */
static bool is_asked(const char *kind)
{
    return !only || (strncmp(only, kind, only_length) == 0 && !kind[only_length]);
}

static long stride_of(const verb *v, int kind, long calls)
{
    long step = stride;
    if (stride > 1 && kind == FAULT_ALLOC) step *= 23;
    if (stride > 1 && kind == FAULT_READ) step *= 3;
    if (stride > 1 && strcmp(v->name, "compare") == 0) step *= 41;
    if (step > calls) step = calls / 3 + 1;
    return stride == 1 && calls < 1000 ? 1 : step;
}

/* The numbers of the calls that fail, in order, 0 at the end. */
static long *choose(const verb *v, int form, const uint32_t *stacks, long calls)
{
    enum { TURNS = 2, SLOTS = 1 << 17 };
    static struct {
        uint32_t stack;
        long turns, last;
    } slots[SLOTS];
    const bool paths = stride == 1 && calls > MANY;
    const long step = paths ? 1 : stride_of(v, forms[form].kind, calls);
    long *list = calloc((size_t)calls + 3, sizeof *list), n = 0, total = calls;
    if (total > FAULT_CALLS) total = FAULT_CALLS;
    memset(slots, 0, sizeof slots);
    for (long i = total - 1; paths && i >= 0; i--) {
        uint32_t at = stacks[i] % SLOTS;
        while (slots[at].stack && slots[at].stack != stacks[i])
            at = (at + 1) % SLOTS;
        if (!slots[at].stack) slots[at].last = i;
        slots[at].stack = stacks[i];
    }
    for (long i = form % step; i <= calls; i += step) {
        uint32_t at = paths && i < total ? stacks[i] % SLOTS : 0;
        while (paths && i < total && slots[at].stack != stacks[i])
            at = (at + 1) % SLOTS;
        if (paths && i < total && slots[at].turns++ >= TURNS && slots[at].last != i) continue;
        list[n++] = i + 1;
    }
    return list;
}

static void loop_verb(const verb *v, int number)
{
    static uint32_t stacks[FAULT_KINDS][FAULT_CALLS];
    static char folder[2 * PATH], path[3 * PATH];
    counts c = {0};
    snprintf(folder, sizeof folder, "%s/work", base);
    tree_remove(folder);
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "cd %s && head -c 3000 %s/README.md >text.txt", folder,
             sources);
    if (system(path) != 0) abort();
    snprintf(path, sizeof path, "%s/tiny.ini", folder);
    FILE *f = fopen(path, "w");
    fputs(config, f);
    fclose(f);
    arm(FAULT_NONE, 0, false, 0);
    result r = {.ended = true};
    if (v->before) r = run_text(folder, v->before);
    if (r.status == 0 && v->cut) {
        snprintf(path, sizeof path, "%s/run/ckpt/step-3", folder);
        tree_remove(path);
        snprintf(path, sizeof path,
                 "cd %s/run && echo step-2 >ckpt/latest && rm report.html "
                 "samples/step-3.json 2>/dev/null; :",
                 folder);
        if (system(path) != 0) abort();
    }
    tree start = tree_read(folder);
    tree_write(&start, folder);
    arm(FAULT_NOTE, 0, false, 0);
    if (r.status == 0) r = run_text(folder, v->command);
    long clean[FAULT_KINDS];
    for (int i = 0; i < FAULT_KINDS; i++)
        clean[i] = plan->calls[i];
    memcpy(stacks, plan->stacks, sizeof stacks);
    tree good = tree_read(folder);
    snprintf(folder, sizeof folder, "%s/good", base);
    tree_write(&good, folder);
    if (r.status != 0 || !r.ended) c.lost++;
    if (r.status != 0) printf("# %s without faults: status %d: %s\n", v->name, r.status, r.err);
    long *lists[FORMS] = {NULL}, chosen = 0, at = 0;
    for (int i = 0; r.status == 0 && i < FORMS; i++) {
        if (!is_asked(kinds[forms[i].kind])) continue;
        lists[i] = choose(v, i, stacks[forms[i].kind], clean[forms[i].kind]);
        for (const long *n = lists[i]; *n; n++)
            chosen++;
    }
    printf("# %s: %ld calls are chosen\n", v->name, chosen);
    fflush(stdout);
    for (int i = 0; i < FORMS; i++) {
        const int kind = forms[i].kind;
        for (const long *n = lists[i]; n && *n; n++) {
            if (++at < from) continue;
            arm(kind, *n, forms[i].always, forms[i].error);
            try_one(&c, v, &start, &good, &r);
            if (at % 500 == 0) {
                printf("# %s: %ld of %ld, now %s %ld of %ld, %ld lost\n", v->name, at, chosen,
                       kinds[kind], *n, clean[kind], c.lost);
                fflush(stdout);
            }
        }
        free(lists[i]);
    }
    tree_free(&start);
    tree_free(&good);
    printf("# %s:", v->name);
    for (int i = 0; i < FAULT_KINDS; i++)
        if (clean[i] > 0) printf(" %s %ld", kinds[i], clean[i]);
    printf("\n%s %d - %s: %ld calls failed, %ld survived, %ld said so, %ld lost\n",
           c.lost == 0 && c.tried > 0 ? "ok" : "not ok", number, v->name, c.tried, c.survived,
           c.failed, c.lost);
    fflush(stdout);
}

/* Whether the arguments ask for a verb; sets `only` to the kind after its colon and `from` to
 * the number after another. */
static bool wanted(const char *name, int argc, char **argv)
{
    const size_t n = strlen(name);
    only = NULL;
    from = 0;
    if (argc <= 5) return true;
    for (int i = 5; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && (argv[i][n] == '\0' || argv[i][n] == ':')) {
            if (argv[i][n] == '\0') return true;
            only = argv[i] + n + 1;
            only_length = strcspn(only, ":");
            if (only[only_length]) from = strtol(only + only_length + 1, NULL, 10);
            return true;
        }
    return false;
}

static void prepare(void)
{
    char path[2 * PATH];
    snprintf(base, sizeof base, "%s/moefw-faults-%ld",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
    mkdir(base, 0777);
    snprintf(path, sizeof path, "%s/plan", base);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (ftruncate(fd, sizeof *plan) != 0) abort();
    plan = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (plan == MAP_FAILED) abort();
    close(fd);
    setenv("MOEFW_FAULT_PLAN", path, 1);
    setenv("GOMP_SPINCOUNT", "1", 1); /* so that the program does not restart itself */
    setenv("XDG_CONFIG_HOME", base, 1);
    setenv("LC_ALL", "C", 1);
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
}

int main(int argc, char **argv)
{
    int n = 0;
    if (argc < 5) return 2;
    faults_so = argv[1];
    moefw = argv[2];
    sources = argv[3];
    stride = strtol(argv[4], NULL, 10);
    prepare();
    for (int i = 0; i < VERBS; i++)
        if (wanted(verbs[i].name, argc, argv)) {
            setenv("OMP_NUM_THREADS", verbs[i].threads ? "2" : "1", 1);
            loop_verb(&verbs[i], ++n);
        }
    tree_remove(base);
    printf("1..%d\n", n);
    return 0;
}
