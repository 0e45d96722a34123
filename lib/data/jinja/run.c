/* data/jinja/run.c: executes statements. A loop, a macro and the whole template have a frame of
 * variables each; a variable that is set in a loop ends with the loop. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"

#include <string.h>

void jj_put(jj_run *r, const char *text, size_t n)
{
    jj_add(r, r->out, text, n);
}

jv jj_captured(jj_run *r, jj_out *out)
{
    const jv v = jv_copy(r, out->text ? out->text : "", out->n);
    mf_free(out->text);
    r->held -= out->cap;
    *out = (jj_out){0};
    return v;
}

void jj_assign(jj_run *r, const char *name, jv value)
{
    if (r->rc != MF_OK) return;
    for (jj_variable *v = r->frame->first; v && jj_spend(r, JJ_LOOKUP); v = v->next)
        if (strcmp(v->name, name) == 0) {
            v->value = value;
            return;
        }
    jj_variable *new = jj_take(r, sizeof *new);
    if (!new) return;
    *new = (jj_variable){name, value, r->frame->first};
    r->frame->first = new;
}

/* Gives a value to one name, or its items to several. */
static void assign_names(jj_run *r, const jj_node *n, jv value)
{
    if (n->n_names == 1) {
        jj_assign(r, n->name[0], value);
        return;
    }
    const jv items = jv_items(r, value);
    if (r->rc == MF_OK && items.as.list->n != (size_t)n->n_names)
        jj_fail(r, "expected %d values, found %zu", n->n_names, items.as.list->n);
    for (int i = 0; i < n->n_names && r->rc == MF_OK; i++)
        jj_assign(r, n->name[i], items.as.list->item[i]);
}

/* ---- statements ---- */

static void capture(jj_run *r, const jj_node *list, jv *ret)
{
    jj_out out = {0}, *before = r->out;
    r->out = &out;
    jj_execute(r, list);
    r->out = before;
    *ret = jj_captured(r, &out);
}

/* Applies the filters of {% set NAME | FILTER %}, whose innermost value is missing. */
static jv filtered(jj_run *r, const jj_node *filter, jv value)
{
    jj_node whole = *filter, inner = {.kind = JJ_CONSTANT, .line = filter->line};
    if (!jj_enter(r, filter->line)) return jv_none();
    inner.constant = filter->a ? filtered(r, filter->a, value) : value;
    whole.a = &inner;
    const jv result = jj_evaluate(r, &whole);
    jj_leave(r);
    return result;
}

static void run_set(jj_run *r, const jj_node *n)
{
    jv value;
    if (n->a) {
        value = jj_evaluate(r, n->a);
    } else {
        capture(r, n->b, &value);
        if (n->c && r->rc == MF_OK) value = filtered(r, n->c, value);
    }
    if (r->rc != MF_OK) return;
    if (!n->text) {
        assign_names(r, n, value);
        return;
    }
    jj_node name = {.kind = JJ_NAME_OF, .line = n->line, .text = n->name[0]};
    const jv object = jj_evaluate(r, &name);
    if (r->rc == MF_OK && object.kind != JV_NAMESPACE)
        jj_fail(r, "set %s.%s: expected a namespace, found %s", n->name[0], n->text,
                jv_type(object));
    else
        jv_put(r, object, jv_text(n->text, strlen(n->text)), value);
}

/* Returns the items for which the condition of a loop holds. */
static jv chosen(jj_run *r, const jj_node *n, jv items)
{
    const jv all = jv_new_list(r);
    jj_frame frame = {.up = r->frame};
    for (size_t i = 0; i < items.as.list->n && r->rc == MF_OK; i++) {
        frame.first = NULL;
        r->frame = &frame;
        assign_names(r, n, items.as.list->item[i]);
        const bool take = jv_true(jj_evaluate(r, n->d));
        r->frame = frame.up;
        if (take) jv_append(r, all, items.as.list->item[i]);
    }
    return all;
}

/* A frame is in the arena, because a macro that is defined in it keeps it. */
static void run_for(jj_run *r, const jj_node *n)
{
    jv items = jv_items(r, jj_evaluate(r, n->a));
    if (r->rc == MF_OK && n->d) items = chosen(r, n, items);
    if (r->rc != MF_OK) return;
    if (items.as.list->n == 0) {
        jj_execute(r, n->c);
        return;
    }
    jv_loop *loop = jj_take(r, sizeof *loop);
    jj_frame *before = r->frame;
    if (!loop) return;
    *loop = (jv_loop){.items = items.as.list};
    for (; loop->at < loop->items->n && r->rc == MF_OK; loop->at++) {
        jj_frame *frame = jj_take(r, sizeof *frame);
        if (!frame) break;
        frame->up = before;
        r->frame = frame;
        jj_assign(r, "loop", (jv){.kind = JV_LOOP, .as.loop = loop});
        assign_names(r, n, loop->items->item[loop->at]);
        jj_execute(r, n->b);
        r->frame = before;
        const bool stop = r->flow == JJ_STOP;
        r->flow = JJ_GO;
        if (stop || !jj_step(r, 0)) break;
    }
}

/* Remembers where the output of {% generation %} lies. In a macro or a captured block its place
 * is not known. */
static void run_generation(jj_run *r, const jj_node *n)
{
    const size_t begin = r->out->n;
    jj_execute(r, n->b);
    if (r->rc != MF_OK) return;
    if (r->out != &r->main) {
        jj_fail(r, "{%% generation %%} in a macro or in a set block");
        return;
    }
    if (r->n_answers == r->cap_answers) {
        const size_t cap = 2 * r->cap_answers + 16;
        mf_jinja_span *larger =
            mf_realloc(r->answer, r->n_answers * sizeof *larger, cap * sizeof *larger);
        if (!larger) {
            r->rc = MF_ENOMEM;
            return;
        }
        r->answer = larger;
        r->cap_answers = cap;
    }
    r->answer[r->n_answers++] = (mf_jinja_span){begin, r->out->n};
}

static void run_macro(jj_run *r, const jj_node *n)
{
    jv_macro *m = jj_take(r, sizeof *m);
    if (!m) return;
    *m = (jv_macro){n, r->frame};
    jj_assign(r, n->text, (jv){.kind = JV_MACRO, .as.macro = m});
}

static void run_one(jj_run *r, const jj_node *n)
{
    jv v;
    switch (n->kind) {
    case JJ_TEXT:
        jj_put(r, n->text, n->n);
        break;
    case JJ_OUTPUT:
        v = jv_string(r, jj_evaluate(r, n->a));
        if (r->rc == MF_OK) jj_put(r, v.as.s, v.n);
        break;
    case JJ_IF:
        jj_execute(r, jv_true(jj_evaluate(r, n->a)) ? n->b : n->c);
        break;
    case JJ_FOR:
        run_for(r, n);
        break;
    case JJ_SET:
        run_set(r, n);
        break;
    case JJ_MACRO:
        run_macro(r, n);
        break;
    case JJ_GENERATION:
        run_generation(r, n);
        break;
    case JJ_BREAK:
    case JJ_CONTINUE:
        r->flow = n->kind == JJ_BREAK ? JJ_STOP : JJ_AGAIN;
        break;
    default:
        break;
    }
}

void jj_execute(jj_run *r, const jj_node *list)
{
    for (; list && r->flow == JJ_GO && jj_enter(r, list->line); list = list->next) {
        run_one(r, list);
        jj_leave(r);
    }
}

static jv value_of(jj_run *r, const mf_jinja_variable *v)
{
    return v->is_messages ? jv_from_messages(r, v->value, v->most) : jv_from_json(r, v->value);
}

int mf_jinja_render(const mf_jinja *j, const mf_jinja_variable *variable, int n,
                    const struct tm *now, mf_jinja_result *ret)
{
    static const mf_jinja_limits limits = {MF_JINJA_STEPS, MF_JINJA_OUTPUT, MF_JINJA_MEMORY};
    return mf_jinja_render_within(j, variable, n, now, &limits, ret);
}

int mf_jinja_render_within(const mf_jinja *j, const mf_jinja_variable *variable, int n,
                           const struct tm *now, const mf_jinja_limits *limits,
                           mf_jinja_result *ret)
{
    jj_run r = {.j = j, .arena = mf_arena_new(), .now = now, .limits = limits, .line = 1};
    *ret = (mf_jinja_result){0};
    if (!r.arena) return MF_ENOMEM;
    r.out = &r.main;
    r.frame = jj_take(&r, sizeof *r.frame);
    for (int i = 0; i < n && r.rc == MF_OK; i++) {
        const mf_jinja_variable *v = &variable[i];
        jj_assign(&r, v->name,
                  v->is_bool ? jv_bool(v->boolean)
                  : v->value ? value_of(&r, v)
                  : v->text  ? jv_text(v->text, strlen(v->text))
                             : jv_none());
    }
    jj_execute(&r, j->body);
    jj_add(&r, &r.main, "", 1); /* ended by NUL */
    mf_arena_free(r.arena);
    if (r.rc != MF_OK) {
        mf_free(r.main.text);
        mf_free(r.answer);
        return r.rc;
    }
    *ret = (mf_jinja_result){r.main.text, r.main.n - 1, r.answer, r.n_answers};
    return MF_OK;
}
