/* cli/ranks.h: how a command ends that runs on several ranks. An error of all ranks is printed
 * once. An error of one rank alone is printed by that rank with its number. Every rank has the
 * exit code. */
#ifndef MF_CLI_RANKS_H
#define MF_CLI_RANKS_H

#include <stdbool.h>
#include "comm/world.h"

/* Whether this process is not rank 0. Before the ranks have joined, w is NULL, and the answer
 * comes from the environment that the launcher has set; comm is then parallel.comm, or NULL. */
bool mf_ranks_other(const mf_world *w, const char *comm);
/* Prints an error that all ranks have, on rank 0, and clears it. All ranks must call this. */
void mf_ranks_tell_agreed(mf_world *w);
/* Ends a command that has failed with rc. alone: joining the ranks has failed. If an error is
 * still recorded afterwards, main prints it. Does not return if the error is this rank's own
 * while other ranks run. */
void mf_ranks_end(mf_world *w, const char *comm, bool alone, int rc);

#endif
