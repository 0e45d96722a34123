/* data/batch_pack.h: puts pieces of documents into rows of a fixed length (data.packing). */
#ifndef MF_DATA_BATCH_PACK_H
#define MF_DATA_BATCH_PACK_H

#include <stdint.h>

typedef struct mf_packing {
    int32_t *item;  /* the pieces of all rows, row by row */
    int64_t *begin; /* [rows + 1] where a row's pieces begin in `item` */
    int64_t rows;
} mf_packing;

/* Packs pieces 0 .. n-1, of length[i] from 1 to room: the longest first, each into the row that
 * it leaves with the least room (best fit, decreasing). Pieces of one length are taken in a
 * drawn order, which is a function of seed; rows of one room in a fixed one. MF_ENOMEM. */
int mf_packing_new(const int32_t *length, int64_t n, int32_t room, uint64_t seed,
                   mf_packing *ret);
void mf_packing_free(mf_packing *p);

#endif
