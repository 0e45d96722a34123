/* cli/ranks.h: how a command ends that several ranks run. An error is printed once, or, if it
 * is of one rank alone, by that rank with its number; every rank has the exit code. */
#ifndef MF_CLI_RANKS_H
#define MF_CLI_RANKS_H

#include <stdbool.h>
#include "comm/world.h"

/* Whether this process is not the first of those that a launcher has started. w NULL: as far as
 * the launcher says; comm is parallel.comm then, or NULL. */
bool mf_ranks_other(const mf_world *w, const char *comm);
/* Prints an error that all ranks have, on rank 0, and clears it. All ranks must call this. */
void mf_ranks_tell_agreed(mf_world *w);
/* The end of a command that has failed with rc. alone: joining the ranks has failed. An error
 * that is still recorded afterwards is printed by main. Does not return if the error is this
 * rank's own while others run. */
void mf_ranks_end(mf_world *w, const char *comm, bool alone, int rc);

#endif
