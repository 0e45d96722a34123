/* run/metrics/predictions.c: keeps, for each task, the confusion matrix of classes or the pairs
 * of numbers of all examples. Scores are computed from these data. All memory is
 * allocated once. */
#include "run/metrics/predictions.h"
#include <math.h>
#include "base/error.h"
#include "base/mem.h"
#include "run/metrics/correlation.h"
#include "run/metrics/confusion.h"

typedef struct tally {
    mf_confusion *confusion;   /* for classes; NULL if the task predicts numbers */
    double *truth, *predicted; /* [room] for numbers; NULL if the task predicts classes */
    mf_rank_room ranks;
    int n;       /* number of examples counted */
    double loss; /* sum of the losses of the examples */
} tally;

struct mf_predictions {
    const mf_model *model;
    int n, room;
    tally *tallies;        /* [n] */
    mf_task_score *scores; /* [n] */
};

static int new_tally(const mf_model *m, int i, size_t room, tally *ret)
{
    if (mf_model_task_kind(m, i) == MF_TASK_CLASSIFY)
        return mf_confusion_new(i == 0 ? m->dims.classes : m->dims.more_classes[i - 1],
                                &ret->confusion);
    ret->truth = mf_alloc(room, sizeof *ret->truth);
    ret->predicted = mf_alloc(room, sizeof *ret->predicted);
    ret->ranks.a = mf_alloc(room, sizeof *ret->ranks.a);
    ret->ranks.b = mf_alloc(room, sizeof *ret->ranks.b);
    ret->ranks.order = mf_alloc(room, sizeof *ret->ranks.order);
    const bool ok =
        ret->truth && ret->predicted && ret->ranks.a && ret->ranks.b && ret->ranks.order;
    return ok ? MF_OK : MF_ENOMEM;
}

int mf_predictions_new(const mf_model *m, int64_t rows, mf_predictions **ret)
{
    const int n = mf_model_tasks(m);
    *ret = NULL;
    if (n == 0) return MF_OK;
    if (rows > INT32_MAX)
        return mf_fail(MF_ECONFIG, "%lld examples: at most %d are measured", (long long)rows,
                       INT32_MAX);
    mf_predictions *a = mf_alloc(1, sizeof *a);
    if (!a) return MF_ENOMEM;
    a->model = m;
    a->n = n;
    a->room = (int)rows;
    a->tallies = mf_alloc((size_t)n, sizeof *a->tallies);
    a->scores = mf_alloc((size_t)n, sizeof *a->scores);
    int rc = a->tallies && a->scores ? MF_OK : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < n; i++)
        rc = new_tally(m, i, (size_t)rows + 1, &a->tallies[i]);
    if (rc != MF_OK) {
        mf_predictions_free(a);
        return rc;
    }
    *ret = a;
    return MF_OK;
}

void mf_predictions_free(mf_predictions *a)
{
    if (!a) return;
    for (int i = 0; a->tallies && i < a->n; i++) {
        tally *t = &a->tallies[i];
        mf_confusion_free(t->confusion);
        mf_free(t->truth);
        mf_free(t->predicted);
        mf_free(t->ranks.a);
        mf_free(t->ranks.b);
        mf_free(t->ranks.order);
    }
    mf_free(a->tallies);
    mf_free(a->scores);
    mf_free(a);
}

void mf_predictions_clear(mf_predictions *a)
{
    for (int i = 0; a && i < a->n; i++) {
        a->tallies[i].n = 0;
        a->tallies[i].loss = 0;
        if (a->tallies[i].confusion) mf_confusion_clear(a->tallies[i].confusion);
    }
}

/* ---- a run as a list of numbers: for each task the loss, and (label, prediction) of each
 * example; a label that is NaN does not count ---- */

int64_t mf_predictions_numbers(const mf_predictions *a, int64_t rows)
{
    return a ? a->n * (1 + 2 * rows) : 0;
}

static void put_classes(const mf_confusion *g, int32_t rows, const int32_t *truth,
                        const float *logits, double *out)
{
    for (int32_t b = 0; b < rows; b++, out += 2) {
        const int32_t predicted =
            mf_confusion_class(g, truth[b], logits + (int64_t)b * g->classes);
        out[0] = predicted < 0 ? (double)NAN : (double)truth[b];
        out[1] = (double)predicted;
    }
}

static void put_numbers(int32_t rows, const float *truth, const float *predicted, double *out)
{
    for (int32_t b = 0; b < rows; b++, out += 2) {
        out[0] = (double)truth[b];
        out[1] = (double)predicted[b];
    }
}

void mf_predictions_put(const mf_predictions *a, const mf_batch *batch,
                        const mf_model_graph *mg, double *to)
{
    for (int i = 0; a && i < a->n; i++, to += 1 + 2 * (int64_t)batch->rows) {
        const tally *t = &a->tallies[i];
        const mf_model_task *task = &mg->tasks[i];
        const float *out = task->out ? mf_tensor_host(task->out) : NULL,
                    *loss = mf_tensor_host(task->loss);
        to[0] = loss ? (double)*loss : 0;
        for (int64_t b = 0; b < batch->rows; b++)
            to[1 + 2 * b] = (double)NAN;
        if (!out || !loss) continue;
        if (t->confusion)
            put_classes(t->confusion, batch->rows,
                        i == 0 ? batch->classes : batch->more_classes[i - 1], out, to + 1);
        else
            put_numbers(batch->rows, i == 0 ? batch->values : batch->more_values[i - 1], out,
                        to + 1);
    }
}

static int take_one(tally *t, int room, double truth, double predicted)
{
    if (isnan(truth) || (!t->confusion && t->n == room)) return 0;
    if (t->confusion) {
        mf_confusion_add(t->confusion, (int32_t)truth, (int32_t)predicted);
    } else {
        t->truth[t->n] = truth;
        t->predicted[t->n] = predicted;
    }
    t->n++;
    return 1;
}

void mf_predictions_take(mf_predictions *a, int64_t rows, const double *in)
{
    for (int i = 0; a && i < a->n; i++, in += 1 + 2 * rows) {
        tally *t = &a->tallies[i];
        int counted = 0;
        for (int64_t b = 0; b < rows; b++)
            counted += take_one(t, a->room, in[1 + 2 * b], in[2 + 2 * b]);
        t->loss += in[0] * counted;
    }
}

static mf_task_score score_of(const tally *t, const char *name, double weight)
{
    mf_task_score s = {.name = name,
                       .number = t->confusion == NULL,
                       .weight = weight,
                       .loss = t->n > 0 ? t->loss / t->n : (double)NAN,
                       .rows = t->n,
                       .accuracy = (double)NAN,
                       .macro_f1 = (double)NAN,
                       .mse = (double)NAN,
                       .pearson = (double)NAN,
                       .spearman = (double)NAN};
    if (t->confusion) {
        mf_confusion_score(t->confusion, &s.accuracy, &s.macro_f1);
        return s;
    }
    s.mse = s.loss;
    s.pearson = mf_pearson(t->n, t->truth, t->predicted);
    s.spearman = mf_spearman(t->n, t->truth, t->predicted, &t->ranks);
    return s;
}

void mf_predictions_score(mf_predictions *a, mf_metrics_record *r)
{
    if (!a) return;
    for (int i = 0; i < a->n; i++)
        a->scores[i] = score_of(&a->tallies[i], mf_model_task_name(a->model, i),
                                a->model->task_weights[i]);
    r->accuracy = a->scores[0].accuracy;
    r->macro_f1 = a->scores[0].macro_f1;
    r->mse = a->scores[0].mse;
    r->pearson = a->scores[0].pearson;
    r->spearman = a->scores[0].spearman;
    r->tasks = a->scores;
    r->n_tasks = a->n > 1 ? a->n : 0;
}

void mf_predictions_hits(const mf_predictions *a, double *ret_rows, double *ret_hits)
{
    *ret_rows = *ret_hits = 0;
    if (a && a->tallies[0].confusion)
        mf_confusion_count(a->tallies[0].confusion, ret_rows, ret_hits);
}
