/* comm/join.h: connects ranks over TCP, for communicator modules whose launcher does not
 * connect them.
 *
 * Rank 0 listens, and every other rank connects to it. The connections stay open. Through them
 * a rank ends all other ranks, and notices that a rank is gone. Times are in seconds. Only one
 * thread may call these functions at a time. */
#ifndef MF_COMM_JOIN_H
#define MF_COMM_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "comm/table.h"

typedef struct mf_join {
    int32_t rank, ranks;
    int32_t local;       /* 0 .. node_ranks-1: index of this rank on its node */
    int *socket;         /* [ranks] rank 0 uses all but [0], other ranks only [0]; -1: none */
    bool *left;          /* [ranks] whether this rank has reported that it is done */
    mf_comm_place place; /* the place of this rank */
} mf_join;

/* Reads rank and number of ranks from the environment, from the variables of an MPI launcher,
 * or from RANK and WORLD_SIZE. */
void mf_join_find(int32_t *ret_rank, int32_t *ret_ranks);
/* Joins at MOEFW_COMM_ROOT = HOST:PORT, or at MASTER_ADDR and MASTER_PORT. Copies the [size]
 * bytes of rank 0's blob to all ranks. Returns nonzero after a failure; text then says why. */
int mf_join_open(mf_join *j, double seconds, void *blob, size_t size, char *text, size_t room);
/* Returns 0 if nothing has happened, 1 if a rank has ended all ranks with *ret_code, -1 if a
 * rank is gone. */
int mf_join_look(mf_join *j, int32_t *ret_code);
/* Tells the other ranks to end with this code. */
void mf_join_end_all(mf_join *j, int32_t code);
/* Waits until all ranks have called this function. Returns nonzero if a rank is gone, or
 * too late. */
int mf_join_leave(mf_join *j, double seconds);
void mf_join_close(mf_join *j);

#endif
