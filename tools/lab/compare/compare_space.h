/* lab/compare/compare_space.h: the settings that a search tries.
 *
 *     grid   KEY=V1,V2,...           every combination with the other grids
 *     draw   KEY=log:LO..HI          one random number for each trial, uniform in its logarithm
 *            KEY=uniform:LO..HI      the same, uniform in its value
 *            KEY=int:LO..HI          the same, a whole number, both ends included
 *            KEY=V1,V2,...           one of the values, at random
 *
 * KEY is SECTION.KEY of the configuration. Draws are a function of the seed, the key and the
 * number of the trial, so they are the same for every router and after every restart. */
#ifndef MF_LAB_COMPARE_SPACE_H
#define MF_LAB_COMPARE_SPACE_H

#include "base/mem.h"

#define MF_TRIALS_MAX 10000

typedef struct mf_space {
    const char *const *grid, *const *draw; /* [n_grid], [n_draw] */
    int n_grid, n_draw;
    int32_t budget; /* number of trials; 0: all combinations of the grids */
} mf_space;

/* Lists the trials as "KEY=VALUE+KEY=VALUE" (router_list.h), in the arena. With draws, trial i
 * uses combination i of the grids; after the last combination the first follows. Without draws
 * and with a smaller budget, the combinations are chosen at random. Fails with MF_EUSAGE if a
 * text is wrong, a key occurs twice, draws have no budget, or there are more than
 * MF_TRIALS_MAX trials. */
int mf_space_trials(mf_arena *arena, const mf_space *space, uint64_t seed, const char ***ret,
                    int *ret_n);
/* Calls fn with "KEY=VALUE" and with the option that it comes from, for each value of a grid or
 * draw, and for both ends of a range, until fn fails. Call this after mf_space_trials has
 * accepted the space. */
int mf_space_each(mf_arena *arena, const mf_space *space,
                  int (*fn)(void *arg, const char *assignment, const char *option), void *arg);

#endif
