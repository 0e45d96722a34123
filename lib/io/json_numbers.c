/* io/json_numbers.c: finds numbers that jansson refuses, and replaces them by others of the
 * same length. Only the text outside of strings is examined. If this text is not JSON, the
 * result does not matter, because jansson then also refuses the changed text. */
#include "io/json_numbers.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "base/error.h"
#include "base/text/number.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && is_digit(text[i]))
        i++;
    return i;
}

/* Returns the length of a number in the form of JSON; 0: there is no number. */
static size_t number_length(const char *text, size_t n, bool *ret_whole)
{
    size_t at = n > 0 && text[0] == '-', more = digits(text + at, n - at);
    *ret_whole = true;
    if (more == 0 || (more > 1 && text[at] == '0')) return 0;
    at += more;
    if (at < n && text[at] == '.') {
        if ((more = digits(text + at + 1, n - at - 1)) == 0) return 0;
        at += 1 + more;
        *ret_whole = false;
    }
    if (at < n && (text[at] == 'e' || text[at] == 'E')) {
        size_t from = at + 1;
        from += from < n && (text[from] == '+' || text[from] == '-');
        if ((more = digits(text + from, n - from)) == 0) return 0;
        at = from + more;
        *ret_whole = false;
    }
    return at;
}

/* Returns the length of a name that Python writes for a number (NaN, Infinity); 0: there
 * is none. */
static size_t name_length(const char *text, size_t n, double *ret)
{
    static const struct {
        const char *name;
        double value;
    } names[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t m = strlen(names[i].name);
        if (m > n || memcmp(text, names[i].name, m) != 0) continue;
        *ret = names[i].value;
        return m;
    }
    return 0;
}

/* Determines whether jansson refuses a number, and computes its value. MF_ENOMEM. */
static int judge(const char *text, size_t n, bool whole, mf_arena *arena, bool *ret_odd,
                 double *ret)
{
    enum { ALWAYS_READ = 19 }; /* an integer of fewer bytes than this fits in 64 bits */
    long long integer;
    *ret_odd = false;
    if (n < ALWAYS_READ && (whole || !memchr(text, 'e', n)) && !memchr(text, 'E', n))
        return MF_OK;
    char *copy = mf_arena_alloc(arena, n + 1);
    if (!copy) return MF_ENOMEM;
    memcpy(copy, text, n);
    if (whole && mf_parse_i64(copy, &integer)) return MF_OK;
    const bool finite = mf_parse_f64(copy, ret);
    if (!finite) *ret = text[0] == '-' ? -INFINITY : INFINITY;
    *ret_odd = whole || !finite;
    return MF_OK;
}

/* Whether the characters before and after the n bytes at `at` may stand next to a value. */
static bool stands_alone(const char *text, size_t size, size_t at, size_t n)
{
    const bool begins = at > 0 && strchr("[,: \t\r\n", text[at - 1]) && text[at - 1],
               ends = at + n < size && strchr(",]} \t\r\n", text[at + n]) && text[at + n];
    return begins && ends;
}

/* Keeps the value of a number, and writes another number of the same length into the text. */
static int replace(mf_json_numbers *x, const char *text, size_t size, size_t at, size_t n,
                   size_t index, double value, mf_arena *arena)
{
    if (!x->text) {
        if (!(x->text = mf_arena_alloc(arena, size + 1))) return MF_ENOMEM;
        memcpy(x->text, text, size);
    }
    if (x->n == x->cap) {
        const size_t cap = 2 * x->cap + 16;
        mf_json_number *more = mf_arena_alloc(arena, cap * sizeof *more);
        if (!more) return MF_ENOMEM;
        if (x->n > 0) memcpy(more, x->number, x->n * sizeof *more);
        x->number = more;
        x->cap = cap;
    }
    x->number[x->n++] = (mf_json_number){index, value};
    memset(x->text + at, '0', n);
    x->text[at + 1] = '.';
    return MF_OK;
}

int mf_json_numbers_find(const char *text, size_t size, mf_arena *arena, mf_json_numbers *ret)
{
    size_t index = 0, at = 0;
    bool in_string = false;
    *ret = (mf_json_numbers){0};
    while (at < size) {
        const char c = text[at];
        double value = 0;
        bool whole, odd = true;
        if (in_string || c == '"') {
            if (in_string && c == '\\') at++;
            if (c == '"') in_string = !in_string;
            at++;
            continue;
        }
        size_t n = name_length(text + at, size - at, &value);
        if (n == 0) {
            n = number_length(text + at, size - at, &whole);
            const int rc = judge(text + at, n, whole, arena, &odd, &value);
            if (rc != MF_OK) return rc;
        }
        if (n > 0 && odd && stands_alone(text, size, at, n)) {
            const int rc = replace(ret, text, size, at, n, index, value, arena);
            if (rc != MF_OK) return rc;
        }
        index += n > 0;
        at += n > 0 ? n : 1;
    }
    return MF_OK;
}

void mf_json_numbers_give(const mf_json_numbers *numbers, size_t index, double *value)
{
    size_t low = 0, high = numbers->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (numbers->number[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < numbers->n && numbers->number[low].index == index)
        *value = numbers->number[low].value;
}
