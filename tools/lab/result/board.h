/* lab/result/board.h: a folder of results as tables. Results of the same data, steps,
 * metric and baseline form one table. */
#ifndef MF_LAB_BOARD_H
#define MF_LAB_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

typedef struct mf_board_row {
    const char *router, *file; /* file: below the folder */
    bool baseline;
    int n;                                 /* number of seeds with a result */
    double mean, half, diff, lo, hi, bits; /* bits: mean in bits per byte; NaN: unknown */
    int64_t params;
    const char *verdict;
    /* The best and the worst rank among the routers of its result that its seeds allow: each
     * pair of routers is compared by a paired t test, with Holm's correction over all pairs. */
    int best, worst;
} mf_board_row;

/* The records of moefw verify about a result. */
typedef struct mf_board_mark {
    int same, rounded, different; /* numbers of runs that were repeated */
    int whole;              /* of these, runs that were repeated whole, with the same bits */
    int fresh, fresh_wrong; /* numbers of fresh seeds in records that agree, and do not */
} mf_board_mark;

typedef struct mf_board_result {
    const char *file, *version; /* version: of moefw, in its runs */
    int seeds, runs;
    mf_board_mark mark;
} mf_board_result;

typedef struct mf_board_table {
    const char *key; /* what is equal in its results */
    const char *data, *metric, *baseline;
    int64_t steps;
    bool higher_is_better;
    int n, n_results;
    mf_board_row *rows; /* by their differences, best first */
    mf_board_result *results;
} mf_board_table;

typedef struct mf_board {
    mf_arena *arena;
    int n, n_refused;
    mf_board_table *tables;
    const char *
        *refused; /* [n_refused] files that are no results of comparisons, with reasons */
} mf_board;

/* Reads all files NAME.json in the folder and below it. A result whose hash or table is
 * wrong is refused. Fails with MF_EINPUT if there is no result of a comparison, MF_ENOMEM. */
int mf_board_read(const char *folder, mf_board **ret);
void mf_board_free(mf_board *b);

#endif
