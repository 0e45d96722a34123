/* Lists of changes, from words such as 0.3 (layer 0, expert 3), and for whole layers. The
 * experts of a word are checked here, what a router allows in probe_apply.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "lab/probe/probe.h"

const char *const mf_probe_kinds[] = {"next", "drop", "exchange", "force",
                                      "rank", "bias", "top-k",    NULL};

static int64_t experts_of(const mf_model *m, int32_t at)
{
    return m->moe[at].config.experts;
}

/* Adds a change of layer `at`; *ret is valid until the next call. */
static int add(const mf_model *m, mf_arena *arena, mf_probe_list *to, mf_probe_kind kind,
               int32_t at, mf_probe_change **ret)
{
    if (to->n == to->room) {
        const int room = 2 * to->room + 64;
        mf_probe_change *more = mf_arena_alloc(arena, (size_t)room * sizeof *more);
        if (!more) return MF_ENOMEM;
        if (to->n > 0) memcpy(more, to->change, (size_t)to->n * sizeof *more);
        to->change = more;
        to->room = room;
    }
    bool *set = mf_arena_alloc(arena, (size_t)experts_of(m, at) * sizeof *set);
    if (!set) return MF_ENOMEM;
    *ret = &to->change[to->n++];
    **ret = (mf_probe_change){.kind = kind, .at = at, .a = -1, .b = -1, .set = set};
    return MF_OK;
}

static int add_remove(const mf_model *m, mf_arena *arena, mf_probe_kind kind, int32_t at,
                      int32_t expert, mf_probe_list *to)
{
    mf_probe_change *c;
    const int rc = add(m, arena, to, kind, at, &c);
    if (rc != MF_OK) return rc;
    c->a = expert;
    c->set[expert] = true;
    c->name = mf_arena_strf(arena, "%d.%d", (int)m->moe[at].layer, (int)expert);
    return c->name ? MF_OK : MF_ENOMEM;
}

static int add_exchange(const mf_model *m, mf_arena *arena, int32_t at, int32_t a, int32_t b,
                        mf_probe_list *to)
{
    mf_probe_change *c;
    const int rc = add(m, arena, to, MF_PROBE_EXCHANGE, at, &c);
    if (rc != MF_OK) return rc;
    c->a = a;
    c->b = b;
    c->set[a] = c->set[b] = true;
    c->name = mf_arena_strf(arena, "%d.%d-%d", (int)m->moe[at].layer, (int)a, (int)b);
    return c->name ? MF_OK : MF_ENOMEM;
}

/* ---- words ---- */

/* Reads a number without sign; *at moves behind it. Returns -1 if there is none. */
static int64_t number(const char **at)
{
    char *end;
    if (**at < '0' || **at > '9') return -1;
    const long long v = strtoll(*at, &end, 10);
    *at = end;
    return v > INT32_MAX ? INT32_MAX : v;
}

static int no_layer(const mf_model *m, const char *word, int64_t layer)
{
    char have[256] = "";
    size_t n = 0;
    for (int32_t i = 0; i < m->n_moe && n < sizeof have - 16; i++)
        n += (size_t)snprintf(have + n, sizeof have - n, "%s%d", i ? ", " : "",
                              (int)m->moe[i].layer);
    return mf_fail(MF_EUSAGE, "%s: expected a layer with experts (%s), found layer %lld", word,
                   have, (long long)layer);
}

/* Reads LAYER. in front of a word. */
static int read_layer(const mf_model *m, const char *word, const char *form, const char **at,
                      int32_t *ret)
{
    *at = word;
    const int64_t layer = number(at);
    if (layer < 0 || **at != '.')
        return mf_fail(MF_EUSAGE, "expected %s, such as %s, found '%s'", form,
                       strcmp(form, "LAYER.A-B") == 0   ? "0.1-2"
                       : strcmp(form, "LAYER.A+B") == 0 ? "0.1+2"
                                                        : "0.3",
                       word);
    ++*at;
    for (int32_t i = 0; i < m->n_moe; i++)
        if (m->moe[i].layer == layer) {
            *ret = i;
            return MF_OK;
        }
    return no_layer(m, word, layer);
}

static int read_expert(const mf_model *m, const char *word, int32_t at, const char **text,
                       int32_t *ret)
{
    const int64_t e = number(text);
    if (e < 0 || e >= experts_of(m, at))
        return mf_fail(MF_EUSAGE, "%s: expected experts 0 to %lld of layer %d", word,
                       (long long)experts_of(m, at) - 1, (int)m->moe[at].layer);
    *ret = (int32_t)e;
    return MF_OK;
}

static int no_end(const char *word, const char *form, const char *rest)
{
    return mf_fail(MF_EUSAGE, "expected %s, found '%s' behind it in '%s'", form, rest, word);
}

static int expert_of(const mf_model *m, const char *text, int32_t *ret_at, int32_t *ret_expert)
{
    const char *at;
    int rc = read_layer(m, text, "LAYER.EXPERT", &at, ret_at);
    if (rc == MF_OK) rc = read_expert(m, text, *ret_at, &at, ret_expert);
    if (rc == MF_OK && *at) rc = no_end(text, "LAYER.EXPERT", at);
    return rc;
}

typedef int (*word_reader)(const mf_model *m, mf_arena *arena, mf_probe_kind kind,
                           const char *word, mf_probe_list *to);

static int each_word(const mf_model *m, mf_arena *arena, mf_probe_kind kind, const char *text,
                     word_reader read, mf_probe_list *to)
{
    char *words = mf_arena_strdup(arena, text), *word;
    int rc = words ? MF_OK : MF_ENOMEM;
    while (rc == MF_OK && (word = strsep(&words, ",")))
        rc = read(m, arena, kind, word, to);
    return rc;
}

static int word_remove(const mf_model *m, mf_arena *arena, mf_probe_kind kind, const char *word,
                       mf_probe_list *to)
{
    int32_t at, e;
    const int rc = expert_of(m, word, &at, &e);
    return rc == MF_OK ? add_remove(m, arena, kind, at, e, to) : rc;
}

static int word_exchange(const mf_model *m, mf_arena *arena, mf_probe_kind kind,
                         const char *word, mf_probe_list *to)
{
    static const char form[] = "LAYER.A-B";
    const char *rest;
    int32_t at, a, b;
    (void)kind;
    int rc = read_layer(m, word, form, &rest, &at);
    if (rc == MF_OK) rc = read_expert(m, word, at, &rest, &a);
    if (rc == MF_OK && *rest++ != '-')
        rc = mf_fail(MF_EUSAGE, "expected %s, found '%s'", form, word);
    if (rc == MF_OK) rc = read_expert(m, word, at, &rest, &b);
    if (rc == MF_OK && *rest) rc = no_end(word, form, rest);
    if (rc == MF_OK && a == b)
        rc = mf_fail(MF_EUSAGE, "%s: expected two different experts", word);
    return rc == MF_OK ? add_exchange(m, arena, at, a, b, to) : rc;
}

static int word_force(const mf_model *m, mf_arena *arena, mf_probe_kind kind, const char *word,
                      mf_probe_list *to)
{
    const char *rest;
    mf_probe_change *c = NULL;
    int32_t at, e;
    int rc = read_layer(m, word, "LAYER.A+B", &rest, &at);
    if (rc == MF_OK) rc = add(m, arena, to, kind, at, &c);
    while (rc == MF_OK) {
        rc = read_expert(m, word, at, &rest, &e);
        if (rc == MF_OK) c->set[e] = true;
        if (rc == MF_OK && *rest == '\0') break;
        if (rc == MF_OK && *rest++ != '+') rc = no_end(word, "LAYER.A+B", rest - 1);
    }
    if (rc == MF_OK && !(c->name = mf_arena_strdup(arena, word))) rc = MF_ENOMEM;
    return rc;
}

/* ---- whole layers ---- */

int mf_probe_remove(const mf_model *m, mf_arena *arena, mf_probe_kind kind, const char *text,
                    mf_probe_list *ret)
{
    int rc = MF_OK;
    if (strcmp(text, "all") != 0) return each_word(m, arena, kind, text, word_remove, ret);
    for (int32_t i = 0; i < m->n_moe; i++)
        for (int32_t e = 0; rc == MF_OK && e < experts_of(m, i); e++)
            rc = add_remove(m, arena, kind, i, e, ret);
    return rc;
}

int mf_probe_exchange(const mf_model *m, mf_arena *arena, const char *text, mf_probe_list *ret)
{
    int rc = MF_OK;
    if (strcmp(text, "all") != 0)
        return each_word(m, arena, MF_PROBE_EXCHANGE, text, word_exchange, ret);
    for (int32_t i = 0; i < m->n_moe; i++)
        for (int32_t a = 0; a < experts_of(m, i); a++)
            for (int32_t b = a + 1; rc == MF_OK && b < experts_of(m, i); b++)
                rc = add_exchange(m, arena, i, a, b, ret);
    return rc;
}

int mf_probe_force(const mf_model *m, mf_arena *arena, const char *text, mf_probe_list *ret)
{
    return each_word(m, arena, MF_PROBE_FORCE, text, word_force, ret);
}

int mf_probe_rank(const mf_model *m, mf_arena *arena, mf_probe_list *ret)
{
    int rc = MF_OK;
    mf_probe_change *c;
    for (int32_t i = 0; i < m->n_moe; i++)
        for (int32_t r = 1; rc == MF_OK && r <= (int32_t)*m->moe[i].top_k; r++) {
            rc = add(m, arena, ret, MF_PROBE_RANK, i, &c);
            if (rc != MF_OK) break;
            c->a = r;
            c->name = mf_arena_strf(arena, "%d, choice %d", (int)m->moe[i].layer, (int)r);
            if (!c->name) rc = MF_ENOMEM;
        }
    return rc;
}

int mf_probe_bias(const mf_model *m, mf_arena *arena, double d, mf_probe_list *ret)
{
    int rc = MF_OK;
    mf_probe_change *c;
    for (int32_t i = 0; i < m->n_moe; i++)
        for (int32_t e = 0; rc == MF_OK && e < experts_of(m, i); e++) {
            rc = add(m, arena, ret, MF_PROBE_BIAS, i, &c);
            if (rc != MF_OK) break;
            c->a = e;
            c->d = d;
            c->set[e] = true;
            c->name = mf_arena_strf(arena, "%d.%d %+g sd", (int)m->moe[i].layer, (int)e, d);
            if (!c->name) rc = MF_ENOMEM;
        }
    return rc;
}

int mf_probe_top_k(const mf_model *m, mf_arena *arena, int more, mf_probe_list *ret)
{
    int rc = MF_OK;
    mf_probe_change *c;
    for (int32_t i = 0; rc == MF_OK && i < m->n_moe; i++) {
        const int32_t k = (int32_t)*m->moe[i].top_k + more;
        if (k < 1 || k > experts_of(m, i))
            return mf_fail(
                MF_EUSAGE,
                "layer %d: %d of its %lld experts for each token; expected 1 to %lld",
                (int)m->moe[i].layer, (int)k, (long long)experts_of(m, i),
                (long long)experts_of(m, i));
        rc = add(m, arena, ret, MF_PROBE_TOP_K, i, &c);
        if (rc != MF_OK) break;
        c->a = k;
        c->name = mf_arena_strf(arena, "%d, k = %d", (int)m->moe[i].layer, (int)k);
        if (!c->name) rc = MF_ENOMEM;
    }
    return rc;
}
