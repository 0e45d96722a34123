/* train/optim/method.c: functions that several optimizers share: the matrices of a parameter,
 * and the parts of it that are not frozen. */
#include "train/optim/method.h"

/* Maximum number of elements of one pass of a method, if a parameter has several groups. */
#define PASS_ELEMENTS ((int64_t)1 << 22)

bool mf_optim_matrices(const mf_param *p, int i, mf_matrices *ret)
{
    const int rank = p->shape.rank, vectors = p->init.flags & MF_PARAM_BY_EXPERT ? 2 : 1;
    const int64_t *dim = p->shape.dim;
    int64_t first = 0;
    if (i < 0 || i > 2) return false;
    if (p->stacked[0] > 0 && rank == 2) {
        for (int j = 0; j < i; j++)
            first += p->stacked[j] * dim[1];
        *ret = (mf_matrices){first, 1, p->stacked[i], dim[1]};
        return p->stacked[i] > 0;
    }
    if (i > 0) return false;
    if (rank <= vectors) {
        const int64_t groups = rank == 2 ? dim[0] : 1;
        *ret = (mf_matrices){0, groups, 0, p->count / groups};
        return true;
    }
    const int64_t halves = p->init.flags & MF_PARAM_HALVES ? 2 : 1;
    const int64_t rows = dim[rank - 2] / halves, columns = dim[rank - 1];
    *ret = (mf_matrices){0, p->count / (rows * columns), rows, columns};
    return true;
}

int64_t mf_optim_groups(const mf_matrices *all)
{
    const int64_t n = (all->rows > 0 ? all->rows : 1) * all->columns;
    const int64_t most = PASS_ELEMENTS / n > 1 ? PASS_ELEMENTS / n : 1;
    return most < all->groups ? most : all->groups;
}

mf_update_args mf_optim_args(const mf_optim_launch *l, const mf_optim_range *r)
{
    mf_update_args args = l->args;
    args.lr_scale = r->lr_scale;
    args.decay_scale = r->decay;
    return args;
}

bool mf_optim_parts(const mf_optim_launch *l, const mf_optim_range *r, int n, int64_t first,
                    int64_t count, mf_optim_part_fn *fn, void *arg)
{
    bool all = true;
    for (int i = 0; i < n; i++) {
        const int64_t from = r[i].first > first ? r[i].first : first;
        const int64_t end = r[i].first + r[i].count, last = first + count;
        const int64_t to = end < last ? end : last;
        if (from >= to) continue;
        if (r[i].frozen)
            all = false;
        else if (fn)
            fn(l, &r[i], from, to - from, arg);
    }
    return all;
}
