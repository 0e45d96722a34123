/* data/jinja/lexer.c: the tokens of a template. Blanks before a block at the beginning of a
 * line and one newline behind a block belong to the block (lstrip_blocks, trim_blocks); a minus
 * in the brackets takes all blanks, a plus takes none. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"
#include "io/unicode.h"

#include <string.h>

typedef struct lexer {
    const char *where, *text;
    size_t n, at;
    int line;
    jj_tokens *ret;
    int rc;
} lexer;

static void refuse(lexer *l, const char *what)
{
    if (l->rc == MF_OK) l->rc = mf_fail(MF_EINPUT, "%s:%d: %s", l->where, l->line, what);
}

static void add(lexer *l, jj_token_kind kind, const char *text, size_t n)
{
    jj_tokens *t = l->ret;
    if (l->rc != MF_OK) return;
    if (t->n == t->cap) {
        const size_t cap = 2 * t->cap + 256;
        jj_token *larger = mf_arena_alloc(t->arena, cap * sizeof *larger);
        if (!larger) {
            l->rc = MF_ENOMEM;
            return;
        }
        if (t->n > 0) memcpy(larger, t->token, t->n * sizeof *larger);
        t->token = larger;
        t->cap = cap;
    }
    t->token[t->n++] = (jj_token){kind, l->line, text, n};
}

static void move_to(lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        if (l->text[l->at] == '\n') l->line++;
}

static bool is(const lexer *l, size_t at, const char *what)
{
    const size_t n = strlen(what);
    return l->n - at >= n && memcmp(l->text + at, what, n) == 0;
}

static bool is_blank(const char *text, size_t n, size_t at, size_t *length)
{
    uint32_t c = 0;
    *length = mf_unicode_read(text + at, n - at, &c);
    return mf_unicode_is_space(c) || (c >= 0x1c && c <= 0x1f);
}

/* Returns where the blanks at the end of text[begin..end) begin. */
static size_t before_blanks(const lexer *l, size_t begin, size_t end)
{
    size_t last = begin, length;
    for (size_t at = begin; at < end; at += length)
        if (!is_blank(l->text, l->n, at, &length)) last = at + length;
    return last;
}

static size_t after_blanks(const lexer *l, size_t at)
{
    size_t length;
    while (at < l->n && is_blank(l->text, l->n, at, &length))
        at += length;
    return at;
}

/* ---- expressions ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Reads an escape behind its backslash. Returns the length of what it means, in out. */
static size_t escape(lexer *l, char *out)
{
    static const char from[] = "nrtabfv\\'\"", to[] = "\n\r\t\a\b\f\v\\'\"";
    const char c = l->at < l->n ? l->text[l->at] : '\0';
    const char *found = c ? strchr(from, c) : NULL;
    if (found || c == '\n') {
        move_to(l, l->at + 1);
        if (found) out[0] = to[found - from];
        return found != NULL;
    }
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) { /* the backslash stays */
        out[0] = '\\';
        return 1;
    }
    uint32_t value = 0;
    for (int i = 1; i <= digits; i++) {
        const int d = l->at + (size_t)i < l->n ? hex_digit(l->text[l->at + (size_t)i]) : -1;
        if (d < 0 || value > 0x10ffff) {
            refuse(l, "an escape in a string: expected \\xHH, \\uHHHH or \\UHHHHHHHH");
            return 0;
        }
        value = value << 4 | (uint32_t)d;
    }
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        refuse(l, "an escape in a string: no character has this number");
    move_to(l, l->at + 1 + (size_t)digits);
    return l->rc == MF_OK ? mf_unicode_write(value, out) : 0;
}

static void string(lexer *l)
{
    const char quote = l->text[l->at];
    size_t n = 0, end = l->at + 1;
    while (end < l->n && l->text[end] != quote)
        end += l->text[end] == '\\' ? 2 : 1;
    char *out = mf_arena_alloc(l->ret->arena, end - l->at + 8); /* no escape is longer */
    if (!out) {
        l->rc = MF_ENOMEM;
        return;
    }
    for (l->at++; l->rc == MF_OK;) {
        if (l->at >= l->n) {
            refuse(l, "a string without end");
            return;
        }
        const char c = l->text[l->at];
        move_to(l, l->at + 1);
        if (c == quote) break;
        if (c == '\\')
            n += escape(l, out + n);
        else
            out[n++] = c;
    }
    add(l, JJ_STRING, out, n);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void number(lexer *l)
{
    const size_t begin = l->at;
    bool real = false;
    while (l->at < l->n && is_digit(l->text[l->at]))
        l->at++;
    if (l->n - l->at >= 2 && l->text[l->at] == '.' && is_digit(l->text[l->at + 1])) {
        real = true;
        for (l->at++; l->at < l->n && is_digit(l->text[l->at]);)
            l->at++;
    }
    if (l->at < l->n && (l->text[l->at] == 'e' || l->text[l->at] == 'E')) {
        size_t at = l->at + 1;
        if (at < l->n && (l->text[at] == '-' || l->text[at] == '+')) at++;
        if (at < l->n && is_digit(l->text[at])) {
            real = true;
            while (at < l->n && is_digit(l->text[at]))
                at++;
            l->at = at;
        }
    }
    add(l, real ? JJ_FLOAT : JJ_INT, l->text + begin, l->at - begin);
}

/* Reads one token of an expression. */
static void expression_token(lexer *l)
{
    static const char *const signs[] = {"==", "!=", "<=", ">=", "//", "**", NULL};
    const size_t begin = l->at;
    const char c = l->text[l->at];
    if (is_letter(c)) {
        while (l->at < l->n && (is_letter(l->text[l->at]) || is_digit(l->text[l->at])))
            l->at++;
        add(l, JJ_NAME, l->text + begin, l->at - begin);
    } else if (is_digit(c)) {
        number(l);
    } else if (c == '\'' || c == '"') {
        string(l);
    } else {
        size_t n = 1;
        for (int i = 0; signs[i]; i++)
            if (is(l, l->at, signs[i])) n = 2;
        if (n == 1 && (!c || !strchr("+-*/%~<>()[]{},.:|=", c)))
            refuse(l, "a character that begins nothing in an expression");
        l->at += n;
        add(l, JJ_SIGN, l->text + begin, n);
    }
}

/* Reads the inside of {% %} or {{ }}, and its end. */
static void inside(lexer *l, bool block)
{
    const char *end = block ? "%}" : "}}", *minus = block ? "-%}" : "-}}";
    int brackets = 0;
    while (l->rc == MF_OK) {
        move_to(l, after_blanks(l, l->at));
        if (l->at >= l->n) {
            refuse(l, block ? "a block without %}" : "a value without }}");
        } else if (is(l, l->at, minus)) {
            add(l, block ? JJ_BLOCK_END : JJ_VALUE_END, minus, 0);
            move_to(l, after_blanks(l, l->at + 3));
            return;
        } else if (brackets == 0 && is(l, l->at, end)) {
            add(l, block ? JJ_BLOCK_END : JJ_VALUE_END, end, 0);
            move_to(l, l->at + 2);
            if (block && l->at < l->n && l->text[l->at] == '\n') move_to(l, l->at + 1);
            return;
        } else if (block && is(l, l->at, "+%}")) {
            add(l, JJ_BLOCK_END, end, 0);
            move_to(l, l->at + 3);
            return;
        } else {
            const char c = l->text[l->at];
            brackets += c == '{' || c == '(' || c == '[' ? 1 : 0;
            brackets -= (c == '}' || c == ')' || c == ']') && brackets > 0 ? 1 : 0;
            expression_token(l);
        }
    }
}

/* ---- text ---- */

static void comment(lexer *l)
{
    const char *end = memmem(l->text + l->at, l->n - l->at, "#}", 2);
    if (!end) {
        refuse(l, "a comment without #}");
        return;
    }
    const size_t at = (size_t)(end - l->text);
    const char sign = at > l->at ? l->text[at - 1] : ' ';
    move_to(l, sign == '-' ? after_blanks(l, at + 2) : at + 2);
    if (sign != '-' && sign != '+' && l->at < l->n && l->text[l->at] == '\n')
        move_to(l, l->at + 1);
}

/* Returns the offset of the next {{, {% or {#. */
static size_t next_begin(const lexer *l)
{
    for (size_t at = l->at; at + 1 < l->n; at++)
        if (l->text[at] == '{' && strchr("{%#", l->text[at + 1])) return at;
    return l->n;
}

/* Reads the text up to the next bracket, and what the bracket begins. */
static void data(lexer *l)
{
    const size_t begin = l->at, open = next_begin(l);
    const bool starts_line = begin == 0 || l->text[begin - 1] == '\n';
    size_t end = open;
    if (open < l->n) {
        const char kind = l->text[open + 1], sign = open + 2 < l->n ? l->text[open + 2] : ' ';
        size_t line = open;
        while (line > begin && l->text[line - 1] != '\n')
            line--;
        if (sign == '-')
            end = before_blanks(l, begin, open);
        else if (sign != '+' && kind != '{' && (line > begin || starts_line) &&
                 before_blanks(l, line, open) == line)
            end = line;
    }
    if (end > begin) add(l, JJ_DATA, l->text + begin, end - begin);
    move_to(l, open);
    if (open >= l->n) return;
    const char kind = l->text[open + 1], sign = open + 2 < l->n ? l->text[open + 2] : ' ';
    move_to(l, open + 2 + (sign == '-' || (sign == '+' && kind != '{')));
    if (kind == '#') {
        comment(l);
        return;
    }
    add(l, kind == '%' ? JJ_BLOCK_BEGIN : JJ_VALUE_BEGIN, "", 0);
    inside(l, kind == '%');
}

/* Copies the text, with \n for other ends of lines, and without the last one. */
static char *copy_of(mf_arena *arena, const char *text, size_t n, size_t *ret_n)
{
    char *out = mf_arena_alloc(arena, n + 1);
    size_t made = 0;
    if (!out) return NULL;
    for (size_t i = 0; i < n; i++) {
        const bool cr = text[i] == '\r';
        if (cr && i + 1 < n && text[i + 1] == '\n') continue;
        out[made++] = cr ? '\n' : text[i];
    }
    if (made > 0 && out[made - 1] == '\n') made--;
    *ret_n = made;
    return out;
}

int jj_lex(const char *where, const char *text, size_t n, jj_tokens *ret)
{
    lexer l = {.where = where, .line = 1, .ret = ret};
    l.text = copy_of(ret->arena, text, n, &l.n);
    if (!l.text) return MF_ENOMEM;
    while (l.rc == MF_OK && l.at < l.n)
        data(&l);
    add(&l, JJ_EOF, "", 0);
    return l.rc;
}
