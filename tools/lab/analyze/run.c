/* Analyzes the model of a run: records the routing of a text by the newest checkpoint, computes
 * the figures of its layers, then records the same text by earlier checkpoints. Traces are
 * written to temporary files, which are removed. */
#include "lab/analyze/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "lab/analyze/outputs.h"
#include "lab/analyze/words.h"
#include "run/evaluate.h"
#include "run/folder/rundir.h"
#include "run/load.h"

const double mf_analyze_quantiles[5] = {.05, .25, .5, .75, .95};

typedef struct {
    const char *run;
    const mf_analyze_options *o;
    mf_analysis *a;
    int64_t done, total; /* batches of all passes, and layers that were measured */
    int passes, layers;
    mf_routes *end; /* [n_layers] */
} work;

static int tell(void *arg, int64_t done, int64_t total)
{
    work *w = arg;
    if (w->total == 0) w->total = total * w->passes + w->layers;
    return w->o->each ? w->o->each(w->o->arg, w->done + done, w->total) : MF_OK;
}

/* ---- recording ---- */

static int open_session(const work *w, int64_t step, mf_session **ret, int64_t *ret_step)
{
    mf_assignment set[4];
    int n = 0;
    set[n++] = (mf_assignment){"train.eval_context=0", "analyze"}; /* each token once */
    if (w->o->data) set[n++] = (mf_assignment){"data.format=auto", "--text"};
    const mf_session_options o = {
        .data = w->o->data, .labels = w->o->labels, .no_controllers = true};
    const mf_load_change change = {
        .step = step, .device = w->o->device, .n_set = n, .set = set};
    const int rc = mf_load_run_as(w->run, &o, &change, ret, ret_step);
    return rc;
}

/* Records the session's text, and opens the trace. Its file is removed at once; an open file
 * stays readable. */
static int record(work *w, mf_session *s, int64_t step, int64_t batches, bool activations,
                  mf_trace **ret, double *ret_loss)
{
    mf_metrics_record metrics;
    char *path = NULL;
    const mf_trace_about about = {
        .run = w->run, .split = mf_split_name(w->o->split), .activations = activations};
    mf_evaluator *e = NULL;
    mf_trace_recorder *r = NULL;
    int rc = mf_evaluator_new(s, w->o->split, NULL, &e);
    if (rc == MF_OK) rc = mf_trace_recorder_new(s, &about, &r);
    if (rc == MF_OK) rc = mf_evaluator_record(e, r, 1);
    if (rc == MF_OK && !activations) mf_evaluator_watch(e, tell, w);
    if (rc == MF_OK) rc = mf_evaluator_run(e, step, batches, &metrics);
    if (rc == MF_OK && !activations) w->done += mf_trace_recorder_batches(r);
    if (rc == MF_OK) rc = mf_trace_scratch(&path);
    if (rc == MF_OK) rc = mf_trace_recorder_write(r, path, step);
    if (rc == MF_OK) rc = mf_trace_open(path, ret);
    if (rc == MF_OK) *ret_loss = metrics.task_loss;
    if (path) mf_io()->unlink(path);
    mf_free(path);
    mf_evaluator_free(e);
    mf_trace_recorder_free(r);
    return rc;
}

/* Opens the run at this step, and records. The caller closes the session and the trace. */
static int take(work *w, int64_t step, mf_session **ret_s, mf_trace **ret_t, double *ret_loss)
{
    int64_t found = 0;
    const int rc = open_session(w, step, ret_s, &found);
    if (rc != MF_OK) return rc;
    if ((*ret_s)->model->n_moe == 0)
        return mf_fail(MF_EUSAGE, "%s: a dense model (model.moe_every = 0): nothing is routed",
                       w->run);
    w->layers = (int)(*ret_s)->model->n_moe;
    return record(w, *ret_s, found, w->o->batches, false, ret_t, ret_loss);
}

/* ---- one layer ---- */

static int rising(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Quantiles of the margins that are known, and how many are below the rounding of bf16. */
static int margins(const mf_trace *t, const mf_trace_layer *from, const mf_routed_text *x,
                   const mf_routes *r, mf_analysis_layer *l)
{
    void *margin = NULL, *score = NULL;
    int64_t n = 0, near = 0;
    for (int q = 0; q < 5; q++)
        l->margin[q] = NAN;
    l->close = NAN;
    int rc = mf_trace_read(t, from->margin, &margin);
    if (rc == MF_OK) rc = mf_trace_read(t, from->score ? from->score : from->prob, &score);
    float *m = margin;
    const float *s = score;
    for (int64_t i = 0; rc == MF_OK && m && s && i < x->n; i++) {
        const float v = m[x->place[i]];
        float least = INFINITY;
        if (!isfinite(v)) continue;
        for (int64_t a = r->begin[i]; a < r->begin[i + 1]; a++)
            least = fminf(least, s[(int64_t)x->place[i] * r->experts + r->expert[a]]);
        near += v < fabsf(least) / 256;
        m[n++] = v; /* n is never beyond the place that was just read */
    }
    if (rc == MF_OK && n > 0) {
        qsort(m, (size_t)n, sizeof *m, rising);
        for (int q = 0; q < 5; q++)
            l->margin[q] = (double)m[(int64_t)(mf_analyze_quantiles[q] * (double)(n - 1) + .5)];
        l->close = (double)near / (double)n;
    }
    mf_free(margin);
    mf_free(score);
    return rc;
}

/* Keeps what the page shows of single tokens. */
static int shown(const mf_trace *t, const mf_trace_layer *from, const mf_analysis *a,
                 const mf_routes *r, mf_analysis_layer *l)
{
    const int64_t E = r->experts, cells = a->map * E;
    void *prob = NULL;
    l->top = mf_arena_alloc(a->arena, (size_t)a->shown * sizeof *l->top);
    l->marks = mf_arena_alloc(a->arena, (size_t)cells);
    if (!l->top || !l->marks) return MF_ENOMEM;
    for (int i = 0; i < a->shown; i++)
        l->top[i] = r->begin[i] < r->begin[i + 1] ? r->expert[r->begin[i]] : -1;
    for (int i = 0; i < a->map; i++)
        for (int64_t j = r->begin[i]; j < r->begin[i + 1]; j++)
            l->marks[i * E + r->expert[j]] = 1;
    int rc = mf_trace_read(t, from->prob, &prob);
    if (rc == MF_OK && prob) {
        l->prob = mf_arena_alloc(a->arena, (size_t)cells * sizeof *l->prob);
        if (!l->prob) rc = MF_ENOMEM;
        for (int i = 0; rc == MF_OK && i < a->map; i++)
            memcpy(l->prob + i * E, (const float *)prob + a->routed.place[i] * E,
                   (size_t)E * sizeof *l->prob);
    }
    mf_free(prob);
    return rc;
}

static int measure(const mf_trace *t, int i, const mf_analysis *a, const mf_routes *r,
                   mf_analysis_layer *l)
{
    const mf_routed_text *x = &a->routed;
    const mf_clusters *c = &x->documents;
    l->layer = r->layer;
    l->experts = r->experts;
    int rc = mf_utilization_of(r, c, a->arena, &l->use);
    if (rc == MF_OK) rc = mf_information_of(r, x->id, c, &l->id);
    if (rc == MF_OK) rc = mf_information_of(r, x->next, c, &l->next);
    if (rc == MF_OK) rc = mf_information_of(r, x->position, c, &l->position);
    if (rc == MF_OK && x->label)
        rc = mf_label_use_of(r, x->label, x->labels, c, a->arena, &l->labels);
    if (rc == MF_OK) rc = mf_coactivation_of(r, c, a->arena, &l->pairs);
    if (rc == MF_OK) rc = mf_words_of(r, x->id, a->arena, &l->words);
    if (rc == MF_OK) rc = margins(t, &t->layers[i], x, r, l);
    return rc == MF_OK ? shown(t, &t->layers[i], a, r, l) : rc;
}

/* ---- the run ---- */

static const char *piece_of(mf_arena *arena, const mf_tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *special = t ? mf_tokenizer_special(t, id) : NULL,
               *text = t ? mf_tokenizer_piece(t, id, &n) : NULL;
    if (special) return mf_arena_strdup(arena, special);
    if (!text) return mf_arena_strf(arena, "%d ", (int)id);
    return mf_arena_strf(arena, "%.*s", (int)n, text);
}

/* Looks up the texts of the ids that are listed for the experts. */
static int name_words(mf_analysis *a, const mf_tokenizer *t, mf_analysis_layer *l)
{
    mf_expert_words *w = &l->words;
    w->piece = mf_arena_alloc(a->arena, (size_t)l->experts * MF_WORDS * sizeof *w->piece);
    if (!w->piece) return MF_ENOMEM;
    for (int32_t e = 0; e < l->experts; e++)
        for (int32_t i = 0; i < w->n[e]; i++) {
            const int32_t at = e * MF_WORDS + i;
            if (!(w->piece[at] = piece_of(a->arena, t, w->words[at].id))) return MF_ENOMEM;
        }
    return MF_OK;
}

static int describe(work *w, const mf_session *s, const mf_trace *t, double loss)
{
    mf_analysis *a = w->a;
    a->run = mf_arena_strdup(a->arena, w->run);
    a->text = mf_arena_strdup(a->arena, w->o->data ? w->o->data : mf_split_name(w->o->split));
    a->step = t->step;
    a->batches = t->batches;
    a->loss = loss;
    a->n_layers = t->n_layers;
    a->layers = mf_arena_alloc(a->arena, (size_t)t->n_layers * sizeof *a->layers);
    int rc = mf_routed_text_of(t, s, w->o->split, a->arena, &a->routed);
    if (rc != MF_OK || !a->run || !a->text || !a->layers) return rc != MF_OK ? rc : MF_ENOMEM;
    a->tokens = a->routed.n;
    a->shown = a->tokens < MF_ANALYZE_TEXT ? (int)a->tokens : MF_ANALYZE_TEXT;
    a->map = a->tokens < MF_ANALYZE_MAP ? (int)a->tokens : MF_ANALYZE_MAP;
    const char **names =
                   mf_arena_alloc(a->arena, ((size_t)a->routed.labels + 1) * sizeof *names),
               **pieces = mf_arena_alloc(a->arena, (size_t)a->shown * sizeof *pieces);
    if (!names || !pieces) return MF_ENOMEM;
    for (int32_t i = 0; i < a->routed.labels; i++)
        if (!(names[i] = mf_arena_strdup(a->arena, s->corpus->label_names[i])))
            return MF_ENOMEM;
    for (int i = 0; i < a->shown; i++)
        if (!(pieces[i] = piece_of(a->arena, s->tokenizer, a->routed.id[i]))) return MF_ENOMEM;
    a->label_names = names;
    a->piece = pieces;
    return MF_OK;
}

/* Records the first batch once more, with the inputs of the layers, and computes their outputs.
 * A layer whose outputs cannot be computed alone is skipped, with a warning. */
static int take_outputs(work *w, mf_session *s)
{
    mf_analysis *a = w->a;
    mf_trace *t = NULL;
    double loss;
    if (s->config->n_adapters > 0) {
        mf_log(MF_LOG_WARN, "outputs: a model with adapters has no experts that compute alone");
        return MF_OK;
    }
    int rc = record(w, s, a->step, 1, true, &t, &loss);
    for (int i = 0; rc == MF_OK && i < a->n_layers; i++) {
        rc = mf_expert_outputs_of(s->model, i, t, a->arena, &a->layers[i].outputs);
        if (rc == MF_OK || rc == MF_ENOMEM) continue;
        mf_log(MF_LOG_WARN, "layer %d: outputs of single experts: %s", (int)a->layers[i].layer,
               mf_error_message());
        mf_error_clear();
        a->layers[i].outputs = (mf_expert_outputs){0};
        rc = MF_OK;
    }
    mf_trace_close(t);
    return rc;
}

static int take_end(work *w)
{
    mf_analysis *a = w->a;
    mf_session *s = NULL;
    mf_trace *t = NULL;
    double loss = NAN;
    int rc = take(w, w->o->step, &s, &t, &loss);
    if (rc == MF_OK) rc = describe(w, s, t, loss);
    if (rc == MF_OK &&
        !(w->end = mf_arena_alloc(a->arena, (size_t)a->n_layers * sizeof *w->end)))
        rc = MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < a->n_layers; i++)
        rc = mf_routes_of(t, i, &a->routed, a->arena, &w->end[i]);
    for (int i = 0; rc == MF_OK && i < a->n_layers; i++) {
        rc = measure(t, i, a, &w->end[i], &a->layers[i]);
        if (rc == MF_OK) rc = name_words(a, s->tokenizer, &a->layers[i]);
        w->done++;
        if (rc == MF_OK) rc = tell(w, 0, 0);
        if (rc == MF_OK && i + 1 < a->n_layers &&
            !(a->layers[i].moved = mf_transitions(&w->end[i], &w->end[i + 1], a->arena)))
            rc = MF_ENOMEM;
    }
    mf_trace_close(t);
    if (rc == MF_OK && w->o->outputs) rc = take_outputs(w, s);
    mf_session_close(s);
    return rc;
}

/* Compares a checkpoint with the end. A layer that had other experts then has no figures. */
static int take_then(work *w, int64_t step, int at)
{
    mf_analysis *a = w->a;
    mf_session *s = NULL;
    mf_trace *t = NULL;
    mf_routes then;
    double loss;
    mf_arena *arena = mf_arena_new();
    int rc = arena ? take(w, step, &s, &t, &loss) : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < a->n_layers; i++) {
        mf_saturation *to = &a->layers[i].then[at];
        *to = (mf_saturation){.step = step, .overlap = {NAN, NAN, NAN}, .chance = NAN};
        if (i >= t->n_layers || t->layers[i].layer != a->layers[i].layer ||
            t->layers[i].experts != a->layers[i].experts) {
            mf_log(MF_LOG_WARN, "layer %d: the checkpoint of step %lld has other experts there",
                   (int)a->layers[i].layer, (long long)step);
            continue;
        }
        rc = mf_routes_of(t, i, &a->routed, arena, &then);
        if (rc == MF_OK) rc = mf_saturation_of(&then, &w->end[i], &a->routed.documents, to);
    }
    mf_trace_close(t);
    mf_session_close(s);
    mf_arena_free(arena);
    return rc;
}

/* Writes the earlier checkpoints to compare with, in rising order. Two: those nearest to 10 %
 * and 50 % of the steps; otherwise nearest to even parts. */
static int choose(const work *w, int64_t *ret_steps, int *ret_n)
{
    static const double usual[2] = {.1, .5};
    const int wanted = w->o->checkpoints;
    mf_rundir *dir = NULL;
    int64_t *steps = NULL, end;
    int n = 0, rc = mf_rundir_read(w->run, &dir);
    *ret_n = 0;
    if (rc == MF_OK && dir->step < 0) rc = mf_ckpt_list(dir->ckpt, &steps, &n);
    if (rc == MF_OK && n > 0) {
        end = w->o->step >= 0 ? w->o->step : steps[0];
        for (int i = 0; i < wanted; i++) {
            const double at = (wanted == 2 ? usual[i] : (i + 1.) / (wanted + 1)) * (double)end;
            int64_t best = -1;
            for (int j = n - 1; j >= 0; j--)
                if (steps[j] < end &&
                    (best < 0 || fabs((double)steps[j] - at) < fabs((double)best - at)))
                    best = steps[j];
            if (best >= 0 && (*ret_n == 0 || ret_steps[*ret_n - 1] < best))
                ret_steps[(*ret_n)++] = best;
        }
    }
    mf_free(steps);
    mf_rundir_close(dir);
    return rc;
}

int mf_analyze(const char *run, const mf_analyze_options *o, mf_analysis **ret)
{
    int64_t steps[MF_ANALYZE_THEN];
    mf_analysis *a = mf_alloc(1, sizeof *a);
    work w = {.run = run, .o = o, .a = a};
    int n = 0, rc = a && (a->arena = mf_arena_new()) ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) rc = choose(&w, steps, &n);
    w.passes = 1 + n;
    if (rc == MF_OK) rc = take_end(&w);
    for (int i = 0; rc == MF_OK && i < n; i++)
        rc = take_then(&w, steps[i], i);
    if (rc != MF_OK) {
        mf_analysis_free(a);
        return rc;
    }
    a->n_then = n;
    *ret = a;
    return MF_OK;
}

void mf_analysis_free(mf_analysis *a)
{
    if (!a) return;
    mf_arena_free(a->arena);
    mf_free(a);
}
