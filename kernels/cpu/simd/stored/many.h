/* many.h: the sizes that gptq_many.c shares with its functions for a processor
 * (many_bytes.h, many_pairs.h). */
#ifndef MF_SIMD_MANY_H
#define MF_SIMD_MANY_H

#include "kernels/cpu/simd/stored/four_bits.h"
#include "kernels/cpu/simd/stored/stored.h"

#define SPAN    128 /* numbers of a row that have one scale */
#define QUARTER 32  /* groups are whole spans, or whole quarters of one */
#define WORDS   (SPAN / 8)
#define COLUMNS STORED_COLUMNS /* two vectors */

/* Either header gives, besides constants and `terms`, SPAN numbers of a row as integers:
 *
 *   largest_of    the bits of the largest |x| of a span
 *   integers_of   writes X = x inverse, |X| <= MOST, and sums of X over quarters; inverse 0:
 *                 all X are 0
 *   spread_words  COLUMNS outputs of `words` words, whose rows are ld words apart, as add_words
 *                 wants them, in `room`
 *   add_words     adds to the sums of mr rows what `words` words give; x: the first row */

#endif
