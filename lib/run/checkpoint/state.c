/* run/checkpoint/state.c: numbers and blobs by name. The list is sorted by name. The bytes of a
 * written state therefore do not depend on the order of the calls. */
#include "base/error.h"
#include "base/mem.h"
#include "run/checkpoint/checkpoint_parts.h"

#include <string.h>

mf_state *mf_state_new(void)
{
    return mf_alloc(1, sizeof(mf_state));
}

void mf_state_free(mf_state *s)
{
    if (s == NULL) return;
    for (int i = 0; i < s->n; i++) {
        mf_free(s->items[i].name);
        mf_free(s->items[i].blob);
    }
    mf_free(s->items);
    mf_free(s);
}

/* Returns the index of the first item whose name is equal to `name` or sorts after it. */
static int place_of(const mf_state *s, const char *name)
{
    int low = 0, high = s->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(s->items[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static mf_item *find(const mf_state *s, const char *name)
{
    int i = place_of(s, name);
    return i < s->n && strcmp(s->items[i].name, name) == 0 ? &s->items[i] : NULL;
}

/* Returns the item with this name after freeing its old value, or a new item. NULL: not
 * enough memory. */
static mf_item *put(mf_state *s, const char *name, mf_item_kind kind)
{
    mf_item *item = find(s, name);
    if (item != NULL) {
        mf_free(item->blob);
        *item = (mf_item){.name = item->name, .kind = kind};
        return item;
    }
    if (s->n == s->cap) {
        int cap = s->cap < 16 ? 16 : s->cap * 2;
        mf_item *more =
            mf_realloc(s->items, (size_t)s->n * sizeof *more, (size_t)cap * sizeof *more);
        if (more == NULL) return NULL;
        s->items = more;
        s->cap = cap;
    }
    char *copy = mf_strdup(name);
    if (copy == NULL) return NULL;
    int i = place_of(s, name);
    memmove(s->items + i + 1, s->items + i, (size_t)(s->n - i) * sizeof *s->items);
    s->n++;
    s->items[i] = (mf_item){.name = copy, .kind = kind};
    return &s->items[i];
}

int mf_state_set_int(mf_state *s, const char *name, int64_t value)
{
    mf_item *item = put(s, name, MF_ITEM_INT);
    if (item == NULL) return MF_ENOMEM;
    item->integer = value;
    return MF_OK;
}

int mf_state_set_real(mf_state *s, const char *name, double value)
{
    mf_item *item = put(s, name, MF_ITEM_REAL);
    if (item == NULL) return MF_ENOMEM;
    item->real = value;
    return MF_OK;
}

int mf_state_set_blob(mf_state *s, const char *name, const void *data, size_t n)
{
    void *copy = mf_alloc_raw(n > 0 ? n : 1);
    mf_item *item = copy != NULL ? put(s, name, MF_ITEM_BLOB) : NULL;
    if (item == NULL) {
        mf_free(copy);
        return MF_ENOMEM;
    }
    if (n > 0) memcpy(copy, data, n);
    item->blob = copy;
    item->n = n;
    return MF_OK;
}

bool mf_state_int(const mf_state *s, const char *name, int64_t *out)
{
    const mf_item *item = find(s, name);
    if (item == NULL || item->kind != MF_ITEM_INT) return false;
    *out = item->integer;
    return true;
}

bool mf_state_real(const mf_state *s, const char *name, double *out)
{
    const mf_item *item = find(s, name);
    if (item == NULL || item->kind != MF_ITEM_REAL) return false;
    *out = item->real;
    return true;
}

const void *mf_state_blob(const mf_state *s, const char *name, size_t *ret_n)
{
    const mf_item *item = find(s, name);
    if (item == NULL || item->kind != MF_ITEM_BLOB) return NULL;
    *ret_n = item->n;
    return item->blob;
}

const char *mf_state_name_at(const mf_state *s, int i)
{
    return i >= 0 && i < s->n ? s->items[i].name : NULL;
}
