/* data/jinja/evaluate.c: computes expressions. A fault is recorded once, with the line of the
 * expression; after it every result is None. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ARGS_MAX = 256 };

jv jj_fail(jj_run *r, const char *fmt, ...)
{
    char what[1024];
    va_list args;
    if (r->rc != MF_OK) return jv_none();
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    r->rc = mf_fail(MF_EINPUT, "%s:%d: %s", r->j->where, r->line, what);
    return jv_none();
}

jv jj_arg_of(const jj_args *a, int i, const char *name)
{
    int place = 0;
    for (int k = 0; k < a->n; k++) {
        if (a->name[k] ? name && strcmp(a->name[k], name) == 0 : place++ == i)
            return a->value[k];
    }
    return jv_undefined(name ? name : "argument");
}

/* ---- operators ---- */

static jv add(jj_run *r, jv a, jv b)
{
    if (a.kind == JV_STRING && b.kind == JV_STRING) return jv_join(r, a, b);
    if (a.kind == JV_LIST && b.kind == JV_LIST) {
        const jv all = jv_new_list(r);
        for (size_t i = 0; i < a.as.list->n && r->rc == MF_OK; i++)
            jv_append(r, all, a.as.list->item[i]);
        for (size_t i = 0; i < b.as.list->n && r->rc == MF_OK; i++)
            jv_append(r, all, b.as.list->item[i]);
        return all;
    }
    return jj_fail(r, "%s + %s%s%.60s", jv_type(a), jv_type(b),
                   a.kind == JV_UNDEFINED || b.kind == JV_UNDEFINED ? ": there is no " : "",
                   a.kind == JV_UNDEFINED   ? a.as.s
                   : b.kind == JV_UNDEFINED ? b.as.s
                                            : "");
}

/* A text or list, repeated. */
static jv times(jj_run *r, jv a, int64_t n)
{
    jj_out out = {0};
    jv all = jv_none();
    if (a.kind == JV_LIST) all = jv_new_list(r);
    if (a.kind == JV_STRING ? a.n == 0 : a.as.list->n == 0) n = 0;
    for (int64_t i = 0; i < n && jj_step(r, 0); i++) {
        if (a.kind == JV_STRING) jj_add(r, &out, a.as.s, a.n);
        for (size_t k = 0; a.kind == JV_LIST && k < a.as.list->n && r->rc == MF_OK; k++)
            jv_append(r, all, a.as.list->item[k]);
    }
    return a.kind == JV_LIST ? all : jj_captured(r, &out);
}

static int64_t whole(jv v)
{
    return v.kind == JV_INT ? v.as.i : v.as.b;
}

/* Arithmetic of whole numbers, with Python's // and %, which round down. */
static jv of_ints(jj_run *r, char op, bool floor, int64_t a, int64_t b)
{
    int64_t x = 0;
    bool over = false;
    if (op == '/' || op == '%') {
        if (b == 0) return jj_fail(r, "a division by zero");
        if (op == '/' && !floor) return jv_float((double)a / (double)b);
        if (b == -1) return op == '%' ? jv_int(0) : of_ints(r, '-', false, 0, a);
        int64_t q = a / b;
        if (a % b != 0 && (a < 0) != (b < 0)) q--;
        return jv_int(op == '/' ? q : a - q * b);
    }
    if (op == '+') over = __builtin_add_overflow(a, b, &x);
    if (op == '-') over = __builtin_sub_overflow(a, b, &x);
    if (op == '*') over = __builtin_mul_overflow(a, b, &x);
    return over ? jj_fail(r, "a number beyond 64 bits") : jv_int(x);
}

static jv of_reals(jj_run *r, char op, bool floored, double a, double b)
{
    if ((op == '/' || op == '%') && b == 0) return jj_fail(r, "a division by zero");
    switch (op) {
    case '+':
        return jv_float(a + b);
    case '-':
        return jv_float(a - b);
    case '*':
        return jv_float(a * b);
    case '/':
        return jv_float(floored ? floor(a / b) : a / b);
    default:
        return jv_float(a - floor(a / b) * b);
    }
}

static jv power(jj_run *r, jv a, jv b)
{
    if (a.kind == JV_FLOAT || b.kind == JV_FLOAT || whole(b) < 0)
        return jv_float(pow(jv_real(a), jv_real(b)));
    jv x = jv_int(1);
    for (int64_t i = 0; i < whole(b) && jj_step(r, 0); i++)
        x = of_ints(r, '*', false, x.as.i, whole(a));
    return x;
}

static jv binary(jj_run *r, const jj_node *n)
{
    const jv a = jj_evaluate(r, n->a), b = jj_evaluate(r, n->b);
    const char op = n->text[0];
    if (r->rc != MF_OK) return jv_none();
    r->line = n->line;
    if (op == '~') return add(r, jv_string(r, a), jv_string(r, b));
    if (op == '*' && (a.kind == JV_STRING || a.kind == JV_LIST) &&
        (b.kind == JV_INT || b.kind == JV_BOOL))
        return times(r, a, whole(b));
    if (!jv_is_number(a) || !jv_is_number(b)) {
        if (op == '+') return add(r, a, b);
        return jj_fail(r, "%s %s %s", jv_type(a), n->text, jv_type(b));
    }
    if (strcmp(n->text, "**") == 0) return power(r, a, b);
    const bool floored = strcmp(n->text, "//") == 0;
    return a.kind == JV_FLOAT || b.kind == JV_FLOAT
               ? of_reals(r, op, floored, jv_real(a), jv_real(b))
               : of_ints(r, op, floored, whole(a), whole(b));
}

static bool holds(jj_run *r, const char *op, jv a, jv b)
{
    if (strcmp(op, "in") == 0) return jv_contains(r, b, a);
    if (strcmp(op, "not in") == 0) return !jv_contains(r, b, a);
    if (strcmp(op, "==") == 0) return jv_equal(r, a, b);
    if (strcmp(op, "!=") == 0) return !jv_equal(r, a, b);
    const int order = jv_order(r, a, b);
    return op[0] == '<' ? (op[1] ? order <= 0 : order < 0) : (op[1] ? order >= 0 : order > 0);
}

/* a < b < c computes b once, and c only if a < b. */
static jv compare(jj_run *r, const jj_node *n)
{
    jv a = jj_evaluate(r, n->a);
    for (; n; n = n->next) {
        const jv b = jj_evaluate(r, n->b);
        if (r->rc != MF_OK) return jv_none();
        r->line = n->line;
        if (!holds(r, n->text, a, b)) return jv_bool(false);
        a = b;
    }
    return jv_bool(true);
}

static jv negate(jj_run *r, const jj_node *n)
{
    const jv a = jj_evaluate(r, n->a);
    if (r->rc != MF_OK) return jv_none();
    if (!jv_is_number(a)) return jj_fail(r, "a sign before %s", jv_type(a));
    if (n->kind == JJ_PLUS) return a;
    return a.kind == JV_FLOAT ? jv_float(-a.as.f) : of_ints(r, '-', false, 0, whole(a));
}

/* ---- names, calls ---- */

static jv find(jj_run *r, const char *name)
{
    static const char *const functions[] = {"raise_exception", "namespace", "strftime_now",
                                            "range",           "dict",      NULL};
    for (const jj_frame *f = r->frame; f; f = f->up)
        for (const jj_variable *v = f->first; v && jj_spend(r, JJ_LOOKUP); v = v->next)
            if (strcmp(v->name, name) == 0) return v->value;
    for (int i = 0; functions[i]; i++)
        if (strcmp(functions[i], name) == 0)
            return (jv){.kind = JV_FUNCTION, .as.s = functions[i]};
    return jv_undefined(name);
}

static jv call_range(jj_run *r, const jj_args *a)
{
    int64_t part[3] = {0, 0, 1};
    for (int i = 0; i < a->n && i < 3; i++) {
        if (a->value[i].kind != JV_INT) return jj_fail(r, "range: expected whole numbers");
        part[i] = a->value[i].as.i;
    }
    if (a->n == 1) {
        part[1] = part[0];
        part[0] = 0;
    }
    if (a->n < 1 || a->n > 3 || part[2] == 0)
        return jj_fail(r, "range: expected 1 to 3 whole numbers, a step other than 0");
    const jv all = jv_new_list(r);
    for (int64_t i = part[0]; part[2] > 0 ? i < part[1] : i > part[1];) {
        if (!jj_step(r, 0)) break;
        jv_append(r, all, jv_int(i));
        if (__builtin_add_overflow(i, part[2], &i)) break;
    }
    return all;
}

static jv call_time(jj_run *r, const jj_args *a)
{
    char text[512];
    const jv format = jj_arg_of(a, 0, "format");
    struct tm now;
    if (format.kind != JV_STRING || format.n == 0 || format.n > 100)
        return jj_fail(r, "strftime_now: expected a format of 1 to 100 bytes");
    const jv copy = jv_copy(r, format.as.s, format.n);
    if (r->rc != MF_OK) return jv_none();
    if (!r->now) {
        const time_t t = time(NULL);
        localtime_r(&t, &now);
    }
    const size_t n = strftime(text, sizeof text, copy.as.s, r->now ? r->now : &now);
    return jv_copy(r, text, n);
}

/* namespace(NAME=VALUE, ...) and dict(NAME=VALUE, ...) */
static jv call_dict(jj_run *r, const jj_args *a, jv_kind kind)
{
    const jv all = jv_new_dict(r, kind);
    for (int i = 0; i < a->n && r->rc == MF_OK; i++) {
        const jv v = a->value[i];
        if (a->name[i]) {
            jv_put(r, all, jv_text(a->name[i], strlen(a->name[i])), v);
        } else if (v.kind == JV_DICT) {
            for (size_t k = 0; k < v.as.dict->n; k++)
                jv_put(r, all, v.as.dict->key[k], v.as.dict->value[k]);
        } else {
            jj_fail(r, "expected names with values, found %s", jv_type(v));
        }
    }
    return all;
}

static jv call_function(jj_run *r, const char *name, const jj_args *a)
{
    if (strcmp(name, "namespace") == 0) return call_dict(r, a, JV_NAMESPACE);
    if (strcmp(name, "dict") == 0) return call_dict(r, a, JV_DICT);
    if (strcmp(name, "range") == 0) return call_range(r, a);
    if (strcmp(name, "strftime_now") == 0) return call_time(r, a);
    const jv what = jv_string(r, jj_arg_of(a, 0, "message"));
    if (r->rc != MF_OK) return what;
    r->rc = mf_fail(MF_EINPUT, "%s:%d: the template says: %.*s", r->j->where, r->line,
                    (int)(what.n < 1000 ? what.n : 1000), what.as.s);
    return jv_none();
}

static jv call_macro(jj_run *r, const jv_macro *m, const jj_args *a)
{
    jj_frame *frame = jj_take(r, sizeof *frame), *before = r->frame;
    jj_out out = {0}, *to = r->out;
    const jj_node *n = m->node;
    jj_spend(r, JJ_LOOKUP * (size_t)a->n * (size_t)n->n_names);
    for (int k = 0; k < a->n && r->rc == MF_OK; k++) {
        bool known = !a->name[k];
        for (int i = 0; i < n->n_names; i++)
            known = known || strcmp(a->name[k], n->name[i]) == 0;
        if (!known) jj_fail(r, "macro %s has no argument \"%.40s\"", n->text, a->name[k]);
    }
    if (r->rc != MF_OK) return jv_none();
    frame->up = m->frame;
    r->frame = frame;
    for (int i = 0; i < n->n_names && r->rc == MF_OK; i++) {
        jv value = jj_arg_of(a, i, n->name[i]);
        if (value.kind == JV_UNDEFINED && n->arg[i].value)
            value = jj_evaluate(r, n->arg[i].value);
        jj_assign(r, n->name[i], value);
    }
    r->out = &out;
    jj_execute(r, n->b);
    r->out = to;
    r->frame = before;
    return jj_captured(r, &out);
}

jv jj_call(jj_run *r, jv callee, const jj_args *a)
{
    jv result = jv_none();
    if (r->rc != MF_OK) return result;
    if (++r->depth > MF_JINJA_DEPTH) {
        jj_fail(r, "calls are nested more than %d deep", MF_JINJA_DEPTH);
    } else if (callee.kind == JV_FUNCTION) {
        result = call_function(r, callee.as.s, a);
    } else if (callee.kind == JV_MACRO) {
        result = call_macro(r, callee.as.macro, a);
    } else if (callee.kind == JV_METHOD) {
        result = jj_method(r, callee.as.method->of, callee.as.method->name, a);
    } else {
        jj_fail(r, "a call of %s", callee.kind == JV_UNDEFINED ? callee.as.s : jv_type(callee));
    }
    r->depth--;
    return r->rc == MF_OK ? result : jv_none();
}

/* Computes the arguments of a node. */
static jj_args arguments(jj_run *r, const jj_node *n, jv value[], const char *name[])
{
    for (int i = 0; i < n->n_args; i++) {
        value[i] = jj_evaluate(r, n->arg[i].value);
        name[i] = n->arg[i].name;
    }
    return (jj_args){value, name, n->n_args};
}

static jv with_arguments(jj_run *r, const jj_node *n)
{
    jv few[8], *value = few;
    const char *few_names[8], **name = few_names;
    jv result = jv_none();
    const jv a = jj_evaluate(r, n->a);
    if (n->n_args > 8) {
        value = jj_take(r, (size_t)n->n_args * sizeof *value);
        name = jj_take(r, (size_t)n->n_args * sizeof *name);
    }
    if (r->rc != MF_OK) return result;
    const jj_args args = arguments(r, n, value, name);
    if (r->rc != MF_OK) return result;
    r->line = n->line;
    if (n->kind == JJ_CALL)
        result = jj_call(r, a, &args);
    else if (n->kind == JJ_FILTER)
        result = jj_filter(r, n->text, a, &args);
    else
        result = jv_bool(jj_test(r, n->text, a, &args));
    return r->rc == MF_OK ? result : jv_none();
}

static jv collection(jj_run *r, const jj_node *n)
{
    jv all = n->kind == JJ_LIST ? jv_new_list(r) : jv_new_dict(r, JV_DICT);
    all.n = n->n;
    for (int i = 0; i < n->n_args && r->rc == MF_OK; i++) {
        const jv v = jj_evaluate(r, n->arg[i].value);
        if (n->kind == JJ_LIST)
            jv_append(r, all, v);
        else
            jv_put(r, all, v, jj_evaluate(r, n->arg[++i].value));
    }
    return all;
}

static jv slice(jj_run *r, const jj_node *n)
{
    const jv a = jj_evaluate(r, n->a), begin = n->b ? jj_evaluate(r, n->b) : jv_none(),
             end = n->c ? jj_evaluate(r, n->c) : jv_none();
    return jv_slice(r, a, begin, end, n->d ? jj_evaluate(r, n->d) : jv_none());
}

static jv compute(jj_run *r, const jj_node *n)
{
    jv a;
    switch (n->kind) {
    case JJ_NAME_OF:
        return find(r, n->text);
    case JJ_CONSTANT:
        return n->constant;
    case JJ_LIST:
    case JJ_DICT:
        return collection(r, n);
    case JJ_ATTR:
        a = jj_evaluate(r, n->a);
        return jv_attr(r, a, n->text);
    case JJ_ITEM:
        a = jj_evaluate(r, n->a);
        return jv_item(r, a, jj_evaluate(r, n->b));
    case JJ_SLICE:
        return slice(r, n);
    case JJ_CALL:
    case JJ_FILTER:
    case JJ_TEST:
        return with_arguments(r, n);
    case JJ_NOT:
        return jv_bool(!jv_true(jj_evaluate(r, n->a)));
    case JJ_NEGATE:
    case JJ_PLUS:
        return negate(r, n);
    case JJ_BINARY:
        return binary(r, n);
    case JJ_COMPARE:
        return compare(r, n);
    case JJ_AND:
        a = jj_evaluate(r, n->a);
        return jv_true(a) ? jj_evaluate(r, n->b) : a;
    case JJ_OR:
        a = jj_evaluate(r, n->a);
        return jv_true(a) ? a : jj_evaluate(r, n->b);
    case JJ_CHOICE:
        a = jj_evaluate(r, n->a);
        return jv_true(a) ? jj_evaluate(r, n->b)
               : n->c     ? jj_evaluate(r, n->c)
                          : jv_undefined("the value of an if without else");
    default:
        return jv_none();
    }
}

jv jj_evaluate(jj_run *r, const jj_node *n)
{
    if (!n) return jv_none();
    if (!jj_enter(r, n->line)) return jv_none();
    const jv v = compute(r, n);
    jj_leave(r);
    return r->rc == MF_OK ? v : jv_none();
}
