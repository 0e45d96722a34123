/* published/ledger.c: the tensors of a published form: the rules of a family in reverse. A rule
 * is used if the model has its parameter, unless an earlier rule has used the same part. So the
 * first of several spellings is written. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "pretrained/published/parts.h"

typedef struct entry {
    mf_st_tensor *tensor;
    mf_place place;
} entry;

typedef struct lister {
    const mf_session *session;
    mf_record *record;
    entry *entries; /* [n] */
    int64_t n, room;
    int64_t *covered; /* [parameters] number of elements that have a tensor */
} lister;

/* Returns the rule as it applies to this run; NULL: not enough memory. */
static const mf_family_rule *adapted(const lister *l, const mf_family_rule *r)
{
    const mf_model_settings m = mf_config_model(l->session->config);
    const bool joined = strstr(r->ours, ".shared.") && !(r->flags & MF_RULE_FUSED) &&
                        mf_model_moe(&m, -1).shared_experts > 1;
    const unsigned more =
        (l->record->reordered && mf_rule_is_of_heads(r) ? MF_RULE_APART : 0U) |
        (joined ? MF_RULE_JOINED : 0U);
    if (more == 0) return r;
    mf_family_rule *own = mf_arena_alloc(l->record->arena, sizeof *own);
    if (!own) return NULL;
    *own = *r;
    own->flags |= more;
    return own;
}

/* Whether an earlier rule of the table has the same part of the same parameter. */
static bool is_spelling(const mf_family *f, const mf_family_rule *r)
{
    for (const mf_family_rule *o = f->rules; o < r; o++)
        if (o->ours && !(o->flags & MF_RULE_TIED) && o->part == r->part &&
            strcmp(o->ours, r->ours) == 0)
            return true;
    return false;
}

/* Whether the name of a tensor gets the prefix of the family. Heads stand beside the model that
 * has the prefix, and a bare encoder has none. */
static bool has_prefix(const lister *l, const char *name)
{
    const mf_task task = (mf_task)l->session->config->model.task;
    return l->record->family->prefix && task != MF_TASK_MLM &&
           strncmp(name, "lm_head.", 8) != 0 && strncmp(name, "classifier.", 11) != 0;
}

static int add(lister *l, const mf_place *p, const char *name)
{
    mf_arena *arena = l->record->arena;
    if (l->n == l->room) {
        const int64_t room = 2 * l->room + 64;
        entry *more =
            mf_realloc(l->entries, (size_t)l->n * sizeof *more, (size_t)room * sizeof *more);
        if (!more) return MF_ENOMEM;
        l->entries = more;
        l->room = room;
    }
    mf_st_tensor *t = mf_arena_alloc(arena, sizeof *t);
    const char *full = mf_arena_strf(
        arena, "%s%s", has_prefix(l, name) ? l->record->family->prefix : "", name);
    if (!t || !full) return MF_ENOMEM;
    *t = (mf_st_tensor){.name = full,
                        .dtype_name = mf_st_dtype_name(MF_ST_F32),
                        .dtype = MF_ST_F32,
                        .rank = p->shape_rank,
                        .count = (uint64_t)mf_place_count(p)};
    memcpy(t->shape, p->shape, (size_t)p->shape_rank * sizeof *t->shape);
    t->bytes = t->count * sizeof(float);
    l->entries[l->n++] = (entry){t, *p};
    return MF_OK;
}

/* Applies a rule to one block and expert. */
static int apply(lister *l, const mf_family_rule *r, int64_t layer, int64_t expert)
{
    char name[MF_ST_NAME_MAX];
    mf_place p;
    int rc =
        mf_place_find(&l->record->keys, r, l->session->model->store, layer, expert, &p, name);
    if (rc != MF_OK || !p.param) return rc;
    const int64_t count = mf_place_count(&p), part = p.other ? p.other->count : 0;
    if (l->covered[p.index] + count - part > p.param->count) return MF_OK;
    l->covered[p.index] += count - part;
    if (p.other) l->covered[p.other_index] += part;
    return add(l, &p, name);
}

static int apply_all(lister *l)
{
    const mf_keys *k = &l->record->keys;
    int rc = MF_OK;
    for (const mf_family_rule *r = l->record->family->rules; rc == MF_OK && r->theirs; r++) {
        if (!r->ours || r->flags & MF_RULE_TIED || is_spelling(l->record->family, r)) continue;
        const mf_family_rule *own = adapted(l, r);
        if (!own) return MF_ENOMEM;
        const int64_t layers = strstr(r->theirs, "{l}") ? k->layers : 1,
                      experts = strstr(r->theirs, "{e}") ? k->experts : 1;
        for (int64_t i = 0; rc == MF_OK && i < layers; i++)
            for (int64_t e = 0; rc == MF_OK && e < experts; e++)
                rc = apply(l, own, i, e);
    }
    return rc;
}

/* Checks that every parameter is in tensors. Buffers that no rule names do not change
 * predictions of the families' routers. */
static int judge_covered(const lister *l)
{
    const mf_store *store = l->session->model->store;
    for (int32_t i = 0; i < mf_store_count(store); i++) {
        const mf_param *p = mf_store_at(store, i);
        if (l->covered[i] == p->count || p->adapter) continue;
        if (p->buffer && l->covered[i] == 0) continue;
        return mf_fail(MF_EINPUT, "%s cannot be said in the form of %s: it has no such tensor",
                       p->name, l->record->family->name);
    }
    return MF_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->tensor->name, ((const entry *)b)->tensor->name);
}

/* Moves the list into the record. */
static int settle(lister *l)
{
    mf_record *r = l->record;
    const size_t n = (size_t)l->n;
    qsort(l->entries, n, sizeof *l->entries, by_name);
    r->tensors = mf_arena_alloc(r->arena, (n + 1) * sizeof *r->tensors);
    r->shard_of = mf_arena_alloc(r->arena, (n + 1) * sizeof *r->shard_of);
    r->ledger.places = mf_alloc(n + 1, sizeof *r->ledger.places);
    if (!r->tensors || !r->shard_of || !r->ledger.places) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        r->tensors[i] = l->entries[i].tensor;
        r->shard_of[i] = 0;
        r->ledger.places[i] = l->entries[i].place;
    }
    r->n = r->ledger.n = r->ledger.used = l->n;
    return MF_OK;
}

int mf_published_ledger(const mf_session *s, mf_record *record)
{
    lister l = {.session = s, .record = record};
    l.covered = mf_alloc((size_t)mf_store_count(s->model->store) + 1, sizeof *l.covered);
    int rc = l.covered ? apply_all(&l) : MF_ENOMEM;
    if (rc == MF_EINVAL)
        rc = mf_fail_context(MF_EINPUT, "the form of %s", record->family->name);
    if (rc == MF_OK) rc = judge_covered(&l);
    if (rc == MF_OK) rc = settle(&l);
    mf_free(l.entries);
    mf_free(l.covered);
    return rc;
}
