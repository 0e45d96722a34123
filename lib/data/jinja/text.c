/* data/jinja/text.c: values as text: as Python's str and repr write them, and as JSON in the
 * form of Python's json.dumps. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"
#include "io/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Enlarges a buffer by half, at least, so that n more bytes fit. */
static bool make_room(jj_run *r, jj_out *out, size_t n)
{
    const size_t needed = out->n + n;
    if (needed > r->limits->output + 1) { /* the NUL */
        jj_fail(r, "the template writes more than %zu MiB", r->limits->output >> 20);
        return false;
    }
    if (needed <= out->cap) return true;
    const size_t half = out->cap + out->cap / 2 + 64, cap = needed > half ? needed : half;
    if (!jj_may_take(r, cap - out->cap)) return false;
    char *larger = mf_realloc(out->text, out->n, cap);
    if (!larger) {
        r->rc = MF_ENOMEM;
        return false;
    }
    out->text = larger;
    r->held += cap - out->cap;
    out->cap = cap;
    return true;
}

void jj_add(jj_run *r, jj_out *out, const char *text, size_t n)
{
    if (r->rc != MF_OK || n == 0) return;
    if (!jj_spend(r, n) || !make_room(r, out, n)) return;
    memcpy(out->text + out->n, text, n);
    out->n += n;
}

static void say(jj_run *r, jj_out *out, const char *text)
{
    jj_add(r, out, text, strlen(text));
}

/* ---- numbers ---- */

/* Writes the shortest text that reads back to the same number, as Python does: 2.0, 1e-07. */
static void add_float(jj_run *r, jj_out *out, double f, bool json)
{
    char digits[40], text[64];
    if (isnan(f) || isinf(f)) {
        say(r, out,
            isnan(f) ? (json ? "NaN" : "nan")
            : f < 0  ? (json ? "-Infinity" : "-inf")
                     : (json ? "Infinity" : "inf"));
        return;
    }
    int precision = 0;
    do {
        if (!jj_step(r, 0)) return;
        snprintf(digits, sizeof digits, "%.*e", precision, f);
    } while (strtod(digits, NULL) != f && precision++ < 17);
    const char *e = strchr(digits, 'e');
    const int exponent = atoi(e + 1);
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, sizeof text, "%.*se%c%02d", (int)(e - digits), digits,
                 exponent < 0 ? '-' : '+', abs(exponent));
    } else {
        const int places = precision > exponent ? precision - exponent : 0;
        snprintf(text, sizeof text, "%.*f", places, f);
        if (places == 0) strcat(text, ".0");
    }
    say(r, out, text);
}

static void add_int(jj_run *r, jj_out *out, int64_t i)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)i);
    say(r, out, text);
}

/* ---- Python's repr ---- */

/* Writes a character that repr does not write as it is. */
static void add_escape(jj_run *r, jj_out *out, uint32_t c)
{
    char text[16];
    snprintf(text, sizeof text,
             c < 0x100     ? "\\x%02x"
             : c < 0x10000 ? "\\u%04x"
                           : "\\U%08x",
             (unsigned)c);
    say(r, out, text);
}

static void add_quoted(jj_run *r, jj_out *out, jv v)
{
    const bool single = v.n > 0 && memchr(v.as.s, '\'', v.n),
               twice = v.n > 0 && memchr(v.as.s, '"', v.n);
    const char quote = single && !twice ? '"' : '\'';
    /* categories that are not printable: all of Z and C but the blank */
    const uint32_t hidden = MF_UC_OTHER | 1 | UINT32_C(7) << 23;
    jj_add(r, out, &quote, 1);
    for (size_t at = 0, n; at < v.n && r->rc == MF_OK; at += n) {
        uint32_t c = 0;
        n = mf_unicode_read(v.as.s + at, v.n - at, &c);
        if (c == '\n' || c == '\r' || c == '\t')
            say(r, out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (c == '\\' || c == (uint32_t)quote)
            jj_add(r, out, (char[]){'\\', (char)c}, 2);
        else if (c != ' ' && (mf_unicode_category(c) & hidden))
            add_escape(r, out, c);
        else
            jj_add(r, out, v.as.s + at, n);
    }
    jj_add(r, out, &quote, 1);
}

static void add_repr(jj_run *r, jj_out *out, jv v, bool quoted)
{
    if (!jj_enter(r, 0)) return;
    switch (v.kind) {
    case JV_UNDEFINED:
        break;
    case JV_NONE:
        say(r, out, "None");
        break;
    case JV_BOOL:
        say(r, out, v.as.b ? "True" : "False");
        break;
    case JV_INT:
        add_int(r, out, v.as.i);
        break;
    case JV_FLOAT:
        add_float(r, out, v.as.f, false);
        break;
    case JV_STRING:
        if (quoted)
            add_quoted(r, out, v);
        else
            jj_add(r, out, v.as.s, v.n);
        break;
    case JV_LIST:
        say(r, out, v.n ? "(" : "[");
        for (size_t i = 0; i < v.as.list->n && r->rc == MF_OK; i++) {
            if (i > 0) say(r, out, ", ");
            add_repr(r, out, v.as.list->item[i], true);
        }
        if (v.n && v.as.list->n == 1) say(r, out, ",");
        say(r, out, v.n ? ")" : "]");
        break;
    case JV_DICT:
        say(r, out, "{");
        for (size_t i = 0; i < v.as.dict->n && r->rc == MF_OK; i++) {
            if (i > 0) say(r, out, ", ");
            add_repr(r, out, v.as.dict->key[i], true);
            say(r, out, ": ");
            add_repr(r, out, v.as.dict->value[i], true);
        }
        say(r, out, "}");
        break;
    default:
        jj_fail(r, "the text of a %s", jv_type(v));
    }
    jj_leave(r);
}

jv jv_string(jj_run *r, jv v)
{
    jj_out out = {0};
    if (v.kind == JV_STRING) return v;
    add_repr(r, &out, v, false);
    return jj_captured(r, &out);
}

/* ---- JSON ---- */

typedef struct style {
    int indent; /* -1: all in one line */
    bool ascii, sorted;
} style;

static void add_json_text(jj_run *r, jj_out *out, jv v, bool ascii)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    char text[16];
    say(r, out, "\"");
    for (size_t at = 0, n; at < v.n && r->rc == MF_OK; at += n) {
        uint32_t c = 0;
        n = mf_unicode_read(v.as.s + at, v.n - at, &c);
        const char *found = c > 0 && c < 0x80 ? strchr(from, (int)c) : NULL;
        if (found) {
            jj_add(r, out, (char[]){'\\', to[found - from]}, 2);
        } else if (c < 0x20 || (ascii && c >= 0x7f)) {
            if (c >= 0x10000)
                snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (c >> 10)),
                         (unsigned)(0xdc00 | (c & 0x3ff)));
            else
                snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
            if (c == 0x7f) snprintf(text, sizeof text, "\x7f");
            say(r, out, text);
        } else {
            jj_add(r, out, v.as.s + at, n);
        }
    }
    say(r, out, "\"");
}

static void new_line(jj_run *r, jj_out *out, const style *s, int level)
{
    if (s->indent < 0) return;
    say(r, out, "\n");
    for (int i = 0; i < s->indent * level; i++)
        jj_add(r, out, " ", 1);
}

static void add_json(jj_run *r, jj_out *out, jv v, const style *s, int level);

/* Writes a key; numbers and truth values become texts. */
static void add_key(jj_run *r, jj_out *out, jv key, const style *s)
{
    if (key.kind == JV_STRING) {
        add_json_text(r, out, key, s->ascii);
        return;
    }
    say(r, out, "\"");
    add_json(r, out, key, s, 0);
    say(r, out, "\"");
}

static void add_json(jj_run *r, jj_out *out, jv v, const style *s, int level)
{
    const size_t *order;
    const char *comma = s->indent < 0 ? ", " : ",";
    if (!jj_enter(r, 0)) return;
    switch (v.kind) {
    case JV_NONE:
        say(r, out, "null");
        break;
    case JV_BOOL:
        say(r, out, v.as.b ? "true" : "false");
        break;
    case JV_INT:
        add_int(r, out, v.as.i);
        break;
    case JV_FLOAT:
        add_float(r, out, v.as.f, true);
        break;
    case JV_STRING:
        add_json_text(r, out, v, s->ascii);
        break;
    case JV_LIST:
        say(r, out, "[");
        for (size_t i = 0; i < v.as.list->n && r->rc == MF_OK; i++) {
            if (i > 0) say(r, out, comma);
            new_line(r, out, s, level + 1);
            add_json(r, out, v.as.list->item[i], s, level + 1);
        }
        if (v.as.list->n > 0) new_line(r, out, s, level);
        say(r, out, "]");
        break;
    case JV_DICT:
        order = s->sorted ? jv_sorted(r, v.as.dict->key, v.as.dict->n) : NULL;
        say(r, out, "{");
        for (size_t i = 0; i < v.as.dict->n && r->rc == MF_OK; i++) {
            const size_t k = order ? order[i] : i;
            if (i > 0) say(r, out, comma);
            new_line(r, out, s, level + 1);
            add_key(r, out, v.as.dict->key[k], s);
            say(r, out, ": ");
            add_json(r, out, v.as.dict->value[k], s, level + 1);
        }
        if (v.as.dict->n > 0) new_line(r, out, s, level);
        say(r, out, "}");
        break;
    default:
        jj_fail(r, "tojson of %s", jv_type(v));
    }
    jj_leave(r);
}

jv jv_json(jj_run *r, jv v, int indent, bool ascii, bool sorted)
{
    jj_out out = {0};
    const style s = {indent, ascii, sorted};
    add_json(r, &out, v, &s, 0);
    return jj_captured(r, &out);
}
