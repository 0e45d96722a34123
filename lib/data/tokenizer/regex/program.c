/* data/tokenizer/regex/program.c: makes nodes of the tree. A part of the tree is compiled with
 * the node that follows it, so the nodes that a node refers to exist before it; only the node
 * of a loop is made before its body. Repetitions are unrolled. */
#include "data/tokenizer/regex/regex_internal.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

enum { PARTS = 1 << 20 };

typedef struct maker {
    const char *where;
    const mf_rx_tree *tree;
    mf_regex *ret;
    int depth; /* number of look-aheads around the current part */
    int parts; /* number of parts so far; a part of no node may be repeated, too */
    int rc;
} maker;

static int32_t add(maker *m, mf_rx_node_kind kind, int32_t a, int32_t b, bool negative)
{
    if (m->rc != MF_OK) return 0;
    if (m->ret->n == MF_REGEX_NODES) {
        m->rc = mf_fail(MF_EINPUT,
                        "%s: an expression of more than %d nodes, counting each repetition of "
                        "its parts",
                        m->where, MF_REGEX_NODES);
        return 0;
    }
    m->ret->node[m->ret->n] = (mf_rx_node){.kind = (uint8_t)kind,
                                           .depth = (uint8_t)m->depth,
                                           .negative = negative,
                                           .a = (uint16_t)a,
                                           .b = (uint16_t)b};
    return m->ret->n++;
}

static int32_t compile(maker *m, int32_t part, int32_t next);

/* Compiles the body of a look-ahead, which has its own end. */
static int32_t look(maker *m, int32_t body, int32_t next, bool negative)
{
    m->depth++;
    const int32_t begin = compile(m, body, add(m, MF_RX_ACCEPT, 0, 0, false));
    m->depth--;
    return add(m, MF_RX_LOOK, begin, next, negative);
}

static int32_t either(maker *m, bool lazy, int32_t body, int32_t next)
{
    return add(m, MF_RX_SPLIT, lazy ? next : body, lazy ? body : next, false);
}

static int32_t loop(maker *m, const mf_rx_tree *t, int32_t next)
{
    const int32_t at = either(m, t->lazy, 0, next);
    const int32_t body = compile(m, t->a, at);
    if (m->rc != MF_OK) return 0;
    m->ret->node[at].loop = true;
    m->ret->node[at].lazy = t->lazy;
    if (t->lazy)
        m->ret->node[at].b = (uint16_t)body;
    else
        m->ret->node[at].a = (uint16_t)body;
    return at;
}

/* X*+ is X*(?!X): for one character, the longest run is the one that X does not follow. X?+ is
 * X|(?!X). */
static int32_t repeat(maker *m, const mf_rx_tree *t, int32_t next)
{
    int32_t at = next;
    if (t->possessive) {
        const int32_t stop = look(m, t->a, next, true);
        if (t->max == 1)
            return t->min == 1 ? compile(m, t->a, next)
                               : either(m, false, compile(m, t->a, next), stop);
        at = next = stop;
    }
    if (t->max == MF_RX_NO_END)
        at = loop(m, t, next);
    else
        for (int32_t i = t->min; i < t->max && m->rc == MF_OK; i++)
            at = either(m, t->lazy, compile(m, t->a, at), next);
    for (int32_t i = 0; i < t->min && m->rc == MF_OK; i++)
        at = compile(m, t->a, at);
    return at;
}

/* a|b|c is the tree (a|b)|c, and becomes a, else (b, else c). */
static int32_t alternatives(maker *m, const mf_rx_tree *t, int32_t next)
{
    int32_t at = compile(m, t->b, next), part = t->a;
    for (; m->tree[part].kind == MF_RX_ALT; part = m->tree[part].a)
        at = either(m, false, compile(m, m->tree[part].b, next), at);
    return either(m, false, compile(m, part, next), at);
}

static int32_t compile(maker *m, int32_t part, int32_t next)
{
    const mf_rx_tree *t = &m->tree[part];
    if (m->rc == MF_OK && ++m->parts > PARTS)
        m->rc = mf_fail(MF_EINPUT, "%s: an expression with too many repetitions", m->where);
    if (m->rc != MF_OK) return 0;
    while (t->kind == MF_RX_CAT) {
        next = compile(m, t->b, next);
        t = &m->tree[t->a];
    }
    switch (t->kind) {
    case MF_RX_CHAR:
        return add(m, MF_RX_ONE, t->a, next, false);
    case MF_RX_ALT:
        return alternatives(m, t, next);
    case MF_RX_REPEAT:
        return repeat(m, t, next);
    case MF_RX_AHEAD:
        return look(m, t->a, next, t->negative);
    case MF_RX_BEHIND:
        m->ret->behind = true;
        return add(m, MF_RX_BACK, t->a, next, t->negative);
    case MF_RX_NOTHING:
    case MF_RX_CAT:
        break;
    }
    return next;
}

static void add_user(mf_regex *r, uint16_t node, size_t entry)
{
    r->next_user[entry] = r->first_user[node];
    r->first_user[node] = (uint16_t)(entry + 1);
}

/* Lists for each node those that go on with it. What a look-ahead asks is not among them: it is
 * decided before. */
static int list_users(mf_regex *r)
{
    const size_t n = (size_t)r->n;
    r->first_user = mf_alloc(n, sizeof *r->first_user);
    r->next_user = mf_alloc(2 * n, sizeof *r->next_user);
    if (!r->first_user || !r->next_user) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const mf_rx_node *node = &r->node[i];
        if (node->kind == MF_RX_ACCEPT || node->kind == MF_RX_ONE) continue;
        add_user(r, node->b, 2 * i);
        if (node->kind == MF_RX_SPLIT) add_user(r, node->a, 2 * i + 1);
    }
    return MF_OK;
}

static int make_nodes(const char *where, const mf_rx_parsed *p, mf_regex *ret)
{
    maker m = {.where = where, .tree = p->tree, .ret = ret};
    int32_t n = 0;
    ret->node = mf_alloc(MF_REGEX_NODES, sizeof *ret->node);
    ret->order = mf_alloc(MF_REGEX_NODES, sizeof *ret->order);
    if (!ret->node || !ret->order) return MF_ENOMEM;
    ret->start = compile(&m, p->root, add(&m, MF_RX_ACCEPT, 0, 0, false));
    for (int depth = MF_REGEX_DEPTH + 4; depth >= 0; depth--)
        for (int32_t i = 0; i < ret->n; i++)
            if (ret->node[i].depth == depth) ret->order[n++] = (uint16_t)i;
    return m.rc == MF_OK ? list_users(ret) : m.rc;
}

/* ---- expressions ---- */

int mf_regex_new(const char *where, const char *text, size_t n, mf_regex **ret)
{
    mf_rx_parsed parsed = {0};
    mf_regex *r = mf_alloc(1, sizeof *r);
    *ret = NULL;
    if (!r) return MF_ENOMEM;
    int rc = mf_rx_parse(where, text, n, &parsed);
    if (rc == MF_OK) rc = make_nodes(where, &parsed, r);
    if (rc == MF_OK) rc = mf_rx_classify(where, &parsed.sets, &r->classes);
    mf_rx_parsed_free(&parsed);
    if (rc == MF_OK)
        *ret = r;
    else
        mf_regex_free(r);
    return rc;
}

void mf_regex_free(mf_regex *r)
{
    if (!r) return;
    mf_free(r->node);
    mf_free(r->order);
    mf_free(r->first_user);
    mf_free(r->next_user);
    mf_free(r->classes.of);
    mf_free(r);
}
