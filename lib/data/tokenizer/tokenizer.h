/* data/tokenizer/tokenizer.h: converts text to token ids and back.
 *
 * A tokenizer is a vtable with its own data. Training and reading a file both use the same
 * constructor, which checks everything. encode and decode do not change the tokenizer, so
 * threads may share it.
 *
 *   byte  one token per byte: ids 0..255. Accepts any bytes, loses nothing.
 *   char  one token per Unicode code point: ids in the order of the code points that occur in
 *         the training text. Text must be valid UTF-8. An unknown code point is an error that
 *         names it and its offset, unless the tokenizer has the special token <unk>.
 *   bpe   merges the characters and the end of each word, most frequent pair first. Words are
 *         separated by blanks; a run of blanks decodes to one blank. Unknown characters are
 *         <unk>.
 *   bpe_bytes  merges bytes: ids 0..255, then merges. Accepts any bytes, loses nothing.
 *   wordpiece  tokens of BERT. Blanks are lost. Case and accents are also lost, unless a token
 *         of the vocabulary has capitals. Trained here, or read from a file with one token on
 *         each line.
 *
 *   pretrained  a published tokenizer, read from its tokenizer.json or its folder: byte-level
 *          BPE, BPE of characters with bytes for unknown characters, or WordPiece.
 *
 * Special tokens, if requested, get the ids after the ordinary tokens, in the order of the
 * enum. Encoding never produces special tokens, except <unk>, and they decode to nothing. The
 * kinds bpe and wordpiece have special tokens of their own, whose ids are among the ordinary
 * ids. The special tokens of pretrained have a text: encoding finds this text, and they decode
 * to it. */
#ifndef MF_DATA_TOKENIZER_H
#define MF_DATA_TOKENIZER_H

#include "data/jinja/jinja.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "io/json.h"

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
int mf_ids_reserve(mf_ids *ids, size_t n); /* Makes space for n more ids. */
int mf_ids_push(mf_ids *ids, int32_t id, size_t start);

typedef struct mf_tokenizer mf_tokenizer;

/* A template for one text or two: a sequence of tokens and of the positions of the texts. */
enum { MF_TEMPLATE_FIRST = -1, MF_TEMPLATE_SECOND = -2 };
typedef struct mf_template_item {
    int32_t id;   /* id of a token, or MF_TEMPLATE_FIRST or MF_TEMPLATE_SECOND */
    int32_t type; /* the token type of this part */
} mf_template_item;
typedef struct mf_template {
    mf_template_item *item;
    int32_t n; /* number of parts; 0: no tokens are added to the texts */
} mf_template;

typedef struct mf_tokenizer_options {
    uint32_t specials; /* set of MF_SPECIAL_BIT(...) */
    /* Greatest number of ids of kinds that learn their ids, without the requested special
     * tokens; 0: the default of the kind. */
    int32_t vocab_size;
    /* greatest number of merges of bpe and bpe_bytes; 0: the kind's default */
    int32_t merges;
    int32_t min_count; /* least count of a pair that bpe and bpe_bytes merge; 0: 2 */
    /* for bpe: use rule.keeps_counts (merges.h), and the ids of the layout vocab_dict: <pad> is
     * 0, then symbols sorted together with <unk> and the requested special tokens; min_count 0
     * means 1 */
    bool keeps_counts;
} mf_tokenizer_options;

typedef struct mf_tokenizer_ops {
    const char *name;
    /* Appends the tokens of text to ids. source names the text in messages (a path), base is
     * the offset of text in its source. Fails with MF_EINPUT or MF_ENOMEM. */
    int (*encode)(const mf_tokenizer *t, const char *source, size_t base, const char *text,
                  size_t n, mf_ids *ids);
    /* Returns the bytes of an id, 0 <= id < pieces; "" for special tokens. */
    const char *(*piece)(const mf_tokenizer *t, int32_t id, size_t *ret_n);
    /* Writes the members of this kind into the open object of the tokenizer file. */
    int (*write)(const mf_tokenizer *t, mf_jw *w);
    void (*free)(mf_tokenizer *t);
    /* Constructors: from a text, and from the members of a file. options is not NULL; the
     * caller adds its special tokens afterwards. train is NULL for a kind that is only read. */
    int (*train)(const char *source, const char *text, size_t n,
                 const mf_tokenizer_options *options, mf_tokenizer **ret);
    int (*read)(const char *source, const mf_json *object, mf_tokenizer **ret);
    /* Returns the last offset, 0 < offset <= n, at which the text may be cut. The tokens of
     * both parts are then those of the whole, whatever text follows. 0: no such offset is
     * known. The pointer may be NULL: the kind has no such offset. */
    size_t (*cut)(const mf_tokenizer *t, const char *text, size_t n);
} mf_tokenizer_ops;

struct mf_tokenizer {
    const mf_tokenizer_ops *ops;
    int32_t pieces;               /* number of ordinary ids, 0 .. pieces-1 */
    int32_t vocab;                /* number of ids, including special tokens */
    int32_t special[MF_SPECIALS]; /* id of each special token, -1: none */
    /* the kind has set `special` itself: its special tokens are pieces and decode to "" */
    bool own_specials;
    size_t longest; /* length of the longest piece in bytes */
    /* decode(encode(text)) = text unless <unk> occurs, so the number of bytes follows from
     * the ids */
    bool lossless;
    /* the tokenizer is not lossless only because the text is first put into normal form NFC;
     * the number of bytes in this form follows from the ids */
    bool normal;
    /* decoding removes a blank at the beginning of the whole text, which is in its
     * first piece */
    bool trim_first;
    /* decoding removes a blank at the end of the whole text, which is in its last piece */
    bool trim_last;
    mf_template template[2]; /* templates of one text and of two texts; the kind owns them */
    /* template that makes a text from messages of a conversation (data/tokenizer/chat.h);
     * NULL: unknown */
    const char *chat_template;
    const mf_jinja *jinja; /* the same template, read; NULL: none, or it is not read */
};

/* Makes a tokenizer of a kind from a text (byte does not read the text). The caller frees it.
 * options may be NULL. MF_ECONFIG for an unknown kind, MF_EINPUT for a text that the kind does
 * not accept. */
int mf_tokenizer_train(const char *kind, const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret);
void mf_tokenizer_free(mf_tokenizer *t);
bool mf_tokenizer_is_kind(const char *name); /* Returns false for a file or an unknown name. */

/* Writes the tokenizer file, JSON: {"format": "moefw-tokenizer", "version": 1, "kind": ...}.
 * Reading also accepts vocab.txt of BERT, tokenizer.json, and the layout vocab_dict. */
int mf_tokenizer_save(const mf_tokenizer *t, const char *path);
/* Computes XXH3-128 of the content of the tokenizer file, as hexadecimal digits. */
int mf_tokenizer_hash(const mf_tokenizer *t, char out[33]);
/* Writes the layout vocab_dict: {"vocab_dict": {TOKEN: ID}, "merges": {"LEFT:RIGHT":
 * "LEFTRIGHT"}, "max_iter": N}. The text is read again before it is written to the file.
 * MF_EINPUT for another kind than bpe, or if reading would return another tokenizer (the format
 * cannot represent a colon inside a token). */
int mf_tokenizer_save_vocab_dict(const mf_tokenizer *t, const char *path);
/* Reads a tokenizer. path: a tokenizer file, a tokenizer.json, or a folder of a pretrained
 * model. From a folder, tokenizer.json, vocab.json and merges.txt, or vocab.txt are read, with
 * the folder's tokenizer_config.json. MF_ENOTFOUND, MF_EIO, MF_ENOMEM, or MF_EINPUT with the
 * error in the file or the unsupported function. */
int mf_tokenizer_load(const char *path, mf_tokenizer **ret);
int mf_tokenizer_parse(const char *source, const char *text, size_t n, mf_tokenizer **ret);

int mf_tokenizer_encode(const mf_tokenizer *t, const char *source, const char *text, size_t n,
                        mf_ids *ids);
/* Appends to ids the tokens that the template puts before a text. MF_ENOMEM. */
int mf_tokenizer_begin(const mf_tokenizer *t, mf_ids *ids);
/* Appends to ids the tokens of one text, or of two (second may be NULL), in the form of the
 * tokenizer's template. Without a template the second text follows the first. types, which may
 * be NULL, gets the token type of each token, stored as its ids. MF_ENOMEM. */
int mf_tokenizer_wrap(const mf_tokenizer *t, const mf_ids *first, const mf_ids *second,
                      mf_ids *ids, mf_ids *types);
/* The bytes of any id; "" for special and unknown ids. */
const char *mf_tokenizer_piece(const mf_tokenizer *t, int32_t id, size_t *ret_n);
const char *mf_special_name(mf_special s); /* Returns the name, for example "<pad>". */
int mf_special_find(const char *name);     /* Returns an mf_special; -1: no such name. */
/* The name of a special id, for example "<cls>"; NULL for any other id. */
const char *mf_tokenizer_special(const mf_tokenizer *t, int32_t id);
/* Returns the number of bytes that n ids represent; special tokens represent none. Returns 0 if
 * the number is unknown, because the tokenizer is neither lossless nor `normal`, or <unk> is
 * among the ids. */
uint64_t mf_tokenizer_bytes(const mf_tokenizer *t, const int32_t *ids, size_t n);

/* Decodes one id after another. The output is always complete, valid UTF-8. Bytes of an
 * incomplete character are kept for the next call, and bytes that cannot become a character are
 * replaced by U+FFFD. */
typedef struct mf_decoder {
    const mf_tokenizer *tokenizer;
    char *buffer;
    char wait[4];
    size_t n_wait;
    bool blank; /* a blank that is dropped if the text ends here */
    bool begun; /* true if the text has begun: a blank in front of the following text is
                 * not removed */
} mf_decoder;
/* Begins a text. For ids that continue another text, set d->begun. */
int mf_decoder_open(mf_decoder *d, const mf_tokenizer *t);
void mf_decoder_close(mf_decoder *d);
/* Returns the text that this id completes (may be ""), NUL-terminated, valid until the
 * next call. */
const char *mf_decoder_next(mf_decoder *d, int32_t id, size_t *ret_n);
/* Returns U+FFFD for each byte that was kept. Afterwards the decoder is in its
 * initial state. */
const char *mf_decoder_end(mf_decoder *d, size_t *ret_n);

#endif
