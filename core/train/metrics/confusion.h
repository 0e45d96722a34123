/* train/metrics/confusion.h: what a classifier predicted against what is true, summed over
 * batches. */
#ifndef MF_TRAIN_GUESSES_H
#define MF_TRAIN_GUESSES_H

#include <stdint.h>

typedef struct mf_confusion {
    int32_t classes;
    double *count; /* [classes,classes] true x predicted */
} mf_confusion;

int mf_confusion_new(int32_t classes, mf_confusion **ret);
void mf_confusion_free(mf_confusion *g);
void mf_confusion_clear(mf_confusion *g);
/* truth [rows], those outside 0 .. classes-1 do not count; logits [rows,classes], of which the
 * largest is the prediction; ties go to the lower class. Returns the examples counted. */
int32_t mf_confusion_add(mf_confusion *g, int32_t rows, const int32_t *truth,
                         const float *logits);
/* Examples counted, and those predicted right. */
void mf_confusion_count(const mf_confusion *g, double *ret_rows, double *ret_hits);
/* Share predicted right, and the mean over classes of F1 = 2 hits / (true + predicted), where a
 * class that neither is there nor was predicted does not count. NaN without examples. */
void mf_confusion_score(const mf_confusion *g, double *ret_accuracy, double *ret_macro_f1);

#endif
