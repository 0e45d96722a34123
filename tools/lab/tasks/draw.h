/* lab/tasks/draw.h: Python's random.Random(seed) and its sample(range(n), k), so that the same
 * seed chooses the same examples as in lm-evaluation-harness. */
#ifndef MF_LAB_TASKS_DRAW_H
#define MF_LAB_TASKS_DRAW_H

#include <stdint.h>

enum { MF_DRAW_WORDS = 624 };

typedef struct mf_draw {
    uint32_t word[MF_DRAW_WORDS];
    int at;
} mf_draw;

void mf_draw_seed(mf_draw *d, uint32_t seed);

/* Draws k different numbers of 0 .. n-1, k <= n, into ret. pool: memory for n numbers. */
void mf_draw_sample(mf_draw *d, int n, int k, int *pool, int *ret);

#endif
