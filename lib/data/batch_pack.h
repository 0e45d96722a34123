/* data/batch_pack.h: puts pieces of documents into rows of a fixed length (data.packing). */
#ifndef MF_DATA_BATCH_PACK_H
#define MF_DATA_BATCH_PACK_H

#include <stdint.h>

typedef struct mf_packing {
    int32_t *item;  /* the pieces of all rows, row by row */
    int64_t *begin; /* [rows + 1] index in `item` at which each row's pieces begin */
    int64_t rows;
} mf_packing;

/* Packs pieces 0 .. n-1, of length[i] from 1 to room. The longest piece is packed first. Each
 * piece goes into the row in which it leaves the least free length (best fit, decreasing).
 * Pieces of the same length are packed in a random order that is a function of seed. Rows with
 * the same free length are used in a fixed order. MF_ENOMEM. */
int mf_packing_new(const int32_t *length, int64_t n, int32_t room, uint64_t seed,
                   mf_packing *ret);
void mf_packing_free(mf_packing *p);

#endif
