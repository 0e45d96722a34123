/* data/tokenizer/regex/parse_sets.c: reads characters, escapes, properties and classes in
 * brackets. Each becomes a set, a list of operations. Letters under (?i) get their other case,
 * for those of ASCII with the two further characters that fold to them. */
#include "data/tokenizer/regex/parse_internal.h"

#include "base/error.h"
#include "base/mem.h"
#include "io/unicode.h"

#include <stdio.h>
#include <string.h>

static void emit(mf_rx_parser *p, mf_rx_op op, uint32_t a, uint32_t b)
{
    mf_rx_sets *s = &p->ret->sets;
    if (p->rc != MF_OK) return;
    if (s->n_steps == s->cap_steps) {
        const size_t cap = 2 * s->cap_steps + 64;
        mf_rx_step *larger =
            mf_realloc(s->step, s->n_steps * sizeof *larger, cap * sizeof *larger);
        if (!larger) {
            p->rc = MF_ENOMEM;
            return;
        }
        s->step = larger;
        s->cap_steps = cap;
    }
    s->step[s->n_steps++] = (mf_rx_step){op, a, b, 1};
}

static bool same_steps(const mf_rx_sets *s, mf_rx_set a, mf_rx_set b)
{
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++) {
        const mf_rx_step *x = &s->step[a.begin + i], *y = &s->step[b.begin + i];
        if (x->op != y->op || x->a != y->a || x->b != y->b) return false;
    }
    return true;
}

/* Makes a set of the steps from `begin` on. */
static int32_t finish(mf_rx_parser *p, size_t begin)
{
    mf_rx_sets *s = &p->ret->sets;
    if (p->rc != MF_OK) return 0;
    const mf_rx_set new = {begin, s->n_steps - begin};
    for (int i = 0; i < s->n; i++)
        if (same_steps(s, s->set[i], new)) {
            s->n_steps = begin;
            return i;
        }
    if (s->n == MF_REGEX_SETS) {
        char what[80];
        snprintf(what, sizeof what, "expected at most %d different characters and classes",
                 MF_REGEX_SETS);
        mf_rx_refuse(p, p->at, what);
        return 0;
    }
    s->set[s->n] = new;
    return s->n++;
}

int32_t mf_rx_simple_set(mf_rx_parser *p, mf_rx_op op, bool negative)
{
    const size_t begin = p->ret->sets.n_steps;
    emit(p, MF_RX_EMPTY, 0, 0);
    emit(p, op, 0, 0);
    if (negative) emit(p, MF_RX_NOT, 0, 0);
    return finish(p, begin);
}

/* ---- characters ---- */

static uint32_t clamp(uint32_t c, uint32_t low, uint32_t high)
{
    return c < low ? low : c > high ? high : c;
}

/* Adds the other case of the letters from..to that are among low..high, 26 letters of ASCII. */
static void add_case(mf_rx_parser *p, uint32_t from, uint32_t to, uint32_t low, int step)
{
    const uint32_t high = low + 25;
    if (to < low || from > high) return;
    const uint32_t a = clamp(from, low, high), b = clamp(to, low, high);
    emit(p, MF_RX_RANGE, (uint32_t)((int)a + step), (uint32_t)((int)b + step));
    if (a <= low + 's' - 'a' && b >= low + 's' - 'a') emit(p, MF_RX_RANGE, 0x17f, 0x17f);
    if (a <= low + 'k' - 'a' && b >= low + 'k' - 'a') emit(p, MF_RX_RANGE, 0x212a, 0x212a);
}

static void add_range(mf_rx_parser *p, size_t at, uint32_t from, uint32_t to)
{
    emit(p, MF_RX_RANGE, from, to);
    if (!p->fold) return;
    add_case(p, from, to, 'a', -32);
    add_case(p, from, to, 'A', 32);
    if (to >= 0x80 &&
        (from != to || (mf_unicode_category(to) & (MF_UC_LU | MF_UC_LL | MF_UC_LT))))
        mf_rx_refuse(p, at, "(?i): expected letters of ASCII");
}

int32_t mf_rx_range_set(mf_rx_parser *p, uint32_t from, uint32_t to, bool negative)
{
    const size_t begin = p->ret->sets.n_steps;
    emit(p, MF_RX_EMPTY, 0, 0);
    if (from == to)
        add_range(p, p->at, from, to);
    else
        emit(p, MF_RX_RANGE, from, to);
    if (negative) emit(p, MF_RX_NOT, 0, 0);
    return finish(p, begin);
}

/* Reads the digits of \xHH, \x{H...} and \uHHHH. */
static uint32_t hex(mf_rx_parser *p, size_t at, int digits)
{
    uint32_t c = 0;
    const bool braces = digits == 2 && mf_rx_skip(p, "{");
    int n = 0;
    for (; p->at < p->n && n < (braces ? 8 : digits); n++, p->at++) {
        const char d = p->text[p->at];
        const int value = d >= '0' && d <= '9'   ? d - '0'
                          : d >= 'a' && d <= 'f' ? d - 'a' + 10
                          : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                                 : -1;
        if (value < 0) break;
        c = c << 4 | (uint32_t)value;
    }
    if (n == 0 || (digits == 4 && n != 4) || c > 0x10ffff || (braces && !mf_rx_skip(p, "}")))
        mf_rx_refuse(p, at,
                     "expected \\xHH, \\x{H...} or \\uHHHH, a code point in hexadecimal");
    return c;
}

/* ---- properties ---- */

static const struct {
    const char *name;
    uint32_t set; /* of categories */
} categories[] = {{"l", MF_UC_LETTER},
                  {"letter", MF_UC_LETTER},
                  {"lu", MF_UC_LU},
                  {"uppercaseletter", MF_UC_LU},
                  {"ll", MF_UC_LL},
                  {"lowercaseletter", MF_UC_LL},
                  {"lt", MF_UC_LT},
                  {"titlecaseletter", MF_UC_LT},
                  {"lm", MF_UC_LM},
                  {"lo", MF_UC_LO},
                  {"m", MF_UC_MARK},
                  {"mark", MF_UC_MARK},
                  {"mn", MF_UC_MN},
                  {"mc", MF_UC_MN << 1},
                  {"me", MF_UC_MN << 2},
                  {"n", MF_UC_NUMBER},
                  {"number", MF_UC_NUMBER},
                  {"nd", MF_UC_DIGIT},
                  {"nl", MF_UC_NL},
                  {"no", MF_UC_NL << 1},
                  {"p", MF_UC_PUNCTUATION},
                  {"punctuation", MF_UC_PUNCTUATION},
                  {"pc", MF_UC_CONNECTOR},
                  {"pd", MF_UC_CONNECTOR << 1},
                  {"ps", MF_UC_CONNECTOR << 2},
                  {"pe", MF_UC_CONNECTOR << 3},
                  {"pi", MF_UC_CONNECTOR << 4},
                  {"pf", MF_UC_CONNECTOR << 5},
                  {"po", MF_UC_CONNECTOR << 6},
                  {"s", MF_UC_SYMBOL},
                  {"symbol", MF_UC_SYMBOL},
                  {"sm", UINT32_C(1) << 19},
                  {"sc", UINT32_C(1) << 20},
                  {"sk", UINT32_C(1) << 21},
                  {"so", UINT32_C(1) << 22},
                  {"z", UINT32_C(7) << 23},
                  {"separator", UINT32_C(7) << 23},
                  {"zs", UINT32_C(1) << 23},
                  {"zl", UINT32_C(1) << 24},
                  {"zp", UINT32_C(1) << 25},
                  {"c", MF_UC_OTHER | 1},
                  {"other", MF_UC_OTHER | 1},
                  {"cc", UINT32_C(1) << 26},
                  {"cf", UINT32_C(1) << 27},
                  {"cs", UINT32_C(1) << 28},
                  {"co", UINT32_C(1) << 29},
                  {"cn", 1}};

static void add_property(mf_rx_parser *p, size_t at, const char *name)
{
    const uint32_t cased = MF_UC_LU | MF_UC_LL | MF_UC_LT;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (strcmp(categories[i].name, name) == 0) {
            const uint32_t some = categories[i].set & cased;
            if (p->fold && some && some != cased)
                mf_rx_refuse(p, at, "(?i) with a property of one case");
            emit(p, MF_RX_CATEGORY, categories[i].set, 0);
            return;
        }
    const int script = mf_rx_script(name);
    if (script >= 0) {
        emit(p, MF_RX_SCRIPT, (uint32_t)script, 0);
    } else if (strcmp(name, "space") == 0 || strcmp(name, "whitespace") == 0) {
        emit(p, MF_RX_SPACE, 0, 0);
    } else if (strcmp(name, "word") == 0) {
        emit(p, MF_RX_WORD, 0, 0);
    } else if (strcmp(name, "ascii") == 0) {
        emit(p, MF_RX_RANGE, 0, 0x7f);
    } else if (strcmp(name, "any") == 0) {
        emit(p, MF_RX_RANGE, 0, 0x10ffff);
    } else {
        char what[120];
        const char *near = mf_nearest(name, mf_rx_script_names);
        snprintf(what, sizeof what,
                 "property \"%.30s\": expected a category such as Lu, or a script%s%s%s", name,
                 near ? "; the nearest is " : "", near ? near : "", near ? "" : " such as Han");
        mf_rx_refuse(p, at, what);
    }
}

/* Reads {NAME} or {^NAME} behind \p and \P, and pushes the set. */
static void property(mf_rx_parser *p, size_t at, bool negative)
{
    char name[40];
    size_t n = 0;
    if (!mf_rx_skip(p, "{")) mf_rx_refuse(p, at, "expected a property, \\p{NAME}");
    if (mf_rx_skip(p, "^")) negative = !negative;
    for (; p->at < p->n && p->text[p->at] != '}'; p->at++) {
        const char c = p->text[p->at];
        if (c == ' ' || c == '_' || c == '-') continue;
        if (n + 1 < sizeof name) name[n++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    name[n] = 0;
    if (!mf_rx_skip(p, "}")) mf_rx_refuse(p, at, "a property without }");
    emit(p, MF_RX_EMPTY, 0, 0);
    if (p->rc == MF_OK) add_property(p, at, name);
    if (negative) emit(p, MF_RX_NOT, 0, 0);
}

/* ---- escapes ---- */

/* Pushes the set of \s, \d, \w or \h. Returns false for another letter. */
static bool letter_set(mf_rx_parser *p, char c)
{
    const char small = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    if (!strchr("sdwh", small)) return false;
    emit(p, MF_RX_EMPTY, 0, 0);
    if (small == 's') emit(p, MF_RX_SPACE, 0, 0);
    if (small == 'd') emit(p, MF_RX_CATEGORY, MF_UC_DIGIT, 0);
    if (small == 'w') emit(p, MF_RX_WORD, 0, 0);
    if (small == 'h') {
        emit(p, MF_RX_RANGE, '0', '9');
        emit(p, MF_RX_RANGE, 'A', 'F');
        emit(p, MF_RX_RANGE, 'a', 'f');
    }
    if (c != small) emit(p, MF_RX_NOT, 0, 0);
    return true;
}

/* Reads what follows a backslash. Returns true if it was a set, which is pushed; else *c is
 * the character. */
static bool escaped(mf_rx_parser *p, size_t at, uint32_t *c)
{
    static const char letters[] = "nrtfvae", means[] = "\n\r\t\f\v\a\x1b";
    *c = mf_rx_take(p);
    if (p->rc != MF_OK || *c >= 0x80) return false;
    const char l = (char)*c, *found = l ? strchr(letters, l) : NULL;
    if (l == 'p' || l == 'P') {
        property(p, at, l == 'P');
        return true;
    }
    if (l && letter_set(p, l)) return true;
    if (found)
        *c = (unsigned char)means[found - letters];
    else if (l == 'x' || l == 'u')
        *c = hex(p, at, l == 'x' ? 2 : 4);
    else if (l == '_' ||
             !((l >= '0' && l <= '9') || (l >= 'A' && l <= 'Z') || (l >= 'a' && l <= 'z')))
        return false;
    else
        mf_rx_refuse(p, at,
                     "an escape that is not supported: expected \\s \\d \\w \\h, their "
                     "capitals, \\p{..} \\P{..}, \\n \\r \\t \\f \\v \\a \\e, \\xHH, "
                     "\\uHHHH, \\b \\B \\A \\z \\Z, or a sign");
    return false;
}

int32_t mf_rx_escaped_set(mf_rx_parser *p, size_t at)
{
    const size_t begin = p->ret->sets.n_steps;
    uint32_t c;
    if (escaped(p, at, &c)) return finish(p, begin);
    return mf_rx_range_set(p, c, c, false);
}

/* ---- classes in brackets ---- */

static void class(mf_rx_parser *p, size_t at);

/* Reads [:NAME:]; false: it is an ordinary class. */
static bool posix(mf_rx_parser *p, size_t at)
{
    static const struct {
        const char *text;
        mf_rx_op op;
        uint32_t set;
    } table[] = {{"[:space:]", MF_RX_SPACE, 0},
                 {"[:word:]", MF_RX_WORD, 0},
                 {"[:digit:]", MF_RX_CATEGORY, MF_UC_DIGIT}};
    if (!mf_rx_is(p, "[:")) return false;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (mf_rx_skip(p, table[i].text)) {
            emit(p, table[i].op, table[i].set, 0);
            return true;
        }
    mf_rx_refuse(p, at, "expected [:space:], [:word:] or [:digit:]");
    return true;
}

/* Reads a character, a range or an escape of a class. */
static void member(mf_rx_parser *p)
{
    const size_t at = p->at;
    uint32_t from = mf_rx_take(p), to;
    if (from == '\\') {
        if (mf_rx_skip(p, "b")) {
            from = '\b';
        } else if (escaped(p, at, &from)) {
            emit(p, MF_RX_OR, 0, 0);
            return;
        }
    }
    to = from;
    if (mf_rx_is(p, "-") && p->at + 1 < p->n && p->text[p->at + 1] != ']') {
        p->at++;
        to = mf_rx_take(p);
        if (to == '[' || (to == '\\' && escaped(p, at, &to)))
            mf_rx_refuse(p, at, "a range: expected a character at its end");
        else if (to < from)
            mf_rx_refuse(p, at, "a range: expected the lower character first");
    }
    add_range(p, at, from, to);
}

/* Reads a class behind its bracket, and pushes the set. */
static void class(mf_rx_parser *p, size_t at)
{
    const bool negative = mf_rx_skip(p, "^");
    bool both = false, first = true;
    if (p->depth >= MF_REGEX_DEPTH) {
        mf_rx_refuse(p, at, "classes are nested too deeply");
        return;
    }
    p->depth++;
    emit(p, MF_RX_EMPTY, 0, 0);
    for (; p->rc == MF_OK && (first || !mf_rx_is(p, "]")); first = false) {
        if (p->at >= p->n) {
            mf_rx_refuse(p, at, "a class without ]");
        } else if (p->fold && (mf_rx_is(p, "&&") || (mf_rx_is(p, "[") && !mf_rx_is(p, "[:")))) {
            mf_rx_refuse(p, p->at, "(?i) with an intersection or a class in a class");
        } else if (mf_rx_skip(p, "&&")) {
            if (both) emit(p, MF_RX_AND, 0, 0);
            both = true;
            emit(p, MF_RX_EMPTY, 0, 0);
        } else if (mf_rx_is(p, "[")) {
            if (posix(p, p->at)) continue;
            p->at++;
            class(p, p->at - 1);
            emit(p, MF_RX_OR, 0, 0);
        } else {
            member(p);
        }
    }
    mf_rx_skip(p, "]");
    if (both) emit(p, MF_RX_AND, 0, 0);
    if (negative) emit(p, MF_RX_NOT, 0, 0);
    p->depth--;
}

int32_t mf_rx_class_set(mf_rx_parser *p, size_t at)
{
    const size_t begin = p->ret->sets.n_steps;
    class(p, at);
    return finish(p, begin);
}
