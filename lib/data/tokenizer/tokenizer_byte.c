/* data/tokenizer/tokenizer_byte.c: one token per byte. Every text can be encoded, and decoding
 * returns the same bytes. */
#include "base/error.h"
#include "base/mem.h"
#include "data/tokenizer/tokenizer_kinds.h"

#include <string.h>

enum { BYTES = 256 };

typedef struct byte_tokenizer {
    mf_tokenizer base;
    char bytes[BYTES]; /* piece i is bytes[i] */
} byte_tokenizer;

static int make(mf_tokenizer **ret)
{
    byte_tokenizer *t = mf_alloc(1, sizeof *t);
    if (!t) return MF_ENOMEM;
    t->base = (mf_tokenizer){
        .ops = &mf_tokenizer_byte, .pieces = BYTES, .longest = 1, .lossless = true};
    for (int i = 0; i < BYTES; i++)
        t->bytes[i] = (char)i;
    *ret = &t->base;
    return MF_OK;
}

static int train(const char *source, const char *text, size_t n,
                 const mf_tokenizer_options *options, mf_tokenizer **ret)
{
    (void)source;
    (void)text;
    (void)n;
    (void)options;
    return make(ret);
}

static int read_members(const char *source, const mf_json *object, mf_tokenizer **ret)
{
    (void)source;
    (void)object;
    return make(ret);
}

static int write_members(const mf_tokenizer *t, mf_jw *w)
{
    (void)t;
    (void)w;
    return MF_OK;
}

static int encode(const mf_tokenizer *t, const char *source, size_t base, const char *text,
                  size_t n, mf_ids *ids)
{
    (void)t;
    (void)source;
    int rc = mf_ids_reserve(ids, n);
    if (rc != MF_OK) return rc;
    for (size_t i = 0; i < n; i++) {
        ids->id[ids->n + i] = (unsigned char)text[i];
        if (ids->want_start) ids->start[ids->n + i] = base + i;
    }
    ids->n += n;
    return MF_OK;
}

static const char *piece(const mf_tokenizer *t, int32_t id, size_t *ret_n)
{
    *ret_n = 1;
    return &((const byte_tokenizer *)t)->bytes[id];
}

static size_t cut(const mf_tokenizer *t, const char *text, size_t n)
{
    (void)t;
    (void)text;
    return n;
}

static void destroy(mf_tokenizer *t)
{
    mf_free(t);
}

const mf_tokenizer_ops mf_tokenizer_byte = {
    .name = "byte",
    .encode = encode,
    .piece = piece,
    .write = write_members,
    .free = destroy,
    .train = train,
    .read = read_members,
    .cut = cut,
};
