/* train/trainer_ranks.c: what the ranks of a run tell each other in a step.
 *
 * Once a step they meet: each tells its status, what signals it got, and what it measured of
 * its micro-batches. So all ranks know the same of the step, take the same decisions, and stop
 * or save together. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "train/trainer_internal.h"

int mf_trainer_ranks_new(mf_trainer *t)
{
    const mf_session *s = t->session;
    const int ranks = mf_world_ranks(t->options.world);
    t->share =
        mf_tree_share(s->config->train.accumulate, mf_world_rank(t->options.world), ranks);
    t->marks = mf_alloc((size_t)ranks, sizeof *t->marks);
    t->pieces = mf_alloc(4 * (size_t)ranks, sizeof *t->pieces);
    if (!t->marks || !t->pieces) return MF_ENOMEM;
    return ranks > 1 ? mf_gradient_exchange_new(t->options.world, s->model->store,
                                                s->config->train.accumulate, &t->exchange)
                     : MF_OK;
}

void mf_trainer_ranks_free(mf_trainer *t)
{
    mf_gradient_exchange_free(t->exchange);
    mf_free(t->marks);
    mf_free(t->pieces);
}

/* What this rank has to say after its micro-batches. */
static mf_mark own_mark(mf_trainer *t, int rc)
{
    const mf_trainer_options *o = &t->options;
    const double limit = t->session->config->train.time_limit;
    return (mf_mark){.code = rc,
                     .stop = o->should_stop ? o->should_stop(o->arg) : 0,
                     .save = o->should_save && o->should_save(o->arg),
                     .late = limit > 0 && mf_trainer_elapsed(t) >= limit};
}

/* The numbers of a rank's micro-batches. */
static mf_comm_piece numbers_of(mf_trainer *t, int peer, int rank)
{
    const mf_piece s = mf_tree_share(t->session->config->train.accumulate, rank,
                                     mf_world_ranks(t->options.world));
    return (mf_comm_piece){peer, t->numbers + s.first * t->n_numbers,
                           (s.end - s.first) * t->n_numbers * (int64_t)sizeof(double)};
}

int mf_trainer_meet(mf_trainer *t, int rc)
{
    mf_world *w = t->options.world;
    const int rank = mf_world_rank(w), ranks = mf_world_ranks(w);
    mf_comm_piece *send = t->pieces, *recv = t->pieces + 2 * ranks;
    char what[64];
    int n = 0;
    t->marks[rank] = own_mark(t, rc);
    for (int r = 0; r < ranks; r++) {
        if (r == rank) continue;
        send[n] = (mf_comm_piece){r, &t->marks[rank], sizeof *t->marks};
        recv[n++] = (mf_comm_piece){r, &t->marks[r], sizeof *t->marks};
        send[n] = numbers_of(t, r, rank);
        recv[n++] = numbers_of(t, r, r);
    }
    snprintf(what, sizeof what, "the results of step %lld", (long long)t->step + 1);
    const int met = mf_world_exchange(w, what, n, send, n, recv);
    if (met != MF_OK) return met;
    t->asked = (mf_mark){0};
    for (int r = 0; r < ranks; r++) {
        if (t->marks[r].code != MF_OK) return mf_world_agree(w, rc);
        if (!t->asked.stop) t->asked.stop = t->marks[r].stop;
        t->asked.save |= t->marks[r].save;
        t->asked.late |= t->marks[r].late;
    }
    return MF_OK;
}

int mf_trainer_asked_stop(mf_trainer *t)
{
    const mf_trainer_options *o = &t->options;
    if (t->exchange) return t->asked.stop;
    return o->should_stop ? o->should_stop(o->arg) : 0;
}

bool mf_trainer_asked_save(mf_trainer *t)
{
    const mf_trainer_options *o = &t->options;
    if (t->exchange) return t->asked.save;
    return o->should_save && o->should_save(o->arg);
}

bool mf_trainer_late(mf_trainer *t)
{
    const double limit = t->session->config->train.time_limit;
    if (t->exchange) return t->asked.late;
    return limit > 0 && mf_trainer_elapsed(t) >= limit;
}

/* ---- what must be the same on all ranks ---- */

typedef struct digest {
    char text[33];
} digest;

/* The values of a parameter that are compared; NULL: none, as they stay in a file. */
static const float *compared(const mf_param *p)
{
    return p->stored && !p->buffer ? NULL : mf_param_host(p);
}

static int differs(mf_world *w, const mf_param *p, int rank)
{
    return mf_fail(MF_EPLUGIN, "%s differs between rank 0 and rank %d (%s): %s", p->name, rank,
                   mf_world_place(w, rank)->host,
                   p->buffer ? "the plugin that owns this buffer writes it while a "
                               "micro-batch runs, or uses something that is not the same "
                               "everywhere, such as rand, a clock or a file"
                             : "the ranks do not compute the same; expected equal "
                               "processors and libraries");
}

/* The first difference: of a buffer if one differs, for what differs there spreads to the
 * parameters. All ranks find the same. */
static int compare(mf_world *w, const mf_store *store, const digest *all)
{
    const int n = mf_store_count(store);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < n; i++)
            for (int r = 1; r < mf_world_ranks(w); r++)
                if (mf_store_at(store, i)->buffer == (turn == 0) &&
                    memcmp(&all[(size_t)r * (size_t)n + (size_t)i], &all[i], sizeof *all) != 0)
                    return differs(w, mf_store_at(store, i), r);
    return MF_OK;
}

int mf_trainer_judge_equal(mf_trainer *t)
{
    mf_world *w = t->options.world;
    const mf_store *store = t->session->model->store;
    const size_t n = (size_t)mf_store_count(store), ranks = (size_t)mf_world_ranks(w);
    if (ranks == 1) return MF_OK;
    digest *mine = mf_alloc(n, sizeof *mine), *all = mf_alloc(n * ranks, sizeof *all);
    int rc = mf_world_agree(w, mine && all ? MF_OK : MF_ENOMEM);
    for (size_t i = 0; rc == MF_OK && i < n; i++) {
        const mf_param *p = mf_store_at(store, (int)i);
        const float *v = compared(p);
        if (v) mf_hash_bytes(v, (size_t)p->count * sizeof *v, mine[i].text);
    }
    if (rc == MF_OK)
        rc = mf_world_gather(w, "digests of the weights", mine, (int64_t)(n * sizeof *mine),
                             all);
    if (rc == MF_OK) rc = compare(w, store, all);
    mf_free(mine);
    mf_free(all);
    return rc == MF_OK || rc == MF_EPLUGIN ? mf_world_agree(w, rc) : rc;
}
