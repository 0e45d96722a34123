/* data/jinja/expressions.c: the tree of an expression. From the loosest: a choice, or, and,
 * not, comparisons, + and -, ~, * / // %, signs, and what stands behind a value: attributes,
 * items, calls, filters, tests. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { ARGS_MAX = 256, DIGITS_MAX = 400 };

static jj_node *binary(jj_parser *p, jj_kind kind, jj_node *a, const jj_token *sign, jj_node *b)
{
    jj_node *n = jj_make(p, kind, sign->line);
    if (!n) return NULL;
    n->a = a;
    n->b = b;
    n->text = mf_arena_strf(p->arena, "%.*s", (int)sign->n, sign->text);
    if (!n->text) p->rc = MF_ENOMEM;
    return n;
}

/* ---- lists of arguments ---- */

static void add_arg(jj_parser *p, jj_node *n, const char *name, jj_node *value)
{
    if (p->rc != MF_OK) return;
    if (n->n_args == ARGS_MAX) {
        jj_refuse(p, n->line, "expected at most %d items", ARGS_MAX);
        return;
    }
    if (n->n_args % 8 == 0) {
        jj_arg *larger = mf_arena_alloc(p->arena, (size_t)(n->n_args + 8) * sizeof *larger);
        if (!larger) {
            p->rc = MF_ENOMEM;
            return;
        }
        if (n->n_args > 0) memcpy(larger, n->arg, (size_t)n->n_args * sizeof *larger);
        n->arg = larger;
    }
    n->arg[n->n_args++] = (jj_arg){name, value};
}

/* Reads arguments behind their parenthesis. */
static void arguments(jj_parser *p, jj_node *n)
{
    while (p->rc == MF_OK && !jj_skip(p, JJ_SIGN, ")")) {
        const char *name = NULL;
        if (n->n_args > 0) jj_expect(p, JJ_SIGN, ",");
        if (n->n_args > 0 && jj_skip(p, JJ_SIGN, ")")) break;
        if (jj_is(p, JJ_SIGN, "*") || jj_is(p, JJ_SIGN, "**"))
            jj_refuse(p, p->at->line, "* and ** in a call are not read");
        if (p->at->kind == JJ_NAME && p->at[1].kind == JJ_SIGN && p->at[1].n == 1 &&
            p->at[1].text[0] == '=') {
            name = jj_take_name(p);
            p->at++;
        }
        add_arg(p, n, name, jj_expression(p));
    }
}

/* ---- values ---- */

static jj_node *constant(jj_parser *p, int line, jv value)
{
    jj_node *n = jj_make(p, JJ_CONSTANT, line);
    if (n) n->constant = value;
    return n;
}

static jj_node *number(jj_parser *p)
{
    const jj_token *t = p->at++;
    if (t->n > DIGITS_MAX) {
        jj_refuse(p, t->line, "a number of more than %d characters", DIGITS_MAX);
        return NULL;
    }
    char *text = mf_arena_strf(p->arena, "%.*s", (int)t->n, t->text);
    if (!text) {
        p->rc = MF_ENOMEM;
        return NULL;
    }
    jv v = {.kind = t->kind == JJ_INT ? JV_INT : JV_FLOAT};
    if (t->kind == JJ_FLOAT)
        v.as.f = strtod(text, NULL);
    else if (t->n > 18)
        jj_refuse(p, t->line, "a whole number of more than 18 digits");
    else
        v.as.i = strtoll(text, NULL, 10);
    return constant(p, t->line, v);
}

/* Reads texts; those that follow each other are one. */
static jj_node *texts(jj_parser *p)
{
    size_t n = 0;
    const jj_token *first = p->at;
    for (; p->at->kind == JJ_STRING; p->at++)
        n += p->at->n;
    char *all = mf_arena_alloc(p->arena, n + 1);
    if (!all) {
        p->rc = MF_ENOMEM;
        return NULL;
    }
    n = 0;
    for (const jj_token *t = first; t < p->at; t++) {
        memcpy(all + n, t->text, t->n);
        n += t->n;
    }
    return constant(p, first->line, (jv){.kind = JV_STRING, .n = n, .as.s = all});
}

static jj_node *named(jj_parser *p)
{
    static const struct {
        const char *name;
        jv value;
    } known[] = {{"true", {.kind = JV_BOOL, .as.b = true}},
                 {"True", {.kind = JV_BOOL, .as.b = true}},
                 {"false", {.kind = JV_BOOL, .as.b = false}},
                 {"False", {.kind = JV_BOOL, .as.b = false}},
                 {"none", {.kind = JV_NONE}},
                 {"None", {.kind = JV_NONE}}};
    const int line = p->at->line;
    const char *name = jj_take_name(p);
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) return constant(p, line, known[i].value);
    jj_node *n = jj_make(p, JJ_NAME_OF, line);
    if (n) n->text = name;
    return n;
}

/* Reads (a), (a, b) and (). */
static jj_node *parenthesis(jj_parser *p)
{
    const int line = p->at++->line;
    jj_node *list = jj_make(p, JJ_LIST, line);
    bool tuple = false;
    while (p->rc == MF_OK && !jj_skip(p, JJ_SIGN, ")")) {
        add_arg(p, list, NULL, jj_expression(p));
        if (jj_skip(p, JJ_SIGN, ","))
            tuple = true;
        else if (!jj_is(p, JJ_SIGN, ")"))
            jj_expect(p, JJ_SIGN, ")");
    }
    if (p->rc != MF_OK) return NULL;
    list->n = 1;
    return tuple || list->n_args == 0 ? list : list->arg[0].value;
}

static jj_node *list_or_dict(jj_parser *p, bool dict)
{
    jj_node *n = jj_make(p, dict ? JJ_DICT : JJ_LIST, p->at->line);
    const char *end = dict ? "}" : "]";
    p->at++;
    while (p->rc == MF_OK && !jj_skip(p, JJ_SIGN, end)) {
        if (n->n_args > 0) jj_expect(p, JJ_SIGN, ",");
        if (n->n_args > 0 && jj_skip(p, JJ_SIGN, end)) break;
        add_arg(p, n, NULL, jj_expression(p));
        if (!dict) continue;
        jj_expect(p, JJ_SIGN, ":");
        add_arg(p, n, NULL, jj_expression(p));
    }
    return n;
}

static jj_node *primary(jj_parser *p)
{
    if (p->rc != MF_OK) return NULL;
    if (p->at->kind == JJ_NAME) return named(p);
    if (p->at->kind == JJ_STRING) return texts(p);
    if (p->at->kind == JJ_INT || p->at->kind == JJ_FLOAT) return number(p);
    if (jj_is(p, JJ_SIGN, "(")) return parenthesis(p);
    if (jj_is(p, JJ_SIGN, "[") || jj_is(p, JJ_SIGN, "{"))
        return list_or_dict(p, jj_is(p, JJ_SIGN, "{"));
    jj_refuse(p, p->at->line, "expected a value, found \"%.*s\"",
              (int)(p->at->n < 20 ? p->at->n : 20), p->at->text);
    return NULL;
}

/* ---- what stands behind a value ---- */

static jj_node *subscript(jj_parser *p, jj_node *a)
{
    const int line = p->at++->line;
    jj_node *part[4] = {NULL}; /* the fourth: of a slice that is refused */
    int colons = 0;
    while (p->rc == MF_OK && !jj_skip(p, JJ_SIGN, "]")) {
        if (jj_skip(p, JJ_SIGN, ":")) {
            if (++colons > 2) jj_refuse(p, line, "a slice with more than two colons");
        } else if (!part[colons]) {
            part[colons] = jj_expression(p);
        } else {
            jj_expect(p, JJ_SIGN, "]");
        }
    }
    if (p->rc == MF_OK && colons == 0 && !part[0]) jj_refuse(p, line, "expected an index");
    jj_node *n = jj_make(p, colons > 0 ? JJ_SLICE : JJ_ITEM, line);
    if (!n) return NULL;
    n->a = a;
    n->b = part[0];
    n->c = part[1];
    n->d = part[2];
    return n;
}

static jj_node *call(jj_parser *p, jj_node *a)
{
    jj_node *n = jj_make(p, JJ_CALL, p->at++->line);
    if (!n) return NULL;
    n->a = a;
    arguments(p, n);
    return n;
}

static jj_node *attribute(jj_parser *p, jj_node *a)
{
    const int line = p->at++->line;
    jj_node *n = jj_make(p, JJ_ATTR, line);
    if (!n) return NULL;
    n->a = a;
    if (p->at->kind == JJ_INT) {
        n->kind = JJ_ITEM;
        n->b = number(p);
    } else {
        n->text = jj_take_name(p);
    }
    return n;
}

static jj_node *postfix(jj_parser *p, jj_node *a)
{
    while (p->rc == MF_OK) {
        if (jj_is(p, JJ_SIGN, "."))
            a = attribute(p, a);
        else if (jj_is(p, JJ_SIGN, "["))
            a = subscript(p, a);
        else if (jj_is(p, JJ_SIGN, "("))
            a = call(p, a);
        else
            break;
    }
    return a;
}

jj_node *jj_filters(jj_parser *p, jj_node *a)
{
    do {
        jj_node *n = jj_make(p, JJ_FILTER, p->at->line);
        const char *name = jj_take_name(p);
        if (p->rc != MF_OK) return NULL;
        if (!jj_has_filter(name)) {
            const char *near = mf_nearest(name, jj_filter_names);
            jj_refuse(p, n->line, "filter \"%.40s\" is not read%s%s", name,
                      near ? "; the nearest is " : "", near ? near : "");
        }
        n->a = a;
        n->text = name;
        if (jj_skip(p, JJ_SIGN, "(")) arguments(p, n);
        a = n;
    } while (p->rc == MF_OK && jj_skip(p, JJ_SIGN, "|"));
    return a;
}

static bool begins_argument(const jj_parser *p)
{
    const jj_token *t = p->at;
    if (t->kind == JJ_STRING || t->kind == JJ_INT || t->kind == JJ_FLOAT) return true;
    if (jj_is(p, JJ_SIGN, "[") || jj_is(p, JJ_SIGN, "{")) return true;
    return t->kind == JJ_NAME && !jj_is(p, JJ_NAME, "else") && !jj_is(p, JJ_NAME, "or") &&
           !jj_is(p, JJ_NAME, "and") && !jj_is(p, JJ_NAME, "is") && !jj_is(p, JJ_NAME, "if") &&
           !jj_is(p, JJ_NAME, "in") && !jj_is(p, JJ_NAME, "not");
}

/* Reads a test behind `is`. */
static jj_node *test(jj_parser *p, jj_node *a)
{
    const int line = p->at->line;
    const bool negative = jj_skip(p, JJ_NAME, "not");
    const char *name = jj_take_name(p);
    jj_node *n = jj_make(p, JJ_TEST, line);
    if (p->rc != MF_OK) return NULL;
    if (!jj_has_test(name)) {
        const char *near = mf_nearest(name, jj_test_names);
        jj_refuse(p, line, "test \"%.40s\" is not read%s%s", name,
                  near ? "; the nearest is " : "", near ? near : "");
    }
    n->a = a;
    n->text = name;
    if (jj_skip(p, JJ_SIGN, "("))
        arguments(p, n);
    else if (begins_argument(p))
        add_arg(p, n, NULL, postfix(p, primary(p)));
    if (!negative) return n;
    jj_node *not = jj_make(p, JJ_NOT, line);
    if (not ) not ->a = n;
    return not ;
}

static jj_node *unary(jj_parser *p, bool filters)
{
    jj_node *n;
    const int line = p->at->line;
    if (p->rc != MF_OK) return NULL;
    if (++p->depth > MF_JINJA_DEPTH) {
        jj_refuse(p, line, "expressions are nested too deeply");
        return NULL;
    }
    if (jj_is(p, JJ_SIGN, "-") || jj_is(p, JJ_SIGN, "+")) {
        n = jj_make(p, p->at->text[0] == '-' ? JJ_NEGATE : JJ_PLUS, line);
        p->at++;
        jj_node *of = unary(p, false);
        if (n) n->a = of;
    } else {
        n = postfix(p, primary(p));
    }
    while (filters && p->rc == MF_OK) {
        if (jj_skip(p, JJ_SIGN, "|"))
            n = jj_filters(p, n);
        else if (jj_skip(p, JJ_NAME, "is"))
            n = test(p, n);
        else if (jj_is(p, JJ_SIGN, "("))
            n = call(p, n);
        else
            break;
    }
    p->depth--;
    return n;
}

/* ---- operators ---- */

static bool sign_of(const jj_parser *p, const char *const *signs)
{
    for (; *signs; signs++)
        if (jj_is(p, JJ_SIGN, *signs)) return true;
    return false;
}

/* Level 0: + and -; 1: ~; 2: * / // %; 3: **. */
static jj_node *arithmetic(jj_parser *p, int level)
{
    static const char *const signs[][5] = {
        {"+", "-", NULL}, {"~", NULL}, {"*", "/", "//", "%", NULL}, {"**", NULL}};
    if (level == 4) return unary(p, true);
    jj_node *a = arithmetic(p, level + 1);
    while (p->rc == MF_OK && sign_of(p, signs[level])) {
        const jj_token *sign = p->at++;
        a = binary(p, JJ_BINARY, a, sign, arithmetic(p, level + 1));
    }
    return a;
}

/* a < b <= c is one node with a list of comparisons. */
static jj_node *comparison(jj_parser *p)
{
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">=", NULL};
    jj_node *first = NULL, **last = &first, *a = arithmetic(p, 0);
    while (p->rc == MF_OK) {
        const jj_token *sign = p->at;
        const bool in = jj_is(p, JJ_NAME, "in"),
                   not_in = jj_is(p, JJ_NAME, "not") && sign[1].kind == JJ_NAME &&
                            sign[1].n == 2 && memcmp(sign[1].text, "in", 2) == 0;
        if (!in && !not_in && !sign_of(p, signs)) break;
        p->at += not_in ? 2 : 1;
        jj_node *one = binary(p, JJ_COMPARE, first ? NULL : a, sign, arithmetic(p, 0));
        if (!one) return NULL;
        if (not_in) one->text = "not in";
        *last = one;
        last = &one->next;
    }
    return first ? first : a;
}

static jj_node *negation(jj_parser *p)
{
    if (!jj_is(p, JJ_NAME, "not")) return comparison(p);
    jj_node *n = jj_make(p, JJ_NOT, p->at++->line);
    if (++p->depth > MF_JINJA_DEPTH)
        jj_refuse(p, p->at->line, "expressions are nested too deeply");
    jj_node *a = p->rc == MF_OK ? negation(p) : NULL;
    p->depth--;
    if (n) n->a = a;
    return n;
}

static jj_node *conjunction(jj_parser *p)
{
    jj_node *a = negation(p);
    while (p->rc == MF_OK && jj_is(p, JJ_NAME, "and")) {
        const jj_token *sign = p->at++;
        a = binary(p, JJ_AND, a, sign, negation(p));
    }
    return a;
}

jj_node *jj_no_choice(jj_parser *p)
{
    jj_node *a = conjunction(p);
    while (p->rc == MF_OK && jj_is(p, JJ_NAME, "or")) {
        const jj_token *sign = p->at++;
        a = binary(p, JJ_OR, a, sign, conjunction(p));
    }
    return a;
}

jj_node *jj_expression(jj_parser *p)
{
    if (++p->depth > MF_JINJA_DEPTH)
        jj_refuse(p, p->at->line, "expressions are nested too deeply");
    jj_node *a = p->rc == MF_OK ? jj_no_choice(p) : NULL;
    while (p->rc == MF_OK && jj_is(p, JJ_NAME, "if")) {
        jj_node *n = jj_make(p, JJ_CHOICE, p->at++->line);
        if (!n) break;
        n->b = a;
        n->a = jj_no_choice(p);
        if (jj_skip(p, JJ_NAME, "else")) n->c = jj_expression(p);
        a = n;
    }
    p->depth--;
    return a;
}
