/* adapters/pattern.c: matches a regular expression with sets of positions. While a part of the
 * expression is read, the set of positions where it may begin is converted to the set of
 * positions where it may end. A repeated part is read again. Nothing is tried twice from one
 * position, so only the number of readings must be bounded. The result does not depend on an
 * order of trying. */
#include "pretrained/adapters/pattern.h"

#include <string.h>
#include "base/error.h"

enum { DEPTH_MAX = 16, READINGS_MAX = 100000, REPEAT_MAX = 100 };

typedef struct positions {
    bool at[MF_PATTERN_TEXT + 1];
} positions;

typedef struct matcher {
    const char *where, *key, *name;
    size_t n; /* length of the name */
    int depth, readings, rc;
} matcher;

static void refuse(matcher *m, const char *what)
{
    if (m->rc != MF_OK) return;
    m->rc = mf_fail(MF_EINPUT, "%s: '%.100s': %s", m->where, m->key, what);
}

static bool any(const matcher *m, const positions *p)
{
    for (size_t i = 0; i <= m->n; i++)
        if (p->at[i]) return true;
    return false;
}

/* ---- one character ---- */

typedef struct set {
    bool of[256];
} set;

static bool is_word(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '_';
}

static bool is_punctuation(char c)
{
    return c > ' ' && c < 0x7f && !is_word(c);
}

/* Adds the characters of the escape \c to the set. Returns whether this is the single
 * character c. */
static bool add_escape(matcher *m, char c, set *s)
{
    const bool negated = c == 'D' || c == 'W' || c == 'S';
    const char kind = (char)(negated ? c + 32 : c);
    if (is_punctuation(c) || c == '_') {
        s->of[(unsigned char)c] = true;
        return true;
    }
    if (c == '\0' || !strchr("dws", kind))
        refuse(m, "expected \\d, \\w, \\s or a sign behind a backslash");
    for (int i = 0; i < 256; i++) {
        const bool in = kind == 'd'   ? i >= '0' && i <= '9'
                        : kind == 'w' ? is_word(i)
                                      : i == ' ' || (i >= 9 && i <= 13);
        if (in != negated) s->of[i] = true;
    }
    return false;
}

/* Reads one end of a range, or a class, in brackets. Returns the character, -1: it is
 * a class. */
static int read_member(matcher *m, const char **p, set *s)
{
    const unsigned char c = (unsigned char)*(*p)++;
    if (c != '\\') {
        s->of[c] = true;
        return c;
    }
    const char escaped = **p;
    const bool one = add_escape(m, escaped, s);
    *p += escaped != '\0';
    return one ? (unsigned char)escaped : -1;
}

/* Reads [...], after its first bracket. */
static void read_class(matcher *m, const char **p, set *s)
{
    const bool negated = **p == '^';
    set in = {{0}};
    if (negated) (*p)++;
    for (bool first = true; m->rc == MF_OK && (first || **p != ']'); first = false) {
        if (**p == '\0') {
            refuse(m, "expected ] behind [");
            return;
        }
        const int from = read_member(m, p, &in);
        if (**p != '-' || (*p)[1] == ']' || (*p)[1] == '\0') continue;
        (*p)++;
        const int to = read_member(m, p, &in);
        if (from < 0 || to < from) refuse(m, "expected a range as a-z in brackets");
        for (int c = from; m->rc == MF_OK && c <= to; c++)
            in.of[c] = true;
    }
    if (**p == ']') (*p)++;
    for (int i = 0; i < 256; i++)
        s->of[i] = in.of[i] != negated;
}

/* ---- parts ---- */

static void alternatives(matcher *m, const char **p, const positions *from, positions *to);

static void group(matcher *m, const char **p, const positions *from, positions *to)
{
    if (**p == '?' && (*p)[1] == ':')
        *p += 2;
    else if (**p == '?')
        refuse(m, "expected no group with (? other than (?:");
    alternatives(m, p, from, to);
    if (**p != ')')
        refuse(m, "expected ) behind (");
    else
        (*p)++;
}

/* Reads one character, class, group or anchor. *from: the positions where it may begin. */
static void atom(matcher *m, const char **p, const positions *from, positions *to)
{
    set s = {{0}};
    const char c = *(*p)++;
    *to = (positions){{0}};
    if (++m->readings > READINGS_MAX) refuse(m, "expected a shorter expression");
    if (m->rc != MF_OK) return;
    if (c == '(') {
        group(m, p, from, to);
        return;
    }
    if (c == '^' || c == '$') {
        const size_t at = c == '^' ? 0 : m->n;
        to->at[at] = from->at[at];
        return;
    }
    if (strchr("*+?)", c)) refuse(m, "expected something before a quantifier");
    if (c == '[') {
        read_class(m, p, &s);
    } else if (c == '\\') {
        add_escape(m, **p, &s);
        *p += **p != '\0';
    } else if (c == '.') {
        memset(s.of, true, sizeof s.of);
        s.of['\n'] = false;
    } else {
        s.of[(unsigned char)c] = true;
    }
    for (size_t i = 0; i < m->n; i++)
        to->at[i + 1] = from->at[i] && s.of[(unsigned char)m->name[i]];
}

/* Reads a number. Returns false if there is none. */
static bool number(const char **p, int *ret)
{
    const char *begin = *p;
    *ret = 0;
    for (; **p >= '0' && **p <= '9' && *ret < 10000; (*p)++)
        *ret = 10 * *ret + (**p - '0');
    return *p > begin;
}

/* Reads a quantifier. Returns false if there is none. *most -1: no limit. */
static bool quantifier(matcher *m, const char **p, int *least, int *most)
{
    const char *at = *p;
    *least = *at == '+';
    *most = *at == '?' ? 1 : -1;
    if (*at == '{') {
        at++;
        const bool low = number(&at, least);
        bool high = low;
        *most = *least;
        if (*at == ',') {
            at++;
            high = true;
            if (!number(&at, most)) *most = -1;
        }
        /* Without a number or a closing brace this is no quantifier but ordinary text, as
         * in Python. */
        if (!high || *at != '}') return false;
        if (*least > REPEAT_MAX || *most > REPEAT_MAX || (*most >= 0 && *most < *least))
            refuse(m, "expected {m,n} of at most 100, m first");
    } else if (*at == '\0' || !strchr("*+?", *at)) {
        return false;
    }
    at++;
    if (*at == '?') at++; /* lazy quantifiers match the same names */
    if (*at != '\0' && strchr("*+?", *at)) refuse(m, "expected one quantifier");
    *p = at;
    return true;
}

/* Adds positions to a set. Returns whether any of them was new. */
static bool add(const matcher *m, const positions *more, positions *to)
{
    bool fresh = false;
    for (size_t i = 0; i <= m->n; i++) {
        fresh = fresh || (more->at[i] && !to->at[i]);
        to->at[i] = to->at[i] || more->at[i];
    }
    return fresh;
}

/* Reads an atom with its quantifier. */
static void repeated(matcher *m, const char **p, const positions *from, positions *to)
{
    const char *begin = *p;
    int least, most;
    positions now;
    atom(m, p, from, to);
    if (m->rc != MF_OK || !quantifier(m, p, &least, &most)) return;
    positions all = {{0}};
    now = *from;
    for (int i = 0; m->rc == MF_OK; i++) {
        const bool fresh = i >= least && add(m, &now, &all);
        if ((i >= least && !fresh) || (most >= 0 && i >= most) || !any(m, &now)) break;
        const char *again = begin;
        positions next;
        atom(m, &again, &now, &next);
        now = next;
    }
    *to = all;
}

static void sequence(matcher *m, const char **p, const positions *from, positions *to)
{
    *to = *from;
    while (m->rc == MF_OK && **p != '\0' && **p != '|' && **p != ')') {
        const positions now = *to;
        repeated(m, p, &now, to);
    }
}

static void alternatives(matcher *m, const char **p, const positions *from, positions *to)
{
    positions one;
    *to = (positions){{0}};
    if (++m->depth > DEPTH_MAX) refuse(m, "expected fewer groups within groups");
    for (;;) {
        sequence(m, p, from, &one);
        add(m, &one, to);
        if (m->rc != MF_OK || **p != '|') break;
        (*p)++;
    }
    m->depth--;
}

/* Matches an expression with a name. behind_dots: the expression may also begin after each dot
 * of the name. */
static int match(const char *where, const char *key, const char *name, bool behind_dots,
                 bool *ret)
{
    matcher m = {.where = where, .key = key, .name = name, .n = strlen(name)};
    positions from = {{0}}, to;
    const char *p = key;
    *ret = false;
    if (m.n > MF_PATTERN_TEXT)
        return mf_fail(MF_EINPUT, "%s: expected names of at most %d bytes", where,
                       (int)MF_PATTERN_TEXT);
    for (size_t i = 0; i <= m.n; i++)
        from.at[i] = i == 0 || (behind_dots && name[i - 1] == '.');
    alternatives(&m, &p, &from, &to);
    if (*p != '\0') refuse(&m, "expected ( before )");
    *ret = m.rc == MF_OK && to.at[m.n];
    return m.rc;
}

int mf_pattern_means(const char *where, const char *key, const char *name, bool *ret)
{
    return match(where, key, name, true, ret);
}

int mf_pattern_is(const char *where, const char *key, const char *name, bool *ret)
{
    return match(where, key, name, false, ret);
}
