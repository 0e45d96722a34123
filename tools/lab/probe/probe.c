/* The order of a probe: number the clusters of the batches; then for each batch one run without
 * a change, and one for each change, whose losses are compared token by token. Only inputs of
 * the graph differ between these runs, except for another k, which is another graph. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/rng.h"
#include "lab/probe/probe_parts.h"
#include "run/evaluate.h"
#include "train/length_buckets.h"

#define LEVEL 0.05
/* Routers with groups lower the scores of closed groups by 10,000; such scores are not counted
 * in the deviation of the scores. */
#define CLOSED (-1000.0F)

const char *const mf_probe_verdicts[] = {"not shown", "matters", "redundant", "hurts"};

typedef struct probe {
    mf_session *session;
    const mf_probe_options *options;
    const mf_probe_list *list;
    mf_probe_report *report;
    mf_batcher *batcher;
    mf_length_buckets *buckets;
    mf_length_buckets **other; /* [n] those of changes of k, else NULL */
    int64_t *pick;             /* [report->batches] numbers of batches, rising */
    int64_t positions;         /* positions that have a loss, in a full batch */
    int32_t *cluster, *label;  /* [positions] of the present batch; -1: no loss */
    mf_probe_texts texts;
    int64_t clusters;
    int32_t labels;      /* columns of labels; column 0 is all tokens */
    double *sum;         /* [n][1 + labels][clusters] of changes */
    double *base_sum;    /* [clusters] of losses */
    double *tokens;      /* [1 + labels][clusters] */
    float *loss;         /* [positions] without a change */
    mf_probe_base *base; /* [MoE layers] */
    double **used;       /* [MoE layers][E] assignments without a change */
    double real;         /* tokens without padding */
    int64_t done, total; /* runs forward */
} probe;

static bool by_row(const probe *p)
{
    return mf_task_by_row(p->session->config->model.task);
}

/* ---- batches ---- */

static int rising(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int mf_probe_pick(mf_arena *arena, int64_t of, int64_t wanted, uint64_t draw, int64_t **ret,
                  int64_t *ret_n)
{
    const uint64_t stream = mf_rng_stream("probe.batches");
    const int64_t n = wanted > 0 && wanted < of ? wanted : of;
    int64_t *pick = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *pick);
    if (!pick) return MF_ENOMEM;
    for (int64_t i = 0; i < n; i++)
        pick[i] =
            n == of ? i : (int64_t)mf_rng_shuffled(draw, stream, 0, (uint64_t)of, (uint64_t)i);
    qsort(pick, (size_t)n, sizeof *pick, rising);
    *ret = pick;
    *ret_n = n;
    return MF_OK;
}

/* Sets cluster and label of the positions of a batch that have a loss. */
static void take_positions(probe *p, int64_t number, const mf_batch *b)
{
    const int64_t n = by_row(p) ? b->rows : (int64_t)b->rows * b->seq;
    const int32_t *target = by_row(p) ? b->classes : b->targets;
    mf_probe_texts_take(&p->texts, number, b, p->cluster);
    for (int64_t i = 0; i < p->positions; i++) {
        const bool counts = i < n && target[i] >= 0 && (by_row(p) || b->mask[i] != 0);
        const int32_t label = !counts ? -1 : by_row(p) ? b->classes[i] : b->labels[i];
        if (!counts) p->cluster[i] = -1;
        p->label[i] = p->labels > 0 && label < p->labels ? label : -1;
    }
}

static void count(probe *p, double *to, const float *value, const float *less)
{
    for (int64_t i = 0; i < p->positions; i++) {
        const int64_t c = p->cluster[i];
        if (c < 0) continue;
        const double v = value ? (double)value[i] - (less ? (double)less[i] : 0) : 1;
        to[c] += v;
        if (p->label[i] >= 0 && (!value || less)) to[(1 + p->label[i]) * p->clusters + c] += v;
    }
}

/* Begins to number clusters from the first batch. */
static void restart(probe *p, bool windows)
{
    mf_batch_spec spec;
    mf_session_eval_spec(p->session, p->options->split, &spec);
    p->texts = (mf_probe_texts){.batcher = p->batcher,
                                .end = spec.document_end,
                                .by_row = by_row(p),
                                .windows = windows || spec.document_end < 0,
                                .document = -1,
                                .batch = -2};
}

/* Goes through the batches without running them, to count clusters. A stream in which no
 * document ends has windows in place of documents. */
static int number_clusters(probe *p)
{
    mf_batch *b;
    const mf_config *c = p->session->config;
    int rc = mf_batch_new((int32_t)c->train.batch, (int32_t)c->model.seq, &b);
    if (rc != MF_OK) return rc;
    int64_t gaps = 0;
    for (int64_t i = 0; i < p->report->batches; i++) {
        gaps += i == 0 || p->pick[i] != p->pick[i - 1] + 1;
        mf_batcher_fill(p->batcher, p->pick[i], b);
        mf_probe_texts_take(&p->texts, p->pick[i], b, p->cluster);
    }
    const bool stream = mf_batcher_document(p->batcher, 0, 0) == MF_BATCH_STREAM;
    if (stream && !p->texts.windows && p->texts.n == gaps) {
        restart(p, true);
        for (int64_t i = 0; i < p->report->batches; i++) {
            mf_batcher_fill(p->batcher, p->pick[i], b);
            mf_probe_texts_take(&p->texts, p->pick[i], b, p->cluster);
        }
    }
    mf_batch_free(b);
    p->clusters = p->texts.n;
    p->report->unit = stream && p->texts.windows ? "windows"
                      : by_row(p)                ? "examples"
                                                 : "documents";
    restart(p, p->texts.windows);
    return MF_OK;
}

/* ---- opening ---- */

static int judge_model(const probe *p)
{
    const mf_model *m = p->session->model;
    if (m->n_moe == 0) return mf_fail(MF_EUSAGE, "this model has no experts to probe");
    if (m->config->model.task == MF_TASK_REGRESS)
        return mf_fail(
            MF_EUSAGE,
            "model.task = regress: a probe compares losses in nats; expected a model "
            "of task lm, mlm or classify");
    if (p->options->by_label && p->labels < 1)
        return mf_fail(
            MF_EUSAGE,
            "--by label: expected data with labels of tokens, such as builtin:topics, "
            "or a classifier; these data have none");
    return MF_OK;
}

static int allocate(probe *p)
{
    mf_probe_report *r = p->report;
    const mf_model *m = p->session->model;
    const size_t C = (size_t)p->clusters, L = 1 + (size_t)p->labels, n = (size_t)p->list->n;
    p->sum = mf_alloc(n * L * C + 1, sizeof *p->sum);
    p->base_sum = mf_alloc(C + 1, sizeof *p->base_sum);
    p->tokens = mf_alloc(L * C + 1, sizeof *p->tokens);
    p->loss = mf_alloc((size_t)p->positions, sizeof *p->loss);
    p->other = mf_alloc(n + 1, sizeof(mf_length_buckets *));
    p->base = mf_arena_alloc(r->arena, (size_t)m->n_moe * sizeof *p->base);
    p->used = mf_arena_alloc(r->arena, (size_t)m->n_moe * sizeof *p->used);
    r->sd = mf_arena_alloc(r->arena, (size_t)m->n_moe * sizeof *r->sd);
    r->row = mf_arena_alloc(r->arena, (n + 1) * sizeof *r->row);
    if (!p->sum || !p->base_sum || !p->tokens || !p->loss || !p->other || !p->base ||
        !p->used || !r->sd || !r->row)
        return MF_ENOMEM;
    for (int32_t i = 0; i < m->n_moe; i++) {
        r->sd[i] = NAN;
        p->used[i] =
            mf_arena_alloc(r->arena, (size_t)m->moe[i].config.experts * sizeof **p->used);
        if (!p->used[i]) return MF_ENOMEM;
    }
    return MF_OK;
}

/* With a change of k, graphs are built while the layer's k points to the changed one. */
static const double *set_k(probe *p, const mf_probe_change *c, const double *k)
{
    mf_moe_layer *l = &p->session->model->moe[c->at];
    const double *was = l->top_k;
    l->top_k = k;
    return was;
}

static int open_buckets(const probe *p, mf_length_buckets **ret)
{
    const mf_config *c = p->session->config;
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq,
                                  .masked = true,
                                  .probe = true};
    return mf_length_buckets_new(p->session->model, &shape, !mf_session_by_length(p->session),
                                 ret);
}

/* The longest graph has the most assignments. */
static int new_choices(probe *p)
{
    const mf_model_graph *mg = mf_length_buckets_graph(p->buckets);
    for (int32_t i = 0; i < p->session->model->n_moe; i++) {
        const size_t n = (size_t)mg->moe[i].routing.rows + 1;
        p->base[i].chosen = mf_arena_alloc(p->report->arena, n * sizeof(int32_t));
        if (!p->base[i].chosen) return MF_ENOMEM;
    }
    return MF_OK;
}

static int open_graphs(probe *p)
{
    int rc = open_buckets(p, &p->buckets);
    if (rc == MF_OK) rc = new_choices(p);
    for (int i = 0; rc == MF_OK && i < p->list->n; i++) {
        const mf_probe_change *c = &p->list->change[i];
        const mf_model_graph *mg = mf_length_buckets_graph(p->buckets);
        const double k = c->a;
        rc = mf_probe_judge(p->session->model, mg, c);
        if (rc != MF_OK || c->kind != MF_PROBE_TOP_K) continue;
        const double *was = set_k(p, c, &k);
        rc = open_buckets(p, &p->other[i]);
        set_k(p, c, was);
    }
    return rc;
}

static int open(probe *p)
{
    const mf_config *c = p->session->config;
    mf_batch_spec spec;
    const int64_t N = (int64_t)c->train.batch * c->model.seq;
    p->labels = !p->options->by_label ? 0
                : by_row(p)           ? p->session->corpus->n_classes
                                      : p->session->corpus->n_labels;
    p->report->labels = p->labels;
    p->report->loss_of = by_row(p) ? "example" : "token";
    const char *file = p->session->corpus->file[p->options->split];
    p->report->text = mf_arena_strdup(p->report->arena, file ? file : c->data.path);
    if (!p->report->text) return MF_ENOMEM;
    p->positions = by_row(p) ? c->train.batch : N;
    mf_session_eval_spec(p->session, p->options->split, &spec);
    int rc = judge_model(p);
    if (rc == MF_OK) rc = mf_batcher_new(p->session->corpus, &spec, &p->batcher);
    if (rc == MF_OK)
        rc =
            mf_probe_pick(p->report->arena, p->report->of = mf_batcher_count(p->batcher),
                          p->options->batches, p->options->draw, &p->pick, &p->report->batches);
    p->cluster = mf_alloc((size_t)N, sizeof *p->cluster);
    p->label = mf_alloc((size_t)N, sizeof *p->label);
    if (rc == MF_OK && (!p->cluster || !p->label)) rc = MF_ENOMEM;
    if (rc == MF_OK) restart(p, false);
    if (rc == MF_OK) rc = number_clusters(p);
    if (rc == MF_OK) rc = allocate(p);
    return rc == MF_OK ? open_graphs(p) : rc;
}

/* ---- running ---- */

static int forward(probe *p, mf_model_graph *mg, int64_t number, const float **ret_loss)
{
    const mf_run run = {.seed = (uint64_t)p->session->config->train.seed,
                        .step = mf_evaluation_draws((uint64_t)p->options->step, number),
                        .forward_only = true};
    const int rc = mf_graph_run(mg->g, &run);
    if (rc != MF_OK) return rc;
    *ret_loss = mf_tensor_host(mg->row_loss);
    if (!*ret_loss) return MF_ENOMEM;
    p->done++;
    if (p->options->each && p->options->each(p->options->arg, p->done, p->total))
        return mf_fail(MF_ESIGNAL, "the probe was stopped");
    return MF_OK;
}

static int take(const probe *p, mf_length_buckets *from, int64_t number, const mf_batch **b,
                mf_model_graph **mg)
{
    const int rc = mf_length_buckets_take(from, mf_batcher_source(p->batcher), number, b, mg);
    return rc == MF_OK ? mf_probe_clear(p->session->model, *mg) : rc;
}

/* Keeps what was chosen without a change, for shares and ranks. */
static int keep_choices(probe *p, const mf_model_graph *mg)
{
    for (int32_t i = 0; i < p->session->model->n_moe; i++) {
        const mf_routing *r = &mg->moe[i].routing;
        const size_t n = (size_t)r->rows;
        const int32_t *chosen = r->chosen ? mf_tensor_host(r->chosen) : NULL;
        mf_probe_base *b = &p->base[i];
        if (r->dispatch) continue; /* slots, not choices */
        if (!chosen) return MF_ENOMEM;
        memcpy(b->chosen, chosen, n * sizeof *chosen);
        for (size_t j = 0; j < n; j++)
            if (chosen[j] >= 0 && chosen[j] < r->experts) p->used[i][chosen[j]]++;
    }
    return MF_OK;
}

static int run_change(probe *p, int i, int64_t number, mf_model_graph *mg)
{
    const mf_probe_change *c = &p->list->change[i];
    const mf_model *m = p->session->model;
    const float *loss;
    const double k = c->a;
    const mf_batch *b;
    int rc = MF_OK;
    if (p->other[i]) {
        const double *was = set_k(p, c, &k);
        rc = take(p, p->other[i], number, &b, &mg);
        set_k(p, c, was);
    }
    if (rc == MF_OK) rc = mf_probe_apply(m, mg, c, p->base);
    if (rc == MF_OK) rc = forward(p, mg, number, &loss);
    if (rc == MF_OK)
        count(p, p->sum + (int64_t)i * (1 + p->labels) * p->clusters, loss, p->loss);
    const int cleared = mf_probe_clear_of(m, mg, c);
    return rc == MF_OK ? cleared : rc;
}

static int run_batch(probe *p, int64_t number)
{
    const mf_batch *b;
    mf_model_graph *mg;
    const float *loss;
    int rc = take(p, p->buckets, number, &b, &mg);
    if (rc != MF_OK) return rc;
    take_positions(p, number, b);
    const int64_t n = by_row(p) ? b->rows : (int64_t)b->rows * b->seq;
    if (b->n_targets == 0) return MF_OK;
    p->real += (double)b->n_tokens;
    rc = forward(p, mg, number, &loss);
    if (rc != MF_OK) return rc;
    memcpy(p->loss, loss, (size_t)n * sizeof *loss);
    count(p, p->tokens, NULL, NULL);
    count(p, p->base_sum, p->loss, NULL);
    rc = keep_choices(p, mg);
    for (int i = 0; rc == MF_OK && i < p->list->n; i++)
        rc = run_change(p, i, number, mg);
    return rc;
}

/* ---- the deviation of scores ---- */

static bool needs_deviation(const mf_probe_list *l)
{
    for (int i = 0; i < l->n; i++)
        for (const mf_probe_change *c = &l->change[i]; c; c = c->also)
            if (c->kind == MF_PROBE_BIAS) return true;
    return false;
}

/* Runs all batches once, and sets the standard deviation of each layer's scores over tokens
 * and experts. */
static int find_deviations(probe *p)
{
    const mf_model *m = p->session->model;
    double *x = mf_arena_alloc(p->report->arena, 3 * (size_t)m->n_moe * sizeof *x);
    int rc = x ? MF_OK : MF_ENOMEM;
    for (int64_t i = 0; rc == MF_OK && i < p->report->batches; i++) {
        const mf_batch *b;
        mf_model_graph *mg;
        const float *loss;
        rc = take(p, p->buckets, p->pick[i], &b, &mg);
        if (rc != MF_OK || b->n_targets == 0) continue;
        rc = forward(p, mg, p->pick[i], &loss);
        for (int32_t l = 0; rc == MF_OK && l < m->n_moe; l++) {
            const int64_t E = m->moe[l].config.experts;
            const float *score = mg->moe[l].score ? mf_tensor_host(mg->moe[l].score) : NULL;
            for (int64_t j = 0; score && j < (int64_t)b->rows * b->seq * E; j++) {
                if (b->mask[j / E] == 0 || !(score[j] > CLOSED)) continue;
                x[3 * l]++;
                x[3 * l + 1] += (double)score[j];
                x[3 * l + 2] += (double)score[j] * (double)score[j];
            }
        }
    }
    for (int32_t l = 0; rc == MF_OK && l < m->n_moe; l++) {
        const double n = x[3 * l], mean = x[3 * l + 1] / n;
        if (n > 0) p->report->sd[l] = sqrt(fmax(x[3 * l + 2] / n - mean * mean, 0));
        p->base[l].sd = n > 0 ? p->report->sd[l] : 0;
    }
    return rc;
}

/* ---- the result ---- */

static mf_probe_verdict verdict_of(const mf_three_sided *t, double p)
{
    if (!(p < LEVEL)) return MF_PROBE_UNSHOWN;
    if (t->equal <= t->above && t->equal <= t->below) return MF_PROBE_REDUNDANT;
    return t->above <= t->below ? MF_PROBE_MATTERS : MF_PROBE_HURTS;
}

/* The share of tokens that use one of the experts; an upper bound if a token uses two. */
static double share_of(const probe *p, const mf_probe_change *c)
{
    double n = 0;
    if (c->kind == MF_PROBE_RANK || c->kind == MF_PROBE_TOP_K || c->kind == MF_PROBE_FORCE)
        return NAN;
    for (int64_t e = 0; e < p->session->model->moe[c->at].config.experts; e++)
        if (c->set[e]) n += p->used[c->at][e];
    return p->real > 0 ? fmin(n / p->real, 1) : NAN;
}

/* Judges n means: writes verdicts and, unless ret_p is NULL, corrected p. */
static int judge_means(const probe *p, const mf_cluster_mean *const *mean, int n,
                       mf_probe_verdict *const *verdict, double *const *ret_p)
{
    double *raw = mf_alloc((size_t)n + 1, sizeof *raw),
           *holm = mf_alloc((size_t)n + 1, sizeof *holm);
    mf_three_sided *sides = mf_alloc((size_t)n + 1, sizeof *sides);
    const bool made = raw && holm && sides;
    for (int i = 0; made && i < n; i++) {
        sides[i] = mf_cluster_sides(mean[i], p->options->margin);
        raw[i] = mean[i]->clusters < MF_VERDICT_SEEDS ? NAN : mf_three_sided_p(&sides[i]);
    }
    if (made) mf_holm(raw, n, holm);
    for (int i = 0; made && i < n; i++) {
        *verdict[i] = verdict_of(&sides[i], holm[i]);
        if (ret_p) *ret_p[i] = holm[i];
    }
    mf_free(raw);
    mf_free(holm);
    mf_free(sides);
    return made ? MF_OK : MF_ENOMEM;
}

/* Judges the rows, and then the labels of all rows. */
static int judge_rows(const probe *p)
{
    mf_probe_report *r = p->report;
    const size_t n = (size_t)r->n, most = n * (1 + (size_t)p->labels) + 1;
    const mf_cluster_mean **mean = mf_arena_alloc(r->arena, most * sizeof *mean);
    mf_probe_verdict **verdict = mf_arena_alloc(r->arena, most * sizeof *verdict);
    double **of = mf_arena_alloc(r->arena, most * sizeof *of);
    int cells = 0;
    if (!mean || !verdict || !of) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        mean[i] = &r->row[i].all;
        verdict[i] = &r->row[i].verdict;
        of[i] = &r->row[i].p;
    }
    const int rc = judge_means(p, mean, r->n, verdict, of);
    for (size_t i = 0; i < n; i++)
        for (int32_t l = 0; l < p->labels; l++) {
            mean[cells] = &r->row[i].label[l];
            verdict[cells++] = &r->row[i].label_verdict[l];
        }
    return rc == MF_OK ? judge_means(p, mean, cells, verdict, NULL) : rc;
}

static double *kept_sums(const probe *p, const double *sum)
{
    const size_t bytes = (size_t)p->clusters * sizeof *sum;
    double *to = mf_arena_alloc(p->report->arena, bytes + 1);
    return to && bytes > 0 ? memcpy(to, sum, bytes) : to;
}

static int finish(probe *p)
{
    mf_probe_report *r = p->report;
    const int64_t C = p->clusters, width = (1 + p->labels) * C;
    const size_t L = (size_t)p->labels;
    r->label_tokens = mf_arena_alloc(r->arena, (L + 1) * sizeof(double));
    if (!r->label_tokens) return MF_ENOMEM;
    r->n = p->list->n;
    r->base = mf_cluster_mean_of(p->base_sum, p->tokens, C);
    r->clusters = C;
    r->base_sum = kept_sums(p, p->base_sum);
    r->base_tokens = kept_sums(p, p->tokens);
    if (!r->base_sum || !r->base_tokens) return MF_ENOMEM;
    for (int32_t l = 0; l < p->labels; l++)
        for (int64_t c = 0; c < C; c++)
            r->label_tokens[l] += p->tokens[(1 + l) * C + c];
    for (int i = 0; i < r->n; i++) {
        mf_probe_row *row = &r->row[i];
        row->change = &p->list->change[i];
        row->share = share_of(p, row->change);
        row->all = mf_cluster_mean_of(p->sum + i * width, p->tokens, C);
        row->sum = kept_sums(p, p->sum + i * width);
        if (!row->sum) return MF_ENOMEM;
        if (L == 0) continue;
        row->label = mf_arena_alloc(r->arena, L * sizeof *row->label);
        row->label_verdict = mf_arena_alloc(r->arena, L * sizeof *row->label_verdict);
        if (!row->label || !row->label_verdict) return MF_ENOMEM;
        for (int32_t l = 0; l < p->labels; l++)
            row->label[l] = mf_cluster_mean_of(p->sum + i * width + (1 + l) * C,
                                               p->tokens + (1 + l) * C, C);
    }
    return judge_rows(p);
}

int mf_probe_measure(mf_session *s, const mf_probe_list *changes, const mf_probe_options *o,
                     mf_probe_report **ret)
{
    mf_arena *arena = mf_arena_new();
    mf_probe_report *r = arena ? mf_arena_alloc(arena, sizeof *r) : NULL;
    if (!r) {
        mf_arena_free(arena);
        return MF_ENOMEM;
    }
    *r = (mf_probe_report){.arena = arena};
    probe p = {.session = s, .options = o, .list = changes, .report = r};
    int rc = open(&p);
    const bool deviations = needs_deviation(changes);
    p.total = r->batches * (changes->n + 1 + deviations);
    if (rc == MF_OK && deviations) rc = find_deviations(&p);
    for (int64_t i = 0; rc == MF_OK && i < r->batches; i++)
        rc = run_batch(&p, p.pick[i]);
    if (rc == MF_OK) rc = finish(&p);
    for (int i = 0; p.other && i < changes->n; i++)
        mf_length_buckets_free(p.other[i]);
    mf_length_buckets_free(p.buckets);
    mf_batcher_free(p.batcher);
    mf_free(p.other);
    mf_free(p.cluster);
    mf_free(p.label);
    mf_free(p.sum);
    mf_free(p.base_sum);
    mf_free(p.tokens);
    mf_free(p.loss);
    if (rc != MF_OK) {
        mf_arena_free(arena);
        return rc;
    }
    *ret = r;
    return MF_OK;
}

void mf_probe_report_free(mf_probe_report *r)
{
    if (r) mf_arena_free(r->arena);
}
