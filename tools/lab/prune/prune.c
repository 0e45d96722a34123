/* The order of pruning: scores of one text, then the losses of all sets on another by masks of
 * the whole model, then the smaller model, whose loss must be the one that its mask had. */
#include "lab/prune/prune.h"
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/rng.h"
#include "lab/new_run.h"
#include "lab/probe/probe_parts.h"
#include "lab/prune/prune_parts.h"
#include "pretrained/record.h"
#include "run/evaluate.h"
#include "run/load.h"
#include "run/modules.h"
#include "train/length_buckets.h"

/* A softmax over fewer numbers adds them in another order. Losses of one set, computed in both
 * ways, differ by less; those of another set by far more. */
#define SAME_LOSS    1e-4
#define SAME_CHOICES 0.99 /* rounding decides between experts of nearly equal scores */

typedef struct prune {
    const mf_prune_options *options;
    const char *from; /* the run */
    mf_rundir *dir;
    mf_new_run new;
    mf_session *before, *scored, *after; /* scored: that of the scores; may be `before` */
    mf_split scored_split;
    int64_t step;
    int32_t L, E, gone;          /* layers, experts, and how many of them go */
    mf_prune_sums *sums;         /* [L] */
    double **probed;             /* [L][E] loss changes; NULL: not needed */
    const mf_probe_change *mask; /* that of the set of the new run */
    mf_prune_undo undo;          /* of merged weights in `before` */
    mf_prune_report *report;
    mf_arena *arena;
    const char *what;
} prune;

static int on_run(void *arg, int64_t done, int64_t total)
{
    const prune *p = arg;
    const mf_prune_options *o = p->options;
    return o->each ? o->each(o->arg, p->what, done, total) : 0;
}

static bool wants(const prune *p, mf_prune_by by)
{
    for (int i = 0; i < p->options->n_by; i++)
        if (p->options->by[i] == by) return true;
    return false;
}

static bool merges(const prune *p)
{
    return wants(p, MF_PRUNE_MERGE) || wants(p, MF_PRUNE_AVERAGE);
}

/* ---- opening ---- */

/* Groups are made of neighbours, and would be others after a removal. */
static int judge_groups(const mf_config *c, const char *section)
{
    const mf_ini_entry *e = mf_ini_get(c->ini, section, "groups");
    if (!e || strcmp(e->value, "1") == 0) return MF_OK;
    return mf_fail(
        MF_EUSAGE,
        "%s.groups = %s: a removal would change which experts are in a group; expected "
        "a router without groups",
        section, e->value);
}

static int judge(prune *p)
{
    const mf_config *c = p->before->config;
    const mf_model *m = p->before->model;
    const double share = p->options->share;
    if (m->n_moe == 0) return mf_fail(MF_EUSAGE, "%s: the model has no experts", p->from);
    p->L = m->n_moe;
    p->E = (int32_t)m->moe[0].config.experts;
    p->gone = (int32_t)floor(share * p->E + 0.5);
    for (int32_t i = 1; i < p->L; i++)
        if (m->moe[i].config.experts != p->E)
            return mf_fail(MF_EUSAGE,
                           "%s: layer %d has %d experts and layer %d has %d; expected the same "
                           "number in all layers",
                           p->from, (int)m->moe[0].layer, (int)p->E, (int)m->moe[i].layer,
                           (int)m->moe[i].config.experts);
    if (share > 0 && p->gone == 0)
        return mf_fail(MF_EUSAGE, "--share %g of %d experts is none; expected at least %g",
                       share, (int)p->E, 1.0 / p->E);
    if (c->moe.gate_inputs && (wants(p, MF_PRUNE_NORM) || wants(p, MF_PRUNE_REAP) || merges(p)))
        return mf_fail(
            MF_EUSAGE,
            "moe.gate_inputs = yes: the norm of an expert's output contains its gate; "
            "expected --by count, gates, probe or random");
    int rc = judge_groups(c, "router");
    for (int i = 0; rc == MF_OK && i < c->n_routers; i++)
        rc = judge_groups(c, c->routers[i].section);
    return rc;
}

static int open_before(prune *p)
{
    const mf_prune_options *o = p->options;
    const mf_load_change change = {.step = -1, .n_set = o->n_set, .set = o->set};
    /* weights that stay in files cannot be averaged */
    mf_session_options options = {.bind = merges(p) ? MF_BIND_NONE : MF_BIND_FITTING};
    int64_t step;
    int rc = mf_load_run_as(p->from, &options, &change, &p->before, &p->step);
    if (rc == MF_OK) rc = judge(p);
    if (rc != MF_OK) return rc;
    p->scored = p->before;
    p->scored_split = MF_SPLIT_TRAIN;
    const char *file = p->before->corpus->file[MF_SPLIT_TRAIN];
    p->report->scored_on = o->text ? mf_arena_strdup(p->arena, o->text)
                                   : mf_arena_strf(p->arena, "train of %s",
                                                   file ? file : p->before->config->data.path);
    if (!p->report->scored_on) return MF_ENOMEM;
    if (!o->text) return MF_OK;
    options.data = o->text;
    p->scored_split = MF_SPLIT_VAL;
    return mf_load_run_as(p->from, &options, &change, &p->scored, &step);
}

static double *numbers(prune *p, size_t n)
{
    return mf_arena_alloc(p->arena, (n + 1) * sizeof(double));
}

static int allocate(prune *p)
{
    const mf_model *m = p->before->model;
    const size_t L = (size_t)p->L, E = (size_t)p->E;
    mf_prune_report *r = p->report;
    int32_t *layer = mf_arena_alloc(p->arena, L * sizeof *layer);
    p->sums = mf_arena_alloc(p->arena, L * sizeof *p->sums);
    p->probed = mf_arena_alloc(p->arena, L * sizeof *p->probed);
    r->row = mf_arena_alloc(p->arena, (size_t)p->options->n_by * sizeof *r->row);
    r->random = numbers(p, (size_t)p->options->draws);
    if (!layer || !p->sums || !p->probed || !r->row || !r->random) return MF_ENOMEM;
    for (size_t i = 0; i < L; i++) {
        layer[i] = m->moe[i].layer;
        p->probed[i] = numbers(p, E);
        p->sums[i] = (mf_prune_sums){numbers(p, E), numbers(p, E), numbers(p, E), numbers(p, E),
                                     merges(p) ? numbers(p, E * E) : NULL};
        if (!p->probed[i] || !p->sums[i].n || !p->sums[i].gates || !p->sums[i].norm ||
            !p->sums[i].both || (merges(p) && !p->sums[i].alike))
            return MF_ENOMEM;
    }
    r->layer = layer;
    r->layers = p->L;
    r->experts = p->E;
    r->left = p->E - p->gone;
    r->n = p->options->n_by;
    r->draws = p->options->draws;
    r->written_loss = NAN;
    return MF_OK;
}

/* ---- scores ---- */

/* Adds the likeness of a layer's experts. */
static int add_alike(const mf_model_graph *mg, const float *mask, int32_t l, double *to)
{
    const mf_routing *r = &mg->moe[l].routing;
    const mf_tensor *from = r->logits ? r->logits : r->prob;
    const float *score = from ? mf_tensor_host(from) : NULL;
    if (!from) return MF_OK; /* a router without scores, which the probe refuses */
    if (!score) return MF_ENOMEM;
    mf_prune_alike_add(score, r->tokens, r->experts, mask, !r->logits, to);
    return MF_OK;
}

static int add_sums(prune *p, mf_batcher *batcher, mf_length_buckets *buckets)
{
    const mf_model *m = p->scored->model;
    int64_t *pick, n;
    int rc = mf_probe_pick(p->arena, mf_batcher_count(batcher), p->options->calibrate,
                           p->options->draw, &pick, &n);
    for (int64_t i = 0; rc == MF_OK && i < n; i++) {
        const mf_batch *b;
        mf_model_graph *mg;
        const mf_run run = {.seed = (uint64_t)p->scored->config->train.seed,
                            .step = mf_evaluation_draws((uint64_t)p->step, pick[i]),
                            .forward_only = true};
        rc = mf_length_buckets_take(buckets, mf_batcher_source(batcher), pick[i], &b, &mg);
        if (rc == MF_OK) rc = mf_graph_run(mg->g, &run);
        for (int32_t l = 0; rc == MF_OK && l < m->n_moe; l++)
            rc = mf_prune_sums_add(mg, l, &p->sums[l]);
        for (int32_t l = 0; rc == MF_OK && l < m->n_moe && p->sums[l].alike; l++)
            rc = add_alike(mg, b->mask, l, p->sums[l].alike);
        if (rc == MF_OK && on_run(p, i + 1, n)) rc = mf_fail(MF_ESIGNAL, "pruning was stopped");
    }
    return rc;
}

static int find_sums(prune *p)
{
    const mf_config *c = p->scored->config;
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq,
                                  .masked = true,
                                  .want_outputs = true,
                                  .want_trace = merges(p)};
    mf_batch_spec spec;
    mf_batcher *batcher = NULL;
    mf_length_buckets *buckets = NULL;
    mf_session_eval_spec(p->scored, p->scored_split, &spec);
    p->what = "scores";
    int rc = mf_batcher_new(p->scored->corpus, &spec, &batcher);
    if (rc == MF_OK)
        rc = mf_length_buckets_new(p->scored->model, &shape, !mf_session_by_length(p->scored),
                                   &buckets);
    for (int32_t l = 0; rc == MF_OK && l < p->L; l++)
        if (mf_length_buckets_graph(buckets)->moe[l].routing.dispatch)
            rc = mf_fail(MF_EUSAGE,
                         "layer %d: its router mixes all tokens into each expert; "
                         "expected one that assigns tokens to experts",
                         (int)p->report->layer[l]);
    if (rc == MF_OK) rc = add_sums(p, batcher, buckets);
    mf_length_buckets_free(buckets);
    mf_batcher_free(batcher);
    return rc;
}

/* The loss without each expert, on the text of the scores. */
static int find_probes(prune *p)
{
    mf_probe_list list = {0};
    mf_probe_report *r = NULL;
    const mf_probe_options o = {.split = p->scored_split,
                                .step = p->step,
                                .batches = p->options->calibrate,
                                .draw = p->options->draw,
                                .margin = p->options->margin,
                                .each = on_run,
                                .arg = p};
    p->what = "probes";
    int rc = mf_probe_remove(p->scored->model, p->arena, MF_PROBE_NEXT, "all", &list);
    if (rc == MF_OK) rc = mf_probe_measure(p->scored, &list, &o, &r);
    for (int i = 0; rc == MF_OK && i < r->n; i++)
        p->probed[r->row[i].change->at][r->row[i].change->a] = r->row[i].all.mean;
    mf_probe_report_free(r);
    return rc;
}

/* ---- sets ---- */

/* A random set; `number` says which one. */
static int draw_set(const prune *p, uint64_t number, bool *const *kept)
{
    const uint64_t stream = mf_rng_stream("prune.random");
    int32_t *order = mf_arena_alloc(p->arena, (size_t)p->E * sizeof *order);
    if (!order) return MF_ENOMEM;
    for (int32_t l = 0; l < p->L; l++) {
        mf_rng_permutation(p->options->draw, stream, number * (uint64_t)p->L + (uint64_t)l,
                           order, (size_t)p->E);
        for (int32_t e = 0; e < p->E; e++)
            kept[l][order[e]] = e >= p->gone;
    }
    return MF_OK;
}

static int score_set(const prune *p, mf_prune_by by, bool *const *kept)
{
    double *score = mf_arena_alloc(p->arena, (size_t)p->E * sizeof *score);
    if (!score) return MF_ENOMEM;
    for (int32_t l = 0; l < p->L; l++) {
        for (int32_t e = 0; e < p->E; e++)
            score[e] =
                by == MF_PRUNE_PROBE ? p->probed[l][e] : mf_prune_score(by, &p->sums[l], e);
        mf_prune_keep(score, p->E, p->gone, kept[l]);
    }
    return MF_OK;
}

/* Makes the change that takes a set away in all layers. number: of a random set, or -1. */
static int make_set(prune *p, mf_prune_by by, int number, mf_probe_list *to, bool ***ret)
{
    const size_t L = (size_t)p->L, E = (size_t)p->E;
    mf_probe_change *c = mf_arena_alloc(p->arena, L * sizeof *c);
    bool **kept = mf_arena_alloc(p->arena, L * sizeof *kept);
    if (!c || !kept) return MF_ENOMEM;
    for (size_t l = 0; l < L; l++)
        if (!(kept[l] = mf_arena_alloc(p->arena, E))) return MF_ENOMEM;
    const int rc = number >= 0 ? draw_set(p, (uint64_t)number, kept) : score_set(p, by, kept);
    for (size_t l = 0; rc == MF_OK && l < L; l++) {
        c[l] = (mf_probe_change){.kind = MF_PROBE_NEXT,
                                 .at = (int32_t)l,
                                 .a = -1,
                                 .b = -1,
                                 .set = mf_arena_alloc(p->arena, E),
                                 .name = mf_prune_scores[by],
                                 .also = l + 1 < L ? &c[l + 1] : NULL};
        if (!c[l].set) return MF_ENOMEM;
        for (size_t e = 0; e < E; e++)
            c[l].set[e] = !kept[l][e];
    }
    if (to->n == 0) p->mask = &c[0];
    to->change[to->n++] = c[0];
    *ret = kept;
    return rc;
}

static int make_sets(prune *p, mf_probe_list *to)
{
    const mf_prune_options *o = p->options;
    bool **kept;
    int rc = MF_OK;
    to->room = o->n_by + o->draws;
    to->change = mf_arena_alloc(p->arena, ((size_t)to->room + 1) * sizeof *to->change);
    if (!to->change) return MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < o->n_by; i++) {
        const bool random = o->by[i] == MF_PRUNE_RANDOM;
        rc = make_set(p, o->by[i], random ? o->draws : -1, to, &kept);
        if (rc == MF_OK) p->report->row[i] = (mf_prune_row){.by = o->by[i], .kept = kept};
    }
    for (int i = 0; rc == MF_OK && i < o->draws; i++)
        rc = make_set(p, MF_PRUNE_RANDOM, i, to, &kept);
    return rc;
}

/* ---- losses ---- */

static mf_probe_options losses_of(prune *p)
{
    p->what = "losses";
    return (mf_probe_options){.split = MF_SPLIT_VAL,
                              .step = p->step,
                              .batches = p->options->batches,
                              .draw = p->options->draw,
                              .margin = p->options->margin,
                              .each = on_run,
                              .arg = p};
}

/* Moves the hidden units of all layers by one place, on or back. */
static int turn(const prune *p, bool back)
{
    int64_t hidden;
    int rc = MF_OK;
    for (int32_t l = 0; rc == MF_OK && l < p->L; l++) {
        rc = mf_prune_hidden(p->before->model, l, &hidden);
        if (rc == MF_OK) rc = mf_prune_turn(p->before->model, l, back ? hidden - 1 : 1);
    }
    return rc;
}

/* Fails unless the order of hidden units is of no consequence, as merging takes for granted. */
static int check_units(prune *p, double loss)
{
    const mf_probe_list none = {0};
    mf_probe_report *r = NULL;
    const mf_probe_options o = losses_of(p);
    int rc = turn(p, false);
    if (rc == MF_OK) rc = mf_probe_measure(p->before, &none, &o, &r);
    if (rc == MF_OK) rc = turn(p, true);
    if (rc == MF_OK && !(fabs(r->base.mean - loss) <= SAME_LOSS * fmax(1, loss)))
        rc = mf_fail(MF_EUSAGE,
                     "expert %s: the loss with its hidden units in another order: expected "
                     "%.6g, that of the model, found %.6g: expected experts whose w1 or w13 "
                     "[E,h,d] and w2 [E,d,h] lead to and from h hidden units, so it cannot "
                     "be merged",
                     mf_instance_plugin(p->before->model->moe[0].expert)->name, loss,
                     r->base.mean);
    mf_probe_report_free(r);
    return rc;
}

/* Merges the groups of a row, in the whole model. */
static int merge(prune *p, mf_prune_row *row)
{
    const mf_model *m = p->before->model;
    int32_t **into = mf_arena_alloc(p->arena, (size_t)p->L * sizeof *into);
    int rc = into ? MF_OK : MF_ENOMEM;
    p->what = "merging";
    for (int32_t l = 0; rc == MF_OK && l < p->L; l++) {
        into[l] = mf_arena_alloc(p->arena, (size_t)p->E * sizeof *into[l]);
        if (!into[l]) return MF_ENOMEM;
        mf_prune_group(p->sums[l].alike, p->E, row->kept[l], into[l]);
        rc = mf_prune_merge(m, l, into[l], p->sums[l].n, row->by == MF_PRUNE_MERGE, &p->undo);
        if (rc == MF_OK && on_run(p, l + 1, p->L))
            rc = mf_fail(MF_ESIGNAL, "pruning was stopped");
    }
    row->into = into;
    return rc;
}

/* Measures a row whose experts are merged. whole: the losses before, whose row `i` is the
 * removal of the same experts alone. The weights stay merged if they are to be written. */
static int measure_merged(prune *p, mf_prune_row *row, const mf_probe_report *whole, int i)
{
    mf_probe_change mask = *whole->row[i].change;
    const mf_probe_list one = {.change = &mask, .n = 1, .room = 1};
    mf_probe_report *r = NULL;
    const int64_t n = whole->clusters;
    double *change = numbers(p, (size_t)n), *gain = numbers(p, (size_t)n);
    int rc = change && gain ? merge(p, row) : MF_ENOMEM;
    const mf_probe_options o = losses_of(p);
    if (rc == MF_OK) rc = mf_probe_measure(p->before, &one, &o, &r);
    for (int64_t c = 0; rc == MF_OK && c < n; c++) {
        change[c] = r->base_sum[c] + r->row[0].sum[c] - whole->base_sum[c];
        gain[c] = change[c] - whole->row[i].sum[c];
    }
    if (rc == MF_OK) {
        row->change = mf_cluster_mean_of(change, whole->base_tokens, n);
        row->gain = mf_cluster_mean_of(gain, whole->base_tokens, n);
        mf_probe_report_free(r);
    }
    if (rc != MF_OK || !p->options->write) mf_prune_undo_all(p->before->model, &p->undo);
    return rc;
}

static int find_losses(prune *p)
{
    mf_prune_report *out = p->report;
    mf_probe_list list = {0};
    mf_probe_report *r = NULL;
    const mf_probe_options o = losses_of(p);
    double *less = numbers(p, (size_t)out->draws);
    int rc = less ? make_sets(p, &list) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_probe_measure(p->before, &list, &o, &r);
    if (rc == MF_OK && merges(p)) rc = check_units(p, r->base.mean);
    for (int i = 0; rc == MF_OK && i < out->n; i++) {
        mf_prune_row *row = &out->row[i];
        row->change = r->row[i].all;
        if (row->by == MF_PRUNE_MERGE || row->by == MF_PRUNE_AVERAGE)
            rc = measure_merged(p, row, r, i);
    }
    if (rc != MF_OK) {
        mf_probe_report_free(r);
        return rc;
    }
    out->unit = r->unit;
    out->loss_of = r->loss_of;
    out->base = r->base;
    out->text = mf_arena_strdup(p->arena, r->text);
    for (int d = 0; d < out->draws; d++)
        out->random[d] = r->row[out->n + d].all.mean;
    for (int i = 0; i < out->n; i++) {
        mf_prune_row *row = &out->row[i];
        row->loss = out->base.mean + row->change.mean;
        for (int d = 0; d < out->draws; d++) {
            less[d] = row->change.mean - out->random[d];
            row->better += less[d] < 0;
        }
        row->less_random = mf_estimate_of(less, out->draws);
    }
    mf_probe_report_free(r);
    return out->text ? MF_OK : MF_ENOMEM;
}

/* ---- the smaller model ---- */

static int open_after(prune *p)
{
    const mf_prune_options *o = p->options;
    /* with moments, which a checkpoint has */
    const mf_session_options options = {
        .training = true, .no_controllers = true, .bind = MF_BIND_NONE};
    mf_assignment *set = mf_arena_alloc(p->arena, ((size_t)o->n_set + 1) * sizeof *set);
    const char *text = mf_arena_strf(p->arena, "moe.experts=%d", (int)p->report->left);
    if (!set || !text) return MF_ENOMEM;
    for (int i = 0; i < o->n_set; i++)
        set[i] = o->set[i];
    set[o->n_set] = (mf_assignment){text, "--share"};
    const mf_load_change change = {
        .step = -1, .no_weights = true, .n_set = o->n_set + 1, .set = set};
    int64_t step;
    int rc = mf_load_run_as(p->from, &options, &change, &p->after, &step);
    if (rc != MF_OK) return rc;
    for (int32_t i = 0; i < p->L; i++)
        if (p->after->model->moe[i].config.experts != p->report->left)
            return mf_fail(MF_EUSAGE,
                           "%s: a section [block.NAME] sets the experts of layer %d; expected "
                           "moe.experts for all layers",
                           p->from, (int)p->report->layer[i]);
    mf_model_count(p->before->model, &p->report->params_before, &step);
    mf_model_count(p->after->model, &p->report->params_after, &step);
    return MF_OK;
}

static int other_model(const prune *p, const char *what, double found, double wanted)
{
    const mf_moe_layer *l = &p->before->model->moe[0];
    return mf_fail(
        MF_ECONFIG,
        "%s of the smaller model: expected %.6g, that of the model without these "
        "experts, found %.6g: router %s or expert %s keeps something else of an expert "
        "than its rows, so the run cannot be pruned",
        what, wanted, found, mf_instance_plugin(l->router)->name,
        mf_instance_plugin(l->expert)->name);
}

/* Fails unless the smaller model has the choices and the loss of the masked one. */
static int check_smaller(prune *p)
{
    const mf_probe_list none = {0};
    mf_probe_report *r = NULL;
    const mf_probe_options o = losses_of(p);
    const mf_prune_row *row = &p->report->row[0];
    double same;
    int rc = mf_prune_same_choices(p->before, p->after, p->step, p->mask, row->kept, &same);
    if (rc == MF_OK && same < SAME_CHOICES)
        rc = other_model(p, "the share of equal choices", same, 1);
    if (rc == MF_OK) rc = mf_probe_measure(p->after, &none, &o, &r);
    if (rc != MF_OK) return rc;
    const double found = p->report->written_loss = r->base.mean;
    mf_probe_report_free(r);
    return fabs(found - row->loss) <= SAME_LOSS * fmax(1, row->loss)
               ? MF_OK
               : other_model(p, "the loss", found, row->loss);
}

static int write_smaller(prune *p)
{
    int rc = open_after(p);
    if (rc == MF_OK)
        rc = mf_prune_copy(p->before->model, p->after->model, p->report->row[0].kept);
    if (rc == MF_OK) rc = check_smaller(p);
    if (rc == MF_OK) rc = mf_new_run_write(&p->new, p->after);
    if (rc == MF_OK) rc = mf_record_copy_generation(p->from, p->new.dir->path);
    if (rc == MF_OK && !(p->report->run = mf_arena_strdup(p->arena, p->new.dir->path)))
        rc = MF_ENOMEM;
    return rc;
}

static int open_dir(prune *p)
{
    const char *path = p->dir->path, *slash = strrchr(path, '/');
    return mf_new_run_open(p->options->run,
                           mf_arena_strf(p->arena, "%s-pruned", slash ? slash + 1 : path),
                           &p->new);
}

int mf_prune(const char *run, const mf_prune_options *o, mf_prune_report **ret)
{
    prune p = {.options = o, .from = run, .arena = mf_arena_new()};
    bool sums = false;
    p.report = p.arena ? mf_arena_alloc(p.arena, sizeof *p.report) : NULL;
    if (!p.report) {
        mf_arena_free(p.arena);
        return MF_ENOMEM;
    }
    p.report->arena = p.arena;
    for (int i = 0; i < o->n_by; i++)
        sums = sums || (o->by[i] != MF_PRUNE_PROBE && o->by[i] != MF_PRUNE_RANDOM);
    int rc = mf_rundir_read(run, &p.dir);
    if (rc == MF_OK && o->write) rc = open_dir(&p);
    if (rc == MF_OK) rc = open_before(&p);
    if (rc == MF_OK) rc = allocate(&p);
    if (rc == MF_OK && sums) rc = find_sums(&p);
    if (rc == MF_OK && wants(&p, MF_PRUNE_PROBE)) rc = find_probes(&p);
    if (rc == MF_OK) rc = find_losses(&p);
    if (rc == MF_OK && o->write) rc = write_smaller(&p);
    if (rc != MF_OK) mf_new_run_undo(&p.new);
    if (p.before) mf_prune_undo_all(p.before->model, &p.undo);
    if (p.scored != p.before) mf_session_close(p.scored);
    mf_session_close(p.before);
    mf_session_close(p.after);
    mf_rundir_close(p.new.dir);
    mf_rundir_close(p.dir);
    if (rc != MF_OK) {
        mf_prune_report_free(p.report);
        return rc;
    }
    *ret = p.report;
    return MF_OK;
}

void mf_prune_report_free(mf_prune_report *r)
{
    if (r) mf_arena_free(r->arena);
}
