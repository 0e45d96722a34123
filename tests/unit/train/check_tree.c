/* The tree of micro-batches: shares of processes, pieces of a share, and sums. The sums must
 * equal those of the definition bit for bit, whichever process adds a part. */
#include "check_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/kernel.h"
#include "train/parallel/gradient_bf16.h"
#include "train/parallel/gradient_sum.h"

enum { MOST = 40, COUNT = 37 };

/* Whether leaves are rounded to bf16 (parallel.gradient). */
static bool rounds;

/* The value of element i of the gradient of leaf j. Sums of such values are rounded. */
static float raw_value(int64_t j, int i)
{
    return sinf((float)(j * 131 + i * 17 + 1)) * exp2f((float)((j * 7 + i) % 20));
}

/* The value rounded to 8 bits, to nearest; ties are rounded to even. */
static float leaf_value(int64_t j, int i)
{
    int exponent;
    const float part = frexpf(raw_value(j, i), &exponent);
    return rounds ? ldexpf(rintf(ldexpf(part, 8)), exponent - 8) : raw_value(j, i);
}

static float tree_value(int64_t first, int64_t end, int i)
{
    int64_t part = 1;
    if (end - first == 1) return leaf_value(first, i);
    while (2 * part < end - first)
        part *= 2;
    return tree_value(first, first + part, i) + tree_value(first + part, end, i);
}

START_TEST(shares_are_contiguous_and_complete)
{
    for (int64_t n = 1; n <= MOST; n++)
        for (int ranks = 1; ranks <= n; ranks++) {
            int64_t at = 0;
            for (int r = 0; r < ranks; r++) {
                const mf_piece s = mf_tree_share(n, r, ranks);
                ck_assert_int_eq(s.first, at);
                ck_assert_int_gt(s.end, s.first);
                ck_assert_int_le(s.end - s.first, n / ranks + 1);
                at = s.end;
            }
            ck_assert_int_eq(at, n);
        }
}
END_TEST

/* Adds the pieces of all ranks in the order that the tree requires. The result must be a
 * single sum. */
static float sum_of_pieces(int64_t n, int ranks, int i)
{
    float stack[MF_TREE_PIECES];
    int top = 0;
    for (int r = 0; r < ranks; r++) {
        const mf_piece s = mf_tree_share(n, r, ranks);
        mf_piece piece[MF_TREE_PIECES];
        const int k = mf_tree_pieces(n, s.first, s.end, piece);
        ck_assert_int_eq(piece[0].first, s.first);
        ck_assert_int_eq(piece[k - 1].end, s.end);
        for (int j = 0; j < k; j++) {
            float now = tree_value(piece[j].first, piece[j].end, i);
            for (int m = mf_tree_sums(n, 0, piece[j]); m > 0; m--)
                now = stack[--top] + now;
            stack[top++] = now;
        }
    }
    ck_assert_int_eq(top, 1);
    return stack[0];
}

START_TEST(pieces_of_any_ranks_sum_to_the_tree)
{
    for (int64_t n = 1; n <= MOST; n++)
        for (int ranks = 1; ranks <= n; ranks++)
            ck_assert_msg(sum_of_pieces(n, ranks, 3) == tree_value(0, n, 3),
                          "%d leaves on %d ranks", (int)n, ranks);
    float fold = 0;
    for (int j = 0; j < 7; j++)
        fold += leaf_value(j, 3);
    ck_assert_msg(tree_value(0, 7, 3) != fold, "the values do not round");
}
END_TEST

static mf_store *store_of(mf_param **p)
{
    mf_store *s = mf_store_new();
    const mf_shape shape = {.rank = 1, .dim = {COUNT}};
    ck_assert_int_eq(mf_store_declare(s, "w", shape, (mf_init){0}, false, p), MF_OK);
    ck_assert_int_eq(mf_store_seal(s, 1, true), MF_OK);
    return s;
}

/* Adds the last leaf in three parts, beginning with the last part, because a backward pass
 * finishes them in this order. */
static void add_in_parts(mf_gradient_sum *sum, const mf_store *store)
{
    static const int64_t cut[] = {0, 5, 16};
    int64_t end;
    mf_store_values(store, &end);
    mf_gradient_sum_last(sum);
    for (int i = 3; i-- > 0; end = cut[i])
        mf_gradient_sum_part(sum, cut[i], end);
}

/* Runs the leaves of a share like the trainer. The last piece must be in the store. */
static void add_leaves(int64_t n, mf_piece share, bool in_parts)
{
    mf_param *p;
    mf_store *store = store_of(&p);
    mf_gradient_sum *sum;
    mf_piece piece[MF_TREE_PIECES];
    const int k = mf_tree_pieces(n, share.first, share.end, piece);
    const mf_sum_plan plan = {.rounds = rounds ? MF_ROUND_ALL : MF_ROUND_NONE,
                              .leaves = n,
                              .share = share,
                              .stride = 1};
    ck_assert_int_eq(mf_gradient_sum_new(store, &plan, &sum), MF_OK);
    mf_gradient_sum_begin(sum);
    for (int64_t j = share.first; j < share.end; j++) {
        for (int i = 0; i < COUNT; i++)
            p->grad[i] = raw_value(j, i);
        if (in_parts && j + 1 == share.end)
            add_in_parts(sum, store);
        else
            mf_gradient_sum_add(sum, j, false);
    }
    for (int i = 0; i < COUNT; i++)
        ck_assert_msg(p->grad[i] == tree_value(piece[k - 1].first, piece[k - 1].end, i),
                      "%d leaves, share %d .. %d, element %d", (int)n, (int)share.first,
                      (int)share.end, i);
    mf_gradient_sum_free(sum);
    mf_store_free(store);
}

static void add_all(void)
{
    for (int64_t n = 1; n <= 9; n++)
        for (int ranks = 1; ranks <= n; ranks++)
            for (int r = 0; r < ranks; r++)
                for (int in_parts = 0; in_parts < 2; in_parts++)
                    add_leaves(n, mf_tree_share(n, r, ranks), in_parts == 1);
}

START_TEST(gradients_are_summed_in_the_tree)
{
    add_all();
}
END_TEST

/* More elements than are converted at once. */
START_TEST(leaves_are_rounded_to_bf16)
{
    enum { MANY = MF_GRADIENT_CHUNK + 999 };
    float *x = calloc(MANY, sizeof *x), *back = calloc(MANY, sizeof *back);
    uint16_t *room = calloc(MF_GRADIENT_CHUNK, sizeof *room);
    ck_assert(x && back && room);
    rounds = true;
    add_all();
    for (int i = 0; i < MANY; i++)
        x[i] = raw_value(i, i);
    mf_gradient_round(NULL, x, MANY, room);
    for (int i = 0; i < MANY; i++)
        ck_assert_msg(x[i] == leaf_value(i, i), "element %d", i);
    mf_gradient_pack(x, MANY, room);
    mf_gradient_unpack(x, MANY, back);
    for (int i = 0; i < MANY; i++)
        ck_assert_msg(back[i] == leaf_value(i, i), "element %d, unpacked", i);
    rounds = false;
    free(room);
    free(back);
    free(x);
}
END_TEST

static size_t sum_bytes(const mf_store *store, int64_t n)
{
    return mf_gradient_sum_bytes(store,
                                 &(mf_sum_plan){.leaves = n, .share = {0, n}, .stride = 1});
}

START_TEST(copies_grow_with_the_logarithm)
{
    mf_param *p;
    mf_store *store = store_of(&p);
    int64_t elements;
    mf_store_values(store, &elements);
    const size_t one = (size_t)elements * sizeof(float);
    ck_assert_uint_eq(sum_bytes(store, 1), 0);
    ck_assert_uint_eq(sum_bytes(store, 2), one);
    ck_assert_uint_eq(sum_bytes(store, 1024), 10 * one);
    /* leaves 1, 4 and 7 are kept separately; the last one only if the graph runs again */
    mf_sum_plan plan = {.leaves = 10, .apart = true, .share = {1, 10}, .stride = 3};
    ck_assert_uint_eq(mf_gradient_sum_bytes(store, &plan), 2 * one);
    plan.runs_on = true;
    ck_assert_uint_eq(mf_gradient_sum_bytes(store, &plan), 3 * one);
    mf_store_free(store);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tree");
    TCase *c = tcase_create("tree");
    tcase_add_test(c, shares_are_contiguous_and_complete);
    tcase_add_test(c, pieces_of_any_ranks_sum_to_the_tree);
    tcase_add_test(c, gradients_are_summed_in_the_tree);
    tcase_add_test(c, leaves_are_rounded_to_bf16);
    tcase_add_test(c, copies_grow_with_the_logarithm);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
