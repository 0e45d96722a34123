/* replay.c: the possible states of files after a loss of power, computed from a record that
 * faults.so wrote.
 *
 *     replay RECORD ROOT OUT STATES SEED [MOEFW]
 *
 * The power fails at each operation of the record. Data synced before this operation is on
 * disk. Other data may be on disk or not. In the ordered model, changes of directories reach
 * the disk in their order, as in a journal: each sync also writes all earlier changes. Data
 * that was not synced is on disk completely, in part, or not at all. In the strict model, which
 * is all that POSIX promises, each change of a directory that was not synced may be lost alone,
 * and a sync of a file does not write its name.
 *
 * Each state is made in OUT and checked. Suppose a run had a complete checkpoint, which means
 * that its save had ended with the sync of its folder. Then the state must contain a checkpoint
 * of the run that verifies and is not older. Beside it must be config.ini, manifest.json and
 * tokenizer.json, each with a content that was written for it. In one of EVERY states MOEFW, if
 * given, must resume these runs with status 0, which requires a checkpoint. STATES limits the
 * number of states of a model. If the limit is reached, the states are spread over the record
 * and drawn with SEED. MOEFW_FAULT_FORGET names a folder whose syncs are ignored, which shows
 * why they are needed. Prints TAP. */
#include "tests/faults/preload.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "run/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAME = 512, NODES = 16384, RUNS = 16, ENTRIES = 65536, EVERY = 40 };

typedef struct op {
    int op, arg;
    char *path, *other;
    uint64_t at, n;
    const char *data;
} op;

static op *ops;
static int n_ops;
static const char *root, *out, *moefw;
static const char *forgotten; /* a folder whose syncs are ignored */
static uint64_t draws;

/* Numbers from 0 to n - 1 (splitmix64). */
static uint64_t draw(uint64_t n)
{
    uint64_t z = draws += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return (z ^ (z >> 31)) % n;
}

static void read_record(const char *path)
{
    char *text;
    size_t size, at = 0;
    if (mf_read_file(path, 0, &text, &size) != MF_OK) abort();
    ops = mf_alloc(size / sizeof(record_head) + 1, sizeof *ops);
    while (ops && at + sizeof(record_head) <= size) {
        record_head h;
        memcpy(&h, text + at, sizeof h);
        at += sizeof h;
        ops[n_ops++] = (op){.op = (int)h.op,
                            .arg = h.arg,
                            .path = mf_strndup(text + at, h.path),
                            .other = mf_strndup(text + at + h.path, h.other),
                            .at = h.at,
                            .n = h.data,
                            .data = text + at + h.path + h.other};
        at += h.path + h.other + h.data;
    }
}

/* ---- the disk ----
 *
 * A node is a file or a folder. `places` contains the present names of nodes. A change gives a
 * node a name, or removes the name. The state of the disk follows from the changes that reached
 * it, in their order. */
typedef struct node {
    bool folder;
    char *bytes, *synced; /* content as written, and content at the last sync */
    size_t n, n_synced, room;
} node;

typedef struct change {
    char from[NAME], to[NAME]; /* from "": a new node; to "": a removed node */
    int node;
    bool synced;
} change;

static node *nodes;
static change *changes;
static int n_nodes, n_changes;

typedef struct place {
    char name[NAME];
    int node;
} place;
static place *places; /* the present names of nodes */
static int n_places;

static int place_of(const char *name)
{
    for (int i = 0; i < n_places; i++)
        if (strcmp(places[i].name, name) == 0) return i;
    return -1;
}

static void drop(int i)
{
    places[i] = places[--n_places];
}

static void put(const char *name, int node_at)
{
    const int i = place_of(name);
    if (i >= 0) drop(i);
    snprintf(places[n_places].name, NAME, "%s", name);
    places[n_places++].node = node_at;
}

static bool below(const char *name, const char *folder)
{
    const size_t n = strlen(folder);
    return strncmp(name, folder, n) == 0 && name[n] == '/';
}

/* Applies a change to the places. A folder keeps its content when it moves. If a folder did not
 * reach the disk, its content is lost, too. */
static void apply(const change *c)
{
    if (c->from[0] == '\0') {
        put(c->to, c->node);
        return;
    }
    const int i = place_of(c->from);
    if (i < 0 || places[i].node != c->node) return;
    drop(i);
    if (c->to[0] == '\0') return;
    const size_t n = strlen(c->from);
    put(c->to, c->node);
    for (int k = 0; k < n_places; k++)
        if (below(places[k].name, c->from)) {
            char name[2 * NAME];
            snprintf(name, sizeof name, "%s%s", c->to, places[k].name + n);
            snprintf(places[k].name, NAME, "%.*s", NAME - 1, name);
        }
}

static int new_node(bool folder)
{
    nodes[n_nodes] = (node){.folder = folder};
    return n_nodes++;
}

static void change_to(const char *from, const char *to, int node_at)
{
    change *c = &changes[n_changes++];
    *c = (change){.node = node_at};
    snprintf(c->from, NAME, "%s", from);
    snprintf(c->to, NAME, "%s", to);
    apply(c);
}

static void write_at(node *f, uint64_t at, const char *data, size_t n)
{
    if (at + n > f->room) {
        const size_t room = 2 * (at + n);
        f->bytes = realloc(f->bytes, room);
        if (!f->bytes) abort();
        f->room = room;
    }
    if (at > f->n) memset(f->bytes + f->n, 0, at - f->n);
    memcpy(f->bytes + at, data, n);
    if (at + n > f->n) f->n = at + n;
}

static bool in_folder(const char *name, const char *folder)
{
    const char *slash = strrchr(name, '/');
    return slash && (size_t)(slash - name) == strlen(folder) &&
           strncmp(name, folder, (size_t)(slash - name)) == 0;
}

static void sync_it(const char *path)
{
    const int i = place_of(path);
    if (i >= 0 && !nodes[places[i].node].folder) {
        node *f = &nodes[places[i].node];
        free(f->synced);
        f->synced = malloc(f->n + 1);
        if (!f->synced) abort();
        memcpy(f->synced, f->bytes ? f->bytes : "", f->n);
        f->n_synced = f->n;
        return;
    }
    for (int k = 0; k < n_changes; k++)
        if (in_folder(changes[k].from, path) || in_folder(changes[k].to, path))
            changes[k].synced = true;
}

/* In the ordered model, all changes before this index are on disk. */
static int journal;

static void perform(const op *o)
{
    const int i = place_of(o->path);
    node *f = i >= 0 ? &nodes[places[i].node] : NULL;
    switch (o->op) {
    case RECORD_OPEN:
        if (i < 0) change_to("", o->path, new_node(false));
        if (f && o->arg & O_TRUNC) f->n = 0;
        break;
    case RECORD_WRITE:
        if (f) write_at(f, o->at, o->data, o->n);
        break;
    case RECORD_TRUNCATE:
        if (f && f->n > o->at) f->n = o->at;
        break;
    case RECORD_FSYNC:
        if (forgotten && strcmp(o->path, forgotten) == 0) break;
        sync_it(o->path);
        journal = n_changes;
        break;
    case RECORD_RENAME:
        if (f) change_to(o->path, o->other, places[i].node);
        break;
    case RECORD_UNLINK:
    case RECORD_RMDIR:
        if (f) change_to(o->path, "", places[i].node);
        break;
    case RECORD_MKDIR:
        change_to("", o->path, new_node(true));
        break;
    }
}

/* ---- what was reported ---- */

typedef struct saved {
    char folder[NAME];   /* RUN/ckpt, RUN/best */
    long long step, due; /* step: the complete checkpoint; due: the step to which `latest` was
                          * renamed, not synced yet */
} saved;
static saved runs[RUNS];
static int n_runs;

static saved *run_of(const char *folder)
{
    for (int i = 0; i < n_runs; i++)
        if (strcmp(runs[i].folder, folder) == 0) return &runs[i];
    saved *r = &runs[n_runs++];
    *r = (saved){.step = -1, .due = -1};
    snprintf(r->folder, NAME, "%s", folder);
    return r;
}

/* Watches for the end of a save: the folder is synced after `latest` got its name. */
static void watch(const op *o)
{
    char folder[NAME];
    const char *slash = o->op == RECORD_RENAME ? strrchr(o->other, '/') : NULL;
    if (slash && strcmp(slash, "/latest") == 0) {
        const node *f = &nodes[places[place_of(o->other)].node];
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - o->other), o->other);
        run_of(folder)->due = strtoll(f->bytes + strlen("step-"), NULL, 10);
    }
    for (int i = 0; o->op == RECORD_FSYNC && i < n_runs; i++)
        if (strcmp(runs[i].folder, o->path) == 0 && runs[i].due >= 0) {
            runs[i].step = runs[i].due;
            runs[i].due = -1;
        }
}

/* ---- a state ---- */

static void write_out(const char *name, const char *data, size_t n)
{
    char path[2 * NAME];
    snprintf(path, sizeof path, "%s%s", out, name + strlen(root));
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return; /* the file's folder did not reach the disk */
    if (n > 0 && write(fd, data, n) != (ssize_t)n) abort();
    close(fd);
}

static int by_length(const void *a, const void *b)
{
    const size_t n = strlen(((const place *)a)->name), m = strlen(((const place *)b)->name);
    return (n > m) - (n < m);
}

/* Writes a file of the state. how: what happened to data that was not synced. 0: lost, 1:
 * complete, 2: cut off, 3: with a hole of zeros. */
static void make_file(const place *p, int how)
{
    const node *f = &nodes[p->node];
    char *torn;
    if (how == 0 || f->n == 0) {
        write_out(p->name, f->synced ? f->synced : "", f->n_synced);
        return;
    }
    torn = malloc(f->n);
    if (!torn) abort();
    memcpy(torn, f->bytes, f->n);
    const bool same = f->n == f->n_synced && memcmp(f->bytes, f->synced, f->n) == 0;
    if (how == 3 && !same) memset(torn, 0, f->n / 2);
    write_out(p->name, torn, how == 2 && !same ? f->n / 2 + f->n_synced / 2 : f->n);
    free(torn);
}

/* Makes a state. model: 0 ordered, 1 strict. variant 0: no data that was not synced is on disk;
 * 1: all of it is; higher variants: drawn. */
static void make_state(int model, int variant)
{
    place *now = malloc(((size_t)n_places + 1) * sizeof *now), *kept;
    const int n_now = n_places;
    if (!now) abort();
    memcpy(now, places, (size_t)n_places * sizeof *now);
    n_places = 0;
    const int until = variant == 0   ? journal
                      : variant == 1 ? n_changes
                                     : journal + (int)draw((uint64_t)(n_changes - journal) + 1);
    put(root, 0);
    for (int k = 0; k < n_changes; k++) {
        const bool there =
            model == 0 ? k < until
                       : changes[k].synced || variant == 1 || (variant > 1 && draw(2) == 0);
        if (there) apply(&changes[k]);
    }
    mf_remove_tree(out);
    kept = places;
    qsort(kept, (size_t)n_places, sizeof *kept, by_length);
    for (int i = 0; i < n_places; i++) {
        char path[2 * NAME];
        snprintf(path, sizeof path, "%s%s", out, kept[i].name + strlen(root));
        if (nodes[kept[i].node].folder)
            mkdir(path, 0777);
        else
            make_file(&kept[i], variant < 2 ? variant : (int)draw(4));
    }
    memcpy(places, now, (size_t)n_now * sizeof *now);
    n_places = n_now;
    free(now);
}

/* The path of a file beside a folder of checkpoints, on the disk of the record or in OUT. */
static void path_beside(char *to, const char *folder, const char *name, bool in_out)
{
    const size_t n = strlen(root);
    snprintf(to, 3 * NAME, "%s%.*s/%s", in_out ? out : root,
             (int)((size_t)(strrchr(folder, '/') - folder) - n), folder + n, name);
}

/* Whether the state has the file of the run, with the content of a file that once got
 * this name. */
static bool is_right(const char *folder, const char *name)
{
    char path[3 * NAME], *text = NULL;
    size_t n = 0;
    bool right = false;
    path_beside(path, folder, name, true);
    if (mf_read_file(path, 0, &text, &n) != MF_OK) return false;
    path_beside(path, folder, name, false);
    for (int k = 0; k < n_changes && n > 0 && !right; k++) {
        const node *f = &nodes[changes[k].node];
        right = strcmp(changes[k].to, path) == 0 && f->n == n && memcmp(f->bytes, text, n) == 0;
    }
    mf_free(text);
    return right;
}

/* Whether the run of the folder has a valid checkpoint, at least as new as was reported, and
 * its settings, manifest and tokenizer. */
static bool keeps(const saved *r)
{
    char folder[2 * NAME];
    int64_t *steps = NULL;
    int n = 0;
    bool good = false;
    snprintf(folder, sizeof folder, "%s%s", out, r->folder + strlen(root));
    if (mf_ckpt_list(folder, &steps, &n) != MF_OK) return false;
    for (int i = 0; i < n && !good; i++) {
        mf_ckpt_report report;
        char *path = mf_ckpt_path(folder, steps[i]);
        if (mf_ckpt_verify(path, &report) == MF_OK) good = report.ok && steps[i] >= r->step;
        mf_ckpt_report_free(&report);
        mf_free(path);
    }
    mf_free(steps);
    return good && is_right(r->folder, "config.ini") && is_right(r->folder, "manifest.json") &&
           is_right(r->folder, "tokenizer.json");
}

/* Whether the program can resume the run of the folder to its end. */
static bool resumes(const saved *r)
{
    char path[3 * NAME], said[3 * NAME];
    int status = -1;
    path_beside(path, r->folder, "", true);
    snprintf(said, sizeof said, "%s.said", out);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        const int fd = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(fd, 1);
        dup2(fd, 2);
        execl(moefw, moefw, "train", "--resume", path, "-q", (char *)NULL);
        _exit(99);
    }
    if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    char *text = NULL;
    size_t n = 0;
    mf_read_file(said, 0, &text, &n);
    printf("# train --resume %s: status %d: %.*s\n", path, status, (int)(n < 300 ? n : 300),
           text ? text : "");
    mf_free(text);
    return false;
}

static long states[2], lost[2], resumed[2];

static void judge(int model, int at)
{
    static const char last[] = "/ckpt";
    const bool resume = states[model]++ % EVERY == 0 && moefw;
    bool good = true;
    /* A resume writes to the state, so it comes after all folders were read. */
    for (int pass = 0; pass < (resume ? 2 : 1); pass++)
        for (int i = 0; i < n_runs; i++) {
            const saved *r = &runs[i];
            const size_t n = strlen(r->folder);
            const char *what = NULL;
            if (r->step < 0) continue;
            if (pass == 0) {
                if (!keeps(r)) what = "is lost";
            } else if (n > 5 && strcmp(r->folder + n - strlen(last), last) == 0) {
                resumed[model]++;
                if (!resumes(r)) what = "is not resumed";
            }
            if (!what) continue;
            printf("# %s, power fails behind operation %d (%s): step %lld of %s %s\n",
                   model == 0 ? "ordered" : "strict", at, ops[at].path, r->step, r->folder,
                   what);
            good = false;
        }
    lost[model] += !good;
}

int main(int argc, char **argv)
{
    static const char *const models[] = {"ordered", "strict"};
    if (argc < 6) return 2;
    root = argv[2];
    out = argv[3];
    forgotten = getenv("MOEFW_FAULT_FORGET");
    draws = strtoull(argv[5], NULL, 10);
    moefw = argv[6];
    read_record(argv[1]);
    nodes = calloc(NODES, sizeof *nodes);
    changes = calloc(ENTRIES, sizeof *changes);
    places = calloc(NODES, sizeof *places);
    if (!nodes || !changes || !places || n_ops == 0) return 2;
    put(root, new_node(true));
    const long bound = strtol(argv[4], NULL, 10);
    for (int i = 0; i < n_ops; i++) {
        perform(&ops[i]);
        watch(&ops[i]);
        for (int m = 0; m < 2; m++) {
            const long due = bound * (i + 1) / n_ops - bound * i / n_ops;
            for (int v = 0; v < due; v++) {
                make_state(m, due < 3 ? (int)draw(4) : v);
                judge(m, i);
            }
        }
    }
    mf_remove_tree(out);
    printf("# %d operations, %d folders of checkpoints\n", n_ops, n_runs);
    for (int m = 0; m < 2; m++)
        printf("%s %d - %s model: %ld states, %ld lost, %ld runs resumed\n",
               lost[m] == 0 && states[m] > 0 && n_runs > 0 ? "ok" : "not ok", m + 1, models[m],
               states[m], lost[m], resumed[m]);
    printf("1..2\n");
    return 0;
}
