/* train/trainer_step.c: one optimizer step: the micro-batches, their numbers, the update.
 *
 * A process runs its share of the micro-batches. Gradients are summed in a tree, and numbers in
 * the order of the micro-batches, so neither depends on which process ran which micro-batch. */
#include <math.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "graph/device/device.h"
#include "graph/device/recorder.h"
#include "train/schedule.h"
#include "train/trainer_internal.h"

#define MAX_SKIPPED 3

/* Numbers of a micro-batch that precede the numbers of regularizers and observers. */
enum { LOSS, TASK_LOSS, TOKENS, FIRST };

static double *numbers_of(mf_trainer *t, int64_t j)
{
    int64_t place = j;
    if (t->stride > 1) /* the numbers of a rank are stored together */
        place = mf_tree_share(t->job.train->accumulate, (int)(j % t->stride), (int)t->stride)
                    .first +
                j / t->stride;
    return t->numbers + place * t->n_numbers;
}

/* Copies micro-batch j of the present step into the graph of its length. */
static int feed(mf_trainer *t, const mf_batch *const *own, int64_t j)
{
    const int64_t micro = t->job.train->accumulate;
    mf_step_result *r = &t->now;
    if (own) return mf_length_buckets_feed(t->buckets, own[j], &r->batch, &r->graph);
    return mf_length_buckets_take(t->buckets, t->job.source, t->step * micro + j, &r->batch,
                                  &r->graph);
}

static mf_optim_step optimizer_step(const mf_trainer *t)
{
    const mf_train_config *c = t->job.train;
    return (mf_optim_step){.step = t->step,
                           .lr = mf_schedule_lr(c, t->lr, t->step, t->job.steps),
                           .weight_decay = t->weight_decay,
                           .clip = t->clip,
                           .grad_scale = 1.0 / (double)c->accumulate};
}

/* Saves two copies between host and device: the graph of the last micro-batch sends the numbers
 * of the optimizer step with its inputs, and returns the sum of squares with its results. */
static void exchange(mf_trainer *t)
{
    const mf_graph *g = t->now.graph->g;
    const mf_optim_step s = optimizer_step(t);
    mf_optim_now(t->optim, &s, mf_graph_sent(g));
    mf_optim_exchange(t->optim, mf_graph_sent_at(g), mf_graph_returned_at(g));
}

/* Adds the loss of micro-batch j on the device. If the loss of any micro-batch is not finite,
 * the sum is not finite either, and the kernel skips the optimizer step. */
static void sum_losses(mf_trainer *t, int64_t j)
{
    mf_device *d = mf_store_device(t->job.model->store);
    const mf_kernels *k = mf_device_kernels(d, NULL);
    const mf_kctx x = mf_device_context(d);
    const float *loss = mf_tensor_data(t->now.graph->loss);
    if (j == t->share.first)
        MF_RUN(k, &x, copy4, .dim = {1, 1, 1, 1}, .stride_in = {[3] = 1},
               .stride_out = {[3] = 1}, .in = loss, .out = t->loss_sum);
    else
        MF_RUN(k, &x, map2, .fn = MF_MAP_ADD, .type = MF_CAST_F32, .dim = {1, 1, 1, 1},
               .stride_a = {[3] = 1}, .stride_b = {[3] = 1}, .a = t->loss_sum, .b = loss,
               .out = t->loss_sum);
}

/* Whether the optimizer's launches follow those of micro-batch j in one capture. This is so if
 * it is the last micro-batch, and no other process has gradients. */
static bool joins_update(const mf_trainer *t, int64_t j)
{
    return j == t->job.train->accumulate - 1 && t->share.first == 0;
}

/* Returns the key that distinguishes the launches of micro-batch j: its graph, the nodes that
 * run, its position in the step, and the ranges of the optimizer. */
static mf_capture capture_of(const mf_trainer *t, const mf_model_graph *graph, int64_t j)
{
    return (mf_capture){{(int64_t)(uintptr_t)graph, t->now.wanted != 0, j,
                         (int64_t)mf_optim_refreshes(t->optim)}};
}

/* g: the graph of the last micro-batch; NULL: the step has failed earlier. */
static void begin_exchange(mf_trainer *t, const mf_graph *g)
{
    t->exchanging = true;
    mf_gradient_exchange_begin(t->exchange, g);
}

/* Returns the leaf of the tree of expert gradients to which micro-batch j
 * belongs (mf_turns). */
static int64_t expert_leaf(const mf_trainer *t, int64_t j)
{
    return j / t->job.model->expert_ranks.ranks;
}

/* Queues micro-batch j. Its results are read by collect, at the end of the step. */
static int run_batch(mf_trainer *t, const mf_batch *const *own, int64_t j)
{
    const int64_t micro = t->job.train->accumulate;
    /* Gradients are sent while the last backward pass of this process runs. */
    const bool sends = t->exchange && j == t->share.end - 1 && !t->runs_on;
    mf_step_result *r = &t->now;
    mf_capture capture;
    const mf_run run = {.seed = (uint64_t)t->job.train->seed,
                        .step = (uint64_t)t->step * (uint64_t)micro + (uint64_t)j,
                        .metrics = r->wanted != 0,
                        .queued = true,
                        .recorder = t->recorder,
                        .capture = &capture,
                        .after_node = sends ? mf_gradient_exchange_after : NULL,
                        .after_arg = t->exchange};
    int rc = feed(t, own, j);
    if (rc != MF_OK) return rc;
    t->graphs[j] = r->graph;
    capture = capture_of(t, r->graph, j);
    if (j == t->share.end - 1) exchange(t);
    if (sends) begin_exchange(t, r->graph->g);
    mf_shares_use(t->shares, j);
    rc = mf_graph_run(r->graph->g, &run);
    mf_shares_rest(t->shares);
    if (rc != MF_OK) return rc;
    if (!sends) mf_gradient_sum_add(t->sum, j, mf_recorder_replays(t->recorder));
    if (t->expert_sum) mf_gradient_sum_add(t->expert_sum, expert_leaf(t, j), false);
    if (!mf_recorder_replays(t->recorder)) sum_losses(t, j);
    numbers_of(t, j)[TOKENS] = (double)r->batch->n_tokens;
    if (!joins_update(t, j)) rc = mf_recorder_end(t->recorder);
    if (rc != MF_OK) return rc;
    return j < t->share.end - 1 || t->runs_on ? mf_graph_fetch(r->graph->g, (int)j) : MF_OK;
}

/* Runs the graph for tokens of other ranks, which have one more micro-batch, because this rank
 * has some of their experts. Meanwhile its own gradients are sent. The results for its own
 * batch are ignored. */
static int run_for_others(mf_trainer *t)
{
    bool *silent = &t->job.model->expert_ranks.silent;
    const mf_run run = {.seed = (uint64_t)t->job.train->seed,
                        .metrics = t->now.wanted != 0,
                        .queued = true,
                        .after_node = mf_gradient_exchange_after,
                        .after_arg = t->exchange};
    *silent = true;
    begin_exchange(t, t->now.graph->g);
    const int rc = mf_graph_run(t->now.graph->g, &run);
    *silent = false;
    const int64_t next = t->share.end - 1 + t->stride;
    if (rc == MF_OK) mf_gradient_sum_add(t->expert_sum, expert_leaf(t, next), false);
    return rc;
}

/* Warns once, after the first micro-batches, if steps take minutes. */
static void foretell(mf_trainer *t, double began, int64_t done)
{
    const int64_t micro = (t->share.end - t->share.first + t->stride - 1) / t->stride;
    const double now = mf_clock() - began, step = now / (double)done * (double)micro;
    if (t->foretold || (done < 8 && now < 1)) return;
    t->foretold = true;
    if (step > 60)
        mf_log(MF_LOG_WARN,
               "a step will take about %.0f s: %lld runs of %.4f s (train.accumulate)", step,
               (long long)micro, now / (double)done);
}

/* ---- what is measured of the micro-batches ---- */

/* Allocates memory for the numbers of all micro-batches of this step. */
static int room_for_numbers(mf_trainer *t)
{
    t->n_numbers = FIRST + t->now.n_regularizers;
    for (int i = 0; i < t->n_observers; i++)
        if (t->observers[i].ops->numbers)
            t->n_numbers += t->observers[i].ops->numbers(t->observers[i].self, t, &t->now);
    const int64_t n = t->n_numbers * t->job.train->accumulate;
    if (n <= t->numbers_room) return MF_OK;
    mf_free(t->numbers);
    t->numbers = mf_alloc((size_t)n, sizeof *t->numbers);
    t->numbers_room = t->numbers ? n : 0;
    return t->numbers ? MF_OK : MF_ENOMEM;
}

/* Calls the observers with the numbers of micro-batch j, to write or to read them. */
static int tell_numbers(mf_trainer *t, int64_t j, bool read)
{
    double *at = numbers_of(t, j) + FIRST + t->now.n_regularizers;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < t->n_observers; i++) {
        const mf_observer *o = t->observers[i].ops;
        void *self = t->observers[i].self;
        if (!o->numbers) continue;
        rc = read ? o->fold(self, t, &t->now, at) : o->measure(self, t, &t->now, at);
        at += o->numbers(self, t, &t->now);
    }
    return rc;
}

/* Calls after_batch of the observers for micro-batch j, while its graph still has
 * the values. */
static int tell_batch(mf_trainer *t, int64_t j)
{
    int rc = MF_OK;
    MF_TELL(t, rc, after_batch, t, &t->now);
    return rc == MF_OK ? tell_numbers(t, j, false) : rc;
}

/* Runs forward and backward passes of this process' micro-batches. For the last one, collect
 * calls the observers: it waits for the micro-batch and for the optimizer step. With several
 * ranks the observers are called before the ranks exchange results. */
int mf_trainer_gradients(mf_trainer *t, const mf_batch *const *own)
{
    const double began = mf_clock();
    int rc = room_for_numbers(t);
    mf_shares_measure(t->shares, t->buckets, t->step, own);
    mf_gradient_sum_begin(t->sum);
    if (t->expert_sum) mf_gradient_sum_begin(t->expert_sum);
    for (int64_t j = t->share.first; rc == MF_OK && j < t->share.end; j += t->stride) {
        rc = run_batch(t, own, j);
        if (rc == MF_OK) foretell(t, began, (j - t->share.first) / t->stride + 1);
        if (rc == MF_OK && (j + 1 < t->share.end || t->runs_on)) rc = tell_batch(t, j);
    }
    return rc == MF_OK && t->runs_on ? run_for_others(t) : rc;
}

static double scalar(const mf_tensor *x, int64_t slot)
{
    const float *v = x ? mf_tensor_collected(x, (int)slot) : NULL;
    return v ? (double)*v : 0;
}

/* Waits for this process' micro-batches, and reads their losses and tallies. */
static int collect(mf_trainer *t)
{
    mf_step_result *r = &t->now;
    int rc = t->runs_on ? MF_OK : mf_graph_fetch(r->graph->g, (int)t->share.end - 1);
    mf_tally_sum_begin(t->tallies);
    for (int64_t j = t->share.first; rc == MF_OK && j < t->share.end; j += t->stride) {
        const mf_model_graph *mg = t->graphs[j];
        double *out = numbers_of(t, j);
        rc = mf_graph_collect(mg->g, (int)j);
        if (rc != MF_OK) return rc;
        out[LOSS] = scalar(mg->loss, j);
        out[TASK_LOSS] = scalar(mg->task_loss, j);
        for (int i = 0; i < r->n_regularizers; i++)
            out[FIRST + i] = scalar(mg->regularizers[i], j);
        mf_tally_sum_add(t->tallies, mg->g, j);
    }
    return rc == MF_OK && !t->runs_on ? tell_batch(t, t->share.end - 1) : rc;
}

/* Adds what was measured of all micro-batches, in their order. */
static int fold(mf_trainer *t)
{
    const int64_t micro = t->job.train->accumulate;
    mf_step_result *r = &t->now;
    int rc = MF_OK;
    for (int64_t j = 0; rc == MF_OK && j < micro; j++) {
        const double *in = numbers_of(t, j);
        r->loss += in[LOSS] / (double)micro;
        r->task_loss += in[TASK_LOSS] / (double)micro;
        r->tokens += (int64_t)in[TOKENS];
        t->tokens += (int64_t)in[TOKENS];
        for (int i = 0; i < r->n_regularizers; i++)
            r->regularizers[i].value +=
                in[FIRST + i] * mf_shares_of_tokens(t->shares, j) / (double)micro;
        rc = tell_numbers(t, j, true);
    }
    mf_tally_sum_fold(t->tallies);
    return rc;
}

/* ---- the optimizer step ---- */

/* Repeats the micro-batches of this process with a check of every value. */
static int repeat_checked(mf_trainer *t, const mf_batch *const *own)
{
    const mf_train_config *c = t->job.train;
    for (int64_t j = t->share.first; j < t->share.end; j++) {
        const mf_run run = {.seed = (uint64_t)c->seed,
                            .step = (uint64_t)t->step * (uint64_t)c->accumulate + (uint64_t)j,
                            .check_finite = true};
        int rc = feed(t, own, j);
        mf_shares_use(t->shares, j);
        if (rc == MF_OK) rc = mf_graph_run(t->now.graph->g, &run);
        mf_shares_rest(t->shares);
        if (rc != MF_OK) return mf_fail_context(rc, "step %lld", (long long)t->step + 1);
    }
    return MF_OK;
}

/* Names the first op of the step whose result is not finite, on the first rank that has such
 * an op. */
static int trace_nonfinite(mf_trainer *t, const mf_batch *const *own)
{
    /* A rank that found the op in the middle of a graph would leave the other ranks waiting
     * for rows. */
    int rc = t->expert_sum ? MF_OK : repeat_checked(t, own);
    rc = mf_world_agree(t->world, rc);
    if (rc == MF_OK)
        rc = mf_world_agree(
            t->world,
            mf_fail(MF_ENONFINITE,
                    "step %lld: loss %g, gradient norm %g: %s; a smaller train.lr or "
                    "train.clip may help",
                    (long long)t->step + 1, t->now.loss, t->now.grad_norm,
                    t->expert_sum ? "one of them is not finite"
                                  : "every value is finite, but the sum of squares of the "
                                    "gradient is not"));
    return rc;
}

/* With several ranks: the ranks exchange their status and sum their gradients. The sum of all
 * losses is then written where the optimizer checks whether the loss is finite. */
static int join_ranks(mf_trainer *t, int rc)
{
    const int64_t micro = t->job.train->accumulate;
    float sum = 0;
    /* If ranks share the experts, other ranks wait within a graph for this rank, so all ranks
     * must end. */
    if (rc != MF_OK && t->expert_sum) return rc;
    if (rc == MF_OK) rc = collect(t);
    /* Ranks that have not failed wait for gradients, whatever the values are. */
    if (!t->exchanging) begin_exchange(t, NULL);
    t->exchanging = false;
    mf_gradient_exchange_rest(t->exchange);
    if (t->expert_exchange) {
        mf_gradient_exchange_begin(t->expert_exchange, NULL);
        mf_gradient_exchange_rest(t->expert_exchange);
    }
    rc = mf_trainer_meet(t, rc);
    if (rc == MF_OK) {
        rc = mf_gradient_exchange_finish(t->exchange);
        if (rc == MF_OK && t->expert_exchange)
            rc = mf_gradient_exchange_finish(t->expert_exchange);
        if (rc != MF_OK) return mf_fail_context(rc, "step %lld", (long long)t->step + 1);
    }
    for (int64_t j = 0; rc == MF_OK && j < micro; j++)
        sum += (float)numbers_of(t, j)[LOSS];
    if (rc == MF_OK)
        rc = mf_device_write_now(mf_store_device(t->job.model->store), t->loss_sum, &sum,
                                 sizeof sum);
    return rc;
}

/* The batch that observers see is the last batch of the step, whichever rank ran it. It runs
 * again only if heads that can be switched off are measured. */
static int show_last_batch(mf_trainer *t, const mf_batch *const *own)
{
    const int64_t micro = t->job.train->accumulate;
    mf_model_graph *graph;
    if (!t->exchange || own || !t->job.model->head_switches || t->share.end == micro)
        return MF_OK;
    return mf_length_buckets_take(t->buckets, t->job.source, t->step * micro + micro - 1,
                                  &t->now.batch, &graph);
}

/* Reads the sum of squares that the optimizer has computed after the last micro-batch of
 * this process. */
static int read_norm(mf_trainer *t, const mf_optim_step *s)
{
    const int slot = (int)t->share.end - 1;
    int rc = t->exchange ? mf_graph_fetch(t->now.graph->g, slot) : MF_OK;
    if (rc == MF_OK && t->exchange) rc = mf_graph_collect(t->now.graph->g, slot);
    if (rc != MF_OK) return rc;
    const double *sumsq = mf_graph_returned(t->now.graph->g, slot);
    t->now.grad_norm = mf_optim_norm(*sumsq, s);
    return MF_OK;
}

/* Queues the optimizer step. */
static int queue_update(mf_trainer *t, const mf_optim_step *s)
{
    int rc = MF_OK;
    if (mf_recorder_replays(t->recorder))
        mf_store_changed(t->job.model->store);
    else if (t->exchange)
        rc = mf_trainer_update_shared(t, s);
    else {
        rc = mf_optim_measure(t->optim);
        if (rc == MF_OK) rc = mf_optim_update(t->optim, s);
    }
    return rc == MF_OK ? mf_recorder_end(t->recorder) : rc;
}

/* Checks the tallies, because plugins read only finite sums. All ranks have the same sums. */
static int judge_tallies(mf_trainer *t)
{
    const int rc = mf_tallies_judge(t->job.model->plugins);
    if (rc == MF_OK) return rc;
    return mf_world_agree(t->world, mf_fail_context(rc, "step %lld", (long long)t->step + 1));
}

/* Takes the optimizer step. If loss or norm is not finite, the kernel skips the step. This is
 * an error unless train.nan_policy allows it, at most MAX_SKIPPED times in a row. Any other
 * error during the search for the value, such as an error of memory or of the device, always
 * ends the run. */
int mf_trainer_update(mf_trainer *t, const mf_batch *const *own, int rc)
{
    const mf_train_config *c = t->job.train;
    mf_optim_step s = optimizer_step(t);
    s.loss = t->loss_sum;
    t->now.lr = s.lr;
    if (t->exchange && t->numbers) rc = join_ranks(t, rc);
    if (rc == MF_OK) rc = queue_update(t, &s);
    if (rc == MF_OK && !t->exchange) rc = collect(t);
    if (rc == MF_OK) rc = read_norm(t, &s);
    if (rc == MF_OK) rc = fold(t);
    if (rc == MF_OK) rc = show_last_batch(t, own);
    if (rc != MF_OK) return rc;
    if (isfinite(t->now.loss) && isfinite(t->now.grad_norm)) {
        t->skipped = 0;
        return judge_tallies(t);
    }
    t->now.skipped = true;
    mf_tallies_clear(t->job.model->plugins);
    rc = trace_nonfinite(t, own);
    if (rc != MF_ENONFINITE || c->nan_policy == 0 || ++t->skipped > MAX_SKIPPED) return rc;
    mf_log(MF_LOG_WARN, "%s; optimizer step skipped (%d in a row)", mf_error_message(),
           (int)t->skipped);
    mf_error_clear();
    mf_world_forget(t->world);
    return MF_OK;
}
