/* adapters/modules.c: makes the table of modules from the rules of a family.
 *
 * Only weights of linear layers are modules: matrices below layers.N, and the matrix of the
 * output head. A rule for single experts represents one module with all experts. */
#include "pretrained/adapters/modules.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"

enum { NAME_MAX = 512 };

typedef struct list {
    const mf_record *record;
    const mf_store *store;
    mf_arena *arena;
    mf_peft_module *all;
    int n, room;
} list;

/* Writes a pattern with the number of the block. Stops at {e} or at the end. */
static void expand(const char *pattern, int64_t layer, char out[NAME_MAX])
{
    size_t at = 0;
    out[0] = '\0';
    for (const char *p = pattern; *p && strncmp(p, "{e}", 3) != 0 && at + 24 < NAME_MAX;) {
        if (strncmp(p, "{l}", 3) == 0) {
            at += (size_t)snprintf(out + at, NAME_MAX - at, "%lld", (long long)layer);
            p += 3;
        } else {
            out[at++] = *p++;
            out[at] = '\0';
        }
    }
}

/* Replaces the part of a name that files use by the part that modules use. */
static void rename_part(const mf_family *f, char name[NAME_MAX])
{
    char *found = f->file_part ? strstr(name, f->file_part) : NULL;
    char rest[NAME_MAX];
    if (!found) return;
    snprintf(rest, sizeof rest, "%s%s", f->module_part, found + strlen(f->file_part));
    snprintf(found, (size_t)(NAME_MAX - (found - name)), "%s", rest);
}

static void cut_end(char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    if (n > m && strcmp(name + n - m, end) == 0) name[n - m] = '\0';
}

/* Computes the rows of the weight that a rule describes. second: number of rows of its
 * second weight. */
static void rows_of(const list *l, const mf_family_rule *r, const mf_param *p, int64_t second,
                    mf_rows *ret)
{
    const mf_keys *k = &l->record->keys;
    const int64_t rows = p->shape.dim[p->shape.rank - 2], q = k->heads * k->head_dim,
                  kv = k->kv_heads * k->head_dim;
    *ret = (mf_rows){.n = rows};
    switch (r->part) {
    case MF_PART_ALL:
        break;
    case MF_PART_Q:
        ret->n = q;
        break;
    case MF_PART_K:
        *ret = (mf_rows){.from = q, .n = kv};
        break;
    case MF_PART_V:
        *ret = (mf_rows){.from = q + kv, .n = kv};
        break;
    case MF_PART_GATE:
        ret->n = rows / 2;
        break;
    case MF_PART_UP:
        *ret = (mf_rows){.from = rows / 2, .n = rows / 2};
        break;
    case MF_PART_PAIRS:
        ret->pairs = rows / 2;
        break;
    case MF_PART_Q_HEADS: /* not listed */
        break;
    case MF_PART_HEADS: /* interleaved head by head with the rows of the second weight */
        ret->n = rows + second;
        break;
    }
}

/* Cuts the last part, from the last dot on, off a name. Returns a copy of the text after the
 * dot; NULL: the name has no dot, or there is not enough memory. */
static const char *split_last(list *l, char *name)
{
    char *dot = strrchr(name, '.');
    if (!dot) return NULL;
    *dot = '\0';
    return mf_arena_strdup(l->arena, dot + 1);
}

static int add(list *l, const mf_family_rule *r, int64_t layer)
{
    char name[NAME_MAX], ours[NAME_MAX];
    expand(r->ours, layer, ours);
    mf_param *p = mf_store_find(l->store, ours);
    mf_peft_module m = {.weight = p, .layer = strstr(r->ours, "{l}") ? (int32_t)layer : -1};
    if (!p || p->shape.rank < 2 || p->buffer) return MF_OK;
    /* A change of such a tensor would belong to two linear layers, and a convolution by channel
     * is none. */
    if (r->part == MF_PART_Q_HEADS || (p->shape.rank == 3 && p->shape.dim[1] == 1))
        return MF_OK;
    const mf_param *other = NULL;
    if (r->part == MF_PART_HEADS) {
        expand(r->more, layer, name);
        other = mf_store_find(l->store, name);
        if (!other) return MF_OK;
    }
    rows_of(l, r, p, other ? other->shape.dim[0] : 0, &m.rows);
    if (m.layer < 0 && strncmp(ours, "head.", 5) != 0) return MF_OK;
    const bool single = strstr(r->theirs, "{e}") != NULL;
    m.experts = p->shape.rank == 3 ? p->shape.dim[0] : 1;
    m.inputs = p->shape.dim[p->shape.rank - 1];
    m.fused = single || r->flags & MF_RULE_FUSED;
    m.transposed = r->flags & MF_RULE_TRANSPOSED;
    /* a bias of experts, or several shared experts in one weight */
    if (m.fused ? p->shape.rank != 3 : m.experts != 1) return MF_OK;
    expand(r->theirs, layer, name);
    rename_part(l->record->family, name);
    if (single) {
        cut_end(name, ".");
        m.rows = (mf_rows){.n = p->shape.dim[1]};
        m.parameter = mf_ends_with(ours, ".w2") ? "down_proj" : "gate_up_proj";
    } else if (m.fused) {
        if (!(m.parameter = split_last(l, name))) return MF_ENOMEM;
    } else {
        cut_end(name, ".weight");
        if (mf_ends_with(ours, ".router.weight")) m.parameter = "weight";
    }
    m.name = mf_arena_strf(
        l->arena, "%s%s",
        l->record->family->prefix && m.layer >= 0 ? l->record->family->prefix : "", name);
    if (!m.name || l->n == l->room) return MF_ENOMEM;
    /* A table may have several rules for a module, because files differ. */
    for (int i = 0; i < l->n; i++)
        if (l->all[i].weight == p && strcmp(l->all[i].name, m.name) == 0) return MF_OK;
    l->all[l->n++] = m;
    return MF_OK;
}

int mf_modules_list(const mf_record *record, const mf_store *store, mf_arena *arena,
                    mf_peft_module **ret, int *ret_n)
{
    const int64_t layers = record->keys.layers;
    int rules = 0, rc = MF_OK;
    for (const mf_family_rule *r = record->family->rules; r->theirs; r++)
        rules++;
    list l = {.record = record, .store = store, .arena = arena, .room = rules * (int)layers};
    l.all = mf_arena_alloc(arena, ((size_t)l.room + 1) * sizeof *l.all);
    if (!l.all) return MF_ENOMEM;
    for (const mf_family_rule *r = record->family->rules; rc == MF_OK && r->theirs; r++) {
        if (!r->ours || r->flags & MF_RULE_TIED) continue;
        const int64_t n = strstr(r->ours, "{l}") ? layers : 1;
        for (int64_t i = 0; rc == MF_OK && i < n; i++)
            rc = add(&l, r, i);
    }
    *ret = l.all;
    *ret_n = l.n;
    return rc;
}
