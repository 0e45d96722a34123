/* fuzz_regex: the input up to its first NUL is a regular expression; the rest is a text.
 * Matches are ordered, lie in the text, do not overlap, and begin and end at characters. A
 * second reading of the same text finds the same matches. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "base/text/utf8.h"
#include "data/tokenizer/regex/regex.h"

#include <string.h>

const char *const fuzz_words[] = {
    "(?:", "(?i:",     "(?=",          "(?!",   "(?<=", "(?>",         ")",     "|",      "*",
    "+?",  "++",       "{2,}",         "{1,3}", "[^",   "]",           "&&",    "\\p{L}", "\\s",
    "\\S", "\\p{Han}", "\\b",          "$",     "(?m:", "[[:space:]]", "\\x41", "a",      " ",
    "\n",  "\xC3\xA9", "\xE4\xB8\xAD", NULL};

static bool inside_character(const char *text, size_t n, size_t at)
{
    return at < n && ((unsigned char)text[at] & 0xc0) == 0x80;
}

/* Reads all matches. Returns a sum of their places. */
static size_t read_all(mf_regex_scan *s, const char *text, size_t n)
{
    size_t begin = 0, end = 0, last = 0, sum = 0;
    bool found = true;
    FUZZ_REQUIRE(mf_regex_scan_begin(s, text, n) == MF_OK);
    for (;;) {
        FUZZ_REQUIRE(mf_regex_scan_next(s, &begin, &end, &found) == MF_OK);
        if (!found) return sum;
        FUZZ_REQUIRE(begin >= last && end >= begin && end <= n);
        FUZZ_REQUIRE(!inside_character(text, n, begin) && !inside_character(text, n, end));
        sum = sum * 31 + begin * 7 + end + 1;
        last = end;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *all = (const char *)data, *nul = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t n = nul ? (size_t)(nul - all) : size;
    const char *text = nul ? nul + 1 : all;
    const size_t length = nul ? size - n - 1 : size;
    mf_regex *r = NULL;
    const int rc = mf_regex_new("input", all, n, &r);
    FUZZ_REQUIRE((rc == MF_OK && r) || (rc == MF_EINPUT && !r));
    if (rc != MF_OK) FUZZ_REQUIRE(strncmp(mf_error_message(), "input: ", 7) == 0);
    if (rc == MF_OK && mf_utf8_check(text, length) == length) {
        mf_regex_scan *s;
        FUZZ_REQUIRE(mf_regex_scan_new(r, &s) == MF_OK);
        const size_t sum = read_all(s, text, length);
        FUZZ_REQUIRE(read_all(s, text, length) == sum);
        mf_regex_scan_free(s);
    }
    mf_regex_free(r);
    return 0;
}
