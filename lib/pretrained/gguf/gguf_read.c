/* gguf/gguf_read.c: reads the header of a GGUF file. gguf_file.h has its layout. Every
 * number that comes from the file is compared with what is left of it before it is used. */
#include "pretrained/gguf/gguf_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "io/map.h"

/* Types of values. */
enum { U8, I8, U16, I16, U32, I32, REAL32, BOOL, TEXT, LIST, U64, I64, REAL64, VALUES };
enum { ALIGNMENT = 32, NAME = 256, TENSORS = 1 << 24 };

typedef struct key {
    mf_gguf_str name;
    uint32_t type, item; /* type of the value; type of the items of a list */
    uint64_t n;          /* number of items */
    int64_t whole;
    double real;
    mf_gguf_str text;
    const unsigned char *at; /* first item of a list of numbers */
    mf_gguf_str *texts;      /* [n] items of a list of texts */
    void *numbers;           /* [n] int64_t or float, made when they are first asked for */
} key;

struct mf_gguf_in {
    mf_arena *arena;
    mf_map map; /* of mf_gguf_open */
    const char *path;
    const unsigned char *data, *end;
    key *keys;
    uint64_t n_keys;
    mf_gguf_in_tensor *tensors; /* sorted by name */
    uint64_t n_tensors;
};

typedef struct reader {
    mf_gguf_in *f;
    const unsigned char *at, *end;
    int rc;
} reader;

static int fail(reader *r, const char *what)
{
    if (r->rc == MF_OK)
        r->rc = mf_fail(MF_EINPUT, "%s: byte %lld: %s", r->f->path,
                        (long long)(r->at - r->f->data), what);
    return r->rc;
}

/* Returns the next n bytes. NULL: the file is shorter, which is an error. */
static const unsigned char *take(reader *r, uint64_t n)
{
    const unsigned char *at = r->at;
    if (r->rc != MF_OK) return NULL;
    if (n > (uint64_t)(r->end - r->at)) {
        fail(r, "the file ends here");
        return NULL;
    }
    r->at += n;
    return at;
}

static uint64_t number(reader *r, size_t size)
{
    uint64_t v = 0;
    const unsigned char *at = take(r, size);
    for (size_t i = size; at && i-- > 0;)
        v = v << 8 | at[i];
    return v;
}

static mf_gguf_str text(reader *r)
{
    mf_gguf_str s = {"", 0};
    const uint64_t n = number(r, 8);
    const unsigned char *at = take(r, n);
    if (at) s = (mf_gguf_str){(const char *)at, (size_t)n};
    return s;
}

static size_t size_of(uint32_t type)
{
    static const size_t size[VALUES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < VALUES ? size[type] : 0;
}

/* ---- keys ---- */

static bool is_whole(uint32_t type)
{
    return type <= I32 || type == U64 || type == I64;
}

/* Returns a whole number with its sign. */
static int64_t whole_of(uint32_t type, uint64_t bits)
{
    return type == I8    ? (int8_t)bits
           : type == I16 ? (int16_t)bits
           : type == I32 ? (int32_t)bits
                         : (int64_t)bits;
}

static double real_of(uint32_t type, uint64_t bits)
{
    const uint32_t half = (uint32_t)bits;
    float single;
    double all;
    memcpy(&single, &half, sizeof single);
    memcpy(&all, &bits, sizeof all);
    return type == REAL32 ? (double)single : all;
}

static void read_list(reader *r, key *k)
{
    k->item = (uint32_t)number(r, 4);
    k->n = number(r, 8);
    if (r->rc != MF_OK) return;
    if (k->item == TEXT) {
        /* a text has at least the 8 bytes of its length */
        if (k->n > (uint64_t)(r->end - r->at) / 8) {
            fail(r, "a list is longer than the file");
            return;
        }
        k->texts = mf_arena_alloc(r->f->arena, (size_t)k->n * sizeof *k->texts + 1);
        if (!k->texts) {
            r->rc = MF_ENOMEM;
            return;
        }
        for (uint64_t i = 0; i < k->n && r->rc == MF_OK; i++)
            k->texts[i] = text(r);
        return;
    }
    const size_t size = size_of(k->item);
    if (size == 0)
        fail(r, "a list of a type that cannot be read");
    else if (k->n > (uint64_t)(r->end - r->at) / size)
        fail(r, "a list is longer than the file");
    else
        k->at = take(r, k->n * size);
}

static void read_key(reader *r, key *k)
{
    *k = (key){.name = text(r)};
    k->type = (uint32_t)number(r, 4);
    if (r->rc != MF_OK) return;
    if (k->type == TEXT) {
        k->text = text(r);
    } else if (k->type == LIST) {
        read_list(r, k);
    } else if (size_of(k->type) > 0) {
        const uint64_t bits = number(r, size_of(k->type));
        k->whole = whole_of(k->type, bits);
        k->real = real_of(k->type, bits);
    } else {
        fail(r, "a value of a type that cannot be read");
    }
}

static key *find(const mf_gguf_in *f, const char *name)
{
    const size_t n = strlen(name);
    for (uint64_t i = 0; i < f->n_keys; i++)
        if (f->keys[i].name.n == n && memcmp(f->keys[i].name.text, name, n) == 0)
            return &f->keys[i];
    return NULL;
}

bool mf_gguf_get_int(const mf_gguf_in *f, const char *name, int64_t *ret)
{
    const key *k = find(f, name);
    if (!k || !is_whole(k->type)) return false;
    *ret = k->whole;
    return true;
}

bool mf_gguf_get_real(const mf_gguf_in *f, const char *name, double *ret)
{
    const key *k = find(f, name);
    if (!k || (k->type != REAL32 && k->type != REAL64)) return false;
    *ret = k->real;
    return true;
}

bool mf_gguf_get_bool(const mf_gguf_in *f, const char *name, bool *ret)
{
    const key *k = find(f, name);
    if (!k || k->type != BOOL) return false;
    *ret = k->whole != 0;
    return true;
}

bool mf_gguf_get_str(const mf_gguf_in *f, const char *name, mf_gguf_str *ret)
{
    const key *k = find(f, name);
    if (!k || k->type != TEXT) return false;
    *ret = k->text;
    return true;
}

bool mf_gguf_get_strs(const mf_gguf_in *f, const char *name, const mf_gguf_str **ret,
                      int64_t *ret_n)
{
    const key *k = find(f, name);
    if (!k || k->type != LIST || k->item != TEXT) return false;
    *ret = k->texts;
    *ret_n = (int64_t)k->n;
    return true;
}

/* Returns item i of a list of numbers, as bits. */
static uint64_t bits_at(const key *k, uint64_t i)
{
    const size_t size = size_of(k->item);
    uint64_t v = 0;
    for (size_t b = size; b-- > 0;)
        v = v << 8 | k->at[i * size + b];
    return v;
}

bool mf_gguf_get_ints(const mf_gguf_in *f, const char *name, const int64_t **ret,
                      int64_t *ret_n)
{
    key *k = find(f, name);
    if (!k || k->type != LIST || !is_whole(k->item)) return false;
    if (!k->numbers) {
        int64_t *list = mf_arena_alloc(f->arena, (size_t)k->n * sizeof *list + 1);
        for (uint64_t i = 0; list && i < k->n; i++)
            list[i] = whole_of(k->item, bits_at(k, i));
        k->numbers = list;
    }
    *ret = k->numbers;
    *ret_n = (int64_t)k->n;
    return k->numbers != NULL;
}

bool mf_gguf_get_reals(const mf_gguf_in *f, const char *name, const float **ret, int64_t *ret_n)
{
    key *k = find(f, name);
    if (!k || k->type != LIST || (k->item != REAL32 && k->item != REAL64)) return false;
    if (!k->numbers) {
        float *list = mf_arena_alloc(f->arena, (size_t)k->n * sizeof *list + 1);
        for (uint64_t i = 0; list && i < k->n; i++)
            list[i] = (float)real_of(k->item, bits_at(k, i));
        k->numbers = list;
    }
    *ret = k->numbers;
    *ret_n = (int64_t)k->n;
    return k->numbers != NULL;
}

/* ---- tensors ---- */

static void refuse_type(reader *r, const mf_gguf_in_tensor *t)
{
    const char *name = mf_gguf_type_name(t->type);
    if (r->rc == MF_OK)
        r->rc = mf_fail(MF_EINPUT,
                        "%s: tensor '%s' has the type %s%.0u, which is not read; expected F32, "
                        "F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K or MXFP4: "
                        "llama-quantize --allow-requantize makes Q8_0 of it",
                        r->f->path, mf_shown(t->name), name ? name : "number ",
                        name ? 0U : t->type);
}

/* Reads the line of a tensor. *ret_at: the offset of its data. */
static void read_tensor(reader *r, mf_gguf_in_tensor *t, uint64_t *ret_at)
{
    const mf_gguf_str name = text(r);
    const uint64_t rank = number(r, 4);
    int64_t elements, bytes;
    if (r->rc != MF_OK) return;
    if (name.n == 0 || name.n >= NAME || memchr(name.text, 0, name.n) || rank < 1 || rank > 4) {
        fail(r, "expected the name of a tensor, of 1 to 255 bytes, and a rank from 1 to 4");
        return;
    }
    char *own = mf_arena_alloc(r->f->arena, name.n + 1);
    if (own) memcpy(own, name.text, name.n);
    t->name = own;
    t->rank = (int)rank;
    t->count = 1;
    for (uint64_t d = rank; d-- > 0;) { /* the innermost dimension comes first */
        const uint64_t size = number(r, 8);
        if (size < 1 || size > (uint64_t)(INT64_MAX / 256 / t->count)) {
            fail(r, "a tensor of a size that no file has");
            return;
        }
        t->shape[d] = (int64_t)size;
        t->count *= (int64_t)size;
    }
    t->type = (uint32_t)number(r, 4);
    *ret_at = number(r, 8);
    if (r->rc == MF_OK && !t->name) r->rc = MF_ENOMEM;
    if (r->rc != MF_OK) return;
    if (!mf_gguf_block(t->type, &elements, &bytes)) {
        refuse_type(r, t);
    } else if (t->shape[rank - 1] % elements != 0) {
        fail(r, "rows of a tensor are no whole number of blocks");
    } else {
        t->bytes = (uint64_t)(t->count / elements * bytes);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const mf_gguf_in_tensor *)a)->name, ((const mf_gguf_in_tensor *)b)->name);
}

static void read_tensors(reader *r)
{
    mf_gguf_in *f = r->f;
    int64_t alignment = ALIGNMENT;
    uint64_t *at = mf_alloc((size_t)f->n_tensors + 1, sizeof *at);
    if (!at) {
        r->rc = MF_ENOMEM;
        return;
    }
    for (uint64_t i = 0; i < f->n_tensors && r->rc == MF_OK; i++)
        read_tensor(r, &f->tensors[i], &at[i]);
    mf_gguf_get_int(f, "general.alignment", &alignment);
    if (alignment < 1 || alignment > 1 << 20 || alignment & (alignment - 1))
        fail(r, "general.alignment: expected a power of 2 up to 1048576");
    const uint64_t header = (uint64_t)(r->at - f->data),
                   from = (header + (uint64_t)alignment - 1) & ~((uint64_t)alignment - 1),
                   size = (uint64_t)(f->end - f->data);
    for (uint64_t i = 0; i < f->n_tensors && r->rc == MF_OK; i++) {
        mf_gguf_in_tensor *t = &f->tensors[i];
        if (from > size || at[i] > size - from || t->bytes > size - from - at[i])
            r->rc = mf_fail(MF_EINPUT, "%s: the data of tensor '%s' are outside of the file",
                            f->path, mf_shown(t->name));
        else
            t->data = f->data + from + at[i];
    }
    mf_free(at);
    if (r->rc != MF_OK) return;
    qsort(f->tensors, (size_t)f->n_tensors, sizeof *f->tensors, by_name);
    for (uint64_t i = 1; i < f->n_tensors && r->rc == MF_OK; i++)
        if (by_name(&f->tensors[i - 1], &f->tensors[i]) == 0)
            r->rc = mf_fail(MF_EINPUT, "%s: tensor '%s' occurs twice", f->path,
                            mf_shown(f->tensors[i].name));
}

int64_t mf_gguf_tensors(const mf_gguf_in *f)
{
    return (int64_t)f->n_tensors;
}

const mf_gguf_in_tensor *mf_gguf_tensor_at(const mf_gguf_in *f, int64_t i)
{
    return &f->tensors[i];
}

const mf_gguf_in_tensor *mf_gguf_tensor_find(const mf_gguf_in *f, const char *name)
{
    const mf_gguf_in_tensor wanted = {.name = name};
    return f->n_tensors == 0 ? NULL
                             : bsearch(&wanted, f->tensors, (size_t)f->n_tensors,
                                       sizeof *f->tensors, by_name);
}

/* ---- the file ---- */

static int read_all(mf_gguf_in *f)
{
    reader r = {.f = f, .at = f->data, .end = f->end};
    const unsigned char *magic = take(&r, 4);
    if (magic && memcmp(magic, "GGUF", 4) != 0) return fail(&r, "expected a file of GGUF");
    const uint64_t version = number(&r, 4);
    if (r.rc == MF_OK && version != 2 && version != 3)
        return fail(&r, version >> 16 ? "expected little-endian numbers"
                                      : "expected version 2 or 3 of GGUF");
    f->n_tensors = number(&r, 8);
    const uint64_t n_keys = number(&r, 8);
    /* a key takes at least 13 bytes, and a tensor 32 */
    if (r.rc == MF_OK && (n_keys > (uint64_t)(r.end - r.at) / 13 || f->n_tensors > TENSORS ||
                          f->n_tensors > (uint64_t)(r.end - r.at) / 32))
        return fail(&r, "more keys and tensors than the file has bytes for");
    if (r.rc != MF_OK) return r.rc;
    f->keys = mf_arena_alloc(f->arena, (size_t)n_keys * sizeof *f->keys + 1);
    f->tensors = mf_arena_alloc(f->arena, (size_t)f->n_tensors * sizeof *f->tensors + 1);
    if (!f->keys || !f->tensors) return MF_ENOMEM;
    for (uint64_t i = 0; i < n_keys && r.rc == MF_OK; i++) {
        read_key(&r, &f->keys[i]);
        f->n_keys = i + 1;
    }
    if (r.rc == MF_OK) read_tensors(&r);
    return r.rc;
}

static int new_file(const char *path, mf_gguf_in **ret)
{
    mf_arena *arena = mf_arena_new();
    mf_gguf_in *f = arena ? mf_arena_alloc(arena, sizeof *f) : NULL;
    if (!f) {
        mf_arena_free(arena);
        return MF_ENOMEM;
    }
    *f = (mf_gguf_in){.arena = arena, .path = mf_arena_strdup(arena, path)};
    *ret = f;
    return f->path ? MF_OK : MF_ENOMEM;
}

int mf_gguf_parse(const char *name, const void *data, size_t n, mf_gguf_in **ret)
{
    int rc = new_file(name, ret);
    if (rc != MF_OK) return rc;
    (*ret)->data = data;
    (*ret)->end = (*ret)->data + n;
    rc = n < 4 ? mf_fail(MF_EINPUT, "%s: expected a file of GGUF", name) : read_all(*ret);
    if (rc == MF_OK) return rc;
    mf_gguf_close(*ret);
    *ret = NULL;
    return rc;
}

int mf_gguf_open(const char *path, mf_gguf_in **ret)
{
    mf_map map;
    int rc = mf_map_open(path, &map);
    if (rc != MF_OK) return rc;
    rc = mf_gguf_parse(path, map.data, map.size, ret);
    if (rc == MF_OK)
        (*ret)->map = map;
    else
        mf_map_close(&map);
    return rc;
}

void mf_gguf_close(mf_gguf_in *f)
{
    if (!f) return;
    if (f->map.data) mf_map_close(&f->map);
    mf_arena_free(f->arena);
}

const char *mf_gguf_path(const mf_gguf_in *f)
{
    return f->path;
}
