/* select.h: finds the k largest elements of a long row, in order, if k is too large for a list
 * that is kept sorted.
 *
 * Values become integer keys in the required order: best first, NaN last. Three passes over the
 * row count digits until the k-th key is known. One more pass copies all better elements, and
 * as many equal elements as needed, in the order of the row. The k keys are then sorted by
 * digits, so equal keys stay in the order of the row. The work grows with width + k, for
 * any values. */
#ifndef MF_SIMD_SELECT_H
#define MF_SIMD_SELECT_H

#include <stdint.h>
#include <string.h>

#define SELECT_MAX 4096 /* largest k; limited by the stack */

enum { SELECT_BITS = 11, SELECT_DIGITS = 1 << SELECT_BITS };

/* Returns a key that falls as v rises. -0 and 0 have the same key. */
static inline uint32_t select_key(float v)
{
    uint32_t bits;
    if (v != v) return UINT32_MAX;
    v += 0.0f;
    memcpy(&bits, &v, sizeof bits);
    return bits >> 31 ? bits : 0x7fffffffu - bits;
}

/* Returns the k-th smallest key, k >= 1; *ret_less: number of smaller keys. */
static inline uint32_t select_bar(const float *row, int64_t width, int64_t k, int64_t *ret_less)
{
    uint32_t count[SELECT_DIGITS], found = 0;
    int64_t less = 0;
    for (int shift = 32 - SELECT_BITS; shift > -SELECT_BITS; shift -= SELECT_BITS) {
        const int at = shift > 0 ? shift : 0,
                  above = at + (shift > 0 ? SELECT_BITS : SELECT_BITS + shift);
        const uint32_t digits = (1u << (above - at)) - 1;
        memset(count, 0, sizeof count);
        for (int64_t c = 0; c < width; c++) {
            const uint32_t key = select_key(row[c]);
            if (above == 32 || (key >> above) == (found >> above))
                count[(key >> at) & digits]++;
        }
        uint32_t d = 0;
        while (less + count[d] < k)
            less += count[d++];
        found |= d << at;
    }
    *ret_less = less;
    return found;
}

/* list [k]: indices, best first; of equal values the lower index is first.
 * k <= SELECT_MAX, k <= width < 2^31. */
static inline void select_row(const float *row, int64_t width, int64_t k, int32_t *list)
{
    uint32_t keys[2][SELECT_MAX];
    int32_t spare[SELECT_MAX], *from = list, *to = spare;
    int64_t less, n = 0, start[SELECT_DIGITS];
    const uint32_t bar = select_bar(row, width, k, &less);
    int64_t equals = k - less;
    for (int64_t c = 0; c < width && n < k; c++) {
        const uint32_t key = select_key(row[c]);
        if (key > bar || (key == bar && equals-- <= 0)) continue;
        keys[0][n] = key;
        list[n++] = (int32_t)c;
    }
    for (int pass = 0, shift = 0; shift < 32; shift += SELECT_BITS, pass ^= 1) {
        memset(start, 0, sizeof start);
        for (int64_t i = 0; i < k; i++)
            start[keys[pass][i] >> shift & (SELECT_DIGITS - 1)]++;
        for (int64_t d = 0, sum = 0; d < SELECT_DIGITS; d++) {
            const int64_t here = start[d];
            start[d] = sum;
            sum += here;
        }
        for (int64_t i = 0; i < k; i++) {
            const int64_t place = start[keys[pass][i] >> shift & (SELECT_DIGITS - 1)]++;
            keys[pass ^ 1][place] = keys[pass][i];
            to[place] = from[i];
        }
        int32_t *other = from;
        from = to;
        to = other;
    }
    if (from != list) memcpy(list, from, (size_t)k * sizeof *list);
}

#endif
