/* data/tokenizer/bpe.h: the internal interface of the tokenizers bpe and bpe_bytes: words, the
 * constructor, and access to their parts. The files that train, read and write these tokenizers
 * use it. */
#ifndef MF_DATA_BPE_H
#define MF_DATA_BPE_H

#include "data/tokenizer/merges.h"
#include "data/tokenizer/tokenizer.h"

enum {
    MF_BPE_CHUNK = 256, /* length of the longest word, in characters (bpe_bytes: bytes) */
    MF_BPE_CHUNK_BYTES = 4 * MF_BPE_CHUNK + 1,
    MF_BPE_OWN_SPECIALS = 2 /* number of special tokens of bpe: <pad>, <unk> */
};

/* ---- words (bpe_words.c) ---- */
typedef struct mf_bpe_word {
    const char *text;
    size_t n, start; /* n bytes of `text`; the word begins at offset start of the input */
    size_t end;      /* offset at which the search for the next word begins */
    char buffer[MF_BPE_CHUNK_BYTES];
} mf_bpe_word; /* {.end = 0} before the first word */
/* Reads the next word, from w->end on. Returns false at the end of the text, or with *code set
 * if the text is not UTF-8. */
bool mf_bpe_next_word(bool bytes, const char *source, size_t base, const char *text, size_t n,
                      mf_bpe_word *w, int *code);
/* Returns the length of the first symbol of a word in bytes. */
size_t mf_bpe_unit(bool bytes, const char *text, size_t n);

/* the function mf_tokenizer_ops.cut */
size_t mf_bpe_cut(const mf_tokenizer *t, const char *text, size_t n);

/* ---- training (bpe_train.c): mf_tokenizer_ops.train ---- */
int mf_bpe_train_chars(const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret);
int mf_bpe_train_bytes(const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret);
/* Adds the 256 symbols of single bytes, which are the first symbols of bpe_bytes. The only
 * error is MF_ENOMEM. */
int mf_bpe_all_bytes(mf_strings *symbols);

/* ---- construction ---- */
/* Ids of the symbols, if they differ from the order of the symbols. */
typedef struct mf_bpe_numbers {
    int32_t *id;                  /* id of each symbol, -1: none */
    int32_t *symbol;              /* [n] symbol of each id, -1: a special token */
    int32_t n;                    /* number of ids */
    int32_t special[MF_SPECIALS]; /* ids of the special tokens, -1: none */
    size_t room;                  /* capacity of `symbol` */
} mf_bpe_numbers;                 /* {0} is empty */

/* Allocates memory for this many symbols and special tokens. The caller sets the id of each
 * symbol. The special tokens have no ids yet. The only error is MF_ENOMEM. */
int mf_bpe_numbers_new(int32_t symbols, size_t specials, mf_bpe_numbers *ret);
void mf_bpe_numbers_free(mf_bpe_numbers *x);
/* Completes the table after all ids are set. MF_EINPUT unless each id of 0 .. n-1 occurs once
 * and <unk> is among them. */
int mf_bpe_numbers_settle(const char *source, int32_t symbols, mf_bpe_numbers *x);

/* The constructor that all ways to make a bpe tokenizer use. It takes ownership of symbols,
 * merges and numbers, also if it fails. numbers may be NULL: ids then follow the order
 * of symbols. */
int mf_bpe_make(const char *source, bool bytes, mf_strings *symbols, mf_merge *merges,
                int32_t n_merges, mf_bpe_numbers *numbers, mf_tokenizer **ret);

/* The parts of a bpe or bpe_bytes tokenizer. */
typedef struct mf_bpe_parts {
    const mf_strings *symbols;
    const mf_merge *merges;
    int32_t n_merges;
    int32_t max_iter; /* greatest number of merges in training; 0: unknown */
} mf_bpe_parts;
/* Returns false if t is of another kind. */
bool mf_bpe_parts_of(const mf_tokenizer *t, mf_bpe_parts *ret);
/* Returns the symbol of an id; -1: a special token. */
int32_t mf_bpe_symbol_of(const mf_tokenizer *t, int32_t id);
void mf_bpe_set_max_iter(mf_tokenizer *t, int32_t max_iter);
/* Reads "max_iter" if the object has this member. */
void mf_bpe_read_max_iter(mf_tokenizer *t, const mf_json *object);

/* ---- the layout vocab_dict (tokenizer_vocab_dict.c, tokenizer_vocab_dict_write.c) ---- */
bool mf_bpe_is_vocab_dict(const mf_json *object);
int mf_bpe_read_vocab_dict(const char *source, const mf_json *object, mf_tokenizer **ret);
/* Writes a symbol to out in the form of a vocab_dict file: `</w>` replaces the blank at its
 * end. Returns the length in bytes, 0 if it exceeds room. */
size_t mf_bpe_vocab_dict_text(const char *text, size_t n, char *out, size_t room);

#endif
