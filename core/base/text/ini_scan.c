/* base/text/ini_scan.c: checks INI text line by line against the rules in ini.h. The result is
 * trimmed and cannot be misread by inih. */
#include "base/text/ini_scan.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '-';
}

static bool is_control(char c)
{
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7F;
}

/* Whether the two bytes are a control character U+0080 to U+009F. */
static bool is_control_pair(const char *at, size_t n)
{
    return n >= 2 && (unsigned char)at[0] == 0xC2 && (unsigned char)at[1] >= 0x80 &&
           (unsigned char)at[1] < 0xA0;
}

bool mf_ini_is_key(const char *name, size_t n)
{
    if (n == 0 || n > MF_INI_NAME_MAX) return false;
    for (size_t i = 0; i < n; i++)
        if (!is_name_char(name[i])) return false;
    return true;
}

bool mf_ini_is_section(const char *name, size_t n)
{
    if (n == 0 || n > MF_INI_NAME_MAX || name[0] == ' ' || name[n - 1] == ' ') return false;
    for (size_t i = 0; i < n; i++) {
        if (name[i] == ' ' && name[i - 1] == ' ') return false;
        if (!is_name_char(name[i]) && name[i] != '.' && name[i] != ' ') return false;
    }
    return true;
}

bool mf_ini_is_value(const char *text, size_t n)
{
    if (n > 0 && (is_blank(text[0]) || is_blank(text[n - 1]))) return false;
    if (mf_utf8_check(text, n) != n) return false;
    for (size_t i = 0; i < n; i++) {
        if (is_control(text[i]) || is_control_pair(text + i, n - i)) return false;
        if (text[i] == ';' && (i == 0 || is_blank(text[i - 1]))) return false;
    }
    return true;
}

/* The line being checked, for messages. */
typedef struct where {
    const char *file;
    int line;
} where;

/* Refuses characters that inih or a person could mistake for something else. */
static int check_bytes(where at, const char *s, size_t n)
{
    size_t bad;
    if (n > MF_INI_LINE_MAX)
        return mf_fail(MF_ECONFIG, "%s:%d: line of %zu bytes: expected at most %d", at.file,
                       at.line, n, MF_INI_LINE_MAX);
    for (size_t i = 0; i < n; i++) {
        if (is_control(s[i]))
            return mf_fail(MF_ECONFIG,
                           "%s:%d: control character 0x%02x at column %zu: expected text",
                           at.file, at.line, (unsigned char)s[i], i + 1);
        if (is_control_pair(s + i, n - i))
            return mf_fail(MF_ECONFIG,
                           "%s:%d: control character U+%04X at column %zu: expected text",
                           at.file, at.line, (unsigned)(unsigned char)s[i + 1], i + 1);
    }
    bad = mf_utf8_check(s, n);
    if (bad < n)
        return mf_fail(MF_ECONFIG, "%s:%d: byte 0x%02x at column %zu: expected UTF-8", at.file,
                       at.line, (unsigned char)s[bad], bad + 1);
    return MF_OK;
}

/* Checks "[name]" with an optional comment. s is trimmed and begins with '['. */
static int check_section(where at, const char *s, size_t n, size_t *ret_name,
                         size_t *ret_length)
{
    const char *end = memchr(s, ']', n);
    size_t first = 1, last, i;
    if (!end)
        return mf_fail(MF_ECONFIG, "%s:%d: expected [section], found '%.*s': no ']'", at.file,
                       at.line, (int)n, s);
    last = (size_t)(end - s);
    i = last + 1;
    while (i < n && is_blank(s[i]))
        i++;
    if (i < n && (s[i] != ';' || i == last + 1))
        return mf_fail(MF_ECONFIG, "%s:%d: expected nothing after [section], found '%.*s'",
                       at.file, at.line, (int)(n - i), s + i);
    while (first < last && is_blank(s[first]))
        first++;
    while (last > first && is_blank(s[last - 1]))
        last--;
    if (!mf_ini_is_section(s + first, last - first))
        return mf_fail(
            MF_ECONFIG,
            "%s:%d: section '%.*s': expected 1 to %d letters, digits, _ - . and single "
            "blanks",
            at.file, at.line, (int)(last - first), s + first, MF_INI_NAME_MAX);
    *ret_name = first;
    *ret_length = last - first;
    return MF_OK;
}

/* Checks "key = value". s is trimmed and not empty. indented: the line began with blanks. */
static int check_pair(where at, const char *s, size_t n, bool indented, bool in_section)
{
    const char *equals = memchr(s, '=', n);
    size_t key;
    if (!equals)
        return mf_fail(MF_ECONFIG, "%s:%d: expected key = value, found '%.*s'%s", at.file,
                       at.line, (int)n, s,
                       indented ? " (a value cannot continue in the next line)" : "");
    key = (size_t)(equals - s);
    while (key > 0 && is_blank(s[key - 1]))
        key--;
    /* --set writes a key as "section.key" */
    const char *dot = memrchr(s, '.', key);
    if (dot && mf_ini_is_key(dot + 1, (size_t)(s + key - dot - 1)))
        return mf_fail(MF_ECONFIG,
                       "%s:%d: key '%.*s': a file has the section on a line of its own; "
                       "expected %.*s below [%.*s]",
                       at.file, at.line, (int)key, s, (int)(s + key - dot - 1), dot + 1,
                       (int)(dot - s), s);
    if (!mf_ini_is_key(s, key))
        return mf_fail(MF_ECONFIG, "%s:%d: key '%.*s': expected 1 to %d letters, digits, _ -",
                       at.file, at.line, (int)key, s, MF_INI_NAME_MAX);
    if (!in_section)
        return mf_fail(MF_ECONFIG,
                       "%s:%d: key '%.*s' before any section: expected [section] first",
                       at.file, at.line, (int)key, s);
    if (equals + 1 < s + n &&
        equals[1] == ';') /* written as "key = ;...", the value would be a comment */
        return mf_fail(
            MF_ECONFIG,
            "%s:%d: key '%.*s': a value cannot begin with ';' (a comment needs a blank "
            "before it)",
            at.file, at.line, (int)key, s);
    return MF_OK;
}

typedef struct scanner {
    mf_ini_scan out;
    size_t fill; /* bytes used in out.text */
    size_t room; /* capacity of the marks */
    bool in_section;
} scanner;

static int add_mark(scanner *sc, mf_ini_mark mark)
{
    if (sc->out.n_marks == sc->room) {
        size_t more = sc->room ? sc->room * 2 : 64;
        mf_ini_mark *larger =
            mf_realloc(sc->out.marks, sc->room * sizeof *larger, more * sizeof *larger);
        if (!larger) return MF_ENOMEM;
        sc->out.marks = larger;
        sc->room = more;
    }
    sc->out.marks[sc->out.n_marks++] = mark;
    return MF_OK;
}

static void emit(scanner *sc, const char *s, size_t n)
{
    memcpy(sc->out.text + sc->fill, s, n);
    sc->fill += n;
}

/* Checks one line without its end. The output is never longer than the input. */
static int scan_line(scanner *sc, where at, const char *s, size_t n)
{
    mf_ini_mark mark = {.line = at.line};
    bool indented = n > 0 && is_blank(s[0]);
    int rc = check_bytes(at, s, n);
    if (rc != MF_OK) return rc;
    while (n > 0 && is_blank(*s))
        s++, n--;
    while (n > 0 && is_blank(s[n - 1]))
        n--;
    if (n == 0 || *s == ';' || *s == '#') return MF_OK;
    if (*s == '[') {
        size_t name = 0;
        rc = check_section(at, s, n, &name, &mark.length);
        if (rc != MF_OK) return rc;
        emit(sc, "[", 1);
        mark.is_section = true;
        mark.name = sc->fill;
        emit(sc, s + name, mark.length);
        emit(sc, "]", 1);
        sc->in_section = true;
    } else {
        rc = check_pair(at, s, n, indented, sc->in_section);
        if (rc != MF_OK) return rc;
        emit(sc, s, n);
        sc->out.n_pairs++;
    }
    if (sc->out.n_marks == MF_INI_MARKS_MAX)
        return mf_fail(MF_ECONFIG, "%s:%d: more sections and keys than %d, which is the most",
                       at.file, at.line, MF_INI_MARKS_MAX);
    return add_mark(sc, mark);
}

static int scan_lines(scanner *sc, const char *name, const char *text, size_t size)
{
    const char *end = text + size;
    where at = {name, 0};
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const char *next = stop ? stop + 1 : end;
        int rc;
        if (!stop) stop = end;
        at.line++;
        if (stop > text && stop[-1] == '\r') stop--;
        rc = scan_line(sc, at, text, (size_t)(stop - text));
        if (rc != MF_OK) return rc;
        emit(sc, "\n", 1); /* writes one newline for every input line, so inih counts the
                            * same lines */
        text = next;
    }
    sc->out.text[sc->fill] = '\0';
    return MF_OK;
}

int mf_ini_scan_text(const char *name, const char *text, size_t size, mf_ini_scan *ret)
{
    scanner sc = {{0}, 0, 0, false};
    int rc;
    if (size > MF_INI_FILE_MAX)
        return mf_fail(MF_ECONFIG, "%s: file is too large: expected at most %d bytes", name,
                       MF_INI_FILE_MAX);
    if (size >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0))
        return mf_fail(MF_ECONFIG, "%s:1: text is UTF-16: expected UTF-8", name);
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        size -= 3;
    }
    sc.out.text = mf_alloc_raw(size + 2); /* The two extra bytes are for a missing line end and
                                           * the NUL. */
    if (!sc.out.text) return MF_ENOMEM;
    rc = scan_lines(&sc, name, text, size);
    if (rc != MF_OK) {
        mf_ini_scan_free(&sc.out);
        return rc;
    }
    *ret = sc.out;
    return MF_OK;
}

void mf_ini_scan_free(mf_ini_scan *scan)
{
    mf_free(scan->text);
    mf_free(scan->marks);
    *scan = (mf_ini_scan){0};
}
