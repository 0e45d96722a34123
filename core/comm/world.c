/* comm/world.c: opens a communicator module, and waits for its transfers.
 *
 * A wait never blocks in the engine, which is the library behind the module (MPI, NCCL). It
 * tests again and again whether the transfer is done, yields the processor in between, and
 * counts the time. So a lost peer ends the run with a message instead of a silent halt. */
#include "comm/world.h"

#include <moefw/version.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/coverage.h"
#include "base/error.h"
#include "base/file/paths.h"
#include "base/log.h"
#include "base/mem.h"
#include "plugin/crash.h"
#include "plugin/load/module.h"

enum { MESSAGE = 1024, CHUNK = 1 << 30, LAST_SECONDS = 10 };

struct mf_world {
    const mf_comm_table *table;
    mf_comm *comm;
    int rank, ranks;
    double patience;
    bool agreed;
    int64_t sent;          /* number of bytes sent so far */
    mf_comm_place *places; /* [ranks] */
    mf_comm_piece *pieces; /* [2 ranks] for gathers */
};

/* ---- opening ---- */

const char *mf_world_adds(const char *module)
{
    const bool here = mf_paths_uninstalled();
    if (strcmp(module, "openmpi") == 0)
        return here ? "apt-get install openmpi-bin libopenmpi-dev && ./quickstart build"
                    : "apt-get install moefw-openmpi, or build moefw where mpicc is";
    if (strcmp(module, "mpich") == 0)
        return here ? "apt-get install mpich libmpich-dev && ./quickstart build"
                    : "build moefw where mpicc.mpich is (Debian package: libmpich-dev)";
    return "build moefw with --with-nccl=yes (NVIDIA's packages: libnccl-dev, cuda-cudart-dev)";
}

static int missing(const char *module, const char *list, const mf_launch *l, bool launched)
{
    if (!launched)
        return mf_fail(MF_EDEP, "no communicator module comm/%s.so in %s", module, list);
    return mf_fail(
        MF_EDEP,
        "%s has started %d processes, but there is no communicator module "
        "comm/%s.so in %s: to add it: %s; or set parallel.comm = self for runs that know "
        "nothing of each other",
        l->launcher, l->ranks, module, list, mf_world_adds(module));
}

static int judge(const mf_comm_table *t)
{
    if (t->magic != MF_COMM_MAGIC) return mf_fail(MF_EPLUGIN, "no communicator of moefw");
    if (t->size != sizeof *t || strcmp(t->version, MOEFW_VERSION) != 0)
        return mf_fail(MF_EPLUGIN,
                       "the module belongs to moefw %s, and this is %s: build both together",
                       t->size == sizeof *t ? t->version : "of another time", MOEFW_VERSION);
    return MF_OK;
}

static int load(const char *comm, const mf_launch *l, bool launched, const mf_comm_table **ret)
{
    const char *list = "", *path = comm;
    const void *table = NULL;
    mf_arena *arena = mf_arena_new();
    if (!arena) return MF_ENOMEM;
    const bool as_given = strchr(comm, '/') != NULL;
    if (!as_given) {
        const char *name = mf_arena_strf(arena, "comm/%s.so", comm);
        path = name ? mf_module_find(arena, name, &list) : (list = NULL);
    }
    int rc = path   ? mf_module_load(path, as_given, "moefw_comm", &table)
             : list ? missing(comm, list, l, launched)
                    : MF_ENOMEM;
    if (rc == MF_OK) rc = judge(table);
    if (rc != MF_OK && path) mf_fail_context(rc, "%s", path);
    mf_arena_free(arena);
    *ret = table;
    return rc;
}

/* Returns the maximum size of a message. Tests make it small. */
static int64_t chunk(void)
{
    const char *text = getenv("MOEFW_COMM_CHUNK");
    const long long n = text ? strtoll(text, NULL, 10) : 0;
    return n > 0 && n < CHUNK ? n : CHUNK;
}

static int begin(mf_world *w, const mf_launch *l, bool launched)
{
    mf_comm_place place;
    char why[256] = "";
    if (w->table->open(chunk(), &place, &w->comm, why, sizeof why) != 0)
        return mf_fail(MF_EDEP, "%s: %s", w->table->name, why);
    w->rank = place.rank;
    w->ranks = place.ranks;
    if (launched && l->ranks != place.ranks)
        return mf_fail(MF_EUSAGE,
                       "%s has started %d processes, but communicator %s sees %d: start them "
                       "with the launcher of the same MPI, or set parallel.comm = %s",
                       l->launcher, l->ranks, w->table->name, place.ranks, l->module);
    w->places = mf_alloc((size_t)w->ranks, sizeof *w->places);
    w->pieces = mf_alloc(2 * (size_t)w->ranks, sizeof *w->pieces);
    if (!w->places || !w->pieces) return MF_ENOMEM;
    w->places[w->rank] = place;
    return mf_world_gather(w, "the places of the ranks", &place, sizeof place, w->places);
}

int mf_world_open(const char *comm, double patience, mf_world **ret)
{
    mf_launch l = {0};
    const bool launched = mf_launch_find(&l);
    *ret = NULL;
    if (strcmp(comm, "self") == 0) return MF_OK;
    if (strcmp(comm, "auto") == 0 && !launched) return MF_OK;
    if (strcmp(comm, "auto") == 0) comm = l.module;
    mf_world *w = mf_alloc(1, sizeof *w);
    if (!w) return MF_ENOMEM;
    w->patience = patience;
    int rc = load(comm, &l, launched, &w->table);
    if (rc == MF_OK) rc = begin(w, &l, launched);
    if (rc != MF_OK) {
        mf_world_close(w);
        return rc;
    }
    *ret = w;
    return MF_OK;
}

void mf_world_close(mf_world *w)
{
    if (!w) return;
    if (w->comm && w->rank == 0)
        mf_log(MF_LOG_DEBUG, "rank 0 of %d has sent %lld bytes", w->ranks, (long long)w->sent);
    if (w->comm && w->table) w->table->close(w->comm);
    mf_free(w->places);
    mf_free(w->pieces);
    mf_free(w);
}

static volatile sig_atomic_t last_code;

static void give_up(int number)
{
    (void)number;
    mf_crash_end(last_code);
}

void mf_world_abort(mf_world *w, int code)
{
    /* This makes the process end even if the engine itself hangs. */
    mf_crash_ended(); /* the engine may call exit */
    last_code = code;
    signal(SIGALRM, give_up);
    alarm(LAST_SECONDS);
    MF_LAST(w->table->abort(w->comm, code));
    mf_crash_end(code);
}

const char *mf_world_name(const mf_world *w)
{
    return w ? w->table->name : "self";
}

int mf_world_rank(const mf_world *w)
{
    return w ? w->rank : 0;
}

int mf_world_ranks(const mf_world *w)
{
    return w ? w->ranks : 1;
}

const mf_comm_place *mf_world_place(const mf_world *w, int rank)
{
    return &w->places[rank];
}

/* ---- transfers ---- */

/* Records an error that names the peers that did not answer. */
static int lost(const mf_world *w, mf_comm_wait *t, const char *what)
{
    char list[512] = "";
    size_t used = 0;
    for (int r = 0; r < w->ranks && used + 96 < sizeof list; r++)
        if (r != w->rank && w->table->waits_for(t, r))
            used += (size_t)snprintf(list + used, sizeof list - used, "%srank %d (%.40s)",
                                     used ? ", " : "", r, w->places[r].host);
    return mf_fail(MF_EPEER, "%s: no answer from %s for %g s (parallel.patience)", what,
                   used ? list : "the engine", w->patience);
}

/* In the first turns yields the processor and returns at once; later sleeps up to
 * a millisecond. */
static void pause_a_little(int64_t turn)
{
    if (turn < 2000) {
        sched_yield();
        return;
    }
    const int64_t us = turn < 4000 ? 50 : 1000;
    nanosleep(&(struct timespec){0, (long)us * 1000}, NULL);
}

static int broken(const mf_world *w, const char *what)
{
    return mf_fail(MF_EPEER, "%s: communicator %s has failed", what, w->table->name);
}

int mf_world_start(mf_world *w, const char *what, int n_send, const mf_comm_piece *send,
                   int n_recv, const mf_comm_piece *recv, mf_comm_wait **ret)
{
    *ret = NULL;
    if (!w || n_send + n_recv == 0) return MF_OK;
    for (int i = 0; i < n_send; i++)
        w->sent += send[i].bytes;
    return w->table->start(w->comm, n_send, send, n_recv, recv, ret) == 0 ? MF_OK
                                                                          : broken(w, what);
}

int mf_world_test(mf_world *w, const char *what, mf_comm_wait **t)
{
    bool done = false;
    if (!*t) return MF_OK;
    if (w->table->test(w->comm, *t, &done) != 0) return broken(w, what);
    if (done) *t = NULL;
    return MF_OK;
}

int mf_world_finish(mf_world *w, const char *what, mf_comm_wait **t)
{
    const double began = mf_clock();
    for (int64_t turn = 0; *t; turn++) {
        const int rc = mf_world_test(w, what, t);
        if (rc != MF_OK || !*t) return rc;
        if (turn % 64 == 63 && mf_clock() - began > w->patience) return lost(w, *t, what);
        pause_a_little(turn);
    }
    return MF_OK;
}

int mf_world_exchange(mf_world *w, const char *what, int n_send, const mf_comm_piece *send,
                      int n_recv, const mf_comm_piece *recv)
{
    mf_comm_wait *t;
    const int rc = mf_world_start(w, what, n_send, send, n_recv, recv, &t);
    return rc == MF_OK ? mf_world_finish(w, what, &t) : rc;
}

int mf_world_gather(mf_world *w, const char *what, const void *mine, int64_t bytes, void *all)
{
    memmove((char *)all + mf_world_rank(w) * bytes, mine, (size_t)bytes);
    if (!w) return MF_OK;
    mf_comm_piece *send = w->pieces, *recv = w->pieces + w->ranks;
    int n = 0;
    for (int r = 0; r < w->ranks; r++) {
        if (r == w->rank) continue;
        send[n] = (mf_comm_piece){r, (char *)all + w->rank * bytes, bytes};
        recv[n++] = (mf_comm_piece){r, (char *)all + r * bytes, bytes};
    }
    return mf_world_exchange(w, what, n, send, n, recv);
}

int mf_world_tell(mf_world *w, const char *what, void *data, int64_t bytes)
{
    if (!w) return MF_OK;
    const mf_comm_piece from_0 = {0, data, bytes};
    int n = 0;
    if (w->rank > 0) return mf_world_exchange(w, what, 0, NULL, 1, &from_0);
    for (int r = 1; r < w->ranks; r++)
        w->pieces[n++] = (mf_comm_piece){r, data, bytes};
    return mf_world_exchange(w, what, n, w->pieces, 0, NULL);
}

/* ---- agreement ---- */

typedef struct opinion {
    int32_t code;
    char message[MESSAGE];
} opinion;

static int judge_opinions(mf_world *w, const opinion *all)
{
    int first = 0;
    bool same = true;
    while (first < w->ranks && all[first].code == MF_OK)
        first++;
    if (first == w->ranks) return MF_OK;
    const opinion *o = &all[first];
    for (int r = 0; r < w->ranks; r++)
        same = same && all[r].code == o->code && strcmp(all[r].message, o->message) == 0;
    w->agreed = true;
    if (same) return mf_fail(o->code, "%s", o->message);
    return mf_fail(o->code, "rank %d (%s): %s", first, w->places[first].host, o->message);
}

int mf_world_agree(mf_world *w, int rc)
{
    int32_t *codes;
    if (!w) return rc;
    w->agreed = false;
    opinion mine = {.code = rc}, *all = NULL;
    bool fine = true;
    if (rc != MF_OK) snprintf(mine.message, sizeof mine.message, "%s", mf_error_message());
    codes = mf_alloc((size_t)w->ranks, sizeof *codes);
    if (!codes) return MF_ENOMEM;
    int got = mf_world_gather(w, "the status of the ranks", &mine.code, sizeof *codes, codes);
    for (int r = 0; got == MF_OK && r < w->ranks; r++)
        fine = fine && codes[r] == MF_OK;
    mf_free(codes);
    if (got != MF_OK || fine) return got;
    all = mf_alloc((size_t)w->ranks, sizeof *all);
    if (!all) return MF_ENOMEM;
    got = mf_world_gather(w, "the messages of the ranks", &mine, sizeof mine, all);
    if (got == MF_OK) got = judge_opinions(w, all);
    mf_free(all);
    return got;
}

bool mf_world_agreed(const mf_world *w)
{
    return w && w->agreed;
}

void mf_world_forget(mf_world *w)
{
    if (w) w->agreed = false;
}
