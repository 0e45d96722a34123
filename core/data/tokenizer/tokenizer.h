/* data/tokenizer/tokenizer.h: text to token ids and back.
 *
 * A tokenizer is a vtable with its own data. Training and reading a file both use the same
 * constructor, which checks everything. encode and decode do not change the tokenizer, so
 * threads may share it.
 *
 *   byte  one token per byte: ids 0..255. Accepts any bytes, loses nothing.
 *   char  one token per Unicode code point: ids in the order of the code points of the text it
 *         was made from. Text must be valid UTF-8. An unknown code point is an error that names
 *         it and its offset, unless the tokenizer has the special token <unk>.
 *   bpe   merges the characters and the end of each word, most frequent pair first. Words are
 *         separated by blanks; a run of blanks decodes to one. Unknown characters are <unk>.
 *   bpe_bytes  merges bytes: ids 0..255, then merges. Accepts any bytes, loses nothing.
 *   wordpiece  tokens of BERT. Case, accents and blanks are lost. Trained here, or read from a
 *         file with one token per line.
 *
 * Special tokens, if requested, get the ids after the ordinary ones, in the order of the enum.
 * Encoding never produces them, except <unk>, and they decode to nothing. The kinds bpe and
 * wordpiece have special tokens of their own, whose ids are among the others. */
#ifndef MF_DATA_TOKENIZER_H
#define MF_DATA_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/text/json.h"

typedef enum mf_special {
    MF_SPECIAL_PAD,
    MF_SPECIAL_UNK,
    MF_SPECIAL_BOS,
    MF_SPECIAL_EOS,
    MF_SPECIAL_CLS,
    MF_SPECIAL_SEP,
    MF_SPECIAL_MASK,
    MF_SPECIALS
} mf_special;
#define MF_SPECIAL_BIT(s) (1u << (s))

/* A growing list of ids. `start`, if requested, holds the byte offset at which each
 * token begins. */
typedef struct mf_ids {
    int32_t *id;
    size_t *start; /* NULL unless want_start */
    size_t n, cap;
    bool want_start;
} mf_ids;
void mf_ids_free(mf_ids *ids);
int mf_ids_reserve(mf_ids *ids, size_t n); /* makes room for n more ids */
int mf_ids_push(mf_ids *ids, int32_t id, size_t start);

typedef struct mf_tokenizer mf_tokenizer;

typedef struct mf_tokenizer_options {
    uint32_t specials; /* MF_SPECIAL_BIT(...) */
    /* Greatest number of ids of kinds that learn them, without the requested special tokens; 0:
     * the kind's default. */
    int32_t vocab_size;
    /* greatest number of merges of kinds that merge; 0: the kind's default */
    int32_t merges;
    int32_t min_count; /* least count of a pair that bpe and bpe_bytes merge; 0: 2 */
    /* for bpe: rule.keeps_counts (merges.h), and ids as vocab_dict has them: <pad> is 0, then
     * symbols sorted together with <unk> and the requested special tokens; min_count 0 means
     * 1 */
    bool keeps_counts;
} mf_tokenizer_options;

typedef struct mf_tokenizer_ops {
    const char *name;
    /* Appends the tokens of text to ids. source names the text in messages (a path), base is
     * the offset of text in it. MF_EINPUT. */
    int (*encode)(const mf_tokenizer *t, const char *source, size_t base, const char *text,
                  size_t n, mf_ids *ids);
    /* The bytes of an ordinary id; NULL past the last one. */
    const char *(*piece)(const mf_tokenizer *t, int32_t id, size_t *ret_n);
    /* Writes the kind's own members of the tokenizer file into the open object. */
    int (*write)(const mf_tokenizer *t, mf_jw *w);
    void (*free)(mf_tokenizer *t);
    /* Constructors: from a text, and from the members of a file. options is not NULL; the
     * caller adds its special tokens afterwards. */
    int (*train)(const char *source, const char *text, size_t n,
                 const mf_tokenizer_options *options, mf_tokenizer **ret);
    int (*read)(const char *source, const mf_json *object, mf_tokenizer **ret);
} mf_tokenizer_ops;

struct mf_tokenizer {
    const mf_tokenizer_ops *ops;
    int32_t pieces;               /* ordinary ids: 0 .. pieces-1 */
    int32_t vocab;                /* number of ids, special tokens included */
    int32_t special[MF_SPECIALS]; /* id of each special token, -1: none */
    /* the kind has set `special`: these are among the pieces and decode to "" */
    bool own_specials;
    size_t longest; /* length of the longest piece in bytes */
    bool lossless;  /* decode(encode(text)) = text, so ids tell the number of bytes */
};

/* Makes a tokenizer of a kind from a text (byte does not read it); the caller frees it. options
 * may be NULL. MF_ECONFIG for an unknown kind, MF_EINPUT for a text that the kind does
 * not accept. */
int mf_tokenizer_train(const char *kind, const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret);
void mf_tokenizer_free(mf_tokenizer *t);
bool mf_tokenizer_is_kind(const char *name); /* false: the name is that of a file */

/* Writes the tokenizer file, JSON: {"format": "moefw-tokenizer", "version": 1, "kind": ...}.
 * Reading also accepts vocab.txt of BERT and the layout vocab_dict. */
int mf_tokenizer_save(const mf_tokenizer *t, const char *path);
/* Writes the layout vocab_dict: {"vocab_dict": {TOKEN: ID}, "merges": {"LEFT:RIGHT":
 * "LEFTRIGHT"}, "max_iter": N}. The text is read back before it is written to the file:
 * MF_EINPUT for another kind than bpe, or if reading would give another tokenizer (the format
 * cannot express a colon inside a token). */
int mf_tokenizer_save_vocab_dict(const mf_tokenizer *t, const char *path);
int mf_tokenizer_load(const char *path, mf_tokenizer **ret);
int mf_tokenizer_parse(const char *source, const char *text, size_t n, mf_tokenizer **ret);

int mf_tokenizer_encode(const mf_tokenizer *t, const char *source, const char *text, size_t n,
                        mf_ids *ids);
/* The bytes of any id; "" for special and unknown ids. */
const char *mf_tokenizer_piece(const mf_tokenizer *t, int32_t id, size_t *ret_n);
const char *mf_special_name(mf_special s); /* "<pad>" */
int mf_special_find(const char *name);     /* an mf_special, -1: no such name */
/* The name of a special id, for example "<cls>"; NULL for any other id. */
const char *mf_tokenizer_special(const mf_tokenizer *t, int32_t id);
/* Number of bytes that n ids stand for; 0 if the tokenizer is not lossless. */
uint64_t mf_tokenizer_bytes(const mf_tokenizer *t, const int32_t *ids, size_t n);

/* Decodes one id after the other. The output is always complete, valid UTF-8: bytes of an
 * incomplete character are kept for the next call, and bytes that cannot become a character are
 * replaced by U+FFFD. */
typedef struct mf_decoder {
    const mf_tokenizer *tokenizer;
    char *buffer;
    char wait[4];
    size_t n_wait;
} mf_decoder;
int mf_decoder_open(mf_decoder *d, const mf_tokenizer *t);
void mf_decoder_close(mf_decoder *d);
/* Returns the text that this id completes (may be ""), NUL-terminated, valid until the
 * next call. */
const char *mf_decoder_next(mf_decoder *d, int32_t id, size_t *ret_n);
/* Returns the bytes that were kept; the decoder then begins again. */
const char *mf_decoder_end(mf_decoder *d, size_t *ret_n);

#endif
