/* data/tokenizer/regex/parse.c: makes a tree of the text of a regular expression. Anchors and
 * boundaries of words become look-ahead and look-behind of one character. A construct that the
 * tree cannot express exactly is refused. */
#include "data/tokenizer/regex/parse_internal.h"

#include "base/error.h"
#include "base/mem.h"
#include "io/unicode.h"

#include <string.h>

enum { QUANTIFIERS = 16 };

int mf_rx_refuse(mf_rx_parser *p, size_t at, const char *what)
{
    if (p->rc == MF_OK)
        p->rc =
            mf_fail(MF_EINPUT, "%s: expression \"%.*s%s\": byte %zu: %s", p->where,
                    (int)(p->n < 60 ? p->n : 60), p->text, p->n > 60 ? "..." : "", at, what);
    return p->rc;
}

uint32_t mf_rx_take(mf_rx_parser *p)
{
    uint32_t c = 0;
    const size_t n = p->at < p->n ? mf_unicode_read(p->text + p->at, p->n - p->at, &c) : 0;
    if (n == 0) mf_rx_refuse(p, p->at, "expected a further character");
    p->at += n > 0 ? n : p->at < p->n; /* never beyond the end */
    return n > 0 ? c : 0;
}

bool mf_rx_is(const mf_rx_parser *p, const char *what)
{
    const size_t n = strlen(what);
    return p->n - p->at >= n && memcmp(p->text + p->at, what, n) == 0;
}

bool mf_rx_skip(mf_rx_parser *p, const char *what)
{
    const bool is = mf_rx_is(p, what);
    if (is) p->at += strlen(what);
    return is;
}

/* ---- nodes of the tree ---- */

static int32_t make(mf_rx_parser *p, mf_rx_tree t)
{
    mf_rx_parsed *r = p->ret;
    if (p->rc != MF_OK) return 0;
    if (r->n == r->cap) {
        const int32_t cap = 2 * r->cap + 64;
        mf_rx_tree *larger =
            mf_realloc(r->tree, (size_t)r->n * sizeof *larger, (size_t)cap * sizeof *larger);
        if (!larger) {
            p->rc = MF_ENOMEM;
            return 0;
        }
        r->tree = larger;
        r->cap = cap;
    }
    r->tree[r->n] = t;
    return r->n++;
}

static int32_t pair(mf_rx_parser *p, mf_rx_kind kind, int32_t a, int32_t b)
{
    return make(p, (mf_rx_tree){.kind = kind, .a = a, .b = b});
}

static int32_t one(mf_rx_parser *p, int32_t set)
{
    return make(p, (mf_rx_tree){.kind = MF_RX_CHAR, .a = set});
}

static int32_t ahead(mf_rx_parser *p, int32_t body, bool negative)
{
    return make(p, (mf_rx_tree){.kind = MF_RX_AHEAD, .a = body, .negative = negative});
}

static int32_t behind(mf_rx_parser *p, int32_t set, bool negative)
{
    return make(p, (mf_rx_tree){.kind = MF_RX_BEHIND, .a = set, .negative = negative});
}

static int32_t nothing(mf_rx_parser *p)
{
    return make(p, (mf_rx_tree){.kind = MF_RX_NOTHING});
}

/* ---- anchors ---- */

/* \b: the characters before and after differ in being of words; \B: they do not. */
static int32_t boundary(mf_rx_parser *p, bool differ)
{
    const int32_t word = mf_rx_simple_set(p, MF_RX_WORD, false);
    const int32_t from =
        pair(p, MF_RX_CAT, behind(p, word, false), ahead(p, one(p, word), differ));
    const int32_t to =
        pair(p, MF_RX_CAT, behind(p, word, true), ahead(p, one(p, word), !differ));
    return pair(p, MF_RX_ALT, from, to);
}

static int32_t text_begin(mf_rx_parser *p)
{
    return behind(p, mf_rx_range_set(p, 0, 0x10ffff, false), true);
}

static int32_t text_end(mf_rx_parser *p)
{
    return ahead(p, one(p, mf_rx_range_set(p, 0, 0x10ffff, false)), true);
}

/* ^: at the beginning of the text, and after a newline that does not end it. */
static int32_t line_begin(mf_rx_parser *p)
{
    const int32_t after =
        pair(p, MF_RX_CAT, behind(p, mf_rx_range_set(p, '\n', '\n', false), false),
             ahead(p, one(p, mf_rx_range_set(p, 0, 0x10ffff, false)), false));
    return pair(p, MF_RX_ALT, text_begin(p), after);
}

/* $: at the end of the text, and before each newline. */
static int32_t line_end(mf_rx_parser *p)
{
    return ahead(p, one(p, mf_rx_range_set(p, '\n', '\n', true)), true);
}

/* \Z: at the end of the text, and before a newline that ends it. */
static int32_t last_line_end(mf_rx_parser *p)
{
    const int32_t newline =
        pair(p, MF_RX_CAT, one(p, mf_rx_range_set(p, '\n', '\n', false)), text_end(p));
    return pair(p, MF_RX_ALT, text_end(p), ahead(p, newline, false));
}

/* ---- quantifiers ---- */

/* Reads {n}, {n,}, {n,m} or {,m}; false: the brace is an ordinary character. */
static bool interval(mf_rx_parser *p, int32_t *min, int32_t *max)
{
    const size_t begin = p->at++;
    int32_t number[2] = {0, MF_RX_NO_END};
    bool digits[2] = {false, false}, comma = false;
    for (; p->at < p->n && p->text[p->at] != '}'; p->at++) {
        const char c = p->text[p->at];
        if (c == ',' && !comma) {
            comma = true;
            continue;
        }
        if (c < '0' || c > '9') break;
        if (!digits[comma]) number[comma] = 0;
        digits[comma] = true;
        if (number[comma] <= 100000) number[comma] = 10 * number[comma] + (c - '0');
    }
    if (p->at >= p->n || p->text[p->at] != '}' || !(digits[0] || digits[1])) {
        p->at = begin;
        return false;
    }
    p->at++;
    *min = number[0];
    *max = comma ? number[1] : number[0];
    if (*min > 1000 || *max > 1000)
        mf_rx_refuse(p, begin, "expected at most 1000 repetitions");
    else if (*max != MF_RX_NO_END && *max < *min)
        mf_rx_refuse(p, begin, "expected the smaller number of repetitions first");
    return true;
}

static int32_t repeat(mf_rx_parser *p, size_t at, mf_rx_tree t)
{
    const mf_rx_tree body =
        p->rc == MF_OK ? p->ret->tree[t.a] : (mf_rx_tree){.kind = MF_RX_CHAR};
    if (t.possessive && body.kind != MF_RX_CHAR)
        mf_rx_refuse(p, at,
                     "a possessive quantifier: expected it behind one character or class");
    if (body.kind == MF_RX_AHEAD || body.kind == MF_RX_BEHIND)
        mf_rx_refuse(p, at, "a quantifier behind an anchor or a look-around");
    return make(p, t);
}

/* Reads the quantifiers behind a part. Behind {n,m} a + is a further quantifier, and so is the
 * ? behind {n}. */
static int32_t quantified(mf_rx_parser *p, int32_t a)
{
    for (int count = 0; p->rc == MF_OK && p->at < p->n; count++) {
        const size_t at = p->at;
        const char c = p->text[at];
        if (count == QUANTIFIERS) mf_rx_refuse(p, at, "too many quantifiers behind one part");
        mf_rx_tree t = {.kind = MF_RX_REPEAT, .a = a, .max = MF_RX_NO_END};
        if (c == '*' || c == '+' || c == '?') {
            p->at++;
            t.min = c == '+';
            if (c == '?') t.max = 1;
            t.lazy = mf_rx_skip(p, "?");
            t.possessive = !t.lazy && mf_rx_skip(p, "+");
        } else if (c != '{' || !interval(p, &t.min, &t.max)) {
            break;
        } else if (t.min != t.max) {
            t.lazy = mf_rx_skip(p, "?");
        }
        a = repeat(p, at, t);
    }
    return a;
}

/* ---- groups ---- */

static int32_t alternatives(mf_rx_parser *p);

static int32_t close_group(mf_rx_parser *p, size_t at, int32_t body)
{
    if (p->rc == MF_OK && !mf_rx_skip(p, ")")) mf_rx_refuse(p, at, "a group without )");
    return body;
}

/* Reads (?<=X) and (?<!X), of one character or class. */
static int32_t look_behind(mf_rx_parser *p, size_t at, bool negative)
{
    const int32_t body = close_group(p, at, alternatives(p));
    if (p->rc == MF_OK && p->ret->tree[body].kind != MF_RX_CHAR)
        mf_rx_refuse(p, at, "look-behind: expected one character or class");
    return p->rc == MF_OK ? behind(p, p->ret->tree[body].a, negative) : 0;
}

/* Reads (?>X), where X repeats one character or class. */
static int32_t atomic(mf_rx_parser *p, size_t at)
{
    const int32_t body = close_group(p, at, alternatives(p));
    if (p->rc != MF_OK) return 0;
    mf_rx_tree *t = &p->ret->tree[body];
    const bool simple = t->kind == MF_RX_CHAR;
    if (!simple && (t->kind != MF_RX_REPEAT || t->lazy || t->max > 1 ||
                    p->ret->tree[t->a].kind != MF_RX_CHAR))
        mf_rx_refuse(p, at, "an atomic group: expected one character or class, with *, + or ?");
    else if (!simple)
        t->possessive = true;
    return body;
}

/* Reads flags up to : or ), as in (?i:X) and (?i). */
static int32_t flags(mf_rx_parser *p, size_t at, bool first)
{
    const bool fold = p->fold, dot_all = p->dot_all;
    bool on = true;
    for (; p->at < p->n && p->text[p->at] != ':' && p->text[p->at] != ')'; p->at++) {
        const char c = p->text[p->at];
        if (c == '-')
            on = false;
        else if (c == 'i')
            p->fold = on;
        else if (c == 'm')
            p->dot_all = on;
        else
            mf_rx_refuse(p, at,
                         "a group: expected (X), (?:X), (?=X), (?!X), (?<=X), (?<!X), "
                         "(?>X), (?i:X) or (?m:X)");
        if (p->rc != MF_OK) return 0;
    }
    if (mf_rx_skip(p, ")")) { /* up to the end of the group around it */
        if (!first) mf_rx_refuse(p, at, "flags: expected them at the beginning of a group");
        return nothing(p);
    }
    if (!mf_rx_skip(p, ":")) mf_rx_refuse(p, at, "a group without )");
    const int32_t body = close_group(p, at, alternatives(p));
    p->fold = fold;
    p->dot_all = dot_all;
    return body;
}

/* Reads a group behind its parenthesis. first: it is the first part of the group around it. */
static int32_t group(mf_rx_parser *p, size_t at, bool first)
{
    int32_t body;
    if (p->depth >= MF_REGEX_DEPTH) {
        mf_rx_refuse(p, at, "groups are nested too deeply");
        return 0;
    }
    p->depth++;
    if (!mf_rx_skip(p, "?"))
        body = close_group(p, at, alternatives(p));
    else if (mf_rx_skip(p, "=") || mf_rx_is(p, "!")) {
        const bool negative = mf_rx_skip(p, "!");
        body = ahead(p, close_group(p, at, alternatives(p)), negative);
    } else if (mf_rx_skip(p, "<=") || mf_rx_is(p, "<!")) {
        const bool negative = mf_rx_skip(p, "<!");
        body = look_behind(p, at, negative);
    } else if (mf_rx_skip(p, ">"))
        body = atomic(p, at);
    else
        body = flags(p, at, first);
    p->depth--;
    return body;
}

/* ---- parts ---- */

/* Reads what follows a backslash outside of a class. */
static int32_t escape(mf_rx_parser *p, size_t at)
{
    const char c = p->at < p->n ? p->text[p->at] : 0;
    if (c && strchr("bBAzZ", c)) {
        p->at++;
        return c == 'b' || c == 'B' ? boundary(p, c == 'b')
               : c == 'A'           ? text_begin(p)
               : c == 'z'           ? text_end(p)
                                    : last_line_end(p);
    }
    return one(p, mf_rx_escaped_set(p, at));
}

static int32_t part(mf_rx_parser *p, bool first)
{
    const size_t at = p->at;
    const uint32_t c = mf_rx_take(p);
    int32_t body;
    switch (p->rc == MF_OK ? c : 0) {
    case '(':
        body = group(p, at, first);
        break;
    case '[':
        body = one(p, mf_rx_class_set(p, at));
        break;
    case '\\':
        body = escape(p, at);
        break;
    case '.':
        body = one(p, p->dot_all ? mf_rx_range_set(p, 0, 0x10ffff, false)
                                 : mf_rx_range_set(p, '\n', '\n', true));
        break;
    case '^':
        body = line_begin(p);
        break;
    case '$':
        body = line_end(p);
        break;
    case '*':
    case '+':
    case '?':
        mf_rx_refuse(p, at, "a quantifier with nothing before it");
        return 0;
    default:
        body = one(p, mf_rx_range_set(p, c, c, false));
    }
    return quantified(p, body);
}

static int32_t sequence(mf_rx_parser *p)
{
    int32_t all = -1;
    while (p->rc == MF_OK && p->at < p->n && p->text[p->at] != '|' && p->text[p->at] != ')') {
        const int32_t next = part(p, all < 0);
        all = all < 0 ? next : pair(p, MF_RX_CAT, all, next);
    }
    return all < 0 ? nothing(p) : all;
}

/* Reads alternatives up to the end of the group. Flags that it sets end with it. */
static int32_t alternatives(mf_rx_parser *p)
{
    const bool fold = p->fold, dot_all = p->dot_all;
    int32_t all = sequence(p);
    while (p->rc == MF_OK && mf_rx_skip(p, "|"))
        all = pair(p, MF_RX_ALT, all, sequence(p));
    p->fold = fold;
    p->dot_all = dot_all;
    return all;
}

int mf_rx_parse(const char *where, const char *text, size_t n, mf_rx_parsed *ret)
{
    mf_rx_parser p = {.where = where, .text = text, .n = n, .ret = ret};
    if (n > MF_REGEX_TEXT)
        return mf_fail(MF_EINPUT, "%s: an expression of %zu bytes: expected at most %d", where,
                       n, MF_REGEX_TEXT);
    ret->root = alternatives(&p);
    if (p.rc == MF_OK && p.at < n) mf_rx_refuse(&p, p.at, "a ) without (");
    return p.rc;
}

void mf_rx_parsed_free(mf_rx_parsed *p)
{
    mf_free(p->tree);
    mf_free(p->sets.step);
    *p = (mf_rx_parsed){0};
}
