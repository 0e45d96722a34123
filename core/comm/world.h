/* comm/world.h: the processes (ranks) that take part in a run.
 *
 * A run of one process has no world: it passes NULL to all functions, which then have
 * nothing to do. Every rank must call the functions that move bytes, in the same order.
 * `what` names the data that are moved, for messages ("the gradients"). MF_EPEER: a peer has
 * not answered for parallel.patience seconds, or the library behind the module has failed;
 * the message names the peers. After MF_EPEER only mf_world_abort may be called. Only one
 * thread may use a world. */
#ifndef MF_COMM_WORLD_H
#define MF_COMM_WORLD_H

#include "comm/launch.h"
#include "comm/table.h"

typedef struct mf_world mf_world;

/* Joins the ranks. comm is one of these:
 * - "auto": the module that fits the launcher; without a launcher there is no world
 * - "self": no world
 * - a module: its name, or its file with '/'; without a launcher it makes a world of one
 * MF_EDEP: there is no such module, or it cannot be loaded or opened. MF_EPLUGIN: the module
 * belongs to another version. MF_EUSAGE: the launcher does not fit the module. */
int mf_world_open(const char *comm, double patience, mf_world **ret);
/* All ranks must call this, after the last exchange. */
void mf_world_close(mf_world *w);
/* Ends all ranks with this exit code; does not return. */
void mf_world_abort(mf_world *w, int code);

const char *mf_world_name(const mf_world *w); /* name of the module; "self" without a world */
int mf_world_rank(const mf_world *w);         /* 0 .. ranks-1 */
int mf_world_ranks(const mf_world *w);        /* 1 without a world */
const mf_comm_place *mf_world_place(const mf_world *w, int rank);

/* Sends and receives pieces; peers are other ranks. Waits until all are done. */
int mf_world_exchange(mf_world *w, const char *what, int n_send, const mf_comm_piece *send,
                      int n_recv, const mf_comm_piece *recv);
/* The same in two parts. Between them the memory of the pieces belongs to the transfer; the
 * arrays of pieces do not. The caller must call mf_world_test from time to time. It reports
 * whether the transfer is done, and also lets the transfer continue; when it is done, *t is
 * NULL. mf_world_finish waits; *t may be NULL. */
int mf_world_start(mf_world *w, const char *what, int n_send, const mf_comm_piece *send,
                   int n_recv, const mf_comm_piece *recv, mf_comm_wait **ret);
int mf_world_test(mf_world *w, const char *what, mf_comm_wait **t);
int mf_world_finish(mf_world *w, const char *what, mf_comm_wait **t);
/* Sends `bytes` bytes of each rank to all ranks: all [ranks][bytes]. */
int mf_world_gather(mf_world *w, const char *what, const void *mine, int64_t bytes, void *all);
/* Sends `bytes` bytes of rank 0 to all ranks. */
int mf_world_tell(mf_world *w, const char *what, void *data, int64_t bytes);
/* Returns a common status of the ranks: MF_OK if all ranks have MF_OK, otherwise the code of
 * the first rank with an error. It records the message of that rank, preceded by rank and host
 * if other ranks have other messages. Then all ranks know the error (mf_world_agreed), and one
 * of them prints it. */
int mf_world_agree(mf_world *w, int rc);
/* Whether all ranks know the last error. A caller that continues after such an error must clear
 * this mark, so that a later error of this rank alone does not count as known to all ranks. */
bool mf_world_agreed(const mf_world *w);
void mf_world_forget(mf_world *w);

/* Returns a command, for messages, that adds the module of this name to moefw. */
const char *mf_world_adds(const char *module);

#endif
