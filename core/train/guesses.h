/* train/guesses.h: what a classifier guessed against what is true, summed over batches. */
#ifndef MF_TRAIN_GUESSES_H
#define MF_TRAIN_GUESSES_H

#include <stdint.h>

typedef struct mf_guesses {
    int32_t classes;
    double *count; /* [classes,classes] true x guessed */
} mf_guesses;

int mf_guesses_new(int32_t classes, mf_guesses **ret);
void mf_guesses_free(mf_guesses *g);
void mf_guesses_clear(mf_guesses *g);
/* truth [rows], those outside 0 .. classes-1 do not count; logits [rows,classes], of which the
 * largest is the guess; ties go to the lower class. Returns the rows counted. */
int32_t mf_guesses_add(mf_guesses *g, int32_t rows, const int32_t *truth, const float *logits);
/* Rows counted, and those guessed right. */
void mf_guesses_count(const mf_guesses *g, double *ret_rows, double *ret_hits);
/* Share guessed right, and the mean over classes of F1 = 2 hits / (true + guessed), where a
 * class that neither is there nor was guessed does not count. NaN without rows. */
void mf_guesses_score(const mf_guesses *g, double *ret_accuracy, double *ret_macro_f1);

#endif
