/* Cases of check_kernels: rows that begin at multiples of 16 bytes, of which a set may move
 * several numbers at once; rows so long that a set may have more than one turn for each, and
 * lists so long that it may cut them. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernel_case.h"

/* An array of this type with the values of a. */
static void *typed(mf_kt *t, int type, int64_t n, const float *a)
{
    void *to = kt_work(t, (size_t)(n * mf_cast_size(type)));
    mf_kernels_ref.cast(t->x, n, MF_CAST_F32, type, a, to);
    return to;
}
/* Makes the numbers of an array of this type a result. */
static void made(mf_kt *t, int type, int64_t n, const void *a)
{
    mf_kernels_ref.cast(t->x, n, type, MF_CAST_F32, a, kt_result(t, n));
}

/* ---- losses ---- */

/* rows, n. A turn of a block on a GPU has 4,096 logits, and of a warp 512. */
static const int64_t entropy_of[][2] = {{6, 9004}, {19, 1020}, {6, 9001}};

/* From variant 3 on rows rise and fall, so that the largest logit comes late or early; some begin
 * with -inf, and two have NaN and +inf. */
static float *logits_of(mf_kt *t, int64_t rows, int64_t n)
{
    float *a = kt_f32(t, rows * n);
    if (t->variant < 3) return a;
    for (int64_t j = 0; j < n; j++) {
        a[j] += 100 * (float)j / (float)n;
        a[n + j] -= 100 * (float)j / (float)n;
        if (j < n * 3 / 4) a[2 * n + j] = -INFINITY;
    }
    a[3 * n + n / 2] = NAN;
    a[4 * n + n / 3] = INFINITY;
    return a;
}

static void run_cross_entropy(mf_kt *t)
{
    const int64_t rows = entropy_of[t->variant % 3][0], n = entropy_of[t->variant % 3][1];
    float *logits = logits_of(t, rows, n);
    int32_t *target = kt_i32(t, rows, n - 9, n - 1);
    t->k->cross_entropy(t->x, rows, n, logits, target, NULL, kt_result(t, 1),
                        kt_result(t, rows), kt_result(t, rows));
}

static void run_cross_entropy_backward(mf_kt *t)
{
    const int64_t rows = entropy_of[t->variant % 3][0], n = entropy_of[t->variant % 3][1];
    float *logits = logits_of(t, rows, n), *weight = kt_positive(t, rows);
    int32_t *target = kt_i32(t, rows, -1, n - 1);
    float *loss = kt_f32(t, 1), *row_loss = kt_f32(t, rows), *lse = kt_f32(t, rows);
    mf_kernels_ref.cross_entropy(t->x, rows, n, logits, target, weight, loss, row_loss, lse);
    t->k->cross_entropy_backward(t->x, rows, n, logits, target, weight, loss, row_loss, lse,
                                 kt_f32(t, 1), NULL, kt_result(t, rows * n),
                                 kt_result(t, rows));
}

/* A head whose rows of logits have several turns. Variants from 3 on have a bias, whose gradient
 * is summed before those of the logits are rounded. */
static void run_head(mf_kt *t, int type)
{
    static const int64_t vocab_of[] = {9001, 700, 8192};
    const int64_t rows = 5, d = 4, vocab = vocab_of[t->variant % 3];
    const bool bias = t->variant >= 3;
    void *dx = kt_work(t, (size_t)(rows * d * mf_cast_size(type)));
    const mf_linear_cross_entropy_args args = {
        .rows = rows,
        .d = d,
        .vocab = vocab,
        .type = (mf_cast_type)type,
        .x = typed(t, type, rows * d, kt_f32(t, rows * d)),
        .w = typed(t, type, vocab * d, kt_f32(t, vocab * d)),
        .bias = bias ? kt_f32(t, vocab) : NULL,
        .target = kt_i32(t, rows, -1, vocab - 1),
        .loss = kt_result(t, 1),
        .row_loss = kt_result(t, rows),
        .dx = dx,
        .dw = kt_result(t, vocab * d),
        .dbias = bias ? kt_result(t, vocab) : NULL,
        .work = kt_work(t, mf_linear_cross_entropy_work(rows, d, vocab, type, true, bias))};
    t->k->linear_cross_entropy(t->x, &args);
    made(t, type, rows * d, dx);
}

static void run_head_f32(mf_kt *t)
{
    run_head(t, MF_CAST_F32);
}

static void run_head_bf16(mf_kt *t)
{
    run_head(t, MF_CAST_BF16);
}

/* ---- tables and rows by index ---- */

/* ids, width, ids that occur often. Lists of 900 positions are longer than tiles of 32; others
 * begin and end at, before and behind their ends. */
static void run_embedding_grad(mf_kt *t)
{
    static const int64_t size[][3] = {{50, 36, 3}, {2000, 300, 40}, {1030, 33, 2}, {9, 260, 0}};
    const int64_t *s = size[t->variant % 4], vocab = s[0], n = s[1], count = 1800;
    const bool add = t->variant >= 4;
    int32_t *ids = kt_i32(t, count, 0, vocab - 1);
    for (int64_t i = 0; s[2] > 0 && i < count; i++)
        if (i % 16 > 1) ids[i] = (int32_t)(i * i % s[2]);
    for (int64_t i = 0; s[2] == 0 && i < count; i++) /* 64 of id 0, 32 each of two, then two */
        ids[i] = i < 64 ? 0 : i < 96 ? 1 : i < 128 ? 2 : i < 1000 ? 5 : 7;
    float *dy = kt_f32(t, count * n), *dtable = kt_result(t, vocab * n);
    t->k->embedding_grad(t->x, vocab, n, count, add, ids, dy, dtable,
                         kt_work(t, mf_kernel_embedding_work(vocab, count)));
}

static void run_embedding(mf_kt *t)
{
    const int64_t vocab = 90, n = 36, count = 1200;
    const int32_t *ids = kt_i32(t, count, 0, vocab - 1);
    const float *table = kt_f32(t, vocab * n);
    t->k->embedding(t->x, vocab, n, count, table, ids, kt_result(t, count * n));
}

/* Types, and rows of 40 elements, or of 36, which in bf16 are no multiple of 16 bytes. */
static void run_gather_rows(mf_kt *t)
{
    const int type = t->variant % 2 ? MF_CAST_BF16 : MF_CAST_F32;
    const int64_t m = 900, rows = 70, d = t->variant < 2 ? 40 : 36;
    int32_t *index = kt_i32(t, m, -1, rows - 1);
    void *in = typed(t, type, rows * d, kt_f32(t, rows * d));
    void *out = kt_work(t, (size_t)(m * d * mf_cast_size(type)));
    t->k->gather_rows(t->x, type, m, d, in, index, out);
    made(t, type, m * d, out);
}

/* Both types of operands and of results. */
static void run_sum_rows(mf_kt *t)
{
    const int from = t->variant % 2 ? MF_CAST_BF16 : MF_CAST_F32,
              to = t->variant / 2 % 2 ? MF_CAST_BF16 : MF_CAST_F32;
    const int64_t n = 300, k = 3, d = t->variant < 4 ? 44 : 45, rows = n * k;
    int32_t *place = kt_i32(t, rows, -1, rows - 1);
    float *gate = kt_f32(t, rows);
    void *in = typed(t, from, rows * d, kt_f32(t, rows * d));
    void *out = kt_work(t, (size_t)(n * d * mf_cast_size(to)));
    t->k->sum_rows(t->x, from, to, n, d, k, NULL, NULL, place, gate, in, out);
    made(t, to, n * d, out);
}

const mf_kernel_row mf_kernel_cases_wide[] = {
    {"cross_entropy", run_cross_entropy, 6, false, 1e-6},
    {"cross_entropy_backward", run_cross_entropy_backward, 6, false, 1e-6},
    {"linear_cross_entropy", run_head_f32, 6, false, 4e-6},
    {"linear_cross_entropy", run_head_bf16, 6, false, 1e-2},
    {"embedding_grad", run_embedding_grad, 8, true, 1e-6},
    {"embedding", run_embedding, 1, true, 0},
    {"gather_rows", run_gather_rows, 4, true, 0},
    {"sum_rows", run_sum_rows, 8, false, 4e-3},
    {0},
};
