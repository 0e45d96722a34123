/* train/optim.c: launches of the optimizer: one sum of squares, one pass over each range.
 *
 * Between the two the host reads nothing: the kernel finds the clip factor itself, and skips
 * the step where the norm or the loss is not finite.
 */
#include "train/optim.h"
#include <math.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "kernels/kernel.h"

enum { ADAMW, ADAM };

typedef struct {
    int64_t first, count;
    double lr_scale;
    bool decay, frozen;
} range;

struct mf_optim {
    mf_store *store;
    const mf_train_config *config;
    range *ranges;
    int n, room;
    double sumsq[1]; /* of the gradient that was measured: kernels write and read it */
    double work[MF_SUMSQ_TILES];
};

static mf_kctx context(void)
{
    return (mf_kctx){.parallel = mf_parallel, .threads = mf_parallel_threads()};
}

static int add(mf_optim *o, const range *r)
{
    range *last = o->n ? &o->ranges[o->n - 1] : NULL;
    if (last && last->lr_scale == r->lr_scale && last->decay == r->decay &&
        last->frozen == r->frozen) {
        /* The gap between neighbours holds zeros, which the update leaves zero. */
        last->count = r->first + r->count - last->first;
        return MF_OK;
    }
    if (o->n == o->room) {
        const int room = o->room ? 2 * o->room : 64;
        range *more =
            mf_realloc(o->ranges, (size_t)o->room * sizeof *more, (size_t)room * sizeof *more);
        if (!more) return MF_ENOMEM;
        o->ranges = more;
        o->room = room;
    }
    o->ranges[o->n++] = *r;
    return MF_OK;
}

int mf_optim_refresh(mf_optim *o)
{
    int rc = MF_OK;
    o->n = 0;
    for (int i = 0; rc == MF_OK && i < mf_store_count(o->store); i++) {
        const mf_param *p = mf_store_at(o->store, i);
        if (p->buffer) continue;
        const int64_t n = p->part ? p->count / p->part_size : 1;
        for (int64_t j = 0; rc == MF_OK && j < n; j++) {
            const float factor = p->part ? p->part[j % p->parts] : 1;
            const range r = {p->offset + (p->part ? j * p->part_size : 0),
                             p->part ? p->part_size : p->count, p->lr_scale * (double)factor,
                             o->config->decay_all || !(p->init.flags & MF_PARAM_NO_DECAY),
                             p->frozen || factor == 0};
            rc = add(o, &r);
        }
    }
    return rc;
}

int mf_optim_new(mf_store *store, const mf_train_config *config, mf_optim **ret)
{
    mf_optim *o = mf_alloc(1, sizeof *o);
    if (!o) return MF_ENOMEM;
    o->store = store;
    o->config = config;
    int rc = mf_optim_refresh(o);
    if (rc != MF_OK) {
        mf_optim_free(o);
        return rc;
    }
    *ret = o;
    return MF_OK;
}

void mf_optim_free(mf_optim *o)
{
    if (!o) return;
    mf_free(o->ranges);
    mf_free(o);
}

void mf_optim_measure(mf_optim *o)
{
    const mf_kernels *k = mf_backend_kernels();
    const mf_kctx x = context();
    const float *grad = mf_store_grads(o->store);
    bool add = false;
    o->sumsq[0] = 0;
    for (int i = 0; i < o->n; i++) {
        const range *r = &o->ranges[i];
        if (r->frozen) continue;
        k->sumsq(&x, r->count, grad + r->first, add, o->sumsq, o->work);
        add = true;
    }
}

void mf_optim_update(mf_optim *o, const mf_optim_step *s)
{
    const mf_kernels *k = mf_backend_kernels();
    const mf_kctx x = context();
    const mf_train_config *c = o->config;
    const bool beside = c->optimizer == ADAMW;
    float *value = mf_store_values(o->store, NULL), *grad = mf_store_grads(o->store);
    float *m = mf_store_moment1(o->store), *v = mf_store_moment2(o->store);
    mf_bf16 *copy = mf_store_bf16(o->store);
    for (int i = 0; i < o->n; i++) {
        const range *r = &o->ranges[i];
        if (r->frozen) continue;
        const double decay = r->decay ? s->weight_decay : 0;
        const mf_adamw_args args = {.lr = s->lr * r->lr_scale,
                                    .beta1 = c->beta1,
                                    .beta2 = c->beta2,
                                    .eps = c->eps,
                                    .weight_decay = beside ? decay : 0,
                                    .l2 = beside ? 0 : decay,
                                    .grad_scale = s->grad_scale,
                                    .correction1 = 1 - pow(c->beta1, (double)(s->step + 1)),
                                    .correction2 = 1 - pow(c->beta2, (double)(s->step + 1)),
                                    .sumsq = o->sumsq,
                                    .loss = s->loss,
                                    .clip = s->clip};
        k->adamw(&x, r->count, &args, value + r->first, copy ? copy + r->first : NULL,
                 grad + r->first, m + r->first, v + r->first);
    }
}

double mf_optim_norm(const mf_optim *o, const mf_optim_step *s)
{
    return sqrt(o->sumsq[0]) * s->grad_scale;
}
