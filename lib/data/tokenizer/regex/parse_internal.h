/* data/tokenizer/regex/parse_internal.h: what parse.c and parse_sets.c share. Every function
 * does nothing once p->rc is an error; results are then without meaning. */
#ifndef MF_DATA_REGEX_PARSE_H
#define MF_DATA_REGEX_PARSE_H

#include "data/tokenizer/regex/regex_internal.h"

typedef struct mf_rx_parser {
    const char *where, *text;
    size_t n, at;
    int depth;
    bool fold;    /* (?i): letters match both cases */
    bool dot_all; /* (?m): a point matches a newline, too */
    int rc;
    mf_rx_parsed *ret;
} mf_rx_parser;
int mf_rx_refuse(mf_rx_parser *p, size_t at, const char *what);
uint32_t mf_rx_take(mf_rx_parser *p); /* reads a character; there must be one */
bool mf_rx_is(const mf_rx_parser *p, const char *what);
bool mf_rx_skip(mf_rx_parser *p, const char *what); /* Reads `what` if it is next. */

/* These functions return the number of a set. A set that is there already is not added again.
 * Those with `at` read the text behind a backslash or bracket that is at this offset. */
int32_t mf_rx_simple_set(mf_rx_parser *p, mf_rx_op op, bool negative);
int32_t mf_rx_range_set(mf_rx_parser *p, uint32_t from, uint32_t to, bool negative);
int32_t mf_rx_escaped_set(mf_rx_parser *p, size_t at);
int32_t mf_rx_class_set(mf_rx_parser *p, size_t at);

#endif
