/* data/jinja/parser.c: the tree of a template. Tags that are not read are refused with their
 * name and line. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"
#include "base/text/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 32 };

int jj_refuse(jj_parser *p, int line, const char *fmt, ...)
{
    char what[256];
    va_list args;
    if (p->rc != MF_OK) return p->rc;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return p->rc = mf_fail(MF_EINPUT, "%s:%d: %s", p->where, line, what);
}

jj_node *jj_make(jj_parser *p, jj_kind kind, int line)
{
    jj_node *n = p->rc == MF_OK ? mf_arena_alloc(p->arena, sizeof *n) : NULL;
    if (!n && p->rc == MF_OK) p->rc = MF_ENOMEM;
    if (n) *n = (jj_node){.kind = kind, .line = line};
    return n;
}

bool jj_is(const jj_parser *p, jj_token_kind kind, const char *text)
{
    const size_t n = strlen(text);
    return p->at->kind == kind && p->at->n == n && memcmp(p->at->text, text, n) == 0;
}

bool jj_skip(jj_parser *p, jj_token_kind kind, const char *text)
{
    const bool is = p->rc == MF_OK && jj_is(p, kind, text);
    if (is) p->at++;
    return is;
}

void jj_expect(jj_parser *p, jj_token_kind kind, const char *text)
{
    if (p->rc == MF_OK && !jj_skip(p, kind, text))
        jj_refuse(p, p->at->line, "expected \"%s\", found \"%.*s\"", text,
                  (int)(p->at->n < 20 ? p->at->n : 20), p->at->text);
}

const char *jj_take_name(jj_parser *p)
{
    if (p->rc != MF_OK) return NULL;
    if (p->at->kind != JJ_NAME) {
        jj_refuse(p, p->at->line, "expected a name, found \"%.*s\"",
                  (int)(p->at->n < 20 ? p->at->n : 20), p->at->text);
        return NULL;
    }
    if (p->at->n > MF_JINJA_NAME) {
        jj_refuse(p, p->at->line, "a name of %zu bytes: expected at most %d", p->at->n,
                  MF_JINJA_NAME);
        return NULL;
    }
    char *name = mf_arena_alloc(p->arena, p->at->n + 1);
    if (name)
        memcpy(name, p->at->text, p->at->n);
    else
        p->rc = MF_ENOMEM;
    p->at++;
    return name;
}

/* ---- statements ---- */

static jj_node *statements(jj_parser *p, const char *const *ends);

static void end_tag(jj_parser *p)
{
    if (p->rc != MF_OK) return;
    if (p->at->kind != JJ_BLOCK_END)
        jj_refuse(p, p->at->line, "expected %%}, found \"%.*s\"",
                  (int)(p->at->n < 20 ? p->at->n : 20), p->at->text);
    else
        p->at++;
}

static void *copy_of(jj_parser *p, const void *list, size_t bytes)
{
    void *copy = p->rc == MF_OK ? mf_arena_alloc(p->arena, bytes) : NULL;
    if (copy && bytes > 0) memcpy(copy, list, bytes);
    if (!copy && p->rc == MF_OK) p->rc = MF_ENOMEM;
    return copy;
}

/* Reads names, separated by commas. */
static void names(jj_parser *p, jj_node *n)
{
    const char *name[NAMES_MAX];
    int count = 0;
    do {
        if (count == NAMES_MAX)
            jj_refuse(p, n->line, "expected at most %d names", NAMES_MAX);
        else
            name[count++] = jj_take_name(p);
    } while (p->rc == MF_OK && jj_skip(p, JJ_SIGN, ","));
    n->name = copy_of(p, name, (size_t)count * sizeof *name);
    n->n_names = count;
}

static jj_node *read_if(jj_parser *p, int line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    jj_node *n = jj_make(p, JJ_IF, line);
    if (!n) return NULL;
    n->a = jj_expression(p);
    end_tag(p);
    n->b = statements(p, ends);
    if (jj_is(p, JJ_NAME, "elif")) {
        const int at = p->at->line;
        p->at++;
        if (++p->depth > MF_JINJA_DEPTH) jj_refuse(p, at, "blocks are nested too deeply");
        n->c = p->rc == MF_OK ? read_if(p, at) : NULL;
        p->depth--;
        return n;
    }
    if (jj_skip(p, JJ_NAME, "else")) {
        end_tag(p);
        n->c = statements(p, last);
    }
    jj_expect(p, JJ_NAME, "endif");
    end_tag(p);
    return n;
}

static jj_node *read_for(jj_parser *p, int line)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    static const char *const last[] = {"endfor", NULL};
    jj_node *n = jj_make(p, JJ_FOR, line);
    if (!n) return NULL;
    const bool bracket = jj_skip(p, JJ_SIGN, "(");
    names(p, n);
    if (bracket) jj_expect(p, JJ_SIGN, ")");
    jj_expect(p, JJ_NAME, "in");
    n->a = jj_no_choice(p);
    if (jj_skip(p, JJ_NAME, "if")) n->d = jj_expression(p);
    if (jj_is(p, JJ_NAME, "recursive")) jj_refuse(p, line, "a recursive loop is not read");
    end_tag(p);
    p->loops++;
    n->b = statements(p, ends);
    p->loops--;
    if (jj_skip(p, JJ_NAME, "else")) {
        end_tag(p);
        n->c = statements(p, last);
    }
    jj_expect(p, JJ_NAME, "endfor");
    end_tag(p);
    return n;
}

static jj_node *read_set(jj_parser *p, int line)
{
    static const char *const ends[] = {"endset", NULL};
    jj_node *n = jj_make(p, JJ_SET, line);
    if (!n) return NULL;
    names(p, n);
    if (p->rc == MF_OK && jj_skip(p, JJ_SIGN, ".")) n->text = jj_take_name(p);
    if (jj_skip(p, JJ_SIGN, "=")) {
        jj_node *value = jj_expression(p);
        n->a = value;
        if (jj_is(p, JJ_SIGN, ",")) { /* a list without brackets */
            jj_refuse(p, line, "several values: expected them in brackets");
        }
        end_tag(p);
        return n;
    }
    if (jj_skip(p, JJ_SIGN, "|")) n->c = jj_filters(p, NULL);
    end_tag(p);
    n->b = statements(p, ends);
    jj_expect(p, JJ_NAME, "endset");
    end_tag(p);
    return n;
}

static jj_node *read_macro(jj_parser *p, int line)
{
    static const char *const ends[] = {"endmacro", NULL};
    jj_node *n = jj_make(p, JJ_MACRO, line);
    if (!n) return NULL;
    n->text = jj_take_name(p);
    const char *names_of[NAMES_MAX];
    jj_arg values[NAMES_MAX];
    jj_expect(p, JJ_SIGN, "(");
    while (p->rc == MF_OK && !jj_skip(p, JJ_SIGN, ")")) {
        if (n->n_names > 0) jj_expect(p, JJ_SIGN, ",");
        if (n->n_names == NAMES_MAX) jj_refuse(p, line, "expected at most %d names", NAMES_MAX);
        const char *name = jj_take_name(p);
        if (p->rc != MF_OK) break;
        names_of[n->n_names] = name;
        values[n->n_names] = (jj_arg){0};
        values[n->n_names++].value = jj_skip(p, JJ_SIGN, "=") ? jj_expression(p) : NULL;
    }
    n->name = copy_of(p, names_of, (size_t)n->n_names * sizeof *names_of);
    n->arg = copy_of(p, values, (size_t)n->n_names * sizeof *values);
    end_tag(p);
    const int loops = p->loops;
    p->loops = 0;
    n->b = statements(p, ends);
    p->loops = loops;
    jj_expect(p, JJ_NAME, "endmacro");
    end_tag(p);
    return n;
}

static jj_node *read_generation(jj_parser *p, int line)
{
    static const char *const ends[] = {"endgeneration", NULL};
    jj_node *n = jj_make(p, JJ_GENERATION, line);
    if (!n) return NULL;
    p->generation = true;
    end_tag(p);
    n->b = statements(p, ends);
    jj_expect(p, JJ_NAME, "endgeneration");
    end_tag(p);
    return n;
}

static jj_node *read_jump(jj_parser *p, int line, jj_kind kind)
{
    if (p->loops == 0) jj_refuse(p, line, "break or continue outside of a loop");
    end_tag(p);
    return jj_make(p, kind, line);
}

/* Reads a tag behind its bracket. */
static jj_node *tag(jj_parser *p)
{
    const int line = p->at->line;
    const char *name = jj_take_name(p);
    if (p->rc != MF_OK) return NULL;
    if (strcmp(name, "if") == 0) return read_if(p, line);
    if (strcmp(name, "for") == 0) return read_for(p, line);
    if (strcmp(name, "set") == 0) return read_set(p, line);
    if (strcmp(name, "macro") == 0) return read_macro(p, line);
    if (strcmp(name, "generation") == 0) return read_generation(p, line);
    if (strcmp(name, "break") == 0) return read_jump(p, line, JJ_BREAK);
    if (strcmp(name, "continue") == 0) return read_jump(p, line, JJ_CONTINUE);
    jj_refuse(p, line,
              "{%% %.40s %%} is not read: expected if, for, set, macro, generation, break or "
              "continue",
              name);
    return NULL;
}

static jj_node *statement(jj_parser *p)
{
    jj_node *n;
    const jj_token *t = p->at++;
    if (t->kind == JJ_DATA) {
        n = jj_make(p, JJ_TEXT, t->line);
        if (!n) return NULL;
        n->text = t->text;
        n->n = t->n;
        return n;
    }
    if (t->kind == JJ_BLOCK_BEGIN) return tag(p);
    n = jj_make(p, JJ_OUTPUT, t->line);
    if (!n) return NULL;
    n->a = jj_expression(p);
    if (p->rc == MF_OK && p->at->kind != JJ_VALUE_END)
        jj_refuse(p, p->at->line, "expected }}, found \"%.*s\"",
                  (int)(p->at->n < 20 ? p->at->n : 20), p->at->text);
    if (p->rc == MF_OK) p->at++;
    return n;
}

/* Whether a tag with one of these names follows. */
static bool ends_here(const jj_parser *p, const char *const *ends)
{
    if (p->at->kind != JJ_BLOCK_BEGIN || p->at[1].kind != JJ_NAME) return false;
    for (; *ends; ends++)
        if (p->at[1].n == strlen(*ends) && memcmp(p->at[1].text, *ends, p->at[1].n) == 0)
            return true;
    return false;
}

/* Reads statements up to a tag with one of these names, which is next then. Without names, up
 * to the end of the template. */
static jj_node *statements(jj_parser *p, const char *const *ends)
{
    jj_node *first = NULL, **last = &first;
    const int line = p->at->line;
    if (++p->depth > MF_JINJA_DEPTH) jj_refuse(p, line, "blocks are nested too deeply");
    while (p->rc == MF_OK && p->at->kind != JJ_EOF && !(ends && ends_here(p, ends))) {
        jj_node *n = statement(p);
        if (!n) break;
        *last = n;
        last = &n->next;
    }
    p->depth--;
    if (p->rc == MF_OK && ends) {
        while (ends[1]) /* the last one ends the whole block */
            ends++;
        if (p->at->kind == JJ_EOF)
            jj_refuse(p, line, "a block without {%% %s %%}", ends[0]);
        else
            p->at++;
    }
    return first;
}

jj_node *jj_parse(jj_parser *p)
{
    return statements(p, NULL);
}

/* Refuses a text that is not in UTF-8 or has a NUL, with the line. */
static int check_text(const char *where, const char *text, size_t n)
{
    const char *nul = n > 0 ? memchr(text, 0, n) : NULL;
    const size_t before_nul = nul ? (size_t)(nul - text) : n,
                 good = mf_utf8_check(text, before_nul);
    int line = 1;
    if (good == n) return MF_OK;
    for (size_t i = 0; i < good; i++)
        line += text[i] == '\n' || (text[i] == '\r' && text[i + 1] != '\n');
    return mf_fail(MF_EINPUT, "%s:%d: expected a text in UTF-8 without NUL", where, line);
}

int mf_jinja_new(const char *where, const char *text, size_t n, mf_jinja **ret)
{
    jj_tokens tokens = {.arena = mf_arena_new()};
    mf_jinja *j = tokens.arena ? mf_arena_alloc(tokens.arena, sizeof *j) : NULL;
    int rc = j ? MF_OK : MF_ENOMEM;
    *ret = NULL;
    if (rc == MF_OK && n > MF_JINJA_TEXT)
        rc = mf_fail(MF_EINPUT, "%s: a template of %zu bytes: expected at most %d", where, n,
                     MF_JINJA_TEXT);
    if (rc == MF_OK) rc = check_text(where, text, n);
    if (rc == MF_OK) rc = jj_lex(where, text, n, &tokens);
    if (rc == MF_OK) {
        jj_parser p = {.where = where, .arena = tokens.arena, .at = tokens.token};
        j->arena = tokens.arena;
        j->where = mf_arena_strdup(tokens.arena, where);
        j->body = jj_parse(&p);
        j->generation = p.generation;
        rc = p.rc != MF_OK ? p.rc : j->where ? MF_OK : MF_ENOMEM;
    }
    if (rc == MF_OK)
        *ret = j;
    else if (tokens.arena)
        mf_arena_free(tokens.arena);
    return rc;
}

void mf_jinja_free(mf_jinja *j)
{
    if (j) mf_arena_free(j->arena);
}

bool mf_jinja_marks_answers(const mf_jinja *j)
{
    return j->generation;
}
