/* data/tokenizer/pretrained/pretrained.h: the parts of a tokenizer that is described by a
 * tokenizer.json. Encoding finds added tokens, normalizes the text between them, cuts this text
 * into words, and divides each word into tokens. Each of these parts has its own source file.
 * If a tokenizer.json needs an unsupported function, reading it fails. Encoding therefore fails
 * only for a text that is not UTF-8, that has a byte without token, or that has 2^31 bytes or
 * more, or if a block of memory cannot be allocated. */
#ifndef MF_DATA_PRETRAINED_H
#define MF_DATA_PRETRAINED_H

#include "io/unicode.h"
#include "data/strings.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/pretrained/files.h"
#include "data/tokenizer/regex/regex.h"

/* ---- what code points are for the library (versions.c) ---- */
uint32_t mf_pt_category(uint32_t c); /* Returns the category in regular expressions, as a set of
                                      * one category. */
bool mf_pt_is_late_number(uint32_t c); /* Whether only Digits takes it for a number. */
uint32_t mf_pt_lower(uint32_t c);
bool mf_pt_is_word(uint32_t c);    /* Whether the regular expression \w matches. */
bool mf_pt_is_accent(uint32_t c);  /* Whether BERT removes the code point as an accent. */
bool mf_pt_is_mark(uint32_t c);    /* Whether StripAccents removes the code point. */
bool mf_pt_has_form(uint32_t c);   /* Returns false if no normal form changes or moves the
                                    * code point. */
bool mf_pt_is_control(uint32_t c); /* Whether BERT removes the code point with clean_text. */
bool mf_pt_is_sign(uint32_t c);    /* For code points beyond ASCII: whether BERT makes the code
                                    * point a word of its own. */

/* ---- text with the origin of its bytes (text.c) ---- */
typedef struct mf_pt_text {
    char *bytes;
    size_t n, cap;
    size_t *from; /* offset in the source from which each byte comes; NULL unless `mapped` */
    bool mapped;
} mf_pt_text; /* {0} is empty */
void mf_pt_text_free(mf_pt_text *t);
/* Appends n bytes. from: their offsets. If from is NULL, the offset of each byte is `at`, or
 * with `step` at, at + 1, ... The only error is MF_ENOMEM. */
int mf_pt_text_add(mf_pt_text *t, const char *bytes, size_t n, const size_t *from, size_t at,
                   bool step);

/* A part of a text. The origin of byte i is from[i], or base + i if from is NULL. */
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
    MF_PT_PREPEND, /* `text` is put before each text that is not empty */
    MF_PT_REPLACE, /* each `text` becomes `with` */
    MF_PT_TRIM,    /* blanks at the ends are removed */
    MF_PT_MATCHES, /* each match of `regex` becomes `with` */
    MF_PT_CHARSMAP /* characters are replaced by the table `map` of sentencepiece */
} mf_pt_step_kind;
typedef struct mf_pt_step {
    mf_pt_step_kind kind;
    mf_unicode_form form;
    bool clean, ideographs, accents, lower; /* for BERT: which steps are performed */
    bool left, right;                       /* which ends are trimmed */
    char *text, *with;
    size_t n_text, n_with;
    mf_regex *regex;
    struct mf_pt_charsmap *map;
} mf_pt_step;
enum { MF_PT_STEPS = 16, MF_PT_GROWTH = 1024 };
typedef struct mf_pt_steps {
    mf_pt_step step[MF_PT_STEPS];
    int n;
    double growth; /* greatest ratio of the text length after all Replace steps to the length
                    * before; 0: no such step */
} mf_pt_steps;
void mf_pt_steps_free(mf_pt_steps *s);
/* Normalizes valid UTF-8. Without steps, *ret is *v. Otherwise *ret is in one of the two work
 * texts, which keep their memory for the next call. The only error is MF_ENOMEM. */
int mf_pt_normalize(const mf_pt_steps *s, const mf_pt_view *v, mf_pt_text work[2],
                    mf_pt_view *ret);

/* A table of sentencepiece (charsmap.c): a trie of characters, and what replaces them. */
typedef struct mf_pt_charsmap mf_pt_charsmap;
/* Reads a table, in base64. MF_EINPUT if it is damaged; MF_ENOMEM. */
int mf_pt_charsmap_read(const char *source, const char *text, size_t n, mf_pt_charsmap **ret);
void mf_pt_charsmap_free(mf_pt_charsmap *m);
int mf_pt_charsmap_apply(const mf_pt_charsmap *m, const mf_pt_view *v, mf_pt_text *out);

/* ---- words (split.c) ---- */
/* Returns the length of the match of a splitter at `at` in a text of n bytes of valid UTF-8; 0
 * if there is no match. Each match is one word. The text between two matches is also one word.
 * *drop, false before the call: the splitter sets it to skip this word. */
typedef size_t (*mf_pt_splitter)(const char *text, size_t n, size_t at, bool *drop);
/* Returns the splitter of a regular expression, found by its exact text; NULL: there
 * is none. */
mf_pt_splitter mf_pt_split_pattern(const char *pattern, size_t n);
/* Whether a newline between two letters or digits of ASCII is always a word of its own, as with
 * some expressions that have no function. */
bool mf_pt_cuts_lines(const char *pattern, size_t n);
/* The expression that finds the words of the kind bpe_bytes. Words of more than 256 characters
 * are cut there by characters, and in bpe_bytes by bytes. */
extern const char mf_pt_pattern_own[];
/* Returns the name of a splitter that has a pattern: gpt2, qwen2, llama3, gpt_oss, and numbers,
 * cjk and words (DeepSeek-V3); NULL: a splitter without a name. */
const char *mf_pt_split_name(mf_pt_splitter split);
/* Returns the pattern of the splitter with this name; NULL: there is none. */
const char *mf_pt_pattern_named(const char *name);
/* Uses the pattern of GPT-2. */
size_t mf_pt_split_bytes(const char *text, size_t n, size_t at, bool *drop);
size_t mf_pt_split_bert(const char *text, size_t n, size_t at, bool *drop);
size_t mf_pt_split_digit(const char *text, size_t n, size_t at, bool *drop);
size_t mf_pt_split_digits(const char *text, size_t n, size_t at, bool *drop);
size_t mf_pt_split_blanks(const char *text, size_t n, size_t at, bool *drop);
/* The first function splits before each U+2581, the second before the first U+2581 of
 * each run. */
size_t mf_pt_split_each_bar(const char *text, size_t n, size_t at, bool *drop);
size_t mf_pt_split_bars(const char *text, size_t n, size_t at, bool *drop);

/* ---- a sequence of pre-tokenizers (cut.c) ---- */
typedef enum mf_pt_bar { MF_PT_BAR_NEVER, MF_PT_BAR_FIRST, MF_PT_BAR_ALWAYS } mf_pt_bar;
typedef enum mf_pt_rule_kind {
    MF_PT_CUT_SPLITTER, /* by a function */
    MF_PT_CUT_REGEX,    /* at the matches of an expression */
    MF_PT_CUT_STRING,   /* at the places of `text` */
    MF_PT_CUT_SIGNS,    /* at each punctuation character */
    MF_PT_BARS,         /* blanks become U+2581, and `prepend` may put one in front */
    MF_PT_BLANK         /* a blank is put before a text that does not begin with one */
} mf_pt_rule_kind;
/* What becomes of a match: it is removed, is a word of its own, ends the word before it, begins
 * the word behind it, or is one word with the matches that touch it. */
typedef enum mf_pt_behavior {
    MF_PT_REMOVED,
    MF_PT_ISOLATED,
    MF_PT_WITH_PREVIOUS,
    MF_PT_WITH_NEXT,
    MF_PT_CONTIGUOUS
} mf_pt_behavior;
typedef struct mf_pt_rule {
    mf_pt_rule_kind kind;
    mf_pt_splitter split; /* NULL unless the kind is MF_PT_CUT_SPLITTER */
    mf_regex *regex;      /* owned */
    char *text;           /* owned, n bytes */
    size_t n;
    mf_pt_behavior behavior;
    bool invert;     /* the text between matches counts as match, and the matches do not */
    bool cuts_lines; /* of an expression: mf_pt_cuts_lines */
    bool letters;    /* bytes were replaced by the letters that represent them */
    mf_pt_bar prepend;
} mf_pt_rule;
enum { MF_PT_RULES = 12 };
typedef struct mf_pt_words {
    mf_pt_rule rule[MF_PT_RULES]; /* each one cuts the words of the previous one */
    int n;
    bool bars;         /* blanks are replaced by U+2581 */
    mf_pt_bar prepend; /* with bars: which texts get a U+2581 in front */
    bool blank;        /* a blank is put before a text that does not begin with a blank */
    bool bytes;        /* the vocabulary represents bytes by letters (byte-level) */
} mf_pt_words;
void mf_pt_words_free(mf_pt_words *w);
/* Adds a function as the last one. Returns false if there are MF_PT_RULES. */
bool mf_pt_add_splitter(mf_pt_words *w, mf_pt_splitter split);

/* The words of one text. */
typedef struct mf_pt_piece {
    size_t begin, end;
    bool match;
} mf_pt_piece;
typedef struct mf_pt_pieces {
    const mf_pt_rule *cut;
    mf_regex_scan *scan;
    const char *text;
    size_t n, at;      /* length of the text; end of the last part */
    mf_pt_piece next;  /* a match that follows the text before it */
    bool found, ended; /* there is `next`; there is no further match */
    mf_pt_piece held;  /* a word to which the next part may be added */
    bool holds, last;  /* there is `held`; whether the last part was a match */
} mf_pt_pieces;
/* Begins the words of a text, n > 0 bytes of UTF-8. scan: for MF_PT_CUT_REGEX. */
int mf_pt_pieces_begin(mf_pt_pieces *p, const mf_pt_rule *cut, mf_regex_scan *scan,
                       const char *text, size_t n);
/* Finds the next word. *more false: there is none. The only error is MF_ENOMEM. */
int mf_pt_pieces_next(mf_pt_pieces *p, size_t *begin, size_t *end, bool *more);

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
/* Adds a text of n > 0 bytes. A text that was added before keeps its token. */
int mf_pt_trie_add(mf_pt_trie *t, const char *text, size_t n, int32_t token);
/* Returns the node below a node (-1: above the root) for a byte; -1: none. */
int32_t mf_pt_trie_step(const mf_pt_trie *t, int32_t node, unsigned char byte);
/* The text from..begin-1 contains no added token; `token` is the text begin..end-1. If no added
 * token follows, token is -1, and begin is the end of the text. */
typedef struct mf_pt_match {
    size_t from, begin, end;
    int32_t token;
    size_t search; /* offset at which the next search begins */
} mf_pt_match;     /* {0} before the first match */
/* Finds the next added token: the leftmost, and among tokens with the same beginning the
 * longest. Returns false after the last part. */
bool mf_pt_next_added(const mf_pt_trie *t, const mf_pt_added_token *tokens, const char *text,
                      size_t n, mf_pt_match *m);

/* ---- the vocabulary and its models ---- */
typedef struct mf_pt_merge {
    uint64_t key; /* left + 1 in the upper 32 bits, right in the lower 32 bits; 0: free */
    int32_t rank, made;
} mf_pt_merge;
typedef struct mf_pt_token {
    int32_t id;
    uint32_t n; /* number of bytes of the word */
} mf_pt_token;
typedef struct mf_pt_found { /* the tokens of a word, and work memory; {0} before the
                              * first word */
    mf_pt_token *token;
    size_t n, cap;
    struct mf_pt_symbol *symbol;
    size_t n_symbol, cap_symbol;
    uint64_t *heap;
    size_t n_heap, cap_heap;
    struct mf_pt_way *way;
    size_t cap_way;
} mf_pt_found;
void mf_pt_found_free(mf_pt_found *f);

typedef enum mf_pt_model_kind {
    MF_PT_BPE,
    MF_PT_WORDPIECE,
    MF_PT_UNIGRAM,
    MF_PT_WORDLEVEL
} mf_pt_model_kind;
typedef struct mf_pt_model {
    mf_strings names; /* names as they are in the file */
    int32_t *id_of;   /* [names.n] id of each name */
    mf_pt_model_kind kind;
    int32_t unk; /* id of the unknown token; -1: none */
    /* of BPE */
    mf_pt_merge *merge; /* hash table */
    size_t slots;
    int32_t byte[256]; /* ids of single bytes, -1: none */
    bool byte_level;   /* a symbol is a byte, else a character */
    bool byte_fallback, fuse_unk, ignore_merges;
    bool cuts_at_bars; /* no merge crosses the boundary before a run of U+2581 */
    char suffix[16];   /* of the symbol that ends a word */
    size_t n_suffix;
    /* of WordPiece, and of BPE: what precedes the name of a token inside of a word */
    char prefix[16];
    size_t n_prefix, longest, word_max; /* length in bytes of the prefix, of the longest name;
                                         * greatest number of characters of a word */
    /* of Unigram */
    double *score;    /* [names.n] of each id */
    double unk_score; /* of a character without a token */
    mf_pt_trie trie;  /* of the names, with their ids */
} mf_pt_model;
void mf_pt_model_free(mf_pt_model *m);
/* Returns the id of a name; -1: not found. */
int32_t mf_pt_id(const mf_pt_model *m, const char *name, size_t n);
/* Adds the merge with this rank. A pair that was added before gets the new rank, as in the
 * library. The table must have free slots. */
void mf_pt_add_merge(mf_pt_model *m, int32_t left, int32_t right, int32_t rank, int32_t made);
/* Appends the tokens of a word to f (merge.c, pieces.c, unigram.c). MF_ENOMEM; MF_EINPUT for a
 * byte or character that the vocabulary lacks, if it has no token for unknown ones. */
int mf_pt_merge_word(const mf_pt_model *m, const char *word, size_t n, mf_pt_found *f);
int mf_pt_piece_word(const mf_pt_model *m, const char *word, size_t n, mf_pt_found *f);
int mf_pt_unigram_word(const mf_pt_model *m, const char *word, size_t n, mf_pt_found *f);
int mf_pt_level_word(const mf_pt_model *m, const char *word, size_t n, mf_pt_found *f);
int mf_pt_found_add(mf_pt_found *f, int32_t id, size_t n);

/* Returns the letter that represents a byte in a byte-level vocabulary. */
uint32_t mf_pt_letter_of(unsigned char byte);

/* ---- decoding: how the text of a token follows from its name ---- */
typedef struct mf_pt_decoding {
    bool bytes;         /* letters represent bytes */
    bool byte_fallback; /* the name <0x0A> means the byte */
    bool words;         /* for WordPiece: a blank precedes each token without prefix */
    bool clean;         /* for WordPiece: no blank precedes . , ? ! */
    bool bars;          /* U+2581 is decoded to a blank */
    bool joined;        /* there is no decoder: a blank precedes each token */
    bool trim_first;    /* one blank at the beginning of the whole text is removed */
    bool suffix;        /* the suffix of a model's words becomes a blank, none at the end */
} mf_pt_decoding;

/* ---- the tokenizer ---- */
typedef struct mf_pretrained {
    mf_tokenizer base;
    mf_pt_files files; /* the files unchanged, for writing them again */
    mf_pt_steps steps;
    mf_pt_words words;
    mf_pt_model model;
    mf_pt_decoding decoding;
    mf_pt_added_token *added; /* [added_names.n] */
    mf_strings added_names;
    int64_t added_last;       /* the largest id of an added token; -1: none */
    mf_pt_trie plain, normal; /* added tokens that are searched before (plain) and after
                               * (normal) normalization */
    char *shown;              /* the texts of all ids, one after another */
    size_t *shown_begin;      /* [pieces + 1] */
    char *chat_template;      /* NULL: none; base.chat_template points to this text */
    mf_jinja *jinja;          /* base.jinja points to it */
} mf_pretrained;

int mf_pt_encode(const mf_tokenizer *base, const char *source, size_t offset, const char *text,
                 size_t n, mf_ids *ids);

/* The function mf_tokenizer_ops.cut. It cuts after a newline between two letters or digits of
 * ASCII, where every splitter of texts into words cuts. 0 for tokenizers without such a
 * splitter, and for tokenizers that add or remove something at the ends of a text. */
size_t mf_pt_cut(const mf_tokenizer *base, const char *text, size_t n);

/* ---- reading (read_*.c): each takes a member of tokenizer.json ---- */
int mf_pt_read_steps(const char *source, const mf_json *v, mf_pt_steps *ret);
int mf_pt_read_words(const char *source, const mf_json *v, mf_pt_words *ret);
int mf_pt_read_model(const char *source, const mf_json *v, bool byte_level, mf_pt_model *ret);
/* Fails with MF_EINPUT and the message "%s: NAME: WHAT: expected ...". WHAT is the
 * unknown type. */
int mf_pt_refuse(const char *source, const char *member, const mf_json *type,
                 const char *expected);
bool mf_pt_is(const mf_json *v, const char *type); /* Whether the member "type" has
                                                    * this value. */
bool mf_pt_true(const mf_json *v, const char *key, bool missing);
int mf_pt_read_decoding(const char *source, const mf_json *v, mf_pt_decoding *ret);
int mf_pt_read_added(const char *source, const mf_json *v, mf_pretrained *t);
int mf_pt_read_template(const char *source, const mf_json *v, mf_pretrained *t);
/* The following functions are parts of mf_pt_read_model. This one adds a name with its id. */
int mf_pt_add_name(const char *source, const char *name, size_t n, int64_t id, mf_pt_model *m);
int mf_pt_read_vocabulary(const char *source, const mf_json *v,
                          mf_pt_model *m); /* receives the names and ids of the object
                                            * {name: id} */
/* Adds merge `rank` of `most`. The left token, the right token, and the two joined must be in
 * the vocabulary. */
int mf_pt_name_merge(const char *source, mf_pt_model *m, int32_t rank, size_t most,
                     const char *left, size_t n_left, const char *right, size_t n_right);
/* Completes a model whose vocabulary and merges were read: sets the symbols with which
 * words begin. */
void mf_pt_settle(mf_pt_model *m);
/* Sets special[] by names in tokenizer_config.json and special_tokens_map.json; either may be
 * NULL. Otherwise the usual names of added tokens are used. */
void mf_pt_find_roles(mf_pretrained *t, const mf_json *config, const mf_json *map);
/* Reads vocab.json and merges.txt, or vocab.txt, of t->files; config may be NULL. */
int mf_pt_read_lists(const char *where, const mf_json *config, mf_pretrained *t);
/* Whether the letters of a name represent bytes that differ from the bytes of the
 * name itself. */
bool mf_pt_means_bytes(const char *name, size_t n);
/* Makes the texts of all ids; sets the fields pieces and longest. */
int mf_pt_show(const char *source, mf_pretrained *t);

#endif
