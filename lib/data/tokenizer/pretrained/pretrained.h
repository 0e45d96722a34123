/* data/tokenizer/pretrained/pretrained.h: the parts of a tokenizer that is described by a
 * tokenizer.json. Encoding finds added tokens, normalizes the text between them, cuts it into
 * words, and divides each word into tokens; each part has a file of its own. A file that
 * needs what no part can do is refused when it is read, so encoding fails only for text that
 * is not UTF-8 or has a byte without token, for 2^31 bytes or more at once, or for want of a
 * block of memory. */
#ifndef MF_DATA_PRETRAINED_H
#define MF_DATA_PRETRAINED_H

#include "io/unicode.h"
#include "data/strings.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/pretrained/files.h"

/* ---- what code points are for the library (versions.c) ---- */
uint32_t mf_pt_category(uint32_t c); /* of regular expressions, as a set of one or more */
uint32_t mf_pt_lower(uint32_t c);
bool mf_pt_is_word(uint32_t c);    /* \w */
bool mf_pt_is_accent(uint32_t c);  /* what BERT removes with strip_accents */
bool mf_pt_is_mark(uint32_t c);    /* what StripAccents removes */
bool mf_pt_has_form(uint32_t c);   /* false: no normal form changes or moves it */
bool mf_pt_is_control(uint32_t c); /* what BERT removes with clean_text */
bool mf_pt_is_sign(uint32_t c);    /* beyond ASCII: what BERT makes a word of its own */

/* ---- text with the origin of its bytes (text.c) ---- */
typedef struct mf_pt_text {
    char *bytes;
    size_t n, cap;
    size_t *from; /* offset in the source of each byte; NULL unless `mapped` */
    bool mapped;
} mf_pt_text; /* {0} is empty */
void mf_pt_text_free(mf_pt_text *t);
/* Appends n bytes. from: their offsets, or NULL: `at` for each of them, or at, at + 1, ... if
 * `step`. The only error is MF_ENOMEM. */
int mf_pt_text_add(mf_pt_text *t, const char *bytes, size_t n, const size_t *from, size_t at,
                   bool step);

/* A part of a text: where byte i comes from is from[i], or base + i if from is NULL. */
typedef struct mf_pt_view {
    const char *bytes;
    size_t n;
    const size_t *from;
    size_t base;
} mf_pt_view;
size_t mf_pt_origin(const mf_pt_view *v, size_t i);
mf_pt_view mf_pt_part(const mf_pt_view *v, size_t begin, size_t end);
mf_pt_view mf_pt_whole(const mf_pt_text *t);

/* ---- normalization (normalize.c) ---- */
typedef enum mf_pt_step_kind {
    MF_PT_FORM,    /* NFC, NFD, NFKC, NFKD */
    MF_PT_BERT,    /* BertNormalizer */
    MF_PT_LOWER,   /* lower case */
    MF_PT_UNMARK,  /* accents and other combining marks are removed */
    MF_PT_PREPEND, /* `text` before a text that is not empty */
    MF_PT_REPLACE, /* each `text` becomes `with` */
    MF_PT_TRIM     /* blanks at the ends disappear */
} mf_pt_step_kind;
typedef struct mf_pt_step {
    mf_pt_step_kind kind;
    mf_unicode_form form;
    bool clean, ideographs, accents, lower; /* of BERT: which steps it does */
    bool left, right;                       /* ends that are trimmed */
    char *text, *with;
    size_t n_text, n_with;
} mf_pt_step;
enum { MF_PT_STEPS = 16, MF_PT_GROWTH = 1024 };
typedef struct mf_pt_steps {
    mf_pt_step step[MF_PT_STEPS];
    int n;
    double growth; /* length of a text behind all Replace steps / before them; 0: no step */
} mf_pt_steps;
void mf_pt_steps_free(mf_pt_steps *s);
/* Normalizes valid UTF-8. Without steps *ret is *v; else it is in one of the two work texts,
 * which keep their memory for the next call. The only error is MF_ENOMEM. */
int mf_pt_normalize(const mf_pt_steps *s, const mf_pt_view *v, mf_pt_text work[2],
                    mf_pt_view *ret);

/* ---- words (split.c) ---- */
/* Length of the match of a splitter at `at` in a text of n bytes of valid UTF-8, 0 if there is
 * none. What matches is one word, and so is all between two matches. *drop, false before the
 * call: this word is skipped. */
typedef size_t (*mf_pt_splitter)(const char *text, size_t n, size_t at, bool *drop);
/* The splitter of a regular expression, found by its exact text; NULL: there is none. */
mf_pt_splitter mf_pt_split_pattern(const char *pattern, size_t n);
/* The name of a splitter that has a pattern: gpt2, qwen2, llama3, gpt_oss, and numbers, cjk and
 * words (DeepSeek-V3); NULL: another one. */
const char *mf_pt_split_name(mf_pt_splitter split);
size_t mf_pt_split_bytes(const char *text, size_t n, size_t at, bool *drop); /* GPT-2 */
size_t mf_pt_split_bert(const char *text, size_t n, size_t at, bool *drop);
size_t mf_pt_split_digit(const char *text, size_t n, size_t at, bool *drop);
size_t mf_pt_split_digits(const char *text, size_t n, size_t at, bool *drop);
size_t mf_pt_split_blanks(const char *text, size_t n, size_t at, bool *drop);
/* Before each U+2581, and before the first of a run of them. */
size_t mf_pt_split_each_bar(const char *text, size_t n, size_t at, bool *drop);
size_t mf_pt_split_bars(const char *text, size_t n, size_t at, bool *drop);

typedef enum mf_pt_bar { MF_PT_BAR_NEVER, MF_PT_BAR_FIRST, MF_PT_BAR_ALWAYS } mf_pt_bar;
enum { MF_PT_SPLITTERS = 8 };
typedef struct mf_pt_words {
    mf_pt_splitter split[MF_PT_SPLITTERS]; /* each cuts the words of the one before */
    int n;
    bool bars;         /* blanks become U+2581 */
    mf_pt_bar prepend; /* with bars: where U+2581 is put in front */
    bool blank;        /* a blank is put before a text that begins with none */
    bool bytes;        /* the vocabulary spells bytes by letters (byte-level) */
} mf_pt_words;

/* ---- added tokens (added.c) ---- */
typedef struct mf_pt_added_token {
    int32_t id;
    bool single_word, lstrip, rstrip, normalized;
    bool special;
} mf_pt_added_token;
typedef struct mf_pt_node {
    int32_t sibling, child; /* -1: none */
    int32_t token;          /* index of the added token that ends here, -1: none */
    unsigned char byte;
} mf_pt_node;
typedef struct mf_pt_trie {
    mf_pt_node *node;
    int32_t n, cap;
    int32_t root[256]; /* node of each first byte, -1: none */
} mf_pt_trie;          /* not usable before mf_pt_trie_begin */
void mf_pt_trie_begin(mf_pt_trie *t);
void mf_pt_trie_free(mf_pt_trie *t);
/* Adds a text of n > 0 bytes; one that is there already keeps its token. */
int mf_pt_trie_add(mf_pt_trie *t, const char *text, size_t n, int32_t token);
/* The text from..begin-1 has no added token; `token` stands at begin..end-1. It is -1 if none
 * follows, and begin is then the end of the text. */
typedef struct mf_pt_match {
    size_t from, begin, end;
    int32_t token;
    size_t search; /* where the next search begins */
} mf_pt_match;     /* {0} before the first */
/* Finds the next added token, the leftmost and of these the longest. False after the
 * last part. */
bool mf_pt_next_added(const mf_pt_trie *t, const mf_pt_added_token *tokens, const char *text,
                      size_t n, mf_pt_match *m);

/* ---- the vocabulary and its two models ---- */
typedef struct mf_pt_merge {
    uint64_t key; /* left + 1 in the high half, right in the low one; 0: free */
    int32_t rank, made;
} mf_pt_merge;
typedef struct mf_pt_token {
    int32_t id;
    uint32_t n; /* bytes of the word */
} mf_pt_token;
typedef struct mf_pt_found { /* the tokens of a word, and work memory; {0} before the first */
    mf_pt_token *token;
    size_t n, cap;
    struct mf_pt_symbol *symbol;
    size_t n_symbol, cap_symbol;
    uint64_t *heap;
    size_t n_heap, cap_heap;
} mf_pt_found;
void mf_pt_found_free(mf_pt_found *f);

typedef struct mf_pt_model {
    mf_strings names; /* as in the file */
    int32_t *id_of;   /* [names.n] */
    bool wordpiece;
    int32_t unk; /* -1: none */
    /* of BPE */
    mf_pt_merge *merge; /* hash table */
    size_t slots;
    int32_t byte[256]; /* ids of single bytes, -1: none */
    bool byte_level;   /* a symbol is a byte, else a character */
    bool byte_fallback, fuse_unk, ignore_merges;
    bool cuts_at_bars; /* no merge crosses the boundary before a run of U+2581 */
    /* of WordPiece */
    char prefix[16];
    size_t n_prefix, longest, word_max; /* bytes, bytes, characters */
} mf_pt_model;
void mf_pt_model_free(mf_pt_model *m);
int32_t mf_pt_id(const mf_pt_model *m, const char *name, size_t n); /* -1: not found */
/* Enters merge `rank`; a pair that is there already gets the new rank, as in the library. Slots
 * must be free. */
void mf_pt_add_merge(mf_pt_model *m, int32_t left, int32_t right, int32_t rank, int32_t made);
/* Appends the tokens of a word to f (merge.c, pieces.c). MF_ENOMEM; MF_EINPUT for a byte that a
 * byte-level vocabulary lacks. */
int mf_pt_merge_word(const mf_pt_model *m, const char *word, size_t n, mf_pt_found *f);
int mf_pt_piece_word(const mf_pt_model *m, const char *word, size_t n, mf_pt_found *f);
int mf_pt_found_add(mf_pt_found *f, int32_t id, size_t n);

/* The letter that stands for a byte in a byte-level vocabulary. */
uint32_t mf_pt_letter_of(unsigned char byte);

/* ---- decoding: how the text of a token follows from its name ---- */
typedef struct mf_pt_decoding {
    bool bytes;         /* letters stand for bytes */
    bool byte_fallback; /* <0x0A> is a byte */
    bool words;         /* of WordPiece: a blank before each token without prefix */
    bool clean;         /* of WordPiece: no blank before . , ? ! */
    bool bars;          /* U+2581 is a blank */
    bool joined;        /* without a decoder: a blank before each token */
    bool trim_first;    /* the whole text loses one blank in front */
} mf_pt_decoding;

/* ---- the tokenizer ---- */
typedef struct mf_pretrained {
    mf_tokenizer base;
    mf_pt_files files; /* as they were read, for writing them back */
    mf_pt_steps steps;
    mf_pt_words words;
    mf_pt_model model;
    mf_pt_decoding decoding;
    mf_pt_added_token *added; /* [added_names.n] */
    mf_strings added_names;
    int64_t added_last;       /* the largest of their ids; -1: none */
    mf_pt_trie plain, normal; /* added tokens that are sought before, after normalization */
    char *shown;              /* the texts of all ids, one after the other */
    size_t *shown_begin;      /* [pieces + 1] */
    char *chat_template;      /* NULL: none; base.chat_template is the same */
} mf_pretrained;

int mf_pt_encode(const mf_tokenizer *base, const char *source, size_t offset, const char *text,
                 size_t n, mf_ids *ids);

/* mf_tokenizer_ops.cut: behind a newline between two letters or digits of ASCII, which every
 * splitter of texts into words cuts. 0 for tokenizers without one, and for those that put or
 * remove something at the ends of a text. */
size_t mf_pt_cut(const mf_tokenizer *base, const char *text, size_t n);

/* ---- reading (read_*.c): each takes a member of tokenizer.json ---- */
int mf_pt_read_steps(const char *source, const mf_json *v, mf_pt_steps *ret);
int mf_pt_read_words(const char *source, const mf_json *v, mf_pt_words *ret);
int mf_pt_read_model(const char *source, const mf_json *v, bool byte_level, mf_pt_model *ret);
/* "%s: NAME: WHAT: expected ...", with MF_EINPUT; what: the type that is not known. */
int mf_pt_refuse(const char *source, const char *member, const mf_json *type,
                 const char *expected);
bool mf_pt_is(const mf_json *v, const char *type); /* whether "type" is this one */
bool mf_pt_true(const mf_json *v, const char *key, bool missing);
int mf_pt_read_decoding(const char *source, const mf_json *v, mf_pt_decoding *ret);
int mf_pt_read_added(const char *source, const mf_json *v, mf_pretrained *t);
int mf_pt_read_template(const char *source, const mf_json *v, mf_pretrained *t);
/* Parts of mf_pt_read_model. Adds a name with its id. */
int mf_pt_add_name(const char *source, const char *name, size_t n, int64_t id, mf_pt_model *m);
int mf_pt_read_vocabulary(const char *source, const mf_json *v,
                          mf_pt_model *m); /* {name: id} */
/* Adds merge `rank` of `most`; left, right and the two joined must be in the vocabulary. */
int mf_pt_name_merge(const char *source, mf_pt_model *m, int32_t rank, size_t most,
                     const char *left, size_t n_left, const char *right, size_t n_right);
/* Completes a model whose vocabulary and merges were read: sets the symbols that words
 * begin with. */
void mf_pt_settle(mf_pt_model *m);
/* Sets special[] by names in tokenizer_config.json and special_tokens_map.json, either may be
 * NULL, else by usual names of added tokens. */
void mf_pt_find_roles(mf_pretrained *t, const mf_json *config, const mf_json *map);
/* Reads vocab.json and merges.txt, or vocab.txt, of t->files; config may be NULL. */
int mf_pt_read_lists(const char *where, const mf_json *config, mf_pretrained *t);
/* Whether the letters of a name stand for bytes, and these are not the bytes of the
 * name itself. */
bool mf_pt_means_bytes(const char *name, size_t n);
/* Makes the texts of all ids; sets pieces and longest. */
int mf_pt_show(const char *source, mf_pretrained *t);

#endif
