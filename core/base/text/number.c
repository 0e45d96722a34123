/* base/text/number.c: conversions between numbers and text. strtod and printf follow the
 * locale, but files and command lines must not depend on it. */
#include "base/text/number.h"

#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *skip_digits(const char *s)
{
    while (*s >= '0' && *s <= '9')
        s++;
    return s;
}

bool mf_parse_i64(const char *text, long long *out)
{
    const char *s = text;
    bool negative = *s == '-';
    long long value = 0, unit = 1;
    if (*s == '-' || *s == '+') s++;
    if (skip_digits(s) == s) return false;
    for (; *s >= '0' && *s <= '9'; s++) {
        int digit = *s - '0';
        /* The value is built with its sign, because the most negative number has no
         * positive counterpart. */
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_add_overflow(value, negative ? -digit : digit, &value)) return false;
    }
    switch (*s) {
    case 'G':
        unit = 1000000000;
        s++;
        break;
    case 'M':
        unit = 1000000;
        s++;
        break;
    case 'k':
        unit = 1000;
        s++;
        break;
    default:
        break;
    }
    if (*s != '\0' || __builtin_mul_overflow(value, unit, &value)) return false;
    *out = value;
    return true;
}

/* Copies text to out [size] and replaces the first `from` by `to`: '.' by the decimal point of
 * the current locale, or the reverse. Returns false if out is too small. */
static bool swap_point(const char *text, const char *from, const char *to, char *out,
                       size_t size)
{
    const char *point = strstr(text, from);
    size_t head = point ? (size_t)(point - text) : strlen(text);
    int n = point ? snprintf(out, size, "%.*s%s%s", (int)head, text, to, point + strlen(from))
                  : snprintf(out, size, "%s", text);
    return n >= 0 && (size_t)n < size;
}

static const char *locale_point(void)
{
    const struct lconv *conv = localeconv();
    return conv && conv->decimal_point && *conv->decimal_point ? conv->decimal_point : ".";
}

static bool is_decimal(const char *s)
{
    const char *digits;
    bool some;
    if (*s == '-' || *s == '+') s++;
    digits = s;
    s = skip_digits(s);
    some = s > digits;
    if (*s == '.') {
        digits = ++s;
        s = skip_digits(s);
        some = some || s > digits;
    }
    if (!some) return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        if (*s == '-' || *s == '+') s++;
        digits = s;
        s = skip_digits(s);
        if (s == digits) return false;
    }
    return *s == '\0';
}

bool mf_parse_f64(const char *text, double *out)
{
    char local[512];
    double value;
    if (!is_decimal(text)) return false;
    if (!swap_point(text, ".", locale_point(), local, sizeof local)) return false;
    value = strtod(local, NULL);
    if (!isfinite(value)) return false;
    *out = value;
    return true;
}

bool mf_parse_bool(const char *text, bool *out)
{
    static const char *const words[2][4] = {{"no", "false", "off", "0"},
                                            {"yes", "true", "on", "1"}};
    for (int value = 0; value < 2; value++)
        for (int i = 0; i < 4; i++)
            if (strcasecmp(text, words[value][i]) == 0) {
                *out = value == 1;
                return true;
            }
    return false;
}

static const char *odd_value(double value)
{
    if (isnan(value)) return "nan";
    if (isinf(value)) return value > 0 ? "inf" : "-inf";
    if (value == 0) return signbit(value) ? "-0.0" : "0";
    return NULL;
}

const char *mf_format_f64(double value, char out[MF_NUMBER_TEXT])
{
    const char *odd = odd_value(value);
    char local[MF_NUMBER_TEXT];
    if (odd) return strcpy(out, odd);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(local, sizeof local, "%.*g", digits, value);
        if (strtod(local, NULL) == value) break;
    }
    swap_point(local, locale_point(), ".", out, MF_NUMBER_TEXT);
    return out;
}

const char *mf_format_f32(float value, char out[MF_NUMBER_TEXT])
{
    const char *odd = odd_value((double)value);
    char local[MF_NUMBER_TEXT];
    if (odd) return strcpy(out, odd);
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(local, sizeof local, "%.*g", digits, (double)value);
        if (strtof(local, NULL) == value) break;
    }
    swap_point(local, locale_point(), ".", out, MF_NUMBER_TEXT);
    return out;
}
