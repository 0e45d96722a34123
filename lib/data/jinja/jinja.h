/* data/jinja/jinja.h: templates of conversations, as tokenizer_config.json and
 * chat_template.jinja of published models contain them: a part of Jinja2, rendered as
 * transformers does it (trim_blocks, lstrip_blocks, loop controls, the tag generation, tojson
 * without escaping). A template sees nothing but the values it is given. It can read no file,
 * and its steps, its depth, its memory and its output have limits. */
#ifndef MF_DATA_JINJA_H
#define MF_DATA_JINJA_H

#include "io/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum {
    MF_JINJA_TEXT = 1 << 20,     /* greatest length of a template in bytes */
    MF_JINJA_NAME = 255,         /* of a name */
    MF_JINJA_OUTPUT = 64 << 20,  /* of what it writes, and of a text that it makes */
    MF_JINJA_MEMORY = 256 << 20, /* of the values that it makes, and of texts being written */
    /* Greatest number of expressions and statements that run, of items that are visited and of
     * MF_JINJA_STEP bytes that are read, compared or written: the time is bounded by it. */
    MF_JINJA_STEPS = 50000000,
    MF_JINJA_STEP = 16,
    MF_JINJA_DEPTH = 100,   /* greatest nesting of blocks and brackets, and of calls */
    MF_JINJA_NESTING = 1000 /* of all that runs, and of values: a stack of 1 MiB is enough */
};

typedef struct mf_jinja mf_jinja; /* never changes, so threads may share it */
/* Reads a template. The caller frees it. where: names it in messages. MF_EINPUT, with line and
 * construct, for what is no template and for a construct that is not in the part of the
 * language that is read; MF_ENOMEM. */
int mf_jinja_new(const char *where, const char *text, size_t n, mf_jinja **ret);
void mf_jinja_free(mf_jinja *j);
bool mf_jinja_marks_answers(const mf_jinja *j); /* has {% generation %} */

/* A variable of the template. The value is that of a document, or a text. */
typedef struct mf_jinja_variable {
    const char *name;
    const mf_json *value;  /* NULL: the value is `text` */
    const char *text;      /* NULL, and no value: None */
    bool is_bool, boolean; /* with is_bool the value is a truth value */
    /* the value is a list of messages: as in transformers, members that are null are dropped,
     * and reasoning_content, thinking or reasoning has the first two of these names */
    bool is_messages;
    size_t most; /* of messages: only the first ones; 0: all */
} mf_jinja_variable;
typedef struct mf_jinja_span {
    size_t begin, end;
} mf_jinja_span;
typedef struct mf_jinja_result {
    char *text; /* ended by NUL; the caller frees it with mf_free */
    size_t n;
    mf_jinja_span *answer; /* what {% generation %} encloses; the caller frees it, too */
    size_t n_answers;
} mf_jinja_result;
typedef struct mf_jinja_limits {
    size_t steps, output, memory;
} mf_jinja_limits;
/* Renders a template. now: for strftime_now; NULL: the local time. MF_EINPUT: with the text
 * that the template gives to raise_exception, or with line and fault; MF_ENOMEM. */
int mf_jinja_render(const mf_jinja *j, const mf_jinja_variable *variable, int n,
                    const struct tm *now, mf_jinja_result *ret);
/* The same with other limits than MF_JINJA_STEPS, MF_JINJA_OUTPUT and MF_JINJA_MEMORY. */
int mf_jinja_render_within(const mf_jinja *j, const mf_jinja_variable *variable, int n,
                           const struct tm *now, const mf_jinja_limits *limits,
                           mf_jinja_result *ret);

#endif
