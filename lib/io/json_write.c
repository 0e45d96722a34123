/* io/json_write.c: writes JSON into a growing buffer. The first error is kept, and
 * mf_jw_text reports it. */
#include "io/json.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "base/text/shown.h"
#include "base/text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct mf_jw {
    char *text;
    size_t n, room;
    int depth;
    int error;      /* first error; nothing is written after it */
    bool key_given; /* a key was written, and its value must follow */
    struct {
        bool is_object, has_item;
    } level[MF_JSON_DEPTH_MAX + 1]; /* level 0 is the whole value */
};

mf_jw *mf_jw_new(void)
{
    return mf_alloc(1, sizeof(mf_jw));
}

void mf_jw_free(mf_jw *w)
{
    if (!w) return;
    mf_free(w->text);
    mf_free(w);
}

void mf_jw_reset(mf_jw *w)
{
    char *text = w->text;
    size_t room = w->room;
    *w = (mf_jw){.text = text, .room = room};
}

static void misuse(mf_jw *w, const char *what)
{
    if (w->error == MF_OK) w->error = mf_fail(MF_EINVAL, "JSON writer: %s", what);
}

static void put(mf_jw *w, const char *text, size_t n)
{
    if (w->error != MF_OK) return;
    if (w->room - w->n <= n) { /* the NUL needs one more byte */
        size_t room = w->room ? w->room : 256;
        char *larger;
        while (room - w->n <= n && room <= SIZE_MAX / 4)
            room *= 2;
        larger = room - w->n > n ? mf_realloc(w->text, w->n, room) : NULL;
        if (!larger) {
            w->error = mf_fail(MF_ENOMEM, "out of memory while writing JSON");
            return;
        }
        w->text = larger;
        w->room = room;
    }
    memcpy(w->text + w->n, text, n);
    w->n += n;
}

static void puts_(mf_jw *w, const char *text)
{
    put(w, text, strlen(text));
}

/* Every value calls this function first. It checks that a value is allowed at this position,
 * and writes a comma if one is needed. */
static void begin_value(mf_jw *w)
{
    if (w->error != MF_OK) return;
    if (w->level[w->depth].is_object) {
        if (!w->key_given) misuse(w, "value without a key in an object");
        w->key_given = false;
        return;
    }
    if (w->level[w->depth].has_item) {
        if (w->depth == 0)
            misuse(w, "second value after the first one ended");
        else
            put(w, ",", 1);
    }
    w->level[w->depth].has_item = true;
}

static void open_level(mf_jw *w, bool is_object)
{
    begin_value(w);
    if (w->error == MF_OK && w->depth == MF_JSON_DEPTH_MAX) misuse(w, "nested too deep");
    if (w->error != MF_OK) return;
    w->depth++;
    w->level[w->depth].is_object = is_object;
    w->level[w->depth].has_item = false;
    put(w, is_object ? "{" : "[", 1);
}

void mf_jw_object(mf_jw *w)
{
    open_level(w, true);
}

void mf_jw_array(mf_jw *w)
{
    open_level(w, false);
}

void mf_jw_end(mf_jw *w)
{
    if (w->error == MF_OK && w->depth == 0) misuse(w, "end without a beginning");
    if (w->error == MF_OK && w->key_given) misuse(w, "key without a value");
    if (w->error != MF_OK) return;
    put(w, w->level[w->depth].is_object ? "}" : "]", 1);
    w->depth--;
}

/* Returns the code of the character at s if the character could control a terminal or change
 * the order of the text. Otherwise returns NO_CONTROL. */
#define NO_CONTROL 0x110000u
static unsigned control_at(const unsigned char *s, size_t length)
{
    if (length == 0 || !mf_char_hidden((const char *)s, length)) return NO_CONTROL;
    if (length == 1) return *s;
    if (length == 2) return (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
    return (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
}

static void put_escaped(mf_jw *w, const char *text, size_t n)
{
    /* pairs: the letter after the backslash, and the character that the pair means */
    static const char two[] = "b\bf\fn\nr\rt\t\"\"\\\\";
    /* offset of the first byte that is not yet written */
    size_t plain = 0;
    put(w, "\"", 1);
    for (size_t i = 0; i < n;) {
        size_t length = mf_utf8_length(text + i, n - i);
        unsigned control =
            length ? control_at((const unsigned char *)text + i, length) : NO_CONTROL;
        char escape[12] = ""; /* \u and at most as many digits as an unsigned has */
        for (size_t j = 0; length == 1 && j + 1 < sizeof two; j += 2)
            if (two[j + 1] == text[i]) {
                escape[0] = '\\';
                escape[1] = two[j];
            }
        if (length == 0)
            memcpy(escape, "\\ufffd", 7);
        else if (!*escape && control < NO_CONTROL)
            snprintf(escape, sizeof escape, "\\u%04x", control);
        if (*escape) {
            put(w, text + plain, i - plain);
            puts_(w, escape);
        }
        i += length ? length : 1;
        if (*escape) plain = i;
    }
    put(w, text + plain, n - plain);
    put(w, "\"", 1);
}

void mf_jw_key(mf_jw *w, const char *key)
{
    if (w->error != MF_OK) return;
    if (!w->level[w->depth].is_object || w->key_given) {
        misuse(w, "key where none can stand");
        return;
    }
    if (w->level[w->depth].has_item) put(w, ",", 1);
    w->level[w->depth].has_item = true;
    put_escaped(w, key, strlen(key));
    put(w, ":", 1);
    w->key_given = true;
}

void mf_jw_string_n(mf_jw *w, const char *text, size_t n)
{
    begin_value(w);
    put_escaped(w, text, n);
}

void mf_jw_string(mf_jw *w, const char *text)
{
    mf_jw_string_n(w, text, strlen(text));
}

void mf_jw_int(mf_jw *w, int64_t value)
{
    char text[32];
    begin_value(w);
    snprintf(text, sizeof text, "%lld", (long long)value);
    puts_(w, text);
}

void mf_jw_real(mf_jw *w, double value)
{
    char text[MF_NUMBER_TEXT];
    begin_value(w);
    puts_(w, isfinite(value) ? mf_format_f64(value, text) : "null");
}

void mf_jw_decimal(mf_jw *w, double value)
{
    char text[MF_NUMBER_TEXT];
    begin_value(w);
    puts_(w, isfinite(value) ? mf_format_f64(value, text) : "null");
    if (isfinite(value) && !strpbrk(text, ".e")) puts_(w, ".0");
}

void mf_jw_float(mf_jw *w, float value)
{
    char text[MF_NUMBER_TEXT];
    begin_value(w);
    puts_(w, isfinite(value) ? mf_format_f32(value, text) : "null");
}

void mf_jw_bool(mf_jw *w, bool value)
{
    begin_value(w);
    puts_(w, value ? "true" : "false");
}

void mf_jw_null(mf_jw *w)
{
    begin_value(w);
    puts_(w, "null");
}

void mf_jw_kv_string(mf_jw *w, const char *key, const char *text)
{
    mf_jw_key(w, key);
    mf_jw_string(w, text);
}

void mf_jw_kv_int(mf_jw *w, const char *key, int64_t value)
{
    mf_jw_key(w, key);
    mf_jw_int(w, value);
}

void mf_jw_kv_real(mf_jw *w, const char *key, double value)
{
    mf_jw_key(w, key);
    mf_jw_real(w, value);
}

void mf_jw_kv_bool(mf_jw *w, const char *key, bool value)
{
    mf_jw_key(w, key);
    mf_jw_bool(w, value);
}

const char *mf_jw_text(mf_jw *w, size_t *ret_len)
{
    if (w->error == MF_OK && (w->depth != 0 || !w->level[0].has_item))
        misuse(w, "text asked for before its value is whole");
    if (w->error != MF_OK) {
        if (mf_error_code() != w->error)
            mf_fail(w->error, "JSON writer: %s", mf_status_text(w->error));
        return NULL;
    }
    w->text[w->n] = '\0';
    if (ret_len) *ret_len = w->n;
    return w->text;
}
