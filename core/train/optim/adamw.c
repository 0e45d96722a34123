/* train/optim/adamw.c: AdamW (Loshchilov, Hutter 2019, algorithm 2), and Adam with weight decay
 * inside the gradient. Each is one kernel over ranges. */
#include "train/optim/method.h"

void mf_optim_range_adamw(const mf_optim_launch *l, const mf_optim_range *r)
{
    const mf_update_args args = mf_optim_args(l, r);
    MF_RUN(l->k, &l->x, adamw, .count = r->count, .update = args, .value = l->value + r->first,
           .copy = l->copy ? l->copy + r->first : NULL, .grad = l->grad + r->first,
           .m = mf_optim_moment(l, r, 0), .v = mf_optim_moment(l, r, 1));
}

static void ranges(const mf_optim_launch *l, const mf_update_range *r, int64_t n, int64_t total)
{
    MF_RUN(l->k, &l->x, adamw, .count = total, .ranges = n, .range = r, .update = l->args,
           .value = l->value, .copy = l->copy, .grad = l->grad, .m = l->moment[0],
           .v = l->moment[1]);
}

static bool has_kernels(const mf_kernels *k)
{
    return k->adamw != NULL;
}

static void moments(const mf_param *p, mf_shape ret[2])
{
    ret[0] = ret[1] = p->shape;
}

const mf_optim_method mf_optim_adamw = {.has_kernels = has_kernels,
                                        .moments = moments,
                                        .range = mf_optim_range_adamw,
                                        .ranges = ranges};
