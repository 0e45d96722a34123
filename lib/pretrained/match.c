/* pretrained/match.c: expands the rules of a family and assigns tensors to parameters.
 *
 * A rule whose parameter is not in the model is not applied. One table can therefore be used
 * for models with and without biases, tied heads or dense blocks. A tensor without a rule is
 * an error. */
#include "pretrained/match.h"
#include "pretrained/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPE_TEXT = 128 };

typedef struct matcher {
    const mf_family *family;
    const mf_keys *k;
    const mf_store *store;
    const char *where;
    const mf_st_tensor *const *tensors;
    int64_t n;
    mf_place *places;
    int64_t *covered; /* [parameters] number of elements that come from a tensor */
} matcher;

/* ---- names ---- */

/* Writes a pattern with {l} and {e} replaced by numbers. */
static void expand(const char *prefix, const char *pattern, int64_t layer, int64_t expert,
                   char out[MF_ST_NAME_MAX])
{
    size_t at = (size_t)snprintf(out, MF_ST_NAME_MAX, "%s", prefix);
    for (const char *p = pattern; *p && at + 24 < MF_ST_NAME_MAX;) {
        const bool is_layer = strncmp(p, "{l}", 3) == 0, is_expert = strncmp(p, "{e}", 3) == 0;
        if (is_layer || is_expert) {
            at += (size_t)snprintf(out + at, MF_ST_NAME_MAX - at, "%lld",
                                   (long long)(is_layer ? layer : expert));
            p += 3;
        } else {
            out[at++] = *p++;
            out[at] = '\0';
        }
    }
}

static int compare(const void *key, const void *element)
{
    return strcmp(key, (*(const mf_st_tensor *const *)element)->name);
}

static int64_t find_exact(const matcher *m, const char *name)
{
    const mf_st_tensor *const *t =
        bsearch(name, m->tensors, (size_t)m->n, sizeof(const mf_st_tensor *), compare);
    return t ? t - m->tensors : -1;
}

static const char MODEL[] = "model."; /* how names of the text model begin */

/* Finds the tensor with a name of the rule, with or without the family's prefix; -1: none. */
static int64_t find(const matcher *m, const mf_family_rule *r, int64_t layer, int64_t expert)
{
    char name[MF_ST_NAME_MAX];
    const mf_family *f = m->family;
    expand("", r->theirs, layer, expert, name);
    int64_t at = find_exact(m, name);
    if (at < 0 && f->inner && strncmp(r->theirs, MODEL, sizeof MODEL - 1) == 0) {
        expand(f->inner, r->theirs + sizeof MODEL - 1, layer, expert, name);
        at = find_exact(m, name);
    }
    if (at >= 0 || !f->prefix) return at;
    expand(f->prefix, r->theirs, layer, expert, name);
    return find_exact(m, name);
}

static mf_param *param_of(const matcher *m, const char *ours, int64_t layer)
{
    char name[MF_ST_NAME_MAX];
    expand("", ours, layer, 0, name);
    return mf_store_find(m->store, name);
}

static bool has_layer(const mf_family_rule *r)
{
    return strstr(r->theirs, "{l}") != NULL;
}

/* Whether the tensor has rows of two parameters, head by head. */
static bool is_by_heads(const mf_family_rule *r)
{
    return r->part == MF_PART_HEADS || r->part == MF_PART_Q_HEADS;
}

static bool has_expert(const mf_family_rule *r)
{
    return strstr(r->theirs, "{e}") != NULL;
}

/* ---- places ---- */

static int bad_rule(const mf_param *p, const mf_family_rule *r)
{
    return mf_fail(MF_EINVAL, "rule '%s': %s has no such part", r->theirs, p->name);
}

/* Chooses the rows of a part, which are dimension `row` of the place. */
static int choose_rows(const mf_keys *k, const mf_family_rule *r, const mf_param *p,
                       mf_place *out, int row)
{
    const int64_t rows = out->size[row], q = k->heads * k->head_dim,
                  kv = k->kv_heads * k->head_dim;
    int64_t from = 0, n = rows;
    switch (r->part) {
    case MF_PART_Q:
    case MF_PART_Q_HEADS:
        n = q;
        break;
    case MF_PART_K:
        from = q, n = kv;
        break;
    case MF_PART_V:
        from = q + kv, n = kv;
        break;
    case MF_PART_GATE:
        n = rows / 2;
        break;
    case MF_PART_UP:
        from = rows / 2, n = rows / 2;
        break;
    case MF_PART_ALL:
    case MF_PART_PAIRS:
    case MF_PART_HEADS:
        break;
    }
    if (from + n > rows) return bad_rule(p, r);
    out->base += from * out->stride[row];
    out->size[row] = n;
    return MF_OK;
}

/* Exchanges the last two dimensions. */
static void transpose(mf_place *out)
{
    const int a = out->rank - 2, b = out->rank - 1;
    const int64_t size = out->size[a], stride = out->stride[a];
    out->size[a] = out->size[b];
    out->stride[a] = out->stride[b];
    out->size[b] = size;
    out->stride[b] = stride;
}

/* Divides dimension d into two dimensions, of sizes n and size / n. */
static void cut_dimension(mf_place *out, int d, int64_t n)
{
    for (int i = out->rank++; i > d; i--) {
        out->size[i] = out->size[i - 1];
        out->stride[i] = out->stride[i - 1];
    }
    out->size[d + 1] = out->size[d] / n;
    out->stride[d] = out->stride[d + 1] * out->size[d + 1];
    out->size[d] = n;
}

/* Maps rows 2 i and 2 i + 1 of the tensor to row i of the first and of the second half of
 * dimension d. */
static void pair_rows(mf_place *out, int d)
{
    cut_dimension(out, d, 2);
    const int64_t size = out->size[d], stride = out->stride[d];
    out->size[d] = out->size[d + 1];
    out->stride[d] = out->stride[d + 1];
    out->size[d + 1] = size;
    out->stride[d + 1] = stride;
}

/* Maps rows i and i + half of the tensor, in dimension d, to rows 2 i and 2 i + 1. */
static void part_rows(mf_place *out, int d)
{
    const int64_t stride = out->stride[d];
    cut_dimension(out, d, 2);
    out->stride[d] = stride;
    out->stride[d + 1] = 2 * stride;
}

/* Joins the hidden units of all experts in one tensor of rank 2, expert after expert. The
 * weight is [n, rows, columns]. In the first layer the hidden units are rows; in the second
 * layer (MF_PART_ALL) they are columns, or rows if it is transposed. */
static void join_experts(mf_place *out, const mf_family_rule *r)
{
    const int64_t n = out->size[0], stride = out->stride[0];
    const int to = r->part == MF_PART_ALL && !(r->flags & MF_RULE_TRANSPOSED) ? 1 : 0;
    if (to == 1) {
        out->size[0] = out->size[1];
        out->stride[0] = out->stride[1];
        out->size[1] = n;
        out->stride[1] = stride;
    }
    out->shape_rank = 2;
    out->shape[0] = out->size[0];
    out->shape[1] = out->size[2];
    out->shape[to] = n * out->size[to + 1];
}

/* Maps the rows of the tensor, head by head, first to the chosen rows of param and then to rows
 * of `other`. */
static int share_heads(const mf_keys *k, const mf_family_rule *r, mf_param *other,
                       mf_place *out)
{
    const mf_param *p = out->param;
    const int64_t H = k->heads, n = out->size[0] / H, columns = out->size[1];
    if (!other || p->shape.rank != 2 || other->shape.rank != 2 ||
        other->shape.dim[1] != columns || out->size[0] % H != 0 || other->shape.dim[0] % H != 0)
        return bad_rule(p, r);
    const int64_t v = other->shape.dim[0] / H;
    out->other = other;
    out->other_index = other->index;
    out->shape[0] = H * (n + v);
    cut_dimension(out, 0, H);
    out->size[1] = n + v;
    out->cut = 1;
    out->at = n;
    out->other_stride[0] = v * columns;
    out->other_stride[1] = columns;
    out->other_stride[2] = 1;
    out->other_base = -n * columns;
    return MF_OK;
}

static int place_of(const mf_keys *k, const mf_family_rule *r, mf_param *p, mf_param *other,
                    int64_t expert, mf_place *out)
{
    const mf_shape *s = &p->shape;
    const bool all_experts = r->flags & MF_RULE_FUSED;
    int from = 0;
    int64_t stride = p->count;
    *out = (mf_place){.rule = r, .param = p, .index = p->index};
    /* parameters of plugins may have any rank */
    if (s->rank < 1 || s->rank > 3) return bad_rule(p, r);
    if (s->rank == 3 && !all_experts && !(r->flags & MF_RULE_JOINED)) from = 1;
    for (int d = 0; d < s->rank; d++) {
        stride /= s->dim[d];
        if (d < from) {
            if (expert >= s->dim[d] || (!has_expert(r) && s->dim[d] != 1))
                return bad_rule(p, r);
            out->base = expert * stride;
            continue;
        }
        out->size[out->rank] = s->dim[d];
        out->stride[out->rank++] = stride;
    }
    /* Columns follow the rows, except in biases. */
    const bool bias = out->rank == 1 + (all_experts ? 1 : 0);
    const int row = bias ? out->rank - 1 : out->rank - 2;
    if (row < 0 || (r->flags & MF_RULE_TRANSPOSED && out->rank < 2)) return bad_rule(p, r);
    int rc = choose_rows(k, r, p, out, row);
    const int64_t cut = r->flags & MF_RULE_BY_HEADS ? k->heads : k->head_dim;
    if (rc == MF_OK && r->flags & (MF_RULE_BY_HEADS | MF_RULE_TURNS | MF_RULE_APART) &&
        (cut < 1 || out->size[row] % cut != 0))
        rc = bad_rule(p, r);
    if (rc == MF_OK && r->flags & MF_RULE_BY_HEADS) cut_dimension(out, row, cut);
    if (rc == MF_OK && r->flags & MF_RULE_TRANSPOSED) transpose(out);
    out->shape_rank = out->rank;
    memcpy(out->shape, out->size, sizeof out->shape);
    if (r->flags & MF_RULE_ROW && out->rank == 1) {
        out->shape_rank = 2;
        out->shape[1] = out->shape[0];
        out->shape[0] = 1;
    }
    if (rc == MF_OK && r->part == MF_PART_PAIRS)
        pair_rows(out, r->flags & MF_RULE_TRANSPOSED ? row + 1 : row);
    if (rc == MF_OK && r->flags & MF_RULE_TURNS) {
        cut_dimension(out, row, out->size[row] / cut);
        pair_rows(out, row + 1);
    }
    if (rc == MF_OK && r->flags & MF_RULE_APART) {
        cut_dimension(out, row, out->size[row] / cut);
        part_rows(out, row + 1);
    }
    if (rc == MF_OK && r->flags & MF_RULE_JOINED && s->rank == 3) join_experts(out, r);
    if (rc == MF_OK && is_by_heads(r)) rc = share_heads(k, r, other, out);
    return rc;
}

int mf_place_find(const mf_keys *k, const mf_family_rule *r, const mf_store *store,
                  int64_t layer, int64_t expert, mf_place *ret, char name[MF_ST_NAME_MAX])
{
    char ours[MF_ST_NAME_MAX];
    mf_param *other = NULL;
    expand("", r->theirs, layer, expert, name);
    if (is_by_heads(r) && r->more) {
        expand("", r->more, layer, 0, ours);
        other = mf_store_find(store, ours);
    }
    expand("", r->ours, layer, 0, ours);
    mf_param *p = mf_store_find(store, ours);
    *ret = (mf_place){0};
    return p ? place_of(k, r, p, other, expert, ret) : MF_OK;
}

bool mf_rule_is_of_heads(const mf_family_rule *r)
{
    return r->part == MF_PART_Q || r->part == MF_PART_K ||
           mf_ends_with(r->ours, ".q_norm.weight") || mf_ends_with(r->ours, ".k_norm.weight");
}

int64_t mf_place_count(const mf_place *p)
{
    int64_t n = 1;
    for (int d = 0; d < p->rank; d++)
        n *= p->size[d];
    return n;
}

const char *mf_place_plain_name(const mf_place *p, const mf_st_tensor *t, char *out)
{
    if (p->form == MF_FORM_PLAIN) return t->name;
    mf_form_plain_name(p->form, t->name, out);
    return out;
}

/* ---- tensors ---- */

static void shape_text(int rank, const int64_t *size, char out[SHAPE_TEXT])
{
    size_t at = (size_t)snprintf(out, SHAPE_TEXT, "[");
    for (int i = 0; i < rank && at < SHAPE_TEXT; i++)
        at += (size_t)snprintf(out + at, SHAPE_TEXT - at, "%s%lld", i > 0 ? "," : "",
                               (long long)size[i]);
    if (at < SHAPE_TEXT) snprintf(out + at, SHAPE_TEXT - at, "]");
}

static int judge_tensor(const matcher *m, const mf_st_tensor *t, const mf_place *p)
{
    bool same = t->rank == p->shape_rank;
    for (int i = 0; same && i < t->rank; i++)
        same = t->shape[i] == p->shape[i];
    if (!same) {
        char found[SHAPE_TEXT], expected[SHAPE_TEXT];
        shape_text(t->rank, t->shape, found);
        shape_text(p->shape_rank, p->shape, expected);
        return mf_fail(MF_EINPUT,
                       "%s: tensor '%s': expected shape %s, as config.json says, found %s",
                       m->where, t->name, expected, found);
    }
    if (t->dtype != MF_ST_F32 && t->dtype != MF_ST_BF16 && t->dtype != MF_ST_F16 &&
        t->dtype != MF_ST_F64)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': expected F32, F16, BF16 or F64, found %s",
                       m->where, t->name, t->dtype_name);
    return MF_OK;
}

/* Finds the parts of the weight `plain` in a form. *ret_missing: the name of a missing part;
 * empty: there is none. Returns false if the weight has another form. */
static bool has_form(const matcher *m, mf_form form, const char *plain,
                     int64_t parts[MF_FORM_PARTS], char ret_missing[MF_ST_NAME_MAX])
{
    ret_missing[0] = '\0';
    for (int i = 0; i < mf_form_parts(form); i++) {
        char name[MF_ST_NAME_MAX];
        if (!mf_form_name(form, plain, i, name)) return false;
        parts[i] = find_exact(m, name);
        if (i == 0 && (parts[0] < 0 || !mf_form_is(form, &m->k->packing, m->tensors[parts[0]])))
            return false;
        if (parts[i] < 0 && !mf_form_optional(form, i) && ret_missing[0] == '\0')
            memcpy(ret_missing, name, sizeof name);
    }
    return true;
}

/* Finds a weight that is stored as several tensors. *ret_form: MF_FORM_PLAIN if there is none.
 * Two forms differ only in the name of the scales; a weight whose scales are missing in both is
 * refused with the name in the first. */
static int find_parts(const matcher *m, const mf_family_rule *r, int64_t layer, int64_t expert,
                      mf_form *ret_form, int64_t parts[MF_FORM_PARTS])
{
    char plain[MF_ST_NAME_MAX], missing[MF_ST_NAME_MAX], first[MF_ST_NAME_MAX] = "";
    const char *prefixes[] = {"", m->family->prefix};
    *ret_form = MF_FORM_PLAIN;
    for (int i = 0; i < 2 && prefixes[i]; i++) {
        expand(prefixes[i], r->theirs, layer, expert, plain);
        for (int f = MF_FORM_PLAIN + 1; f < MF_FORMS; f++) {
            if (!has_form(m, (mf_form)f, plain, parts, missing)) continue;
            if (missing[0] == '\0') {
                *ret_form = (mf_form)f;
                return MF_OK;
            }
            if (first[0] == '\0') memcpy(first, missing, sizeof first);
        }
        if (first[0] != '\0')
            return mf_fail(MF_EINPUT, "%s: tensor '%s' is missing, a part of %s", m->where,
                           first, plain);
    }
    return MF_OK;
}

/* Checks the parts of a weight, and sets their places. */
static int place_parts(matcher *m, mf_place *place, mf_form form,
                       const int64_t parts[MF_FORM_PARTS])
{
    mf_source s = {.form = form, .packing = m->k->packing};
    int64_t shape[MF_PLACE_RANK];
    const int last = place->shape_rank - 1;
    memcpy(shape, place->shape, sizeof shape);
    if (place->rule->flags & MF_RULE_TRANSPOSED && last > 0) {
        shape[last - 1] = place->shape[last];
        shape[last] = place->shape[last - 1];
    }
    for (int i = 0; i < mf_form_parts(form); i++)
        s.tensor[i] = parts[i] < 0 ? NULL : m->tensors[parts[i]];
    int rc = mf_form_judge(&s, place->shape_rank, shape, m->where);
    for (int i = 1; i < mf_form_parts(form); i++)
        if (parts[i] >= 0) m->places[parts[i]] = (mf_place){.rule = place->rule, .form = form};
    place->form = form;
    memcpy(place->parts, parts, sizeof place->parts);
    return rc;
}

/* Applies a rule for one block and expert. */
static int apply(matcher *m, const mf_family_rule *r, int64_t layer, int64_t expert)
{
    int64_t at = find(m, r, layer, expert), parts[MF_FORM_PARTS] = {0};
    mf_form form = MF_FORM_PLAIN;
    int rc = r->ours ? find_parts(m, r, layer, expert, &form, parts) : MF_OK;
    if (rc != MF_OK) return rc;
    if (form != MF_FORM_PLAIN && at >= 0 && at != parts[0]) form = MF_FORM_PLAIN;
    if (form != MF_FORM_PLAIN) at = parts[0];
    if (at < 0 || m->places[at].rule) return MF_OK;
    mf_param *p = r->ours ? param_of(m, r->ours, layer) : NULL;
    if (r->ours && !p) return MF_OK;
    if (!p) {
        m->places[at] = (mf_place){.rule = r};
        if (m->tensors[at]->dtype != MF_ST_UNKNOWN) return MF_OK;
        return mf_fail(MF_EINPUT, "%s: tensor '%s': its type %s is unknown", m->where,
                       m->tensors[at]->name, m->tensors[at]->dtype_name);
    }
    mf_place *place = &m->places[at];
    mf_param *other = is_by_heads(r) ? param_of(m, r->more, layer) : NULL;
    rc = place_of(m->k, r, p, other, expert, place);
    if (rc == MF_EINVAL) /* the sizes of the model and of its files differ */
        return mf_fail_context(MF_EINPUT, "%s: tensor '%s'", m->where, m->tensors[at]->name);
    if (rc == MF_OK)
        rc = mf_form_has_numbers(form) ? judge_tensor(m, m->tensors[at], place)
                                       : place_parts(m, place, form, parts);
    place->form = form;
    place->parts[0] = at;
    place->tied = r->flags & MF_RULE_TIED;
    if (rc != MF_OK || place->tied) return rc;
    const int64_t count = mf_place_count(place), part = other ? other->count : 0;
    m->covered[p->index] += count - part;
    if (other) m->covered[other->index] += part;
    return MF_OK;
}

/* Returns the number of tensors to which a rule expands in a block. */
static int64_t times(const matcher *m, const mf_family_rule *r, int64_t layer)
{
    if (!has_expert(r)) return 1;
    return has_layer(r) && m->k->layer_experts ? m->k->layer_experts[layer] : m->k->experts;
}

static int apply_all(matcher *m)
{
    int rc = MF_OK;
    for (const mf_family_rule *r = m->family->rules; rc == MF_OK && r->theirs; r++) {
        const int64_t layers = has_layer(r) ? m->k->layers : 1;
        for (int64_t l = 0; rc == MF_OK && l < layers; l++)
            for (int64_t e = 0; rc == MF_OK && e < times(m, r, l); e++)
                rc = apply(m, r, l, e);
    }
    return rc;
}

/* ---- what is left ---- */

/* Whether the tensor belongs to a block after the last one: model.layers.N., N >= layers. */
static bool is_further(const matcher *m, int64_t i)
{
    static const char begin[] = "model.layers.";
    const char *name = m->tensors[i]->name;
    char *end;
    if (!m->family->further_blocks || strncmp(name, begin, sizeof begin - 1) != 0) return false;
    const long long n = strtoll(name + sizeof begin - 1, &end, 10);
    return *end == '.' && n >= m->k->layers;
}

/* Whether the tensor belongs to another part than the text model. */
static bool is_elsewhere(const matcher *m, int64_t i)
{
    for (const char *const *at = m->family->skipped; at && *at; at++)
        if (strncmp(m->tensors[i]->name, *at, strlen(*at)) == 0) return true;
    return false;
}

static void skip_others(matcher *m)
{
    static const mf_family_rule further = {.theirs = "model.layers.{l}.*",
                                           .more = "a block that predicts further tokens"},
                                elsewhere = {.theirs = "*",
                                             .more = "another part than the text model"};
    for (int64_t i = 0; i < m->n; i++) {
        if (m->places[i].rule) continue;
        if (is_further(m, i)) m->places[i].rule = &further;
        if (is_elsewhere(m, i)) m->places[i].rule = &elsewhere;
    }
}

static int refuse_unknown(const matcher *m)
{
    for (int64_t i = 0; i < m->n; i++)
        if (!m->places[i].rule)
            return mf_fail(MF_EINPUT,
                           "%s: tensor '%s' is unknown: no rule of %s uses or skips it",
                           m->where, m->tensors[i]->name, m->family->name);
    return MF_OK;
}

/* Writes the name of the first tensor that a parameter lacks. Returns false if no rule names a
 * tensor for it. */
static bool missing_name(const matcher *m, const mf_param *p, char out[MF_ST_NAME_MAX])
{
    snprintf(out, MF_ST_NAME_MAX, "?");
    for (const mf_family_rule *r = m->family->rules; r->theirs; r++) {
        const int64_t layers = has_layer(r) ? m->k->layers : 1;
        if (!r->ours || r->flags & MF_RULE_TIED) continue;
        for (int64_t l = 0; l < layers; l++) {
            const char *second = is_by_heads(r) ? r->more : r->ours;
            if (param_of(m, r->ours, l) != p && param_of(m, second, l) != p) continue;
            for (int64_t e = 0; e < times(m, r, l); e++) {
                int64_t parts[MF_FORM_PARTS];
                mf_form form = MF_FORM_PLAIN;
                if (find(m, r, l, e) >= 0) continue;
                if (find_parts(m, r, l, e, &form, parts) != MF_OK) continue;
                if (form != MF_FORM_PLAIN) continue;
                expand("", r->theirs, l, e, out);
                return true;
            }
        }
    }
    return false;
}

static int refuse_missing(const matcher *m)
{
    char name[MF_ST_NAME_MAX];
    for (int i = 0; i < mf_store_count(m->store); i++) {
        const mf_param *p = mf_store_at(m->store, i);
        if (m->covered[i] == p->count || p->adapter) continue;
        if (m->covered[i] > p->count)
            return mf_fail(MF_EINPUT, "%s: several tensors hold the same part of %s", m->where,
                           p->name);
        /* A buffer that no rule names is not stored in files. */
        if (!missing_name(m, p, name) && p->buffer) continue;
        return mf_fail(MF_EINPUT, "%s: tensor '%s' is missing, a part of %s", m->where, name,
                       p->name);
    }
    return MF_OK;
}

int mf_match_tensors(const mf_family *family, const mf_keys *k, const mf_store *store,
                     const char *where, const mf_st_tensor *const *tensors, int64_t n,
                     mf_ledger *ret)
{
    matcher m = {.family = family,
                 .k = k,
                 .store = store,
                 .where = where,
                 .tensors = tensors,
                 .n = n,
                 .places = mf_alloc((size_t)n + 1, sizeof(mf_place)),
                 .covered = mf_alloc((size_t)mf_store_count(store) + 1, sizeof(int64_t))};
    int rc = m.places && m.covered ? apply_all(&m) : MF_ENOMEM;
    if (rc == MF_OK) skip_others(&m);
    if (rc == MF_OK) rc = refuse_unknown(&m);
    if (rc == MF_OK) rc = refuse_missing(&m);
    mf_free(m.covered);
    if (rc != MF_OK) {
        mf_free(m.places);
        return rc;
    }
    *ret = (mf_ledger){.n = n, .packing = k->packing, .places = m.places};
    for (int64_t i = 0; i < n; i++) {
        const mf_place *p = &m.places[i];
        const bool used = (p->param && !p->tied) || p->form != MF_FORM_PLAIN;
        ret->used += used;
        ret->skipped += !used;
    }
    return MF_OK;
}

/* ---- layers that differ ---- */

/* Returns the number of rows of the block's router weight; 0: the block has none. */
static int64_t router_rows(const matcher *m, int64_t layer)
{
    for (const mf_family_rule *r = m->family->rules; r->theirs; r++) {
        if (!r->ours || strcmp(r->ours, "layers.{l}.router.weight") != 0) continue;
        const int64_t at = find(m, r, layer, 0);
        const mf_st_tensor *t = at < 0 ? NULL : m->tensors[at];
        if (t && t->rank == 2) return t->shape[r->flags & MF_RULE_TRANSPOSED ? 1 : 0];
    }
    return 0;
}

/* Adds the section of all blocks with `experts` experts. */
static void set_block(mf_keys *k, int64_t experts)
{
    char list[16384];
    size_t at = 0;
    for (int64_t l = 0; l < k->layers && at < sizeof list - 64; l++) {
        const int64_t first = l;
        if (k->layer_experts[l] != experts) continue;
        while (l + 1 < k->layers && k->layer_experts[l + 1] == experts)
            l++;
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%lld", at ? "," : "",
                               (long long)first);
        if (l > first)
            at += (size_t)snprintf(list + at, sizeof list - at, "-%lld", (long long)l);
    }
    mf_keys_set(k, "block.experts%lld.layers=%s", (long long)experts, list);
    mf_keys_set(k, "block.experts%lld.experts=%lld", (long long)experts, (long long)experts);
}

int mf_match_layers(const mf_family *family, mf_keys *k, const mf_st_tensor *const *tensors,
                    int64_t n)
{
    const matcher m = {.family = family, .k = k, .tensors = tensors, .n = n};
    bool usual = false, other = false;
    if (k->experts == 0) return MF_OK;
    int64_t *rows = mf_arena_alloc(k->arena, (size_t)k->layers * sizeof *rows);
    if (!rows) return MF_ENOMEM;
    for (int64_t l = 0; l < k->layers; l++) {
        rows[l] = router_rows(&m, l);
        usual = usual || rows[l] == k->experts;
        other = other || (rows[l] > 0 && rows[l] != k->experts);
    }
    if (!usual || !other) return MF_OK; /* if no block fits, config.json is wrong */
    k->layer_experts = rows;
    /* loads of layers with different numbers of experts cannot be averaged */
    if (mf_keys_setting(k, "regularizer.balance", "scope"))
        mf_keys_set(k, "regularizer.balance.scope=layer");
    for (int64_t l = 0; l < k->layers; l++) {
        bool first = rows[l] > 0 && rows[l] != k->experts;
        for (int64_t i = 0; i < l; i++)
            first = first && rows[i] != rows[l];
        if (first) set_block(k, rows[l]);
    }
    return k->rc;
}
