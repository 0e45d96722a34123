/* comm/mpi.c: the communicator modules of MPI. This file is compiled once for each
 * implementation, with its header, into comm/openmpi.so and comm/mpich.so.
 *
 * Only point-to-point messages without waiting are used, so that no call blocks while a peer is
 * late. Collective calls are made only in open and close. The communicator is a private copy,
 * which no other code uses. */
#include <mpi.h>
#include <moefw/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "comm/table.h"

struct mf_comm {
    MPI_Comm comm;
    int64_t chunk;
    bool ours;          /* this module has initialised MPI */
    mf_comm_wait *idle; /* finished transfers, to be used again */
};

struct mf_comm_wait {
    mf_comm_wait *next;
    int n, room;
    MPI_Request *request; /* [n] */
    /* [n] never read, but gcc warns about MPI_STATUSES_IGNORE */
    MPI_Status *status;
    int32_t *peer;        /* [n] */
};

static int explain(int code, const char *what, char *text, size_t size)
{
    char why[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (code == MPI_SUCCESS) return 0;
    MPI_Error_string(code, why, &n);
    snprintf(text, size, "%s: %.*s", what, n, why);
    return 1;
}

static int find_place(MPI_Comm comm, mf_comm_place *ret)
{
    MPI_Comm node;
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    int rank, ranks, node_ranks, n, rc = MPI_Comm_rank(comm, &rank);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_size(comm, &ranks);
    if (rc == MPI_SUCCESS) rc = MPI_Get_processor_name(host, &n);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    if (rc != MPI_SUCCESS) return rc;
    int lowest = rank;
    rc = MPI_Comm_size(node, &node_ranks);
    if (rc == MPI_SUCCESS) rc = MPI_Bcast(&lowest, 1, MPI_INT, 0, node);
    MPI_Comm_free(&node);
    *ret =
        (mf_comm_place){.rank = rank, .ranks = ranks, .node = lowest, .node_ranks = node_ranks};
    snprintf(ret->host, sizeof ret->host, "%.63s", host);
    return rc;
}

static int open_comm(int64_t chunk, mf_comm_place *ret_place, mf_comm **ret, char *text,
                     size_t size)
{
    int provided, began = 0, rc = MPI_Initialized(&began);
    mf_comm *c = calloc(1, sizeof *c);
    if (!c) {
        snprintf(text, size, "out of memory");
        return 1;
    }
    c->chunk = chunk;
    c->ours = !began;
    if (rc == MPI_SUCCESS && !began)
        rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_dup(MPI_COMM_WORLD, &c->comm);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS) rc = find_place(c->comm, ret_place);
    if (explain(rc, "MPI does not begin", text, size)) {
        free(c);
        return 1;
    }
    *ret = c;
    return 0;
}

/* ---- transfers ---- */

static int64_t messages(const mf_comm *c, int32_t n, const mf_comm_piece *p)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (p[i].bytes + c->chunk - 1) / c->chunk;
    return sum;
}

static bool grow(mf_comm_wait *w, int64_t n)
{
    if (n > INT32_MAX) return false;
    MPI_Request *request = realloc(w->request, (size_t)n * sizeof *request);
    if (request) w->request = request;
    MPI_Status *status = realloc(w->status, (size_t)n * sizeof *status);
    if (status) w->status = status;
    int32_t *peer = realloc(w->peer, (size_t)n * sizeof *peer);
    if (peer) w->peer = peer;
    if (!request || !status || !peer) return false;
    w->room = (int)n;
    return true;
}

static mf_comm_wait *take_idle(mf_comm *c, int64_t n)
{
    mf_comm_wait *w = c->idle ? c->idle : calloc(1, sizeof *w);
    if (!w) return NULL;
    c->idle = w == c->idle ? w->next : c->idle;
    w->n = 0;
    if (n <= w->room || grow(w, n)) return w;
    w->next = c->idle;
    c->idle = w;
    return NULL;
}

static int queue(const mf_comm *c, mf_comm_wait *w, const mf_comm_piece *p, bool sends)
{
    int rc = MPI_SUCCESS;
    for (int64_t at = 0; rc == MPI_SUCCESS && at < p->bytes; at += c->chunk) {
        const int64_t left = p->bytes - at;
        const int bytes = (int)(left < c->chunk ? left : c->chunk);
        char *data = (char *)p->data + at;
        MPI_Request *to = &w->request[w->n];
        w->peer[w->n] = p->peer;
        rc = sends ? MPI_Isend(data, bytes, MPI_BYTE, p->peer, 0, c->comm, to)
                   : MPI_Irecv(data, bytes, MPI_BYTE, p->peer, 0, c->comm, to);
        w->n += rc == MPI_SUCCESS;
    }
    return rc;
}

static int start(mf_comm *c, int32_t n_send, const mf_comm_piece *send, int32_t n_recv,
                 const mf_comm_piece *recv, mf_comm_wait **ret)
{
    mf_comm_wait *w = take_idle(c, messages(c, n_send, send) + messages(c, n_recv, recv));
    int rc = MPI_SUCCESS;
    if (!w) return 1;
    for (int32_t i = 0; rc == MPI_SUCCESS && i < n_recv; i++)
        rc = queue(c, w, &recv[i], false);
    for (int32_t i = 0; rc == MPI_SUCCESS && i < n_send; i++)
        rc = queue(c, w, &send[i], true);
    *ret = w;
    return rc != MPI_SUCCESS;
}

/* gcc warns about MPICH's MPI_STATUSES_IGNORE: it looks like an array without elements. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif
static int test(mf_comm *c, mf_comm_wait *w, bool *ret_done)
{
    int done = 1;
    const int rc = w->n ? MPI_Testall(w->n, w->request, &done, w->status) : 0;
    *ret_done = rc == MPI_SUCCESS && done;
    if (*ret_done) {
        w->next = c->idle;
        c->idle = w;
    }
    return rc != MPI_SUCCESS;
}

static bool waits_for(mf_comm_wait *w, int32_t peer)
{
    for (int i = 0; i < w->n; i++) {
        int done = 1;
        if (w->peer[i] != peer) continue;
        if (MPI_Test(&w->request[i], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
            return true;
    }
    return false;
}

/* ---- the end ---- */

static void abort_all(mf_comm *c, int code)
{
    (void)c;
    MPI_Abort(MPI_COMM_WORLD, code);
}

static void close_comm(mf_comm *c)
{
    while (c->idle) {
        mf_comm_wait *w = c->idle;
        c->idle = w->next;
        free(w->request);
        free(w->status);
        free(w->peer);
        free(w);
    }
    MPI_Comm_free(&c->comm);
    if (c->ours) MPI_Finalize();
    free(c);
}

__attribute__((visibility("default"))) extern const mf_comm_table moefw_comm;
const mf_comm_table moefw_comm = {.magic = MF_COMM_MAGIC,
                                  .size = sizeof(mf_comm_table),
                                  .version = MOEFW_VERSION,
                                  .name = MF_COMM_NAME,
                                  .open = open_comm,
                                  .start = start,
                                  .test = test,
                                  .waits_for = waits_for,
                                  .abort = abort_all,
                                  .close = close_comm};
