/* data/tokenizer.h: text to token ids and back.
 *
 * A tokenizer is a vtable and its own data. Every one, whether trained here or read from a
 * file, comes out of the same checking constructor. encode and decode do not change it, so it
 * may be shared between threads.
 *
 *   byte  one token a byte: ids 0..255. Takes anything, loses nothing.
 *   char  one token a Unicode code point: ids in order of code points, over those of the
 *         text it was made from. Text must be valid UTF-8. A code point that it does not know
 *         is an error that names it and its offset, unless it has the special token <unk>.
 *   bpe   words, parted by blanks, as characters and an end of word that merged, most frequent
 *         pair first. Blanks decode to one blank; unknown characters are <unk>.
 *   bpe_bytes  bytes that merged so: ids 0..255, then merges. Takes anything, loses nothing.
 *   wordpiece  BERT's. Case, accents and blanks are lost. Trained here, or a file of a token a
 *         line.
 *
 * Special tokens, where asked for, get the ids behind the ordinary ones, in the order of the
 * enum. They never come out of encode, with the exception of <unk>, and decode to nothing. The
 * kinds bpe and wordpiece have some of their own, whose ids are among the others.
 */
#ifndef MF_DATA_TOKENIZER_H
#define MF_DATA_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/json.h"

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

/* A growing list of ids; `start`, where it is wanted, holds the byte at which each token
 * begins. */
typedef struct mf_ids {
    int32_t *id;
    size_t *start; /* NULL unless want_start */
    size_t n, cap;
    bool want_start;
} mf_ids;
void mf_ids_free(mf_ids *ids);
int mf_ids_reserve(mf_ids *ids, size_t n); /* room for n more */
int mf_ids_push(mf_ids *ids, int32_t id, size_t start);

typedef struct mf_tokenizer mf_tokenizer;

typedef struct mf_tokenizer_options {
    uint32_t specials; /* MF_SPECIAL_BIT(...) */
    /* Most ids of kinds that learn them, without the specials that are asked for; 0: the kind's
     * default. */
    int32_t vocab_size;
    int32_t merges;    /* most merges of kinds that merge; 0: the kind's default */
    int32_t min_count; /* of a pair that bpe and bpe_bytes merge; 0: 2 */
    bool lamoe;        /* bpe: as LaMoE's trainer (merges.h): its vocabulary with its ids, <pad>
                          0, then * sorted with <unk> and the specials asked for; min_count 0:
                          1 */
} mf_tokenizer_options;

typedef struct mf_tokenizer_ops {
    const char *name;
    /* Appends to ids. source names the text in messages (a path), base is the offset of text in
     * it. MF_EINPUT. */
    int (*encode)(const mf_tokenizer *t, const char *source, size_t base, const char *text,
                  size_t n, mf_ids *ids);
    /* Bytes of an ordinary id; NULL past the end. */
    const char *(*piece)(const mf_tokenizer *t, int32_t id, size_t *ret_n);
    /* Its own members of the tokenizer file, into the open object. */
    int (*write)(const mf_tokenizer *t, mf_jw *w);
    void (*free)(mf_tokenizer *t);
    /* Constructors: from a text, and from the members of a file. options is not NULL; its
     * specials are added afterwards. */
    int (*train)(const char *source, const char *text, size_t n,
                 const mf_tokenizer_options *options, mf_tokenizer **ret);
    int (*read)(const char *source, const mf_json *object, mf_tokenizer **ret);
} mf_tokenizer_ops;

struct mf_tokenizer {
    const mf_tokenizer_ops *ops;
    int32_t pieces;               /* ordinary ids: 0 .. pieces-1 */
    int32_t vocab;                /* with the special ones */
    int32_t special[MF_SPECIALS]; /* id, -1 without */
    bool own_specials; /* the kind has set special: these are among the pieces, decode to "" */
    size_t longest;    /* bytes of the longest piece */
    bool lossless;     /* decode(encode(text)) = text, so bytes can be counted from ids */
};

/* A tokenizer of a kind, made from a text (byte does not look at it). options may be NULL.
 * MF_ECONFIG for an unknown kind, MF_EINPUT for a text that it cannot take. */
int mf_tokenizer_train(const char *kind, const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret);
void mf_tokenizer_free(mf_tokenizer *t);
bool mf_tokenizer_is_kind(const char *name); /* else the name is a file's */
const char *const *mf_tokenizer_kinds(void); /* NULL-terminated */

/* The tokenizer file, JSON: {"format": "moefw-tokenizer", "version": 1, "kind": ...}. Also
 * read: vocab.txt of BERT, and LaMoE's JSON. */
int mf_tokenizer_save(const mf_tokenizer *t, const char *path);
/* LaMoE's JSON: {"vocab_dict": {TOKEN: ID}, "merges": {"LEFT:RIGHT": "LEFTRIGHT"}, "max_iter":
 * N}. It is read back before it is written: MF_EINPUT for another kind than bpe, and where its
 * layout would not say the same again (it has no sign for a colon within a token). */
int mf_tokenizer_save_lamoe(const mf_tokenizer *t, const char *path);
int mf_tokenizer_load(const char *path, mf_tokenizer **ret);
int mf_tokenizer_parse(const char *source, const char *text, size_t n, mf_tokenizer **ret);

int mf_tokenizer_encode(const mf_tokenizer *t, const char *source, const char *text, size_t n,
                        mf_ids *ids);
/* Bytes of any id; "" for special and unknown ids. */
const char *mf_tokenizer_piece(const mf_tokenizer *t, int32_t id, size_t *ret_n);
const char *mf_special_name(mf_special s); /* "<pad>" */
int mf_special_find(const char *name);     /* mf_special, -1: no such name */
/* The name of a special id, "<cls>"; NULL for any other. */
const char *mf_tokenizer_special(const mf_tokenizer *t, int32_t id);
/* Bytes that n ids stand for; 0 if the tokenizer is not lossless. */
uint64_t mf_tokenizer_bytes(const mf_tokenizer *t, const int32_t *ids, size_t n);

/* Decoding piece by piece. What comes out is always whole, valid UTF-8: bytes of an unfinished
 * character wait, bytes that can never become one come out as U+FFFD. */
typedef struct mf_decoder {
    const mf_tokenizer *tokenizer;
    char *buffer;
    char wait[4];
    size_t n_wait;
} mf_decoder;
int mf_decoder_open(mf_decoder *d, const mf_tokenizer *t);
void mf_decoder_close(mf_decoder *d);
/* Text that this id completes (may be ""), valid until the next call. NUL-terminated. */
const char *mf_decoder_next(mf_decoder *d, int32_t id, size_t *ret_n);
const char *mf_decoder_end(mf_decoder *d, size_t *ret_n); /* what waits, and starts afresh */

#endif
