/* train/optim.c: launches the optimizer's kernels: a sum of squares, then one pass over each
 * range. The host reads nothing: the adamw kernel computes the clip factor itself, and skips
 * the step if the norm or the loss is not finite. All that this kernel reads is on the
 * store's device. */
#include "train/optim.h"
#include <math.h>
#include "base/error.h"
#include "base/mem.h"
#include "graph/device/device.h"
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
    mf_device *device;
    char *block;             /* device memory: scratch of sumsq, its sum, numbers of a step */
    mf_adamw_now sent;       /* host memory of the numbers while they are copied to block */
    const mf_adamw_now *now; /* the numbers in block, or in memory of the caller */
    double *sumsq;           /* the sum in block, or in memory of the caller */
};

enum {
    SUM_AT = MF_SUMSQ_WORK,
    NOW_AT = SUM_AT + 64,
    BLOCK_BYTES = NOW_AT + sizeof(mf_adamw_now)
};

static int add(mf_optim *o, const range *r)
{
    range *last = o->n ? &o->ranges[o->n - 1] : NULL;
    if (last && last->lr_scale == r->lr_scale && last->decay == r->decay &&
        last->frozen == r->frozen) {
        /* The gap between neighbours contains zeros, which remain zero. */
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
    void *block = NULL;
    o->store = store;
    o->config = config;
    o->device = mf_store_device(store);
    int rc = mf_device_alloc(o->device, BLOCK_BYTES, &block);
    o->block = block;
    if (rc == MF_OK) mf_optim_exchange(o, NULL, NULL);
    if (rc == MF_OK) rc = mf_optim_refresh(o);
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
    mf_device_free(o->device, o->block);
    mf_free(o->ranges);
    mf_free(o);
}

void mf_optim_exchange(mf_optim *o, const void *now, void *sumsq)
{
    o->now = now ? now : o->block + NOW_AT;
    o->sumsq = sumsq ? sumsq : o->block + SUM_AT;
}

void mf_optim_now(const mf_optim *o, const mf_optim_step *s, mf_adamw_now *ret)
{
    const mf_train_config *c = o->config;
    *ret = (mf_adamw_now){.lr = s->lr,
                          .weight_decay = s->weight_decay,
                          .clip = s->clip,
                          .grad_scale = s->grad_scale,
                          .correction1 = 1 - pow(c->beta1, (double)(s->step + 1)),
                          .correction2 = 1 - pow(c->beta2, (double)(s->step + 1))};
}

int mf_optim_measure(mf_optim *o)
{
    const mf_kernels *k = mf_device_kernels(o->device, NULL);
    const mf_kctx x = mf_device_context(o->device);
    const float *grad = mf_store_grads(o->store);
    bool add = false;
    for (int i = 0; i < o->n; i++) {
        const range *r = &o->ranges[i];
        if (r->frozen) continue;
        k->sumsq(&x, r->count, grad + r->first, add, o->sumsq, o->block);
        add = true;
    }
    return add ? MF_OK : mf_device_zero(o->device, o->sumsq, sizeof *o->sumsq);
}

/* Copies the numbers of a step to the device, unless the caller does (mf_optim_exchange). */
static int send_now(mf_optim *o, const mf_optim_step *s)
{
    if ((const char *)o->now != o->block + NOW_AT) return MF_OK;
    int rc = mf_device_wait(o->device); /* until the previous copy no longer reads o->sent */
    mf_optim_now(o, s, &o->sent);
    if (rc == MF_OK)
        rc = mf_device_write(o->device, o->block + NOW_AT, &o->sent, sizeof o->sent);
    return rc;
}

int mf_optim_update(mf_optim *o, const mf_optim_step *s)
{
    const mf_kernels *k = mf_device_kernels(o->device, NULL);
    const mf_kctx x = mf_device_context(o->device);
    const mf_train_config *c = o->config;
    float *value = mf_store_values(o->store, NULL), *grad = mf_store_grads(o->store);
    float *m = mf_store_moment1(o->store), *v = mf_store_moment2(o->store);
    mf_bf16 *copy = mf_store_bf16(o->store);
    int rc = mf_store_flush(o->store);
    if (rc == MF_OK) rc = send_now(o, s);
    for (int i = 0; rc == MF_OK && i < o->n; i++) {
        const range *r = &o->ranges[i];
        if (r->frozen) continue;
        const mf_adamw_args args = {.beta1 = c->beta1,
                                    .beta2 = c->beta2,
                                    .eps = c->eps,
                                    .lr_scale = r->lr_scale,
                                    .decay_scale = r->decay,
                                    .l2 = c->optimizer != ADAMW,
                                    .now = o->now,
                                    .sumsq = o->sumsq,
                                    .loss = s->loss};
        k->adamw(&x, r->count, &args, value + r->first, copy ? copy + r->first : NULL,
                 grad + r->first, m + r->first, v + r->first);
    }
    mf_store_changed(o->store);
    return rc;
}

double mf_optim_norm(double sumsq, const mf_optim_step *s)
{
    return sqrt(sumsq) * s->grad_scale;
}
