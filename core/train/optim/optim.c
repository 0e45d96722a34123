/* train/optim/optim.c: launches the optimizer's kernels: a sum of squares, then the step of
 * each range or parameter. The host reads nothing: kernels compute the clip factor themselves,
 * and skip the step if the norm or the loss is not finite. All memory that they read is on the
 * store's device. */
#include "train/optim/optim.h"
#include <math.h>
#include "base/error.h"
#include "base/mem.h"
#include "graph/device/device.h"
#include "train/optim/method.h"

static const mf_optim_method *const methods[] = {
#define MF_OPTIMIZER_METHOD(constant, name, method) &mf_optim_##method,
#include "train/optim/optimizers.def"
#undef MF_OPTIMIZER_METHOD
};

struct mf_optim {
    mf_store *store;
    const mf_train_config *config;
    const mf_optim_method *method;
    mf_optim_range *ranges;
    int n, room;
    uint64_t refreshes;
    mf_device *device;
    /* The ranges that are not frozen, for kernels that process all of them: on the host, and in
     * device memory, behind which is the scratch of sumsq. They have `trained` elements. */
    mf_update_range *listed, *table;
    int64_t n_table, trained;
    int table_room;
    /* device memory: the sum, the numbers of a step, work memory of the method */
    char *block;
    mf_update_now sent;       /* host memory of the numbers while they are copied to block */
    const mf_update_now *now; /* the numbers, in block or in memory of the caller */
    double *sumsq;            /* the sum of squares, in block or in memory of the caller */
};

enum {
    SUM_AT = 0,
    NOW_AT = SUM_AT + 64,
    WORK_AT = NOW_AT + (sizeof(mf_update_now) + 63) / 64 * 64
};

/* Whether r, which follows `last`, can be merged with it. */
static bool continues(const mf_optim_range *last, const mf_optim_range *r)
{
    const int64_t apart = r->first - last->first;
    return last->lr_scale == r->lr_scale && last->decay == r->decay &&
           last->frozen == r->frozen && last->whole == r->whole &&
           r->at[0] - last->at[0] == apart && r->at[1] - last->at[1] == apart;
}

static int add(mf_optim *o, const mf_optim_range *r)
{
    mf_optim_range *last = o->n ? &o->ranges[o->n - 1] : NULL;
    if (last && continues(last, r)) {
        /* The gap between neighbours contains zeros, which remain zero. */
        last->count = r->first + r->count - last->first;
        return MF_OK;
    }
    if (o->n == o->room) {
        const int room = o->room ? 2 * o->room : 64;
        mf_optim_range *more =
            mf_realloc(o->ranges, (size_t)o->room * sizeof *more, (size_t)room * sizeof *more);
        if (!more) return MF_ENOMEM;
        o->ranges = more;
        o->room = room;
    }
    o->ranges[o->n++] = *r;
    return MF_OK;
}

/* Makes room for the table. Launches that read the old one may be queued. */
static int grow_table(mf_optim *o)
{
    const size_t n = (size_t)o->room, each = sizeof *o->table + MF_SUMSQ_WORK;
    void *block = NULL;
    int rc = mf_device_wait(o->device);
    mf_device_free(o->device, o->table);
    mf_free(o->listed);
    o->table = NULL;
    o->listed = mf_alloc(n + 1, sizeof *o->listed);
    if (rc == MF_OK) rc = o->listed ? mf_device_alloc(o->device, n * each, &block) : MF_ENOMEM;
    o->table = block;
    o->table_room = rc == MF_OK ? o->room : 0;
    return rc;
}

/* Writes the table of ranges to the device, behind the launches that are queued. */
static int put_table(mf_optim *o)
{
    int rc = o->table_room < o->room ? grow_table(o) : MF_OK;
    o->n_table = o->trained = 0;
    for (int i = 0; rc == MF_OK && i < o->n; i++) {
        const mf_optim_range *r = &o->ranges[i];
        if (r->frozen) continue;
        mf_update_range_add(o->listed, o->n_table++,
                            (mf_update_range){.first = r->first,
                                              .count = r->count,
                                              .at = {r->at[0], r->at[1]},
                                              .lr_scale = r->lr_scale,
                                              .decay_scale = r->decay});
        o->trained += r->count;
    }
    if (rc != MF_OK || o->n_table == 0) return rc;
    return mf_device_write_now(o->device, o->table, o->listed,
                               (size_t)o->n_table * sizeof *o->table);
}

uint64_t mf_optim_refreshes(const mf_optim *o)
{
    return o->refreshes;
}

int mf_optim_refresh(mf_optim *o)
{
    int rc = MF_OK;
    o->refreshes++;
    o->n = 0;
    for (int i = 0; rc == MF_OK && i < mf_store_count(o->store); i++) {
        const mf_param *p = mf_store_at(o->store, i);
        if (p->buffer || p->stored) continue;
        const int64_t n = p->part ? p->count / p->part_size : 1;
        const mf_param *whole = o->method->whole && o->method->whole(p) ? p : NULL;
        for (int64_t j = 0; rc == MF_OK && j < n; j++) {
            const float factor = p->part ? p->part[j % p->parts] : 1;
            const int64_t at = p->part ? j * p->part_size : 0;
            /* A moment that is not kept, or that has another order, is treated as if it began
             * with the parameter, so that it does not prevent merging ranges. */
            const bool first = mf_param_moment_count(p, 0) == p->count,
                       second = mf_param_moment_count(p, 1) == p->count;
            const mf_optim_range r = {.first = p->offset + at,
                                      .count = p->part ? p->part_size : p->count,
                                      .at = {(first ? p->moment_at[0] : p->offset) + at,
                                             (second ? p->moment_at[1] : p->offset) + at},
                                      .lr_scale = p->lr_scale * (double)factor,
                                      .decay = o->config->decay_all ||
                                               !(p->init.flags & MF_PARAM_NO_DECAY),
                                      .frozen = p->frozen || factor == 0,
                                      .whole = whole};
            rc = add(o, &r);
        }
    }
    return rc == MF_OK ? put_table(o) : rc;
}

/* Returns the shapes of the moments of p, and whether the store has these moments. */
static bool moments_of(const mf_optim_method *m, const mf_param *p, mf_shape ret[2])
{
    bool same = true;
    m->moments(p, ret);
    for (int i = 0; i < 2; i++) {
        const int64_t count = ret[i].rank < 0 ? 0 : mf_shape_count(ret[i]);
        same = same && mf_param_moment_count(p, i) == count;
    }
    return same;
}

void mf_optim_want_moments(const void *config, mf_store *store)
{
    const mf_optim_method *m = methods[((const mf_train_config *)config)->optimizer];
    for (int i = 0; i < mf_store_count(store); i++) {
        mf_param *p = mf_store_at(store, i);
        mf_shape shape[2];
        if (p->buffer || p->stored) continue;
        moments_of(m, p, shape);
        mf_store_want_moments(p, shape[0], shape[1]);
    }
}

size_t mf_optim_work_bytes(const mf_train_config *config, const mf_store *store)
{
    const mf_optim_method *m = methods[config->optimizer];
    size_t most = 0;
    for (int i = 0; m->work && i < mf_store_count(store); i++) {
        const mf_param *p = mf_store_at(store, i);
        mf_matrices all;
        if (p->buffer || p->stored || !m->whole(p)) continue;
        for (int j = 0; mf_optim_matrices(p, j, &all); j++)
            if (m->work(&all) > most) most = m->work(&all);
    }
    return most;
}

/* Checks that the store has the moments of the method, and that its device has the kernels. */
static int judge(const mf_optim *o)
{
    const mf_kernels *k = mf_device_kernels(o->device, NULL);
    mf_shape shape[2];
    if (!k) return mf_error_code() ? mf_error_code() : MF_EINVAL;
    if (!o->method->has_kernels(k))
        return mf_fail(MF_EDEP,
                       "train.optimizer: the kernels %s of device %s lack this optimizer; "
                       "expected adamw",
                       k->name, mf_device_name(o->device));
    for (int i = 0; i < mf_store_count(o->store); i++) {
        const mf_param *p = mf_store_at(o->store, i);
        if (!p->buffer && !p->stored && !moments_of(o->method, p, shape))
            return mf_fail(MF_EINVAL,
                           "%s: the parameters were made for another train.optimizer", p->name);
    }
    return MF_OK;
}

int mf_optim_new(mf_store *store, const mf_train_config *config, mf_optim **ret)
{
    mf_optim *o = mf_alloc(1, sizeof *o);
    if (!o) return MF_ENOMEM;
    void *block = NULL;
    o->store = store;
    o->config = config;
    o->method = methods[config->optimizer];
    o->device = mf_store_device(store);
    int rc = judge(o);
    if (rc == MF_OK)
        rc = mf_device_alloc(o->device, WORK_AT + mf_optim_work_bytes(config, store), &block);
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
    mf_device_free(o->device, o->table);
    mf_free(o->listed);
    mf_free(o->ranges);
    mf_free(o);
}

void mf_optim_exchange(mf_optim *o, const void *now, void *sumsq)
{
    o->now = now ? now : o->block + NOW_AT;
    o->sumsq = sumsq ? sumsq : o->block + SUM_AT;
}

void mf_optim_now(const mf_optim *o, const mf_optim_step *s, mf_update_now *ret)
{
    const mf_train_config *c = o->config;
    *ret = (mf_update_now){.lr = s->lr,
                           .weight_decay = s->weight_decay,
                           .clip = s->clip,
                           .grad_scale = s->grad_scale,
                           .correction1 = 1 - pow(c->beta1, (double)(s->step + 1)),
                           .correction2 = 1 - pow(c->beta2, (double)(s->step + 1)),
                           .step = (double)(s->step + 1)};
}

int mf_optim_measure(mf_optim *o)
{
    const mf_kernels *k = mf_device_kernels(o->device, NULL);
    const mf_kctx x = mf_device_context(o->device);
    if (o->n_table == 0) return mf_device_zero(o->device, o->sumsq, sizeof *o->sumsq);
    MF_RUN(k, &x, sumsq, .count = o->trained, .ranges = o->n_table, .range = o->table,
           .a = mf_store_grads(o->store), .sum = o->sumsq, .work = o->table + o->table_room);
    return MF_OK;
}

/* Copies the numbers of a step to the device, unless the caller copies
 * them (mf_optim_exchange). */
static int send_now(mf_optim *o, const mf_optim_step *s)
{
    if ((const char *)o->now != o->block + NOW_AT) return MF_OK;
    int rc = mf_device_wait(o->device); /* waits until the previous copy no longer
                                         * reads o->sent */
    mf_optim_now(o, s, &o->sent);
    if (rc == MF_OK)
        rc = mf_device_write(o->device, o->block + NOW_AT, &o->sent, sizeof o->sent);
    return rc;
}

/* Returns how many ranges, from number i on, belong to the same whole parameter. */
static int ranges_of(const mf_optim *o, int i)
{
    int n = 1;
    while (i + n < o->n && o->ranges[i + n].whole == o->ranges[i].whole)
        n++;
    return n;
}

static bool any_trained(const mf_optim_range *r, int n)
{
    for (int i = 0; i < n; i++)
        if (!r[i].frozen) return true;
    return false;
}

static void launch(const mf_optim *o, const mf_optim_launch *l, const mf_optim_range *r, int n)
{
    if (r->whole)
        o->method->param(l, r->whole, r, n);
    else
        o->method->range(l, r);
}

/* Launches the step for the elements of n ranges that are in shard x. n is 1, or the ranges are
 * all ranges of a parameter that is updated as a whole. */
static void launch_part(const mf_optim *o, mf_optim_launch l, const mf_optim_range *r, int n,
                        const mf_shard *x)
{
    const int64_t end = r->first + r->count, from = r->first > x->first ? r->first : x->first,
                  to = end < x->end ? end : x->end;
    mf_optim_range part = *r;
    if (from >= to) return;
    for (int i = 0; i < 2; i++) {
        l.base[i] = x->moment_first[i] - x->at[i];
        part.at[i] += from - r->first;
    }
    part.first = from;
    part.count = to - from;
    launch(o, &l, r->whole ? r : &part, n);
}

int mf_optim_update(mf_optim *o, const mf_optim_step *s)
{
    const mf_train_config *c = o->config;
    const mf_optim_launch l = {
        .k = mf_device_kernels(o->device, NULL),
        .x = mf_device_context(o->device),
        .config = c,
        .args = {.beta1 = c->beta1,
                 .beta2 = c->beta2,
                 .eps = c->eps,
                 .l2 = c->optimizer == MF_OPTIMIZER_ADAM,
                 .now = o->now,
                 .sumsq = o->sumsq,
                 .loss = s->loss},
        .value = mf_store_values(o->store, NULL),
        .grad = mf_store_grads(o->store),
        .moment = {mf_store_moment1(o->store), mf_store_moment2(o->store)},
        .copy = mf_store_bf16(o->store),
        .work = o->block + WORK_AT};
    int rc = mf_store_flush(o->store), shards;
    const mf_shard *shard = mf_store_shards(o->store, &shards);
    if (rc == MF_OK) rc = send_now(o, s);
    const bool at_once = !shard && o->method->ranges;
    if (rc == MF_OK && at_once && o->n_table > 0)
        o->method->ranges(&l, o->table, o->n_table, o->trained);
    for (int i = 0, n; rc == MF_OK && !at_once && i < o->n; i += n) {
        const mf_optim_range *r = &o->ranges[i];
        n = r->whole ? ranges_of(o, i) : 1;
        if (!any_trained(r, n)) continue;
        if (!shard) launch(o, &l, r, n);
        for (int j = 0; j < shards; j++)
            launch_part(o, l, r, n, &shard[j]);
    }
    mf_store_changed(o->store);
    return rc;
}

const mf_optim_range *mf_optim_ranges(const mf_optim *o, int *ret_n)
{
    *ret_n = o->n;
    return o->ranges;
}

bool mf_optim_sees_whole(const mf_train_config *config, const mf_param *p)
{
    const mf_optim_method *m = methods[config->optimizer];
    return m->whole && m->whole(p);
}

void mf_optim_measured(mf_optim *o, double sumsq)
{
    *o->sumsq = sumsq;
}

double mf_optim_norm(double sumsq, const mf_optim_step *s)
{
    return sqrt(sumsq) * s->grad_scale;
}
