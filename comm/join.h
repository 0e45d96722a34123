/* comm/join.h: brings ranks together over TCP, for engines whose launcher does not.
 *
 * Rank 0 listens; every other rank connects to it, and the connections stay: by them a rank
 * ends all others, and notices that one is gone. Times are seconds. One thread at a time. */
#ifndef MF_COMM_JOIN_H
#define MF_COMM_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "comm/table.h"

typedef struct mf_join {
    int32_t rank, ranks;
    int32_t local;       /* 0 .. node_ranks-1: which one on its node */
    int *socket;         /* [ranks]; of rank 0 all but [0], of others [0] alone; -1: none */
    bool *left;          /* [ranks] has said that it is done */
    mf_comm_place place; /* of this rank */
} mf_join;

/* Reads rank and ranks from the environment: those of an MPI launcher, or RANK and
 * WORLD_SIZE. */
void mf_join_find(int32_t *ret_rank, int32_t *ret_ranks);
/* Joins at MOEFW_COMM_ROOT = HOST:PORT, or at MASTER_ADDR and MASTER_PORT. Gives all ranks the
 * [size] bytes of rank 0's blob. Nonzero: text says why. */
int mf_join_open(mf_join *j, double seconds, void *blob, size_t size, char *text, size_t room);
/* 0: nothing new; 1: a rank has ended all with *ret_code; -1: a rank is gone. */
int mf_join_look(mf_join *j, int32_t *ret_code);
/* Tells the others to end with this code. */
void mf_join_end_all(mf_join *j, int32_t code);
/* Waits until all ranks have called it. Nonzero: a rank is gone, or too late. */
int mf_join_leave(mf_join *j, double seconds);
void mf_join_close(mf_join *j);

#endif
