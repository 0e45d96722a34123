/* loop.c: runs whole commands repeatedly. In each run another call fails.
 *
 *     loop [--even] [--leaks LIBRARY] FAULTS.SO MOEFW SOURCES STRIDE [VERB[:KIND[:FROM]]...]
 *
 * For each verb and each kind of call, the n-th call fails, for n = 1, 1 + STRIDE, ... up to
 * the number of calls in a run without faults. It fails once, or from then on, with the errors
 * that such a call can have. FROM is the number of the first failing call. A kind with fewer
 * calls than its stride fails at three or four places.
 *
 * With a STRIDE over 1, the stride of allocations is 23 times as long, and that of reads 3
 * times. In a comparison, which consists of four runs, all strides are 41 times as long. So
 * with 17, as in make check, the strides are 391 for allocations and 51 for reads, and 16,031,
 * 2,091 and 697 in a comparison. With --even all strides are STRIDE. With a STRIDE of 1, and a
 * kind with more than MANY calls, a call fails only if the same functions led to at most one
 * earlier call, or to no later call. So each path that leads to a call is tested, but not each
 * iteration of a loop.
 *
 * Each run starts from the same files. It must end by itself with a documented status. With
 * status 0, its output and its files must equal those of a run without faults. With another
 * status, it must say why, every file must be an old or a finished one, and a run with a
 * checkpoint must resume to the same bits. With --leaks, no allocated block without a pointer
 * to it may remain at the end. LIBRARY is liblsan.so, or libasan.so if MOEFW was built with
 * ASan, whose other reports count, too. Prints TAP, one test for each verb. */
#include "tests/faults/judge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MANY = 4000 };

static long stride;
static bool even;        /* one stride for all kinds and verbs */
static const char *only; /* the only kind of calls that fails; NULL: all kinds */
static size_t only_length;
static long from; /* number of the first chosen call that fails, from 1 */

/* ---- verbs ---- */

static const char config[] =
    "[model]\ndim=16\nlayers=1\nheads=2\nseq=16\n[moe]\nexperts=2\n"
    "[data]\npath=text.txt\n[train]\nbatch=2\nsteps=3\n"
    "eval_context=8\neval_every=2\neval_batches=2\nsave_every=1\nkeep=100\n";

#define TRAIN  "train tiny.ini -q --out run"
#define IMPORT "import %s/tests/golden/pretrained/"
static const verb verbs[] = {
    {"train", NULL, "train tiny.ini --out run --set train.keep_best=yes", "run", false, true},
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

/* The errors. Calls of every kind fail once, or from then on. EINTR only occurs once, because
 * callers must repeat such a call without a limit. */
static const struct {
    int kind, error;
    bool always;
} forms[] = {{FAULT_ALLOC, ENOMEM, false},      {FAULT_ALLOC, ENOMEM, true},
             {FAULT_OPEN, EIO, false},          {FAULT_OPEN, EMFILE, true},
             {FAULT_OPEN, EINTR, false},        {FAULT_READ, EIO, false},
             {FAULT_READ, EIO, true},           {FAULT_READ, EINTR, false},
             {FAULT_READ, FAULT_SHORT, true},   {FAULT_WRITE, EIO, false},
             {FAULT_WRITE, ENOSPC, true},       {FAULT_WRITE, EINTR, false},
             {FAULT_WRITE, FAULT_SHORT, false}, {FAULT_WRITE, FAULT_SHORT, true},
             {FAULT_FSYNC, EIO, false},         {FAULT_FSYNC, EIO, true},
             {FAULT_FSYNC, EINTR, false},       {FAULT_RENAME, EIO, false},
             {FAULT_RENAME, EIO, true},         {FAULT_MMAP, ENOMEM, false},
             {FAULT_MMAP, ENOMEM, true},        {FAULT_LOCK, ENOLCK, false},
             {FAULT_LOCK, ENOLCK, true},        {FAULT_LOCK, EINTR, false},
             {FAULT_THREAD, EAGAIN, false},     {FAULT_THREAD, EAGAIN, true},
             {FAULT_STAT, EIO, false},          {FAULT_STAT, EIO, true},
             {FAULT_DIR, EIO, false},           {FAULT_DIR, ENOSPC, true},
             {FAULT_CLOSE, EIO, false},         {FAULT_CLOSE, EIO, true},
             {FAULT_CLOSE, EINTR, false},       {FAULT_STDOUT, EIO, false},
             {FAULT_STDOUT, ENOSPC, true},      {FAULT_STDERR, EIO, false},
             {FAULT_STDERR, ENOSPC, true}};
enum { FORMS = sizeof forms / sizeof *forms };

/* Whether calls of this kind shall fail. */
static bool is_asked(const char *kind)
{
    return !only || (strncmp(only, kind, only_length) == 0 && !kind[only_length]);
}

static long stride_of(const verb *v, int kind, long calls)
{
    long step = stride;
    const bool longer = stride > 1 && !even;
    if (longer && kind == FAULT_ALLOC) step *= 23;
    if (longer && kind == FAULT_READ) step *= 3;
    if (longer && strcmp(v->name, "compare") == 0) step *= 41;
    if (step > calls) step = calls / 3 + 1;
    return stride == 1 && calls < 1000 ? 1 : step;
}

/* Returns the numbers of the calls that shall fail, in order, with 0 at the end. */
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

/* Makes the files that the verb starts from, and runs the verb without a fault. Returns false
 * if this fails. */
static bool begin_verb(const verb *v, record *r)
{
    static char folder[2 * PATH], path[3 * PATH];
    snprintf(folder, sizeof folder, "%s/work", setup.base);
    tree_remove(folder);
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "cd %s && head -c 3000 %s/README.md >text.txt", folder,
             setup.sources);
    if (system(path) != 0) abort();
    snprintf(path, sizeof path, "%s/tiny.ini", folder);
    FILE *f = fopen(path, "w");
    if (!f || fputs(config, f) < 0 || fclose(f) != 0) abort();
    command_arm(FAULT_NONE, 0, false, 0);
    r->said = (result){.ended = true};
    if (v->before) r->said = command_run(folder, v->before);
    if (r->said.status == 0 && v->cut) {
        snprintf(path, sizeof path, "%s/run/ckpt/step-3", folder);
        tree_remove(path);
        snprintf(path, sizeof path,
                 "cd %s/run && echo step-2 >ckpt/latest && rm report.html "
                 "samples/step-3.json 2>/dev/null; :",
                 folder);
        if (system(path) != 0) abort();
    }
    r->start = tree_read(folder);
    tree_write(&r->start, folder);
    command_arm(FAULT_NOTE, 0, false, 0);
    if (r->said.status == 0) r->said = command_run(folder, v->command);
    r->good = tree_read(folder);
    if (r->said.ended && r->said.status == 0 && !r->said.report[0]) return true;
    printf("# %s without faults: status %d: %.300s %.900s\n", v->name, r->said.status,
           r->said.err, r->said.report);
    return false;
}

static void loop_verb(const verb *v, int number)
{
    static uint32_t stacks[FAULT_KINDS][FAULT_CALLS];
    static record r;
    counts c = {0};
    long clean[FAULT_KINDS], *lists[FORMS] = {NULL}, chosen = 0, at = 0;
    const bool good = begin_verb(v, &r);
    for (int i = 0; i < FAULT_KINDS; i++)
        clean[i] = setup.plan->calls[i];
    memcpy(stacks, setup.plan->stacks, sizeof stacks);
    for (int i = 0; good && i < FORMS; i++) {
        if (!is_asked(judge_kind(forms[i].kind))) continue;
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
            command_arm(kind, *n, forms[i].always, forms[i].error);
            judge_one(&c, v, &r);
            if (at % 500 == 0) {
                printf("# %s: %ld of %ld, now %s %ld of %ld, %ld lost, %ld leaked\n", v->name,
                       at, chosen, judge_kind(kind), *n, clean[kind], c.lost, c.leaked);
                fflush(stdout);
            }
        }
        free(lists[i]);
    }
    tree_free(&r.start);
    tree_free(&r.good);
    printf("# %s:", v->name);
    for (int i = 0; i < FAULT_KINDS; i++)
        if (clean[i] > 0) printf(" %s %ld", judge_kind(i), clean[i]);
    printf("\n%s %d - %s: %ld calls failed, %ld survived, %ld said so, %ld lost",
           good && c.lost + c.leaked == 0 && (only || c.tried > 0) ? "ok" : "not ok", number,
           v->name, c.tried, c.survived, c.failed, c.lost);
    if (setup.sanitizer) printf(", %ld leaked", c.leaked);
    printf("\n");
    fflush(stdout);
}

/* Whether the n arguments contain a verb. Sets `only` to the kind after its colon, and `from`
 * to the number after the second colon. */
static bool wanted(const char *name, int n, char **asked)
{
    const size_t length = strlen(name);
    only = NULL;
    from = 0;
    for (int i = 0; i < n; i++) {
        const char *after = asked[i] + length;
        if (strncmp(asked[i], name, length) != 0 || (*after && *after != ':')) continue;
        if (*after == '\0') return true;
        only = after + 1;
        only_length = strcspn(only, ":");
        if (only[only_length]) from = strtol(only + only_length + 1, NULL, 10);
        return true;
    }
    return n == 0;
}

int main(int argc, char **argv)
{
    int n = 0;
    if (argc > 1 && strcmp(argv[1], "--even") == 0) {
        even = true;
        argc--;
        argv++;
    }
    if (argc > 2 && strcmp(argv[1], "--leaks") == 0) {
        setup.sanitizer = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc < 5) return 2;
    setup.faults_so = argv[1];
    setup.moefw = argv[2];
    setup.sources = argv[3];
    stride = strtol(argv[4], NULL, 10);
    command_prepare();
    for (int i = 0; i < VERBS; i++)
        if (wanted(verbs[i].name, argc - 5, argv + 5)) {
            setenv("OMP_NUM_THREADS", verbs[i].threads ? "2" : "1", 1);
            loop_verb(&verbs[i], ++n);
        }
    tree_remove(setup.base);
    printf("1..%d\n", n);
    return 0;
}
