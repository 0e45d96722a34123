/* data/bpe.h: inside the tokenizers bpe and bpe_bytes: their words, their constructor, and what
 * they are made of, for those who train, read and write them. */
#ifndef MF_DATA_BPE_H
#define MF_DATA_BPE_H

#include "data/merges.h"
#include "data/tokenizer.h"

enum {
    MF_BPE_CHUNK = 256, /* characters (bytes) of the longest word */
    MF_BPE_CHUNK_BYTES = 4 * MF_BPE_CHUNK + 1,
    MF_BPE_OWN_SPECIALS = 2 /* of bpe: <pad>, <unk> */
};

/* ---- words (bpe_words.c) ---- */
typedef struct mf_bpe_word {
    const char *text;
    size_t n, start; /* bytes; where it begins */
    size_t end;      /* where the reader goes on */
    char buffer[MF_BPE_CHUNK_BYTES];
} mf_bpe_word; /* {.end = 0} before the first */
/* The word from w->end on; false at the end, or with *code at what is not UTF-8. */
bool mf_bpe_next_word(bool bytes, const char *source, size_t base, const char *text, size_t n,
                      mf_bpe_word *w, int *code);
/* Bytes of the first symbol of a word. */
size_t mf_bpe_unit(bool bytes, const char *text, size_t n);

/* ---- training (bpe_train.c): mf_tokenizer_ops.train ---- */
int mf_bpe_train_chars(const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret);
int mf_bpe_train_bytes(const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret);
/* The 256 that bpe_bytes begins with. */
int mf_bpe_all_bytes(mf_strings *symbols);

/* ---- made ---- */
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
/* When the ids are set: finds the rest. MF_EINPUT unless each of 0 .. n-1 is there once, <unk>
 * among them. */
int mf_bpe_numbers_settle(const char *source, int32_t symbols, mf_bpe_numbers *x);

/* The constructor of all. Takes symbols, merges and numbers, whatever comes of it; numbers may
 * be NULL: symbols are in the order of their ids. */
int mf_bpe_make(const char *source, bool bytes, mf_strings *symbols, mf_merge *merges,
                int32_t n_merges, mf_bpe_numbers *numbers, mf_tokenizer **ret);

/* What a bpe or bpe_bytes was made of. */
typedef struct mf_bpe_parts {
    const mf_strings *symbols;
    const mf_merge *merges;
    int32_t n_merges;
    int32_t max_iter; /* how many merges were asked for; 0: not known */
} mf_bpe_parts;
bool mf_bpe_parts_of(const mf_tokenizer *t, mf_bpe_parts *ret); /* false: of another kind */
int32_t mf_bpe_symbol_of(const mf_tokenizer *t, int32_t id);    /* -1: a special one's */
void mf_bpe_set_max_iter(mf_tokenizer *t, int32_t max_iter);
void mf_bpe_read_max_iter(mf_tokenizer *t, const mf_json *object); /* "max_iter", if it is
                                                                      there */

/* ---- the JSON of LaMoE's tokenizer (tokenizer_lamoe.c, tokenizer_lamoe_write.c) ---- */
bool mf_bpe_is_lamoe(const mf_json *object);
int mf_bpe_read_lamoe(const char *source, const mf_json *object, mf_tokenizer **ret);
/* As it stands in that file: `</w>` for the blank at its end. Bytes, or 0: longer than room. */
size_t mf_bpe_lamoe_text(const char *text, size_t n, char *out, size_t room);

#endif
