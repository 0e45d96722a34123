/* run/metrics/confusion.h: confusion matrix of a classifier, summed over batches. */
#ifndef MF_RUN_CONFUSION_H
#define MF_RUN_CONFUSION_H

#include <stdint.h>

typedef struct mf_confusion {
    int32_t classes;
    double *count; /* [classes, classes] true class x predicted class */
} mf_confusion;

int mf_confusion_new(int32_t classes, mf_confusion **ret);
void mf_confusion_free(mf_confusion *g);
void mf_confusion_clear(mf_confusion *g);
/* Returns the class with the largest of the logits [classes]; of two equal logits, the lower
 * class. Returns -1 if the true class is outside of [0, classes); the example then does
 * not count. */
int32_t mf_confusion_class(const mf_confusion *g, int32_t truth, const float *logits);
/* Counts one example. Both classes must be in [0, classes). */
void mf_confusion_add(mf_confusion *g, int32_t truth, int32_t predicted);
/* Number of examples counted, and of correct predictions. */
void mf_confusion_count(const mf_confusion *g, double *ret_rows, double *ret_hits);
/* Share of correct predictions, and the mean over classes of F1 = 2 hits / (true + predicted).
 * Classes that neither occur nor were predicted do not count. NaN without examples. */
void mf_confusion_score(const mf_confusion *g, double *ret_accuracy, double *ret_macro_f1);

#endif
