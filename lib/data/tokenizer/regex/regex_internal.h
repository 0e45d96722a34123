/* data/tokenizer/regex/regex_internal.h: what the files of this folder share. parse.c makes a
 * tree of the text, program.c makes nodes of the tree, classes.c numbers the characters by the
 * sets that contain them, and scan.c finds matches. */
#ifndef MF_DATA_REGEX_INTERNAL_H
#define MF_DATA_REGEX_INTERNAL_H

#include "data/tokenizer/regex/regex.h"

/* ---- sets of characters (classes.c) ---- */

/* A set is a list of operations on a stack of truth values, evaluated for one character. */
typedef enum mf_rx_op {
    MF_RX_EMPTY,    /* pushes false */
    MF_RX_RANGE,    /* top = top or a <= c <= b */
    MF_RX_CATEGORY, /* top = top or the category is in the set a */
    MF_RX_SCRIPT,   /* top = top or the script is number a */
    MF_RX_SPACE,
    MF_RX_WORD,
    MF_RX_NOT, /* top = not top */
    MF_RX_OR,  /* the two uppermost values become one */
    MF_RX_AND
} mf_rx_op;
typedef struct mf_rx_step {
    mf_rx_op op;
    uint32_t a, b;
    uint32_t n; /* of the first one of ranges that follow each other: how many (classes.c) */
} mf_rx_step;
typedef struct mf_rx_set {
    size_t begin, n; /* steps of the set */
} mf_rx_set;
typedef struct mf_rx_sets {
    mf_rx_step *step;
    size_t n_steps, cap_steps;
    mf_rx_set set[MF_REGEX_SETS];
    int n;
} mf_rx_sets;
/* Returns the number of a script; -1: unknown. name: letters without blanks and signs. */
int mf_rx_script(const char *name);
extern const char *const mf_rx_script_names[]; /* NULL-terminated */

/* Characters have the same class if they are in the same sets. */
enum { MF_RX_CLASSES = 254, MF_RX_PAGE = 256, MF_RX_PAGES = 0x110000 / MF_RX_PAGE };
typedef struct mf_rx_classes {
    uint16_t page[MF_RX_PAGES]; /* index of the page of 256 characters */
    uint8_t *of;                /* [pages * MF_RX_PAGE] class of each character */
    size_t n_pages;
    int n;
    uint64_t in[MF_REGEX_SETS][4]; /* [set] the classes in each set, as bits */
} mf_rx_classes;
int mf_rx_classify(const char *where, mf_rx_sets *s, mf_rx_classes *ret);

/* ---- the tree (parse.c) ---- */

typedef enum mf_rx_kind {
    MF_RX_NOTHING, /* matches the empty text */
    MF_RX_CHAR,    /* one character of set a */
    MF_RX_CAT,     /* a, then b */
    MF_RX_ALT,     /* a, else b */
    MF_RX_REPEAT,  /* a, from min to max times */
    MF_RX_AHEAD,   /* whether a matches what follows */
    MF_RX_BEHIND   /* whether the character before is in set a; no character is in no set */
} mf_rx_kind;
enum { MF_RX_NO_END = -1 };
typedef struct mf_rx_tree {
    mf_rx_kind kind;
    int32_t a, b;
    int32_t min, max; /* max MF_RX_NO_END: any number */
    bool lazy;        /* repeats as rarely as possible */
    bool possessive;  /* repeats as often as possible, and never gives one back */
    bool negative;    /* of AHEAD and BEHIND */
} mf_rx_tree;
typedef struct mf_rx_parsed {
    mf_rx_tree *tree;
    int32_t n, cap, root;
    mf_rx_sets sets;
} mf_rx_parsed;
int mf_rx_parse(const char *where, const char *text, size_t n, mf_rx_parsed *ret);
void mf_rx_parsed_free(mf_rx_parsed *p);

/* ---- nodes (program.c) ---- */

typedef enum mf_rx_node_kind {
    MF_RX_ACCEPT,
    MF_RX_ONE,   /* a character of set a, then node b */
    MF_RX_SPLIT, /* node a, else node b */
    MF_RX_LOOK,  /* node b if node a can, or with `negative` cannot, be completed here */
    MF_RX_BACK   /* node b if the character before is, or with `negative` is not, in set a */
} mf_rx_node_kind;
typedef struct mf_rx_node {
    uint8_t kind, depth; /* depth: in how many look-aheads the node is */
    bool negative;
    bool loop, lazy; /* of SPLIT: one of its nodes leads back to it, with `lazy` b, else a */
    uint16_t a, b;
} mf_rx_node;
struct mf_regex {
    mf_rx_node *node;
    int32_t n, start;
    uint16_t *order; /* [n] nodes, the deepest first */
    /* Lists of the nodes that go on with a node at the same place of a text: entry 2i is node i
     * by its b, 2i + 1 by its a. Both arrays have the number of an entry + 1; 0: the end. */
    uint16_t *first_user; /* [n] */
    uint16_t *next_user;  /* [2 n] */
    bool behind;          /* there are nodes MF_RX_BACK */
    mf_rx_classes classes;
};

#endif
