/* run/metrics/confusion.c: counts (label, prediction) pairs, and computes accuracy and macro
 * F1 from the counts. Labels outside of 0 .. classes-1 are not counted. */
#include "run/metrics/confusion.h"
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"

int mf_confusion_new(int32_t classes, mf_confusion **ret)
{
    const size_t n = (size_t)classes;
    mf_confusion *g = mf_alloc(1, sizeof *g);
    if (!g) return MF_ENOMEM;
    g->classes = classes;
    g->count = mf_alloc(n * n, sizeof *g->count);
    if (!g->count) {
        mf_free(g);
        return MF_ENOMEM;
    }
    *ret = g;
    return MF_OK;
}

void mf_confusion_free(mf_confusion *g)
{
    if (!g) return;
    mf_free(g->count);
    mf_free(g);
}

void mf_confusion_clear(mf_confusion *g)
{
    memset(g->count, 0, (size_t)g->classes * (size_t)g->classes * sizeof *g->count);
}

int32_t mf_confusion_class(const mf_confusion *g, int32_t truth, const float *logits)
{
    int32_t predicted = 0;
    if (truth < 0 || truth >= g->classes) return -1;
    for (int32_t c = 1; c < g->classes; c++)
        if (logits[c] > logits[predicted]) predicted = c;
    return predicted;
}

void mf_confusion_add(mf_confusion *g, int32_t truth, int32_t predicted)
{
    g->count[truth * g->classes + predicted] += 1;
}

void mf_confusion_count(const mf_confusion *g, double *ret_rows, double *ret_hits)
{
    *ret_rows = *ret_hits = 0;
    for (int32_t i = 0; i < g->classes * g->classes; i++)
        *ret_rows += g->count[i];
    for (int32_t c = 0; c < g->classes; c++)
        *ret_hits += g->count[c * g->classes + c];
}

void mf_confusion_score(const mf_confusion *g, double *ret_accuracy, double *ret_macro_f1)
{
    const int32_t C = g->classes;
    double hits, all, f1 = 0, counted = 0;
    mf_confusion_count(g, &all, &hits);
    for (int32_t c = 0; c < C; c++) {
        double truth = 0, predicted = 0;
        for (int32_t j = 0; j < C; j++) {
            truth += g->count[c * C + j];
            predicted += g->count[j * C + c];
        }
        if (truth + predicted == 0) continue;
        f1 += 2 * g->count[c * C + c] / (truth + predicted);
        counted += 1;
    }
    *ret_accuracy = all > 0 ? hits / all : (double)NAN;
    *ret_macro_f1 = counted > 0 ? f1 / counted : (double)NAN;
}
