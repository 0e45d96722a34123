/* pretrained/quantize/round.c: rounds each value of a matrix to few bits.
 *
 * Threads share the rows. In a tile of ROWS rows the lanes of a vector are rows, as in the
 * layout GPTQ, so maximum, scale, code and word are computed for LANES rows at once, and a word
 * row of a tile is a line of the cache. */
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "pretrained/quantize/gptq.h"
#include "pretrained/weights/types.h"

enum { ROWS = 16, LANES = 4, VECTORS = ROWS / LANES, GAP = 16, WORD = 32 };

typedef float floats __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t ints __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef int64_t longs __attribute__((vector_size(LANES * sizeof(int32_t))));

/* 1.5 2^23: a number added to it is rounded to an integer, which is then in the low bits */
#define ROUNDER      12582912.0f
#define ROUNDER_BITS 0x4b400000
#define LARGEST_BITS 0x7f7fffff /* of the largest finite number */

typedef struct rounding {
    mf_gptq *w;
    mf_gptq_rows *rows;
    void *arg;
    float *values; /* [out,in], which become the rounded values, or NULL */
    mf_gptq_beside *beside;
    bool failed; /* may be set by several threads, never cleared */
} rounding;

/* A tile: n rows from row o on. */
typedef struct tile {
    mf_gptq *w;
    int64_t o, n, ld;
    float *row;     /* [ROWS, ld] values; rows that do not exist are 0 */
    floats *turned; /* [group, VECTORS] values of a group */
    floats scale[VECTORS];
} tile;

static inline floats load(const float *from)
{
    floats x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* as V_SHUFFLE of kernels/cpu/simd/vec.h */
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif

/* Turns LANES rows with LANES values each. The compiler unrolls no loop here. */
static inline void turn(const float *row, int64_t ld, floats to[LANES])
{
    const floats a0 = load(row), a1 = load(row + ld), a2 = load(row + 2 * ld),
                 a3 = load(row + 3 * ld);
    const floats b0 = SHUFFLE(ints, a0, a1, 0, 4, 1, 5), b1 = SHUFFLE(ints, a0, a1, 2, 6, 3, 7),
                 c0 = SHUFFLE(ints, a2, a3, 0, 4, 1, 5), c1 = SHUFFLE(ints, a2, a3, 2, 6, 3, 7);
    to[0] = (floats)SHUFFLE(longs, (longs)b0, (longs)c0, 0, 2);
    to[1] = (floats)SHUFFLE(longs, (longs)b0, (longs)c0, 1, 3);
    to[2] = (floats)SHUFFLE(longs, (longs)b1, (longs)c1, 0, 2);
    to[3] = (floats)SHUFFLE(longs, (longs)b1, (longs)c1, 1, 3);
}

/* Returns the larger number of bits of |x| and most, lane by lane. */
static inline ints larger(ints most, floats x)
{
    const ints size = (ints)x & 0x7fffffff, more = size > most;
    return (size & more) | (most & ~more);
}

/* Turns inputs i .. i + n - 1, n a multiple of LANES. most: the largest |value| of each row. */
static void turn_group(const tile *t, int64_t i, int64_t n, float most[ROWS])
{
    for (int v = 0; v < VECTORS; v++) {
        ints largest = {0};
        for (int64_t k = 0; k < n; k += LANES) {
            floats x[LANES], *to = t->turned + k * VECTORS + v;
            turn(t->row + v * LANES * t->ld + i + k, t->ld, x);
            to[0] = x[0];
            to[VECTORS] = x[1];
            to[2 * VECTORS] = x[2];
            to[3 * VECTORS] = x[3];
            largest = larger(larger(larger(larger(largest, x[0]), x[1]), x[2]), x[3]);
        }
        memcpy(most + v * LANES, &largest, sizeof largest);
    }
}

/* Stores the scales of a group. Returns false if a value is not finite. */
static bool set_scales(tile *t, int64_t g, int64_t n, const float most[ROWS])
{
    const float lo = 0x1p-14f, hi = 65504; /* bounds of normal f16 numbers */
    float scale[ROWS];
    uint16_t stored[ROWS];
    bool large = false;
    for (int r = 0; r < ROWS; r++) {
        int32_t bits;
        memcpy(&bits, most + r, sizeof bits);
        if (bits > LARGEST_BITS) return false;
        scale[r] = 2 * most[r] / (float)((1 << t->w->bits) - 1);
        large = large || scale[r] > hi;
        scale[r] = scale[r] < lo ? lo : scale[r] > hi ? hi : scale[r];
    }
    mf_types_from_f32(MF_ST_F16, scale, ROWS, stored);
    mf_types_to_f32(MF_ST_F16, stored, ROWS, scale);
    memcpy(t->w->scales + g * t->w->out + t->o, stored, (size_t)t->n * sizeof *stored);
    memcpy(t->scale, scale, sizeof scale);
    for (int64_t k = 0; large && k < n * VECTORS; k++) /* the codes must be near their range */
        for (int j = 0; j < LANES; j++) {
            const float end = hi * (float)(1 << (t->w->bits - 1)), x = t->turned[k][j];
            t->turned[k][j] = x > end ? end : x < -end ? -end : x;
        }
    return true;
}

/* Writes the words of a group; if `keeps` is set, the turned values become the rounded values.
 * bits and keeps must be constants for the compiler. */
static inline __attribute__((always_inline)) void put_words(const tile *t, int bits, bool keeps,
                                                            int64_t i, int64_t n)
{
    const float middle = (float)(1 << (bits - 1));
    const int64_t each = WORD / bits, out = t->w->out;
    floats *x = t->turned;
    for (int64_t k = 0; k < n; k += each, x += each * VECTORS) {
        uint32_t *to = t->w->words + (i + k) / each * out + t->o;
        ints word[VECTORS];
        for (int v = 0; v < VECTORS; v++) {
            word[v] = (ints){0};
            for (int j = 0; j < each; j++) {
                floats *at = &x[j * VECTORS + v];
                ints code = (ints)(*at / t->scale[v] + (ROUNDER + middle)) - ROUNDER_BITS;
                code -= code >> bits; /* one more than the largest code */
                word[v] |= code << (bits * j);
                if (keeps) *at = t->scale[v] * (__builtin_convertvector(code, floats) - middle);
            }
        }
        memcpy(to, word, (size_t)t->n * sizeof *to);
    }
}

/* Writes the rounded values of a group. */
static void put_values(const tile *t, int64_t i, int64_t n, float *values)
{
    for (int64_t r = 0; r < t->n; r++)
        for (int64_t k = 0; k < n; k++)
            values[(t->o + r) * t->w->in + i + k] =
                t->turned[k * VECTORS + r / LANES][r % LANES];
}

static bool round_tile(const rounding *r, tile *t)
{
    mf_gptq *w = t->w;
    if (!r->rows(r->arg, t->o, t->n, t->row, t->ld)) return false;
    for (int64_t o = t->n; o < ROWS; o++)
        memset(t->row + o * t->ld, 0, (size_t)w->in * sizeof *t->row);
    for (int64_t g = 0; g < w->groups; g++) {
        const int64_t i = g * w->group, n = w->in - i < w->group ? w->in - i : w->group;
        float most[ROWS];
        turn_group(t, i, n, most);
        if (!set_scales(t, g, n, most)) return false;
        if (r->values && w->bits == 4)
            put_words(t, 4, true, i, n);
        else if (r->values)
            put_words(t, 8, true, i, n);
        else if (w->bits == 4)
            put_words(t, 4, false, i, n);
        else
            put_words(t, 8, false, i, n);
        if (r->values) put_values(t, i, n, r->values);
    }
    return true;
}

static void run_tile(void *arg, int64_t index)
{
    rounding *r = arg;
    mf_gptq *w = r->w;
    const int64_t o = (index - (r->beside != NULL)) * ROWS;
    if (o < 0) {
        r->beside(r->arg);
        return;
    }
    tile t = {.w = w, .o = o, .n = w->out - o < ROWS ? w->out - o : ROWS, .ld = w->in + GAP};
    t.row = mf_alloc_raw((size_t)(ROWS * t.ld) * sizeof *t.row);
    t.turned = mf_alloc_raw((size_t)(w->group * VECTORS) * sizeof *t.turned);
    if (!t.row || !t.turned || !round_tile(r, &t))
        __atomic_store_n(&r->failed, true, __ATOMIC_RELAXED);
    mf_free(t.row);
    mf_free(t.turned);
}

static bool round_all(rounding *r)
{
    for (int64_t i = 0; i < r->w->in; i++)
        r->w->group_of[i] = (int32_t)(i / r->w->group);
    mf_parallel((r->w->out + ROWS - 1) / ROWS + (r->beside != NULL), run_tile, r);
    return !r->failed;
}

static bool copy_rows(void *arg, int64_t o, int64_t n, float *to, int64_t ld)
{
    const rounding *r = arg;
    const int64_t in = r->w->in;
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * ld, r->values + (o + i) * in, (size_t)in * sizeof *to);
    return true;
}

bool mf_gptq_round(mf_gptq *w, float *values)
{
    rounding r = {.w = w, .rows = copy_rows, .values = values};
    r.arg = &r;
    return round_all(&r);
}

bool mf_gptq_round_rows(mf_gptq *w, mf_gptq_rows *rows, mf_gptq_beside *beside, void *arg)
{
    rounding r = {.w = w, .rows = rows, .beside = beside, .arg = arg};
    return round_all(&r);
}
