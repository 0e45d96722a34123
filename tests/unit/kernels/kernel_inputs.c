/* kernel_inputs.c: the arrays for the cases of check_kernels: inputs, work memory and results.
 * They are the same in every run of a case. */
#include "kernel_case.h"

#include <check.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

static void *keep(mf_kt *t, size_t bytes)
{
    if (t->n_blocks < MF_KT_BLOCKS) t->bytes[t->n_blocks] = bytes > 0 ? bytes : 1;
    ck_assert_int_lt(t->n_blocks, MF_KT_BLOCKS);
    void *p = mf_alloc(bytes > 0 ? bytes : 1, 1);
    ck_assert_ptr_nonnull(p);
    return t->block[t->n_blocks++] = p;
}

enum { PLAIN, POSITIVE, RANGES };

static float number(int range, bool whole, uint64_t i)
{
    const float lo = range == POSITIVE ? 0.25f : -2, width = range == POSITIVE ? 1 : 4;
    const int whole_lo = range == POSITIVE ? 1 : -4;
    return whole
               ? (float)(whole_lo + (int)mf_rng_below(1, 1, 0, i, (uint64_t)(4 - whole_lo + 1)))
               : lo + width * mf_rng_uniform(1, 2, 0, i);
}

/* The next `count` numbers of a range. All runs of all variants begin with number 0, so each
 * number is drawn only once. */
static float *numbers(mf_kt *t, int range, int64_t count)
{
    static float *all[RANGES][2];
    static uint64_t n[RANGES][2];
    float **from = &all[range][t->whole];
    uint64_t *have = &n[range][t->whole];
    const uint64_t end = t->drawn + (uint64_t)count;
    if (end > *have) {
        const uint64_t want = end + end / 2;
        *from = mf_realloc(*from, *have * sizeof **from, want * sizeof **from);
        ck_assert_ptr_nonnull(*from);
        for (; *have < want; ++*have)
            (*from)[*have] = number(range, t->whole, *have);
    }
    float *p = keep(t, (size_t)count * sizeof(float));
    if (count > 0) memcpy(p, *from + t->drawn, (size_t)count * sizeof(float));
    t->drawn = end;
    return p;
}

float *kt_f32(mf_kt *t, int64_t count)
{
    return numbers(t, PLAIN, count);
}

float *kt_positive(mf_kt *t, int64_t count)
{
    return numbers(t, POSITIVE, count);
}

int32_t *kt_i32(mf_kt *t, int64_t count, int64_t lo, int64_t hi)
{
    int32_t *p = keep(t, (size_t)count * sizeof(int32_t));
    for (int64_t i = 0; i < count; i++)
        p[i] =
            (int32_t)(lo + (int64_t)mf_rng_below(1, 3, 0, t->drawn++, (uint64_t)(hi - lo + 1)));
    return p;
}

int32_t *kt_offsets(mf_kt *t, int64_t groups, int64_t rows)
{
    int32_t *p = keep(t, (size_t)(groups + 1) * sizeof(int32_t));
    int64_t left = rows - rows / 16;
    for (int64_t e = 0; e < groups; e++) {
        int64_t take =
            e % 3 == 1 ? 0
                       : (int64_t)mf_rng_below(1, 4, 0, t->drawn++, (uint64_t)(left / 2 + 1));
        if (e == groups - 1) take = left;
        p[e + 1] = p[e] + (int32_t)take;
        left -= take;
    }
    return p;
}

float *kt_result(mf_kt *t, int64_t count)
{
    float *p = kt_f32(t, count);
    ck_assert_int_lt(t->n_results, 8);
    t->result[t->n_results].data = p;
    t->result[t->n_results].is_int = false;
    t->result[t->n_results++].count = count;
    return p;
}

int32_t *kt_result_i32(mf_kt *t, int64_t count)
{
    int32_t *p = kt_i32(t, count, -9, 9);
    ck_assert_int_lt(t->n_results, 8);
    t->result[t->n_results].data = p;
    t->result[t->n_results].is_int = true;
    t->result[t->n_results++].count = count;
    return p;
}

void kt_faulted(mf_kt *t)
{
    const mf_fault *f = &t->fault;
    const int64_t parts[] = {f->kind, f->what, f->index, f->value, f->lo, f->hi, f->node};
    float *result = kt_result(t, sizeof parts / sizeof *parts);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        result[i] = (float)parts[i];
    t->fault = (mf_fault){0};
}

void *kt_given(mf_kt *t, const void *from, size_t bytes)
{
    return memcpy(keep(t, bytes), from, bytes);
}

void *kt_work(mf_kt *t, size_t bytes)
{
    void *p = keep(t, bytes);
    memset(p, 0xff, bytes);
    return p;
}

void *kt_typed(mf_kt *t, int type, int64_t count, const float *from)
{
    void *to = kt_work(t, (size_t)(count * mf_cast_size(type)));
    MF_RUN(&mf_kernels_ref, t->x, cast, .n = count, .from = MF_CAST_F32, .to = type, .in = from,
           .out = to);
    return to;
}

void kt_give(mf_kt *t, int type, int64_t count, const void *from)
{
    MF_RUN(&mf_kernels_ref, t->x, cast, .n = count, .from = type, .to = MF_CAST_F32, .in = from,
           .out = kt_result(t, count));
}
