/* ops/stride.c: strides of broadcasts and copies: a walk over four dimensions with a stride for
 * each operand. Dimensions are merged if all strides allow it. */
#include "ops/stride.h"

#include <string.h>

bool mf_shape_broadcast(mf_shape a, mf_shape b, mf_shape *ret)
{
    mf_shape s = {a.rank > b.rank ? a.rank : b.rank, 0, {1, 1, 1, 1}};
    for (int32_t i = 1; i <= s.rank; i++) { /* the i-th dimension from the end */
        int64_t da = i <= a.rank ? a.dim[a.rank - i] : 1;
        int64_t db = i <= b.rank ? b.dim[b.rank - i] : 1;
        if (da != db && da != 1 && db != 1) return false;
        s.dim[s.rank - i] = da == 1 ? db : da;
    }
    *ret = s;
    return true;
}

void mf_shape_strides(mf_shape s, int64_t stride[MF_MAX_RANK])
{
    int64_t step = 1;
    for (int32_t i = s.rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= s.dim[i];
    }
}

mf_walk mf_walk_over(mf_shape to)
{
    mf_walk w;
    memset(&w, 0, sizeof w);
    for (int i = 0; i < 4; i++)
        w.dim[i] = i < 4 - to.rank ? 1 : to.dim[i - (4 - to.rank)];
    return w;
}

void mf_walk_add_strides(mf_walk *w, int rank, const int64_t *stride)
{
    for (int i = 0; i < 4; i++)
        w->stride[w->operands][i] = i < 4 - rank ? 0 : stride[i - (4 - rank)];
    w->operands++;
}

void mf_walk_add(mf_walk *w, mf_shape from)
{
    int64_t stride[MF_MAX_RANK] = {0};
    mf_shape_strides(from, stride);
    for (int32_t i = 0; i < from.rank; i++)
        if (from.dim[i] == 1) stride[i] = 0;
    mf_walk_add_strides(w, from.rank, stride);
}

/* Whether for each operand one step of dimension i is as long as all steps of the next
 * dimension together. */
static bool even(const mf_walk *w, int i)
{
    for (int o = 0; o < w->operands; o++)
        if (w->stride[o][i] != w->stride[o][i + 1] * w->dim[i + 1]) return false;
    return true;
}

/* Removes dimension i; each dimension before it moves to the next index. */
static void drop(mf_walk *w, int i)
{
    for (; i > 0; i--) {
        w->dim[i] = w->dim[i - 1];
        for (int o = 0; o < w->operands; o++)
            w->stride[o][i] = w->stride[o][i - 1];
    }
    w->dim[0] = 1;
    for (int o = 0; o < w->operands; o++)
        w->stride[o][0] = 0;
}

void mf_walk_merge(mf_walk *w)
{
    for (int i = 3, left = 4; left > 0; left--) {
        if (w->dim[i] == 1) {
            drop(w, i);
        } else if (i < 3 && even(w, i)) {
            w->dim[i + 1] *= w->dim[i];
            drop(w, i);
        } else {
            i--;
        }
    }
}
