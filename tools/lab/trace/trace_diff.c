/* Compares the choices of two traces token by token. A difference counts as real only if no
 * earlier layer can have caused it and the scores were not tied. */
#include "lab/trace/trace.h"
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"

const char *mf_trace_why_name(mf_trace_why why)
{
    static const char *const names[] = {"tie", "after", "real"};
    return names[why];
}

/* ---- checks that traces can be compared ---- */

static int differ(const mf_trace *a, const mf_trace *b, const char *what, long long of_a,
                  long long of_b)
{
    return mf_fail(MF_EINPUT, "%s and %s cannot be compared: %s: %lld and %lld",
                   mf_st_path(a->file), mf_st_path(b->file), what, of_a, of_b);
}

static int other_token(const mf_trace *a, const mf_trace *b, const char *what, int64_t t,
                       int32_t of_a, int32_t of_b)
{
    return mf_fail(MF_EINPUT,
                   "%s and %s cannot be compared: other tokens: %s of token %lld (batch "
                   "%lld, row %lld, position %lld) is %d and %d",
                   mf_st_path(a->file), mf_st_path(b->file), what, (long long)t,
                   (long long)(t / a->seq / a->rows), (long long)(t / a->seq % a->rows),
                   (long long)(t % a->seq), (int)of_a, (int)of_b);
}

static int comparable(const mf_trace *a, const mf_trace *b)
{
    if (a->batches != b->batches)
        return differ(a, b, "numbers of batches", a->batches, b->batches);
    if (a->rows != b->rows) return differ(a, b, "sequences a batch", a->rows, b->rows);
    if (a->seq != b->seq) return differ(a, b, "tokens a sequence", a->seq, b->seq);
    if (a->n_layers != b->n_layers)
        return differ(a, b, "numbers of MoE layers", a->n_layers, b->n_layers);
    for (int i = 0; i < a->n_layers; i++) {
        if (a->layers[i].layer != b->layers[i].layer)
            return differ(a, b, "MoE layers", a->layers[i].layer, b->layers[i].layer);
        if (a->layers[i].experts != b->layers[i].experts)
            return differ(a, b, "numbers of experts", a->layers[i].experts,
                          b->layers[i].experts);
    }
    for (int64_t t = 0; t < a->tokens; t++)
        if (a->token[t] != b->token[t])
            return other_token(a, b, "the id", t, a->token[t], b->token[t]);
    return MF_OK;
}

/* ---- one layer of one trace ---- */

/* Chosen experts by token. The experts of token t are expert[at[t]] .. expert[at[t+1] - 1], in
 * increasing order. */
typedef struct {
    int32_t *at, *expert;
    float *gate;   /* same index as expert */
    float *prob;   /* [T,E] or NULL */
    float *score;  /* [T,E] scores that determined the choice; NULL: unknown */
    float *margin; /* [T] or NULL */
    float *own_score;
    /* if experts choose tokens, by batch and expert. taken: the lowest score of a chosen token;
     * left: the highest score of a token that was not chosen */
    float *taken, *left;
} side;

static void side_free(side *s)
{
    mf_free(s->at);
    mf_free(s->expert);
    mf_free(s->gate);
    mf_free(s->prob);
    mf_free(s->own_score);
    mf_free(s->margin);
    mf_free(s->taken);
    mf_free(s->left);
    *s = (side){0};
}

/* Inserts an expert in increasing order. k is small, so a linear search is enough. */
static void insert(side *s, int32_t begin, int32_t n, int32_t expert, float gate)
{
    int32_t i = begin + n;
    for (; i > begin && s->expert[i - 1] > expert; i--) {
        s->expert[i] = s->expert[i - 1];
        s->gate[i] = s->gate[i - 1];
    }
    s->expert[i] = expert;
    s->gate[i] = gate;
}

static int64_t token_of(const mf_trace_layer *l, const int32_t *token, int64_t row)
{
    return token ? token[row] : row / l->top_k;
}

static int sort_rows(const mf_trace *t, const mf_trace_layer *l, const int32_t *chosen,
                     const float *gate, const int32_t *token, side *s)
{
    const int64_t T = t->tokens;
    s->at = mf_alloc((size_t)T + 2, sizeof *s->at);
    s->expert = mf_alloc((size_t)l->rows + 1, sizeof *s->expert);
    s->gate = mf_alloc((size_t)l->rows + 1, sizeof *s->gate);
    int32_t *filled = mf_alloc((size_t)T + 1, sizeof *filled);
    int rc = s->at && s->expert && s->gate && filled ? MF_OK : MF_ENOMEM;
    for (int64_t r = 0; rc == MF_OK && r < l->rows; r++) {
        const int64_t at = token_of(l, token, r);
        if (chosen[r] < -1 || chosen[r] >= l->experts || at < -1 || at >= T)
            rc = mf_fail(MF_EINPUT,
                         "%s: layer %d, row %lld: expert %d of token %lld; expected less "
                         "than %d experts and %lld tokens",
                         mf_st_path(t->file), (int)l->layer, (long long)r, (int)chosen[r],
                         (long long)at, (int)l->experts, (long long)T);
        else if (chosen[r] >= 0 && at >= 0)
            s->at[at + 1]++;
    }
    for (int64_t i = 0; rc == MF_OK && i < T; i++)
        s->at[i + 1] += s->at[i];
    for (int64_t r = 0; rc == MF_OK && r < l->rows; r++) {
        const int64_t at = token_of(l, token, r);
        if (chosen[r] >= 0 && at >= 0)
            insert(s, s->at[at], filled[at]++, chosen[r], gate ? gate[r] : (float)NAN);
    }
    mf_free(filled);
    return rc;
}

typedef struct {
    const int32_t *expert;
    int32_t n;
} set;

static set set_of(const side *s, int64_t t)
{
    return (set){s->expert + s->at[t], s->at[t + 1] - s->at[t]};
}

static bool holds(set x, int32_t expert)
{
    for (int32_t i = 0; i < x.n; i++)
        if (x.expert[i] == expert) return true;
    return false;
}

/* Finds, for each expert and batch, the lowest score of a token that the expert chose and the
 * highest score of a token that it did not choose. */
static int find_bounds(const mf_trace *t, const mf_trace_layer *l, side *s)
{
    const int64_t E = l->experts, batch = (int64_t)t->rows * t->seq;
    const size_t n = (size_t)(t->batches * E);
    s->taken = mf_alloc(n + 1, sizeof *s->taken);
    s->left = mf_alloc(n + 1, sizeof *s->left);
    if (!s->taken || !s->left) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        s->taken[i] = INFINITY;
        s->left[i] = -INFINITY;
    }
    for (int64_t i = 0; i < t->tokens; i++) {
        const set own = set_of(s, i);
        float *taken = s->taken + i / batch * E, *left = s->left + i / batch * E;
        for (int32_t e = 0; t->token[i] >= 0 && e < E; e++) {
            const float score = s->score[i * E + e];
            if (!holds(own, e))
                left[e] = fmaxf(left[e], score);
            else
                taken[e] = fminf(taken[e], score);
        }
    }
    return MF_OK;
}

static int side_read(const mf_trace *t, const mf_trace_layer *l, side *s)
{
    void *chosen = NULL, *gate = NULL, *token = NULL, *prob = NULL, *score = NULL,
         *margin = NULL;
    *s = (side){0};
    int rc = mf_trace_read(t, l->chosen, &chosen);
    if (rc == MF_OK) rc = mf_trace_read(t, l->gate, &gate);
    if (rc == MF_OK) rc = mf_trace_read(t, l->token, &token);
    if (rc == MF_OK) rc = sort_rows(t, l, chosen, gate, token, s);
    if (rc == MF_OK) rc = mf_trace_read(t, l->prob, &prob);
    if (rc == MF_OK) rc = mf_trace_read(t, l->score, &score);
    if (rc == MF_OK) rc = mf_trace_read(t, l->margin, &margin);
    s->prob = prob;
    s->own_score = score;
    s->score = score ? score : prob;
    s->margin = margin;
    if (rc == MF_OK && l->token && s->score) rc = find_bounds(t, l, s);
    mf_free(chosen);
    mf_free(gate);
    mf_free(token);
    if (rc != MF_OK) side_free(s);
    return rc;
}

/* ---- a token ---- */

static int32_t common(set x, set y)
{
    int32_t n = 0;
    for (int32_t i = 0; i < x.n; i++)
        n += holds(y, x.expert[i]);
    return n;
}

static double margin_of(const side *s, int64_t t)
{
    return s->margin ? (double)s->margin[t] : (double)NAN;
}

/* For experts that choose tokens: the largest change of this token's score that would lead to
 * the other choice. An expert that only the own choice contains must drop the token, so the
 * score falls to the highest score that the expert dropped. An expert that only the other
 * choice contains must choose the token, so the score rises to the lowest score that the
 * expert chose. */
static double gap_of_list(const float *score, const float *taken, const float *left, set own,
                          set other)
{
    double gap = 0;
    for (int32_t i = 0; i < own.n; i++) {
        const int32_t e = own.expert[i];
        if (!holds(other, e)) gap = fmax(gap, (double)score[e] - (double)left[e]);
    }
    for (int32_t i = 0; i < other.n; i++) {
        const int32_t e = other.expert[i];
        if (!holds(own, e)) gap = fmax(gap, (double)taken[e] - (double)score[e]);
    }
    return gap;
}

/* The difference of scores that separates a trace's own choice from the other trace's choice;
 * NaN if the scores do not determine it. */
static double gap_of(const mf_trace *trace, const side *s, int64_t t, int32_t experts, set own,
                     set other)
{
    double best = -INFINITY, least = INFINITY;
    const int64_t of_batch = t / ((int64_t)trace->rows * trace->seq) * experts;
    if (!s->margin)
        return s->taken ? gap_of_list(s->score + t * experts, s->taken + of_batch,
                                      s->left + of_batch, own, other)
                        : (double)NAN; /* the choice does not follow from the recorded scores */
    if (own.n != other.n || !s->score) return margin_of(s, t);
    const float *score = s->score + t * experts;
    for (int32_t i = 0; i < own.n; i++)
        if (!holds(other, own.expert[i])) best = fmax(best, (double)score[own.expert[i]]);
    for (int32_t i = 0; i < other.n; i++)
        if (!holds(own, other.expert[i])) least = fmin(least, (double)score[other.expert[i]]);
    const double gap = best - least;
    return gap >= 0 ? gap : (double)NAN; /* negative: the choice did not follow the scores */
}

/* ---- a layer ---- */

/* The largest |difference|; infinite if only one of two numbers is NaN. */
static double largest(const float *x, const float *y, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)x[i] - (double)y[i]);
        if (isnan(d))
            most = isnan(x[i]) && isnan(y[i]) ? most : INFINITY;
        else if (d > most)
            most = d;
    }
    return most;
}

typedef struct {
    const mf_trace *a, *b;
    mf_trace_diff *out;
    int32_t *parted; /* [sequences] first position at which an earlier layer differs */
    int32_t *fresh;  /* the same, including the present layer */
} comparison;

static int add_parting(mf_trace_diff *d, const mf_trace_parting *p, set a, set b)
{
    if (d->n_partings == d->cap_partings) {
        const int64_t cap = d->cap_partings ? 2 * d->cap_partings : 64;
        mf_trace_parting *more = mf_realloc(d->partings, (size_t)d->n_partings * sizeof *more,
                                            (size_t)cap * sizeof *more);
        if (!more) return MF_ENOMEM;
        d->partings = more;
        d->cap_partings = cap;
    }
    mf_trace_parting *q = &d->partings[d->n_partings];
    *q = *p;
    q->n_a = a.n;
    q->n_b = b.n;
    q->a = mf_arena_alloc(d->arena, ((size_t)a.n + 1) * sizeof *q->a);
    q->b = mf_arena_alloc(d->arena, ((size_t)b.n + 1) * sizeof *q->b);
    if (!q->a || !q->b) return MF_ENOMEM;
    memcpy(q->a, a.expert, (size_t)a.n * sizeof *q->a);
    memcpy(q->b, b.expert, (size_t)b.n * sizeof *q->b);
    d->n_partings++;
    return MF_OK;
}

static int judge_parting(comparison *c, int at, const side *x, const side *y, int64_t t,
                         bool touched, mf_trace_layer_diff *l)
{
    const set a = set_of(x, t), b = set_of(y, t);
    const int32_t experts = c->a->layers[at].experts;
    const double of_a = gap_of(c->a, x, t, experts, a, b);
    const double of_b = gap_of(c->a, y, t, experts, b, a);
    mf_trace_parting p = {.layer = l->layer,
                          .token = t,
                          .margin_a = margin_of(x, t),
                          .margin_b = margin_of(y, t)};
    if (a.n == b.n || x->taken || y->taken)
        p.gap = isnan(of_a) || isnan(of_b) ? (double)NAN : fmax(of_a, of_b);
    /* The numbers of experts differ. The difference is a tie if a margin is small and the
     * scores agree. */
    else if (x->score && y->score)
        p.gap = fmax(fmin(of_a, of_b),
                     largest(x->score + t * experts, y->score + t * experts, experts));
    else
        p.gap = (double)NAN;
    p.why = touched ? MF_TRACE_AFTER : p.gap < c->out->tolerance ? MF_TRACE_TIE : MF_TRACE_REAL;
    l->differ++;
    l->ties += p.why == MF_TRACE_TIE;
    l->after += p.why == MF_TRACE_AFTER;
    l->real += p.why == MF_TRACE_REAL;
    return touched ? MF_OK : add_parting(c->out, &p, a, b);
}

static int compare_layer(comparison *c, int at)
{
    const mf_trace *a = c->a;
    const mf_trace_layer *la = &a->layers[at];
    mf_trace_layer_diff *l = &c->out->layers[at];
    const int64_t T = a->tokens, E = la->experts, sequences = T / a->seq;
    side x, y = {0};
    int rc = side_read(a, la, &x);
    if (rc == MF_OK) rc = side_read(c->b, &c->b->layers[at], &y);
    *l = (mf_trace_layer_diff){.layer = la->layer};
    if (rc == MF_OK) memcpy(c->fresh, c->parted, (size_t)sequences * sizeof *c->fresh);
    const bool probs = x.prob && y.prob;
    if (!probs) l->prob = l->prob_all = (double)NAN;
    for (int64_t t = 0; rc == MF_OK && t < T; t++) {
        if (a->token[t] < 0) continue;
        const int64_t s = t / a->seq;
        const int32_t position = (int32_t)(t % a->seq);
        const bool touched = position >= c->parted[s];
        const set m = set_of(&x, t), n = set_of(&y, t);
        const int32_t both = common(m, n), any = m.n + n.n - both;
        l->tokens++;
        l->overlap += any > 0 ? (double)both / any : 1;
        if (probs) {
            const double d = largest(x.prob + t * E, y.prob + t * E, E);
            l->prob_all = fmax(l->prob_all, d);
            if (!touched) l->prob = fmax(l->prob, d);
        }
        if (both == any) {
            if (!touched)
                l->gate = fmax(l->gate, largest(x.gate + x.at[t], y.gate + y.at[t], m.n));
            continue;
        }
        if (position < c->fresh[s]) c->fresh[s] = position;
        rc = judge_parting(c, at, &x, &y, t, touched, l);
    }
    l->overlap = l->tokens > 0 ? l->overlap / (double)l->tokens : 1;
    side_free(&x);
    side_free(&y);
    return rc;
}

/* Records the differences of this layer, because they may affect later layers. If the trace was
 * replayed with given choices, they cannot, and nothing is recorded. */
static void advance(comparison *c)
{
    const mf_trace *a = c->a;
    if (*mf_trace_text(a, "forced") || *mf_trace_text(c->b, "forced")) return;
    const int64_t sequences = a->tokens / a->seq;
    const bool wide = a->wide || c->b->wide;
    for (int64_t s = 0; s < sequences; s++)
        c->parted[s] = c->fresh[s];
    for (int64_t b = 0; wide && b < a->batches; b++) {
        bool any = false;
        for (int64_t s = b * a->rows; s < (b + 1) * a->rows; s++)
            any = any || c->parted[s] != INT32_MAX;
        for (int64_t s = b * a->rows; any && s < (b + 1) * a->rows; s++)
            c->parted[s] = 0;
    }
}

/* Layers were compared over the whole trace, but they were computed batch by batch. A counting
 * sort by batch keeps the order of layers and tokens. */
static int order(mf_trace_diff *d, const mf_trace *a)
{
    const int64_t per_batch = (int64_t)a->rows * a->seq;
    int64_t *at = mf_alloc((size_t)a->batches + 2, sizeof *at);
    mf_trace_parting *sorted = mf_alloc((size_t)d->n_partings + 1, sizeof *sorted);
    if (!at || !sorted) {
        mf_free(at);
        mf_free(sorted);
        return MF_ENOMEM;
    }
    for (int64_t i = 0; i < d->n_partings; i++)
        at[d->partings[i].token / per_batch + 1]++;
    for (int64_t b = 0; b < a->batches; b++)
        at[b + 1] += at[b];
    for (int64_t i = 0; i < d->n_partings; i++)
        sorted[at[d->partings[i].token / per_batch]++] = d->partings[i];
    mf_free(at);
    mf_free(d->partings);
    d->partings = sorted;
    return MF_OK;
}

int mf_trace_compare(const mf_trace *a, const mf_trace *b, double tolerance,
                     mf_trace_diff **ret)
{
    int rc = comparable(a, b);
    if (rc != MF_OK) return rc;
    const int64_t sequences = a->tokens / a->seq;
    mf_trace_diff *d = mf_alloc(1, sizeof *d);
    if (!d) return MF_ENOMEM;
    comparison c = {.a = a, .b = b, .out = d};
    d->tolerance = tolerance;
    d->n_layers = a->n_layers;
    d->layers = mf_alloc((size_t)a->n_layers + 1, sizeof *d->layers);
    d->arena = mf_arena_new();
    c.parted = mf_alloc((size_t)sequences + 1, sizeof *c.parted);
    c.fresh = mf_alloc((size_t)sequences + 1, sizeof *c.fresh);
    if (!d->layers || !d->arena || !c.parted || !c.fresh) rc = MF_ENOMEM;
    for (int64_t s = 0; rc == MF_OK && s < sequences; s++)
        c.parted[s] = INT32_MAX;
    for (int i = 0; rc == MF_OK && i < a->n_layers; i++) {
        rc = compare_layer(&c, i);
        if (rc != MF_OK) break;
        advance(&c);
        d->differ += d->layers[i].differ;
        d->ties += d->layers[i].ties;
        d->after += d->layers[i].after;
        d->real += d->layers[i].real;
    }
    if (rc == MF_OK) rc = order(d, a);
    mf_free(c.parted);
    mf_free(c.fresh);
    if (rc != MF_OK) {
        mf_trace_diff_free(d);
        return rc;
    }
    *ret = d;
    return MF_OK;
}

void mf_trace_diff_free(mf_trace_diff *d)
{
    if (!d) return;
    mf_free(d->layers);
    mf_free(d->partings);
    mf_arena_free(d->arena);
    mf_free(d);
}
