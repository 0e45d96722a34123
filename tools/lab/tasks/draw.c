/* The generator MT19937 (Matsumoto and Nishimura 1998, ACM Trans. Model. Comput. Simul. 8,
 * 3-30), seeded by an array of one word as Python does it, and Python's way from its words to a
 * sample: the highest bits that a number below n needs, again if it is n or more. Python keeps
 * the numbers that are left in a list, or, where a list would be larger than a set of the
 * chosen ones, draws again what it has drawn before. The two give different samples, so both
 * are here. */
#include <stdbool.h>

#include "lab/tasks/draw.h"

enum { N = MF_DRAW_WORDS, M = 397 };

static void seed_by_number(mf_draw *d, uint32_t seed)
{
    d->word[0] = seed;
    for (uint32_t i = 1; i < N; i++)
        d->word[i] = 1812433253U * (d->word[i - 1] ^ (d->word[i - 1] >> 30)) + i;
    d->at = N;
}

void mf_draw_seed(mf_draw *d, uint32_t seed)
{
    uint32_t *w = d->word;
    uint32_t i = 1;
    seed_by_number(d, 19650218U);
    for (int turn = 0; turn < 2 * N - 1; turn++) {
        const uint32_t mixed = w[i - 1] ^ (w[i - 1] >> 30);
        w[i] = turn < N ? (w[i] ^ mixed * 1664525U) + seed : (w[i] ^ mixed * 1566083941U) - i;
        if (++i == N) {
            w[0] = w[N - 1];
            i = 1;
        }
    }
    w[0] = 0x80000000U;
}

static uint32_t next(mf_draw *d)
{
    if (d->at == N) {
        for (int i = 0; i < N; i++) {
            const uint32_t y =
                (d->word[i] & 0x80000000U) | (d->word[(i + 1) % N] & 0x7fffffffU);
            d->word[i] = d->word[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfU : 0);
        }
        d->at = 0;
    }
    uint32_t y = d->word[d->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
}

static int below(mf_draw *d, int n)
{
    int bits = 0;
    uint32_t v;
    while (n >> bits)
        bits++;
    do
        v = next(d) >> (32 - bits);
    while (v >= (uint32_t)n);
    return (int)v;
}

/* Whether Python samples from a list: from about how many numbers on is a set smaller? */
static bool by_list(int n, int k)
{
    double set = 21;
    if (k > 5) {
        double power = 4; /* the first power of 4 that is not below 3 k */
        while (power < 3.0 * k)
            power *= 4;
        set += power;
    }
    return n <= set;
}

void mf_draw_sample(mf_draw *d, int n, int k, int *pool, int *ret)
{
    if (by_list(n, k)) {
        for (int i = 0; i < n; i++)
            pool[i] = i;
        for (int i = 0; i < k; i++) {
            const int j = below(d, n - i);
            ret[i] = pool[j];
            pool[j] = pool[n - i - 1];
        }
        return;
    }
    for (int i = 0; i < k; i++) {
        bool drawn;
        do {
            ret[i] = below(d, n);
            drawn = false;
            for (int j = 0; j < i; j++)
                drawn = drawn || ret[j] == ret[i];
        } while (drawn);
    }
}
