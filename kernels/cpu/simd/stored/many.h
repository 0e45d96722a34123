/* many.h: the sizes that gptq_many.c shares with its functions for each processor
 * (many_bytes.h, many_pairs.h). */
#ifndef MF_SIMD_MANY_H
#define MF_SIMD_MANY_H

#include "kernels/cpu/simd/stored/four_bits.h"
#include "kernels/cpu/simd/stored/stored.h"

#define SPAN    128 /* number of elements of a row that have one scale */
#define QUARTER 32  /* groups are whole spans, or whole quarters of a span */
#define WORDS   (SPAN / 8)
#define COLUMNS STORED_COLUMNS /* outputs of two vectors */

/* Each of the two headers defines constants, `terms` (SPAN numbers of a row as integers), and
 * these functions:
 *
 *   largest_of    returns the bits of the largest |x| of a span
 *   integers_of   writes X = x inverse, |X| <= MOST, and sums of X over quarters; inverse 0:
 *                 all X are 0
 *   spread_words  writes COLUMNS outputs of `words` words, whose rows are ld words apart, to
 *                 `room`, in the layout that add_words reads
 *   add_words     adds the sums over `words` words to the sums of mr rows; x: the first row */

#endif
