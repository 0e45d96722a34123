/* data/tokenizer/pretrained/split.c: cuts a text into words. Published tokenizers describe
 * words by regular expressions, of which few exist. Each expression has a function here, which
 * matches at one position the same text as the expression. The exact text of the expression
 * selects the function. */
#include "data/tokenizer/pretrained/pretrained.h"

#include <string.h>

/* The properties of characters that the expressions use. */
enum {
    SPACE = 1,
    LETTER = 2,
    NUMBER = 4,
    MARK = 8,
    PUNCT = 16,
    LINE = 32,
    UPPER = 64,
    LOWER = 128
};
/* UPPER: [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], LOWER: [\p{Ll}\p{Lm}\p{Lo}\p{M}], PUNCT:
 * [\p{P}\p{S}], LINE: [\r\n] */

static unsigned classify(uint32_t c)
{
    if (c >= 'a' && c <= 'z') return LETTER | LOWER;
    if (c >= 'A' && c <= 'Z') return LETTER | UPPER;
    if (c == ' ' || c == '\t' || c == '\v' || c == '\f') return SPACE;
    if (c == '\n' || c == '\r') return SPACE | LINE;
    if (c >= '0' && c <= '9') return NUMBER;
    if (c < 0x80) return c > ' ' && c < 0x7f ? PUNCT : 0;
    const uint32_t set = mf_pt_category(c);
    if (set & MF_UC_LU) return LETTER | UPPER;
    if (set & MF_UC_LT) return LETTER | UPPER;
    if (set & MF_UC_LL) return LETTER | LOWER;
    if (set & MF_UC_LETTER) return LETTER | UPPER | LOWER;
    if (set & MF_UC_MARK) return MARK | UPPER | LOWER;
    if (set & MF_UC_NUMBER) return NUMBER;
    if (set & (MF_UC_PUNCTUATION | MF_UC_SYMBOL)) return PUNCT;
    return mf_unicode_is_space(c) ? SPACE : 0;
}

/* A character of a text: its length (0 at the end) and its properties. */
typedef struct letter {
    size_t n;
    unsigned is;
    uint32_t c;
} letter;

static letter letter_at(const char *text, size_t n, size_t at)
{
    letter l = {0};
    if (at >= n) return l;
    if ((unsigned char)text[at] < 0x80) {
        l.n = 1;
        l.c = (unsigned char)text[at];
    } else {
        l.n = mf_unicode_read(text + at, n - at, &l.c);
    }
    l.is = classify(l.c);
    return l;
}

/* Returns the end of the run of characters from `at` on that have a property in `some` and none
 * in `no`. With some = 0, only `no` is checked. */
static size_t run(const char *text, size_t n, size_t at, unsigned some, unsigned no)
{
    for (;;) {
        const letter l = letter_at(text, n, at);
        if (l.n == 0 || (l.is & no) || (some && !(l.is & some))) return at;
        at += l.n;
    }
}

/* 's|'t|'re|'ve|'m|'ll|'d: returns its length at `at`, 0: no match. With any_case, U+017F also
 * counts as an s. */
static size_t contraction(const char *text, size_t n, size_t at, bool any_case)
{
    if (at + 1 >= n || text[at] != '\'') return 0;
    char a = text[at + 1], b = at + 2 < n ? text[at + 2] : 0;
    if (any_case && a == '\xC5' && b == '\xBF') return 3;
    if (any_case && a >= 'A' && a <= 'Z') a = (char)(a + 32);
    if (any_case && b >= 'A' && b <= 'Z') b = (char)(b + 32);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* \s+(?!\S)|\s+ : matches blanks. If a word follows, the last blank belongs to this word. */
static size_t blanks(const char *text, size_t n, size_t at)
{
    const size_t end = run(text, n, at, SPACE, 0);
    size_t last = end;
    if (end == n || end == at) return end - at;
    do
        last--;
    while (((unsigned char)text[last] & 0xc0) == 0x80);
    return last > at ? last - at : end - at;
}

/* \s*[\r\n]+ : matches blanks up to the end of the last line that ends among them; 0: none. */
static size_t lines(const char *text, size_t n, size_t at)
{
    size_t found = at;
    for (letter l; (l = letter_at(text, n, at)).is & SPACE; at += l.n)
        if (l.is & LINE) found = at + l.n;
    return found;
}

/* \p{N}{1,most} */
static size_t digits(const char *text, size_t n, size_t at, int most)
{
    const size_t begin = at;
    for (letter l; most > 0 && (l = letter_at(text, n, at)).is & NUMBER; most--)
        at += l.n;
    return at - begin;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t mf_pt_split_bytes(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    const size_t short_form = contraction(text, n, at, false);
    if (short_form > 0) return short_form;
    const size_t begin = at + (text[at] == ' ');
    const letter l = letter_at(text, n, begin);
    if (l.n == 0 || (l.is & SPACE)) return blanks(text, n, at);
    if (l.is & LETTER) return run(text, n, begin, LETTER, 0) - at;
    if (l.is & NUMBER) return run(text, n, begin, NUMBER, 0) - at;
    return run(text, n, begin, 0, SPACE | LETTER | NUMBER) - at;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,most}
 * | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t after_2022(const char *text, size_t n, size_t at, int most)
{
    const size_t short_form = contraction(text, n, at, true);
    if (short_form > 0) return short_form;
    const letter l = letter_at(text, n, at);
    const size_t next = l.is & (LETTER | NUMBER | LINE) ? at : at + l.n;
    const size_t end = run(text, n, next, LETTER, 0);
    if (end > next) return end - at;
    if (l.is & NUMBER) return digits(text, n, at, most);
    const size_t begin = at + (l.c == ' ');
    const size_t signs = run(text, n, begin, 0, SPACE | LETTER | NUMBER);
    if (signs > begin) return run(text, n, signs, LINE, 0) - at;
    const size_t line = lines(text, n, at);
    return line > at ? line - at : blanks(text, n, at);
}

static size_t one_digit(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    return after_2022(text, n, at, 1);
}

static size_t three_digits(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    return after_2022(text, n, at, 3);
}

/* [UPPER]*[LOWER]+ from `at` on: returns its end, or `at` if no letter is in LOWER. */
static size_t ends_lower(const char *text, size_t n, size_t at)
{
    size_t end = at,
           last_both = at; /* the end of the last letter that is in both UPPER and LOWER */
    for (letter l; (l = letter_at(text, n, end)).is & UPPER;) {
        end += l.n;
        if (l.is & LOWER) last_both = end;
    }
    const size_t lower = run(text, n, end, LOWER, 0);
    return lower > end ? lower : last_both;
}

/* [^\r\n\p{L}\p{N}]?[UPPER]*[LOWER]+(?i:'s|...)?|[^\r\n\p{L}\p{N}]?[UPPER]+[LOWER]*(?i:'s|...)?
 *   |\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * The first alternative fails only if no letter of the run is in LOWER; then the second
 * alternative matches the run. A combining mark (\p{M}) at the start matches the optional first
 * character. If no letter after this mark is in LOWER, the first alternative matches the mark
 * itself as a letter, because UPPER and LOWER contain \p{M}. */
static size_t by_case(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    const letter l = letter_at(text, n, at);
    size_t next = l.is & (LETTER | NUMBER | LINE) ? at : at + l.n;
    size_t end = ends_lower(text, n, next);
    if (end == next && (l.is & MARK)) end = ends_lower(text, n, next = at);
    if (end == next) end = run(text, n, next, UPPER, 0);
    if (end > next) return end + contraction(text, n, end, true) - at;
    if (l.is & NUMBER) return digits(text, n, at, 3);
    const size_t begin = at + (l.c == ' ');
    size_t signs = run(text, n, begin, 0, SPACE | LETTER | NUMBER);
    if (signs > begin) {
        while (signs < n && (text[signs] == '\r' || text[signs] == '\n' || text[signs] == '/'))
            signs++;
        return signs - at;
    }
    const size_t line = lines(text, n, at);
    return line > at ? line - at : blanks(text, n, at);
}

/* [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
 * | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t signs_and_words(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    const letter l = letter_at(text, n, at);
    size_t end = at + 1;
    if (l.c < 0x80 && (l.is & PUNCT)) {
        while (end < n && (letter_at(text, n, end).is & LETTER) &&
               (unsigned char)text[end] < 0x80)
            end++;
        if (end > at + 1) return end - at;
    }
    const size_t next = l.is & (LETTER | PUNCT | LINE) ? at : at + l.n;
    end = run(text, n, next, LETTER | MARK, 0);
    if (end > next) return end - at;
    if (l.is & MARK) return l.n;
    const size_t begin = at + (l.c == ' ');
    end = run(text, n, begin, PUNCT, 0);
    if (end > begin) return run(text, n, end, LINE, 0) - at;
    end = lines(text, n, at);
    return end > at ? end - at : blanks(text, n, at);
}

/* [one of the ranges]+ of CJK ideographs (4E00-9FA5) and kana (3040-30FF). */
static size_t ideographs(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    const size_t begin = at;
    for (letter l; (l = letter_at(text, n, at)).n > 0; at += l.n)
        if (!(l.c >= 0x4e00 && l.c <= 0x9fa5) && !(l.c >= 0x3040 && l.c <= 0x30ff)) break;
    return at - begin;
}

static size_t each_number(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    return digits(text, n, at, 1);
}

static size_t up_to_three_digits(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    return digits(text, n, at, 3);
}

/* ---- classes of characters, written as in a pattern: A-Za-z ---- */

static bool in_class(uint32_t c, const char *set)
{
    for (size_t n = strlen(set), at = 0; at < n;) {
        uint32_t lo, hi;
        at += mf_unicode_read(set + at, n - at, &lo);
        hi = lo;
        if (at + 1 < n && set[at] == '-')
            at += 1 + mf_unicode_read(set + at + 1, n - at - 1, &hi);
        if (c >= lo && c <= hi) return true;
    }
    return false;
}

static size_t class_run(const char *text, size_t n, size_t at, const char *set)
{
    for (letter l; (l = letter_at(text, n, at)).n > 0 && in_class(l.c, set); at += l.n)
        ;
    return at;
}

/* \s?[set]+ : the set may contain the blank itself. */
static size_t after_blank(const char *text, size_t n, size_t at, const char *set)
{
    const letter l = letter_at(text, n, at);
    const size_t next = l.is & SPACE ? at + l.n : at, end = class_run(text, n, next, set);
    return end > next ? end - at : class_run(text, n, at, set) - at;
}

/* Letters with case, except some Latin, Greek and Georgian letters, in Unicode 11. */
#define CASED                                                                                  \
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293"            \
    "\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a"             \
    "\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-"           \
    "\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-"           \
    "\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-"           \
    "\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-"             \
    "\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-"           \
    "\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-"              \
    "\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-"             \
    "\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-"            \
    "\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-"           \
    "\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-"                 \
    "\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"                \
    "\U0001e900-\U0001e943"
#define SIGNS "!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002"
#define ASIAN "\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff"

static size_t one_line_end(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    return at < n && (text[at] == '\r' || text[at] == '\n');
}

static size_t cased(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    return after_blank(text, n, at, CASED);
}

static size_t signs(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    return after_blank(text, n, at, SIGNS);
}

/* \s+$ , for texts in which lines are already separate words */
static size_t last_blanks(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    const size_t end = run(text, n, at, SPACE, 0);
    return end == n ? end - at : 0;
}

static size_t asian(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    return class_run(text, n, at, ASIAN) - at;
}

/* Digits asks another table than regular expressions do. */
static size_t number(const char *text, size_t n, size_t at)
{
    const letter l = letter_at(text, n, at);
    return (l.is & NUMBER) || mf_pt_is_late_number(l.c) ? l.n : 0;
}

size_t mf_pt_split_digit(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    return number(text, n, at);
}

size_t mf_pt_split_digits(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    const size_t begin = at;
    for (size_t length; (length = number(text, n, at)) > 0; at += length) {
    }
    return at - begin;
}

size_t mf_pt_split_blanks(const char *text, size_t n, size_t at, bool *drop)
{
    const size_t end = run(text, n, at, SPACE, 0);
    *drop = end > at;
    return end > at ? end - at : run(text, n, at, 0, SPACE) - at;
}

/* Blanks are dropped; each punctuation character is a word of its own. */
size_t mf_pt_split_bert(const char *text, size_t n, size_t at, bool *drop)
{
    const size_t begin = at;
    for (letter l; (l = letter_at(text, n, at)).n > 0; at += l.n) {
        const bool sign = l.c < 0x80 ? (l.is & PUNCT) != 0 : mf_pt_is_sign(l.c);
        const bool alone = sign || (l.is & SPACE);
        if (alone && at > begin) break;
        *drop = (l.is & SPACE) != 0;
        if (alone) return l.n;
    }
    return at - begin;
}

static const char bar[] = "\xE2\x96\x81"; /* U+2581 */
enum { BAR = sizeof bar - 1 };

static bool is_bar(const char *text, size_t n, size_t at)
{
    return n - at >= BAR && memcmp(text + at, bar, BAR) == 0;
}

/* Returns the end of the text without U+2581 from `at` on. */
static size_t to_bar(const char *text, size_t n, size_t at)
{
    const char *hit = memmem(text + at, n - at, bar, BAR);
    return hit ? (size_t)(hit - text) : n;
}

size_t mf_pt_split_each_bar(const char *text, size_t n, size_t at, bool *drop)
{
    (void)drop;
    return to_bar(text, n, is_bar(text, n, at) ? at + BAR : at) - at;
}

size_t mf_pt_split_bars(const char *text, size_t n, size_t at, bool *drop)
{
    size_t end = at;
    (void)drop;
    while (is_bar(text, n, end))
        end += BAR;
    return to_bar(text, n, end) - at;
}

/* ---- the words of the kind bpe_bytes (data/tokenizer/bpe_words.c) ---- */

enum { OWN_MOST = 256 }; /* greatest number of characters of a word */
typedef enum own_class { OWN_BLANK, OWN_DIGIT, OWN_LETTER, OWN_OTHER } own_class;

static own_class own_class_of(char c)
{
    if (c == ' ' || (c >= '\t' && c <= '\r')) return OWN_BLANK;
    if (c >= '0' && c <= '9') return OWN_DIGIT;
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0 ? OWN_LETTER
                                                                               : OWN_OTHER;
}

static size_t own_words(const char *text, size_t n, size_t at, bool *drop)
{
    const size_t begin = at;
    int letters = 0;
    (void)drop;
    if (n - at > 1 && text[at] == ' ' && own_class_of(text[at + 1]) != OWN_BLANK) {
        at++;
        letters++;
    }
    const own_class class = own_class_of(text[at]);
    while (at < n && own_class_of(text[at]) == class) {
        if (((unsigned char)text[at] & 0xC0) != 0x80 && letters++ == OWN_MOST) break;
        at++;
    }
    /* the last blank of a run belongs to the next word */
    const bool next = at < n && own_class_of(text[at]) != OWN_BLANK;
    if (class == OWN_BLANK && at - begin > 1 && text[at - 1] == ' ' && next) at--;
    return at - begin;
}

#define OWN_LETTERS  "[^\\x00-@\\[-`{-\\x7F]"
#define OWN_DIGITS   "[0-9]"
#define OWN_SIGNS    "[\\x00-\\x08\\x0E-\\x1F!-/:-@\\[-`{-\\x7F]"
#define OWN_BLANKS   "[\\t-\\r ]"
#define OWN_RUN(set) " " set "{1,255}|" set "{1,256}|"
#define OWN_PATTERN                                                                            \
    OWN_RUN(OWN_LETTERS)                                                                       \
    OWN_RUN(OWN_DIGITS)                                                                        \
    OWN_RUN(OWN_SIGNS) OWN_BLANKS "{1,256}(?= [^\\t-\\r ])|" OWN_BLANKS "{1,256}"
const char mf_pt_pattern_own[] = OWN_PATTERN;

/* ---- the table ---- */

#define SHORT_FORMS "'s|'t|'re|'ve|'m|'ll|'d"
#define UPPER_SET   "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER_SET   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BLANKS      "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define FRONT       "[^\\r\\n\\p{L}\\p{N}]?"

static const struct {
    const char *pattern;
    mf_pt_splitter split;
    const char *name; /* a model that uses the pattern; the two DeepSeek tokenizers use
                       * several patterns */
} table[] = {
    {SHORT_FORMS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     mf_pt_split_bytes, "gpt2"},
    {"(?i:" SHORT_FORMS ")|" FRONT "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" BLANKS,
     one_digit, "qwen2"},
    {"(?i:" SHORT_FORMS ")|" FRONT "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" BLANKS,
     three_digits, "llama3"},
    {FRONT UPPER_SET "*" LOWER_SET "+(?i:" SHORT_FORMS ")?|" FRONT UPPER_SET "+" LOWER_SET
                     "*(?i:" SHORT_FORMS
                     ")?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" BLANKS,
     by_case, "gpt_oss"},
    {"\\p{N}{1,3}", up_to_three_digits, "numbers"},
    {"\\p{N}", each_number, "number"},
    {"[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
     ideographs, "cjk"},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"
     "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" BLANKS,
     signs_and_words, "words"},
    {"[\\r\\n]", one_line_end, "line_ends"},
    {"\\s?[" CASED "]+", cased, "cased"},
    {"\\s?[" SIGNS "]+", signs, "signs"},
    {"\\s+$", last_blanks, "last_blanks"},
    {"[" ASIAN "]+", asian, "asian"},
    {OWN_PATTERN, own_words, "moefw"},
};

/* Whether a pattern is `ours`. Files contain the pattern's line ends as escapes or directly. A
 * quote may be escaped, too. */
static bool same_pattern(const char *ours, const char *text, size_t n)
{
    size_t at = 0;
    for (; *ours; ours++) {
        if (*ours == '"' && n - at >= 2 && text[at] == '\\' && text[at + 1] == '"') at++;
        if (at == n) return false;
        const bool line = *ours == '\\' && (ours[1] == 'r' || ours[1] == 'n');
        if (line && text[at] == (ours[1] == 'r' ? '\r' : '\n')) {
            ours++;
            at++;
            continue;
        }
        if (text[at++] != *ours) return false;
    }
    return at == n;
}

mf_pt_splitter mf_pt_split_pattern(const char *pattern, size_t n)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (same_pattern(table[i].pattern, pattern, n)) return table[i].split;
    return NULL;
}

/* Expressions without a function in which a newline between two letters or digits of ASCII is
 * always a word of its own: only \\s*[\\r\\n]+ takes it, and nothing takes more with it. */
#define HAN     "&&[^\\p{Han}]"
#define UPPER_H "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" HAN "]"
#define LOWER_H "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" HAN "]"
static const char *const cut_lines[] = {
    /* Qwen3.5 */
    "(?i:" SHORT_FORMS ")|" FRONT
    "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" BLANKS,
    /* Tekken */
    FRONT UPPER_SET "*" LOWER_SET "+|" FRONT UPPER_SET "+" LOWER_SET
                    "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" BLANKS,
    /* Kimi */
    "[\\p{Han}]+|" FRONT UPPER_H "*" LOWER_H "+(?i:" SHORT_FORMS ")?|" FRONT UPPER_H "+" LOWER_H
    "*(?i:" SHORT_FORMS ")?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" BLANKS};

bool mf_pt_cuts_lines(const char *pattern, size_t n)
{
    for (size_t i = 0; i < sizeof cut_lines / sizeof *cut_lines; i++)
        if (same_pattern(cut_lines[i], pattern, n)) return true;
    return false;
}

const char *mf_pt_pattern_named(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0) return table[i].pattern;
    return NULL;
}

const char *mf_pt_split_name(mf_pt_splitter split)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].split == split) return table[i].name;
    return NULL;
}
