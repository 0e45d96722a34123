/* gguf.c: the reader of gguf.h. Every length is compared with the rest of the file before it is
 * used, so a wrong length fails the test with a message. */
#include "tests/lib/gguf.h"

#include <check.h>
#undef fail
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file/io.h"
#include "tests/lib/scratch.h"

typedef struct cursor {
    const unsigned char *all;
    uint64_t n, at;
} cursor;

static const unsigned char *take(cursor *c, uint64_t n)
{
    ck_assert_msg(n <= c->n - c->at, "the file ends at %llu", (unsigned long long)c->n);
    c->at += n;
    return c->all + c->at - n;
}

static uint64_t number(cursor *c, int bytes)
{
    uint64_t value = 0;
    memcpy(&value, take(c, (uint64_t)bytes), (size_t)bytes);
    return value;
}

static char *text(cursor *c)
{
    const uint64_t n = number(c, 8);
    const unsigned char *from = take(c, n);
    char *out = calloc(1, n + 1);
    memcpy(out, from, n);
    return out;
}

static void skip_item(cursor *c, uint64_t type)
{
    if (type == 8)
        free(text(c));
    else
        take(c, 4);
    ck_assert(type == 5 || type == 6 || type == 8);
}

/* The value of a key as text. */
static char *value(cursor *c)
{
    char *out = calloc(1, 128);
    const uint64_t type = number(c, 4);
    float real;
    if (type == 8) {
        free(out);
        return text(c);
    }
    if (type == 9) {
        char hash[33];
        const uint64_t item = number(c, 4), n = number(c, 8), from = c->at;
        for (uint64_t i = 0; i < n; i++)
            skip_item(c, item);
        mf_hash_bytes(c->all + from, c->at - from, hash);
        snprintf(out, 128, "%llu items of type %llu %s", (unsigned long long)n,
                 (unsigned long long)item, hash);
    } else if (type == 4) {
        snprintf(out, 128, "%llu", (unsigned long long)number(c, 4));
    } else if (type == 6) {
        memcpy(&real, take(c, 4), 4);
        snprintf(out, 128, "%.9g", (double)real);
    } else {
        ck_assert_msg(type == 7, "a key of type %llu", (unsigned long long)type);
        snprintf(out, 128, "%s", number(c, 1) ? "true" : "false");
    }
    return out;
}

static const char *type_name(uint64_t type, uint64_t n, uint64_t *ret_bytes)
{
    *ret_bytes = type == 0 ? 4 * n : type == 39 ? n / 32 * 17 : 2 * n;
    ck_assert_msg(type == 0 || type == 1 || type == 30 || type == 39, "tensor of type %llu",
                  (unsigned long long)type);
    return type == 0 ? "F32" : type == 1 ? "F16" : type == 30 ? "BF16" : "MXFP4";
}

static void read_tensor(cursor *c, gguf_entry *e, uint64_t *ret_offset)
{
    uint64_t size[4], n = 1;
    e->name = text(c);
    const int rank = (int)number(c, 4);
    ck_assert(rank >= 1 && rank <= 4);
    for (int d = rank; d-- > 0; n *= size[d])
        size[d] = number(c, 8);
    e->text = calloc(1, 128);
    int at = snprintf(e->text, 128, "%s [", type_name(number(c, 4), n, &e->bytes));
    for (int d = 0; d < rank; d++)
        at += snprintf(e->text + at, 128 - (size_t)at, "%s%llu", d ? "," : "",
                       (unsigned long long)size[d]);
    snprintf(e->text + at, 128 - (size_t)at, "]");
    *ret_offset = number(c, 8);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const gguf_entry *)a)->name, ((const gguf_entry *)b)->name);
}

void gguf_open(gguf_file *f, const char *path)
{
    size_t n = 0;
    f->all = (unsigned char *)scratch_read(path, &n);
    ck_assert_msg(f->all != NULL, "%s: cannot be read", path);
    f->n = n;
    cursor c = {f->all, n, 0};
    ck_assert(memcmp(take(&c, 4), "GGUF", 4) == 0 && number(&c, 4) == 3);
    const int tensors = (int)number(&c, 8), keys = (int)number(&c, 8);
    ck_assert(tensors >= 0 && tensors < 100000 && keys >= 0 && keys < 1000);
    f->count = tensors + keys;
    f->entry = calloc((size_t)f->count + 1, sizeof *f->entry);
    uint64_t *offset = calloc((size_t)tensors + 1, sizeof *offset);
    for (int i = 0; i < keys; i++) {
        f->entry[i].name = text(&c);
        f->entry[i].text = value(&c);
    }
    for (int i = 0; i < tensors; i++)
        read_tensor(&c, &f->entry[keys + i], &offset[i]);
    const uint64_t base = (c.at + 31) / 32 * 32;
    uint64_t end = 0;
    for (int i = 0; i < tensors; i++) {
        gguf_entry *e = &f->entry[keys + i];
        ck_assert_msg(offset[i] == (end + 31) / 32 * 32, "%s: offset %llu", e->name,
                      (unsigned long long)offset[i]);
        end = offset[i] + e->bytes;
        ck_assert(base + end <= n);
        e->data = f->all + base + offset[i];
    }
    ck_assert_uint_eq(n, (base + end + 31) / 32 * 32);
    free(offset);
    qsort(f->entry, (size_t)f->count, sizeof *f->entry, by_name);
    for (int i = 1; i < f->count; i++)
        ck_assert_msg(by_name(&f->entry[i - 1], &f->entry[i]) != 0, "%s is there twice",
                      f->entry[i].name);
}

void gguf_close(gguf_file *f)
{
    for (int i = 0; i < f->count; i++) {
        free(f->entry[i].name);
        free(f->entry[i].text);
    }
    free(f->entry);
    free(f->all);
}

const gguf_entry *gguf_find(const gguf_file *f, const char *name)
{
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->entry[i].name, name) == 0) return &f->entry[i];
    return NULL;
}

char *gguf_lines(const gguf_file *f)
{
    char *out = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&out, &n);
    for (int i = 0; i < f->count; i++) {
        const gguf_entry *e = &f->entry[i];
        char hash[33] = "";
        if (e->data) mf_hash_bytes(e->data, e->bytes, hash);
        fprintf(to, "%s = ", e->name);
        for (const char *c = e->text; *c; c++) /* templates contain line ends */
            if (*c == '\n')
                fputs("\\n", to);
            else
                fputc(*c, to);
        fprintf(to, "%s%s\n", e->data ? " " : "", hash);
    }
    fclose(to);
    return out;
}
