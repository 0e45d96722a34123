/* data/bpe.h: the constructor of tokenizers bpe and bpe_bytes, for those who read them. */
#ifndef MF_DATA_BPE_H
#define MF_DATA_BPE_H

#include "data/merges.h"
#include "data/tokenizer.h"

/* Ids that do not follow from the order of symbols. */
typedef struct mf_bpe_numbers {
    int32_t *id;                  /* of each symbol, -1: none */
    int32_t *symbol;              /* [n] of each id, -1: a special one's */
    int32_t n;                    /* ids */
    int32_t special[MF_SPECIALS]; /* ids, -1 without */
    size_t room;                  /* of `symbol` */
} mf_bpe_numbers;                 /* {0} is empty */

/* Room for so many symbols, and specials besides; no id is set. MF_ENOMEM. */
int mf_bpe_numbers_new(int32_t symbols, size_t specials, mf_bpe_numbers *ret);
void mf_bpe_numbers_free(mf_bpe_numbers *x);
/* When the ids are set: finds the rest. MF_EINPUT unless each of 0 .. n-1 is there once, <unk> among
 * them. */
int mf_bpe_numbers_settle(const char *source, int32_t symbols, mf_bpe_numbers *x);

/* The constructor of all. Takes symbols, merges and numbers, whatever comes of it; numbers may be NULL:
 * symbols are in the order of their ids. */
int mf_bpe_make(const char *source, bool bytes, mf_strings *symbols, mf_merge *merges,
                int32_t n_merges, mf_bpe_numbers *numbers, mf_tokenizer **ret);

/* The JSON of LaMoE's tokenizer (see tokenizer_lamoe.c). */
bool mf_bpe_is_lamoe(const mf_json *object);
int mf_bpe_read_lamoe(const char *source, const mf_json *object, mf_tokenizer **ret);

#endif
