/* train/trainer_ranks.c: the messages that the ranks of a run exchange in a step. Once per step
 * each rank sends its status, the signals that it received, and the measurements and tallies of
 * its micro-batches. So all ranks have the same information about the step, make the same
 * decisions, and stop or save together. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "train/parallel/repeat.h"
#include "train/trainer_internal.h"

/* If several groups of ranks share the experts, creates the exchange between the ranks that
 * have the same experts. */
static int new_expert_exchange(mf_trainer *t)
{
    mf_world *w = t->world;
    mf_store *store = t->job.model->store;
    const mf_expert_ranks *e = &t->job.model->expert_ranks;
    const int64_t leaves = t->job.train->accumulate;
    if (!t->expert_sum || e->ranks == mf_world_ranks(w)) return MF_OK;
    const mf_members peers = {e->rank, e->ranks, mf_world_ranks(w) / e->ranks};
    const int rc =
        mf_partition_peers(&t->partition, store, mf_world_rank(w), &t->expert_partition);
    return rc == MF_OK
               ? mf_gradient_exchange_new(w, peers, store, (leaves + e->ranks - 1) / e->ranks,
                                          t->expert_sum, &t->expert_partition, true,
                                          &t->expert_exchange)
               : rc;
}

static int new_exchange(mf_trainer *t)
{
    const mf_train_job *c = &t->job;
    mf_world *w = t->world;
    mf_store *store = t->job.model->store;
    const int ranks = mf_world_ranks(w);
    int rc = mf_partition_new(store, c->train, ranks, mf_config_bucket(c->parallel), t->optim,
                              &t->partition);
    if (rc == MF_OK)
        rc = mf_gradient_exchange_new(w, (mf_members){0, 1, ranks}, store, c->train->accumulate,
                                      t->sum, &t->partition, t->stride > 1, &t->exchange);
    if (rc == MF_OK) rc = new_expert_exchange(t);
    if (rc != MF_OK || c->parallel->optimizer == MF_PARALLEL_WHOLE) return rc;
    rc = mf_partition_shard(&t->partition, store, mf_world_rank(w));
    return rc == MF_OK ? mf_gradient_norm_new(w, store, t->optim, &t->partition, &t->norm) : rc;
}

/* If ranks share the experts, they take turns with the micro-batches. So micro-batches that run
 * at the same time are neighbours in the tree, and a group adds its gradients of experts
 * at once. */
static int take_turns(mf_trainer *t, int rank, int ranks, mf_sum_plan *plan)
{
    const mf_train_job *s = &t->job;
    const int64_t leaves = s->train->accumulate;
    mf_sum_plan experts;
    mf_turns(leaves, rank, ranks, s->model->expert_ranks.ranks, plan->rounds, plan, &experts);
    if ((leaves + ranks - 1) / ranks >= MF_TREE_PIECES)
        return mf_fail(MF_ECONFIG,
                       "parallel.expert: train.accumulate = %lld for %d ranks: expected at "
                       "most %d micro-batches of each",
                       (long long)leaves, ranks, MF_TREE_PIECES - 1);
    t->stride = ranks;
    t->runs_on = plan->runs_on;
    t->share = plan->share;
    return mf_gradient_sum_new(s->model->store, &experts, &t->expert_sum);
}

int mf_trainer_ranks_new(mf_trainer *t)
{
    const mf_train_job *s = &t->job;
    const int rank = mf_world_rank(t->world), ranks = mf_world_ranks(t->world);
    const int64_t leaves = s->train->accumulate;
    t->share = mf_tree_share(leaves, rank, ranks);
    t->stride = 1;
    mf_sum_plan plan = {
        .rounds = mf_sum_rounds_of(s->parallel),
        .leaves = leaves,
        .share = t->share,
        .stride = 1,
    };
    t->marks = mf_alloc((size_t)ranks, sizeof *t->marks);
    t->pieces = mf_alloc(6 * (size_t)ranks, sizeof *t->pieces);
    int rc = t->marks && t->pieces ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && mf_experts_shared(&s->model->expert_ranks))
        rc = take_turns(t, rank, ranks, &plan);
    const mf_tally_plan tallies = {leaves, rank, ranks, t->stride > 1};
    if (rc == MF_OK) rc = mf_tally_sum_new(s->model->plugins, &tallies, &t->tallies);
    if (rc == MF_OK) rc = mf_gradient_sum_new(s->model->store, &plan, &t->sum);
    return rc == MF_OK && ranks > 1 ? new_exchange(t) : rc;
}

void mf_trainer_ranks_free(mf_trainer *t)
{
    mf_gradient_norm_free(t->norm);
    mf_gradient_exchange_free(t->exchange);
    mf_gradient_exchange_free(t->expert_exchange);
    mf_tally_sum_free(t->tallies);
    mf_partition_free(&t->partition);
    mf_partition_free(&t->expert_partition);
    mf_free(t->marks);
    mf_free(t->pieces);
}

/* Returns the status and the requests of this rank after its micro-batches. */
static mf_mark own_mark(mf_trainer *t, int rc)
{
    const mf_trainer_owner *o = &t->owner;
    const double limit = t->job.train->time_limit;
    return (mf_mark){.code = rc,
                     .stop = o->should_stop ? o->should_stop(o->self) : 0,
                     .save = o->should_save && o->should_save(o->self),
                     .late = limit > 0 && mf_trainer_elapsed(t) >= limit};
}

/* Returns the numbers of a rank's micro-batches as a message. */
static mf_comm_piece numbers_of(mf_trainer *t, int peer, int rank)
{
    const mf_piece s = mf_tree_share(t->job.train->accumulate, rank, mf_world_ranks(t->world));
    return (mf_comm_piece){peer, t->numbers + s.first * t->n_numbers,
                           (s.end - s.first) * t->n_numbers * (int64_t)sizeof(double)};
}

int mf_trainer_meet(mf_trainer *t, int rc)
{
    mf_world *w = t->world;
    const int rank = mf_world_rank(w), ranks = mf_world_ranks(w);
    mf_comm_piece *send = t->pieces, *recv = t->pieces + 3 * ranks;
    char what[64];
    int n = 0;
    t->marks[rank] = own_mark(t, rc);
    for (int r = 0; r < ranks; r++) {
        if (r == rank) continue;
        send[n] = (mf_comm_piece){r, &t->marks[rank], sizeof *t->marks};
        recv[n++] = (mf_comm_piece){r, &t->marks[r], sizeof *t->marks};
        send[n] = numbers_of(t, r, rank);
        recv[n++] = numbers_of(t, r, r);
        if (!t->tallies) continue;
        send[n] = mf_tally_sum_of(t->tallies, r, rank);
        recv[n++] = mf_tally_sum_of(t->tallies, r, r);
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

int mf_trainer_update_shared(mf_trainer *t, const mf_optim_step *s)
{
    int rc = MF_OK;
    /* Observers read the gradients of heads that can be switched off. */
    if (!t->norm || t->job.model->head_switches)
        rc = mf_gradient_exchange_give_sums(t->exchange);
    if (rc == MF_OK)
        rc = t->norm ? mf_gradient_norm_measure(t->norm) : mf_optim_measure(t->optim);
    if (rc == MF_OK) rc = mf_optim_update(t->optim, s);
    if (rc == MF_OK && t->norm) rc = mf_gradient_exchange_give_values(t->exchange);
    return rc == MF_OK && t->expert_exchange
               ? mf_gradient_exchange_give_values(t->expert_exchange)
               : rc;
}

int mf_trainer_asked_stop(mf_trainer *t)
{
    const mf_trainer_owner *o = &t->owner;
    if (t->exchange) return t->asked.stop;
    return o->should_stop ? o->should_stop(o->self) : 0;
}

bool mf_trainer_asked_save(mf_trainer *t)
{
    const mf_trainer_owner *o = &t->owner;
    if (t->exchange) return t->asked.save;
    return o->should_save && o->should_save(o->self);
}

bool mf_trainer_late(mf_trainer *t)
{
    const double limit = t->job.train->time_limit;
    if (t->exchange) return t->asked.late;
    return limit > 0 && mf_trainer_elapsed(t) >= limit;
}

/* ---- moments for a checkpoint ----
 *
 * Rank 0 writes the files. It requests moments from their owners when it writes them, one piece
 * at a time, so it never holds more than one piece. */

typedef struct wish {
    int64_t which; /* one of the two moments; ENOUGH: the checkpoint needs no more moments */
    int64_t at, count;
} wish;

enum { ENOUGH = -1 };
static const char wishes[] = "the saving of a checkpoint";
static const char moments[] = "moments for a checkpoint";

static int ask(mf_world *w, int owner, wish x, float *to)
{
    const mf_comm_piece question = {owner, &x, sizeof x},
                        answer = {owner, to, x.count * (int64_t)sizeof *to};
    const int rc = mf_world_exchange(w, wishes, 1, &question, 0, NULL);
    return rc == MF_OK ? mf_world_exchange(w, moments, 0, NULL, 1, &answer) : rc;
}

static int read_own(const mf_store *store, int which, int64_t at, int64_t count, float *to)
{
    if (which != MF_TRAINER_VALUES) return mf_store_read_moments(store, which, at, count, to);
    return mf_store_read(store, MF_BLOCK_VALUES, to, (size_t)at * sizeof *to,
                         (size_t)count * sizeof *to);
}

int mf_trainer_read_moments(void *arg, int which, int64_t at, int64_t count, float *to)
{
    const mf_trainer *t = arg;
    const mf_store *store = t->job.model->store;
    const mf_partition *p = &t->partition;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < p->n_slices; i++) {
        const mf_owned *s = &p->slices[i];
        const bool values = which == MF_TRAINER_VALUES;
        const int64_t first = values ? s->first : mf_store_moment_at(store, which, s->first),
                      last = values ? s->end : mf_store_moment_at(store, which, s->end),
                      from = first > at ? first : at,
                      end = last < at + count ? last : at + count;
        if (s->first == s->end || from >= end) continue;
        if (s->owner == 0)
            rc = read_own(store, which, from, end - from, to + (from - at));
        else
            rc = ask(t->world, s->owner, (wish){which, from, end - from}, to + (from - at));
    }
    return rc;
}

bool mf_trainer_shares_moments(const mf_trainer *t)
{
    return t->norm != NULL;
}

int mf_trainer_serve_moments(mf_trainer *t)
{
    const mf_store *store = t->job.model->store;
    float *room = NULL;
    int64_t size = 0;
    int rc = MF_OK;
    while (t->norm && rc == MF_OK) {
        wish x;
        const mf_comm_piece question = {0, &x, sizeof x};
        rc = mf_world_exchange(t->world, wishes, 0, NULL, 1, &question);
        if (rc != MF_OK || x.which == ENOUGH) break;
        if (x.count > size) {
            mf_free(room);
            room = mf_alloc_raw((size_t)x.count * sizeof *room);
            size = room ? x.count : 0;
            if (!room) rc = MF_ENOMEM;
        }
        const mf_comm_piece answer = {0, room, x.count * (int64_t)sizeof *room};
        if (rc == MF_OK) rc = read_own(store, (int)x.which, x.at, x.count, room);
        if (rc == MF_OK) rc = mf_world_exchange(t->world, moments, 1, &answer, 0, NULL);
    }
    mf_free(room);
    return rc;
}

int mf_trainer_end_moments(mf_trainer *t)
{
    wish enough = {.which = ENOUGH};
    int n = 0;
    for (int r = 1; t->norm && r < mf_world_ranks(t->world); r++)
        t->pieces[n++] = (mf_comm_piece){r, &enough, sizeof enough};
    return mf_world_exchange(t->world, wishes, n, t->pieces, 0, NULL);
}

/* ---- what must be the same on all ranks ---- */

typedef struct digest {
    char text[33];
} digest;

/* Returns the values of a parameter that are compared. NULL: none, because the values stay in a
 * file, or because each rank has different values. */
static const float *compared(const mf_param *p)
{
    return (p->stored || p->held) && !p->buffer ? NULL : mf_param_host(p);
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

/* Reports the first difference. If a buffer differs, it reports the buffer, because a
 * difference in a buffer spreads to the parameters. All ranks find the same difference. */
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
    mf_world *w = t->world;
    const mf_store *store = t->job.model->store;
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
    rc = rc == MF_OK || rc == MF_EPLUGIN ? mf_world_agree(w, rc) : rc;
    if (rc != MF_OK || !t->job.source.fill) return rc;
    /* The last micro-batch of the step, because observers may still read its values. */
    const int64_t micro = t->job.train->accumulate,
                  leaf = t->step > 0 ? t->step * micro - 1 : 0;
    mf_shares_measure(t->shares, t->buckets, leaf / micro, NULL);
    mf_shares_use(t->shares, leaf % micro);
    rc = mf_repeat_judge(w, &t->job, t->buckets, leaf);
    mf_shares_rest(t->shares);
    return rc;
}
