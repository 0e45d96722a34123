/* data/tokenizer/pretrained/text.c: a text under construction. Each of its bytes has an offset,
 * the origin of the byte in the source. Offsets never decrease along a text. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

void mf_pt_text_free(mf_pt_text *t)
{
    mf_free(t->bytes);
    mf_free(t->from);
    *t = (mf_pt_text){.mapped = t->mapped};
}

static int make_room(mf_pt_text *t, size_t n)
{
    if (t->cap - t->n >= n) return MF_OK;
    const size_t cap = t->cap + t->cap / 2 + n + 64;
    char *bytes = mf_realloc(t->bytes, t->n, cap);
    if (!bytes) return MF_ENOMEM;
    t->bytes = bytes;
    if (t->mapped) {
        size_t *from = mf_realloc(t->from, t->n * sizeof *from, cap * sizeof *from);
        if (!from) return MF_ENOMEM;
        t->from = from;
    }
    t->cap = cap;
    return MF_OK;
}

int mf_pt_text_add(mf_pt_text *t, const char *bytes, size_t n, const size_t *from, size_t at,
                   bool step)
{
    int rc = make_room(t, n);
    if (rc != MF_OK || n == 0) return rc;
    memcpy(t->bytes + t->n, bytes, n);
    for (size_t i = 0; t->mapped && i < n; i++)
        t->from[t->n + i] = from ? from[i] : step ? at + i : at;
    t->n += n;
    return MF_OK;
}

size_t mf_pt_origin(const mf_pt_view *v, size_t i)
{
    return v->from ? v->from[i] : v->base + i;
}

mf_pt_view mf_pt_part(const mf_pt_view *v, size_t begin, size_t end)
{
    return (mf_pt_view){v->bytes + begin, end - begin, v->from ? v->from + begin : NULL,
                        v->base + begin};
}

mf_pt_view mf_pt_whole(const mf_pt_text *t)
{
    return (mf_pt_view){t->bytes ? t->bytes : "", t->n, t->from, 0};
}
