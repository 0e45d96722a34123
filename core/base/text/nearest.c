/* base/text/nearest.c: finds the known name that is nearest to a mistyped word, for "did you
 * mean". It never suggests a name that shares nothing with the word. */
#include "base/error.h"

#include <string.h>

enum { WORD_MAX = 96 };

static int lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Edit distance in which a swap of two neighbours counts once (optimal string alignment;
 * Boytsov 2011, section 2.2), because swaps are the most common typing error. Both lengths must
 * be <= WORD_MAX. */
static int distance(const char *a, int na, const char *b, int nb)
{
    int row[3][WORD_MAX + 1]; /* rows i-2, i-1 and i of the distance table, in rotation */
    for (int j = 0; j <= nb; j++)
        row[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *now = row[i % 3];
        const int *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= nb; j++) {
            int same = lower((unsigned char)a[i - 1]) == lower((unsigned char)b[j - 1]);
            int best = smaller(last[j], now[j - 1]) + 1;
            best = smaller(best, last[j - 1] + !same);
            if (i > 1 && j > 1 &&
                lower((unsigned char)a[i - 1]) == lower((unsigned char)b[j - 2]) &&
                lower((unsigned char)a[i - 2]) == lower((unsigned char)b[j - 1]))
                best = smaller(best, before[j - 2] + 1);
            now[j] = best;
        }
    }
    return row[na % 3][nb];
}

const char *mf_nearest(const char *word, const char *const *names)
{
    const char *best = NULL;
    size_t length = strlen(word);
    if (length == 0 || length > WORD_MAX || !names) return NULL;
    int bound = (int)length / 3 > 2 ? (int)length / 3 : 2;
    int best_distance = bound + 1;
    for (; *names; names++) {
        size_t n = strlen(*names);
        if (n == 0 || n > WORD_MAX) continue;
        int d = distance(word, (int)length, *names, (int)n);
        /* If the distance reaches the length of one of the two words, they may have no letter
         * in common, so the name is no suggestion. */
        if (d >= (int)length || d >= (int)n) d = d == 0 ? 0 : bound + 1;
        if (d < best_distance) {
            best_distance = d;
            best = *names;
        }
    }
    return best;
}
