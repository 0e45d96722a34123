/* comm/world.h: the processes (ranks) that take part in a run.
 *
 * A run of one process has no world: NULL stands for it in all functions, which then have
 * nothing to do. Every rank must call the functions that move bytes, in the same order.
 * `what` names the data that are moved, for messages ("the gradients"). MF_EPEER: a peer has
 * not answered for parallel.patience seconds, or the engine has failed; the message names the
 * peers. After it only mf_world_abort may be called. Only one thread may use a world. */
#ifndef MF_COMM_WORLD_H
#define MF_COMM_WORLD_H

#include "comm/launch.h"
#include "comm/table.h"

typedef struct mf_world mf_world;

/* Joins the ranks. comm: "auto" (what fits the launcher; no launcher: no world), "self" (no
 * world), or a module: a name, or a file with '/'. A module that was started without a launcher
 * gives a world of one. MF_EDEP: there is no such module, or it cannot be loaded or begin;
 * MF_EPLUGIN: it belongs to another version; MF_EUSAGE: the launcher does not fit
 * the module. */
int mf_world_open(const char *comm, double patience, mf_world **ret);
/* All ranks must call this, after the last exchange. */
void mf_world_close(mf_world *w);
/* Ends all ranks with this exit code; does not return. */
void mf_world_abort(mf_world *w, int code);

const char *mf_world_name(const mf_world *w); /* of the module; "self" without a world */
int mf_world_rank(const mf_world *w);         /* 0 .. ranks-1 */
int mf_world_ranks(const mf_world *w);        /* 1 without a world */
const mf_comm_place *mf_world_place(const mf_world *w, int rank);

/* Sends and receives pieces; peers are other ranks. Waits until all are done. */
int mf_world_exchange(mf_world *w, const char *what, int n_send, const mf_comm_piece *send,
                      int n_recv, const mf_comm_piece *recv);
/* The same in two parts. Between them the memory of the pieces belongs to the transfer; the
 * arrays themselves do not. The caller sees now and then with mf_world_test whether it is done,
 * which also lets it go on; then *t is NULL. mf_world_finish waits; *t may be NULL. */
int mf_world_start(mf_world *w, const char *what, int n_send, const mf_comm_piece *send,
                   int n_recv, const mf_comm_piece *recv, mf_comm_wait **ret);
int mf_world_test(mf_world *w, const char *what, mf_comm_wait **t);
int mf_world_finish(mf_world *w, const char *what, mf_comm_wait **t);
/* Gives all ranks `bytes` bytes of each: all [ranks][bytes]. */
int mf_world_gather(mf_world *w, const char *what, const void *mine, int64_t bytes, void *all);
/* Gives all ranks `bytes` bytes of rank 0. */
int mf_world_tell(mf_world *w, const char *what, void *data, int64_t bytes);
/* Returns the status of the ranks: MF_OK if all have it, else the code of the first that has
 * not, and records its message, after its rank and host if other ranks have other messages.
 * Then all ranks know the error (mf_world_agreed), and one of them prints it. */
int mf_world_agree(mf_world *w, int rc);
/* Whether the last error was agreed on. A caller that continues after such an error must clear
 * this mark, so that a later error of this rank alone does not count as known to all. */
bool mf_world_agreed(const mf_world *w);
void mf_world_forget(mf_world *w);

/* How the module of this name is added to moefw: a command, for messages. */
const char *mf_world_adds(const char *module);

#endif
