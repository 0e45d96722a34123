/* data/jinja/jinja_internal.h: what the files of this folder share. lexer.c makes tokens,
 * parser.c and expressions.c a tree, run.c executes statements, evaluate.c computes
 * expressions; limits.c counts what they take; values.c, order.c, text.c, filters.c, tests.c
 * and methods.c know the values. */
#ifndef MF_DATA_JINJA_INTERNAL_H
#define MF_DATA_JINJA_INTERNAL_H

#include "base/mem.h"
#include "data/jinja/jinja.h"

#include <stdint.h>

/* ---- tokens (lexer.c) ---- */

typedef enum jj_token_kind {
    JJ_DATA,
    JJ_BLOCK_BEGIN,
    JJ_BLOCK_END,
    JJ_VALUE_BEGIN,
    JJ_VALUE_END,
    JJ_NAME,
    JJ_INT,
    JJ_FLOAT,
    JJ_STRING,
    JJ_SIGN, /* an operator or bracket */
    JJ_EOF
} jj_token_kind;
typedef struct jj_token {
    jj_token_kind kind;
    int line;
    const char *text; /* of a string: its value */
    size_t n;
} jj_token;
typedef struct jj_tokens {
    mf_arena *arena;
    jj_token *token;
    size_t n, cap;
} jj_tokens;
int jj_lex(const char *where, const char *text, size_t n, jj_tokens *ret);

/* ---- the tree ---- */

typedef enum jj_kind {
    /* statements */
    JJ_TEXT,   /* text */
    JJ_OUTPUT, /* a */
    JJ_IF,     /* if a: list b, else list c */
    JJ_FOR,    /* names; in a, if d: list b, else list c */
    JJ_SET,    /* names, or name.text: a; without a: list b is captured, then filters c */
    JJ_MACRO,  /* text(names with defaults args): list b */
    JJ_GENERATION,
    JJ_BREAK,
    JJ_CONTINUE,
    /* expressions */
    JJ_NAME_OF, /* text */
    JJ_CONSTANT,
    JJ_LIST,   /* args */
    JJ_DICT,   /* args: keys and values in turns */
    JJ_ATTR,   /* a.text */
    JJ_ITEM,   /* a[b] */
    JJ_SLICE,  /* a[b:c:d] */
    JJ_CALL,   /* a(args) */
    JJ_FILTER, /* a | text(args) */
    JJ_TEST,   /* a is text(args) */
    JJ_NOT,
    JJ_NEGATE,
    JJ_PLUS,
    JJ_BINARY,  /* a text b */
    JJ_COMPARE, /* a text b; next: b text of next, and so on, as in a < b < c */
    JJ_AND,
    JJ_OR,
    JJ_CHOICE /* b if a, else c */
} jj_kind;

struct jj_node;
typedef struct jj_arg {
    const char *name; /* NULL: by position */
    struct jj_node *value;
} jj_arg;

typedef enum jv_kind {
    JV_UNDEFINED,
    JV_NONE,
    JV_BOOL,
    JV_INT,
    JV_FLOAT,
    JV_STRING,
    JV_LIST,
    JV_DICT,
    JV_NAMESPACE,
    JV_LOOP,
    JV_MACRO,
    JV_FUNCTION, /* of the names that every template has */
    JV_METHOD    /* of a value */
} jv_kind;
typedef struct jv {
    jv_kind kind;
    size_t n; /* bytes of a string; 1: a list is a tuple, which is shown in other brackets */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s; /* of UNDEFINED: its name */
        struct jv_list *list;
        struct jv_dict *dict; /* also of NAMESPACE */
        struct jv_loop *loop;
        struct jv_macro *macro;
        struct jv_method *method;
    } as;
} jv;
typedef struct jv_list {
    jv *item;
    size_t n, cap;
} jv_list;
typedef struct jv_dict {
    jv *key, *value;
    size_t n, cap;
} jv_dict;
typedef struct jv_loop {
    const jv_list *items;
    size_t at;
} jv_loop;
typedef struct jv_macro {
    const struct jj_node *node;
    struct jj_frame *frame; /* in which it was defined */
} jv_macro;
typedef struct jv_method {
    jv of;
    const char *name;
} jv_method;

typedef struct jj_node {
    jj_kind kind;
    int line;
    const char *text;
    size_t n;
    jv constant;
    struct jj_node *a, *b, *c, *d, *next; /* next: of a list of statements or comparisons */
    jj_arg *arg;
    int n_args;
    const char **name;
    int n_names;
} jj_node;
struct mf_jinja {
    mf_arena *arena;
    char *where;
    jj_node *body;
    bool generation;
};

typedef struct jj_parser {
    const char *where;
    mf_arena *arena;
    const jj_token *at;
    int depth, loops;
    bool generation;
    int rc;
} jj_parser;
int jj_refuse(jj_parser *p, int line, const char *fmt, ...);
jj_node *jj_make(jj_parser *p, jj_kind kind, int line);
bool jj_is(const jj_parser *p, jj_token_kind kind, const char *text);
bool jj_skip(jj_parser *p, jj_token_kind kind, const char *text);
void jj_expect(jj_parser *p, jj_token_kind kind, const char *text);
const char *jj_take_name(jj_parser *p);
jj_node *jj_expression(jj_parser *p);          /* with the choice a if b else c */
jj_node *jj_no_choice(jj_parser *p);           /* without */
jj_node *jj_filters(jj_parser *p, jj_node *a); /* NAME(args)|NAME(args) behind a bar */
jj_node *jj_parse(jj_parser *p);

/* ---- running ---- */

typedef struct jj_variable {
    const char *name;
    jv value;
    struct jj_variable *next;
} jj_variable;
typedef struct jj_frame {
    jj_variable *first;
    struct jj_frame *up;
} jj_frame;
typedef struct jj_out {
    char *text;
    size_t n, cap;
} jj_out; /* memory of mf_realloc */

typedef struct jj_run {
    const mf_jinja *j;
    mf_arena *arena;
    jj_frame *frame;
    jj_out *out, main;
    const struct tm *now;
    mf_jinja_span *answer;
    size_t n_answers, cap_answers;
    const mf_jinja_limits *limits;
    uint64_t work; /* steps * MF_JINJA_STEP */
    size_t held;   /* bytes of the buffers of texts being written */
    int depth;     /* of calls */
    int nesting;   /* of all that runs, and of values that are visited */
    enum { JJ_GO, JJ_STOP, JJ_AGAIN } flow; /* what break and continue ask for */
    int line;
    int rc;
} jj_run;
/* Records a fault of the template in this line, once. Returns None. */
jv jj_fail(jj_run *r, const char *fmt, ...);

/* ---- limits (limits.c): false or NULL, with the fault recorded: there is one ---- */
bool jj_step(jj_run *r, int line);  /* one step; line 0: of no line of its own */
enum { JJ_LOOKUP = 4 };             /* what a name costs that is compared with another */
bool jj_spend(jj_run *r, size_t n); /* n bytes are read or written */
bool jj_enter(jj_run *r, int line); /* a step, one deeper; jj_leave follows if it is true */
void jj_leave(jj_run *r);
/* Whether so many more bytes are within the limit of memory; if not, the run has failed. */
bool jj_may_take(jj_run *r, size_t bytes);
void *jj_take(jj_run *r, size_t bytes); /* from the arena */

void jj_put(jj_run *r, const char *text, size_t n);
void jj_execute(jj_run *r, const jj_node *list);
jv jj_evaluate(jj_run *r, const jj_node *n);
jv jj_captured(jj_run *r, jj_out *out); /* what was written, as a text; frees the buffer */
void jj_assign(jj_run *r, const char *name, jv value);

/* Arguments of a call. */
typedef struct jj_args {
    jv *value;
    const char **name; /* NULL: by position */
    int n;
} jj_args;
/* Returns argument i, or the one with this name; UNDEFINED: there is none. */
jv jj_arg_of(const jj_args *a, int i, const char *name);
jv jj_call(jj_run *r, jv callee, const jj_args *a);

/* ---- values (values.c) ---- */
jv jv_none(void);
jv jv_bool(bool b);
jv jv_int(int64_t i);
jv jv_float(double f);
jv jv_text(const char *s, size_t n);
jv jv_undefined(const char *name);
jv jv_copy(jj_run *r, const char *s, size_t n); /* a text in the arena */
jv jv_join(jj_run *r, jv a, jv b);              /* of two texts */
jv jv_new_list(jj_run *r);
void jv_append(jj_run *r, jv list, jv item);
jv jv_new_dict(jj_run *r, jv_kind kind);
void jv_put(jj_run *r, jv dict, jv key, jv value);
const jv *jv_find(jj_run *r, jv dict, jv key); /* NULL: there is none */
jv jv_from_json(jj_run *r, const mf_json *v);
jv jv_from_messages(jj_run *r, const mf_json *v, size_t most); /* most 0: all */
bool jv_true(jv v);
bool jv_is_number(jv v); /* also truth values */
double jv_real(jv v);
const char *jv_type(jv v);    /* Python's name of its type */
jv jv_items(jj_run *r, jv v); /* the list over which a loop runs */
jv jv_attr(jj_run *r, jv v, const char *name);
jv jv_item(jj_run *r, jv v, jv key);
jv jv_slice(jj_run *r, jv v, jv begin, jv end, jv step);
int64_t jv_length(jj_run *r, jv v);

/* ---- equality and order (order.c) ---- */
bool jv_equal(jj_run *r, jv a, jv b);
bool jv_equal_numbers(jv a, jv b);
int jv_order(jj_run *r, jv a, jv b); /* -1, 0, 1; fails if there is no order */
bool jv_contains(jj_run *r, jv in, jv what);
/* Returns the indices of n keys in their order; equal keys stay as they are. NULL: a fault. */
const size_t *jv_sorted(jj_run *r, const jv *key, size_t n);

/* ---- texts (text.c) ---- */
jv jv_string(jj_run *r, jv v); /* as Python's str */
jv jv_json(jj_run *r, jv v, int indent, bool ascii, bool sorted);
void jj_add(jj_run *r, jj_out *out, const char *text, size_t n);

/* ---- filters, tests, methods ---- */
bool jj_has_filter(const char *name);
bool jj_has_test(const char *name);
extern const char *const jj_filter_names[], *const jj_test_names[]; /* NULL-terminated */
jv jj_filter(jj_run *r, const char *name, jv v, const jj_args *a);
bool jj_test(jj_run *r, const char *name, jv v, const jj_args *a);
bool jj_has_method(jv v, const char *name);
jv jj_method(jj_run *r, jv of, const char *name, const jj_args *a);
jv jj_trim(jj_run *r, jv v, jv chars, bool left, bool right);
jv jj_upper(jj_run *r, jv v, bool upper);
jv jj_title(jj_run *r, jv v, bool every_word);
jv jj_replace(jj_run *r, jv v, jv from, jv to, int64_t most);

#endif
