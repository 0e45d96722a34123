/* run/folder/data_sums.c: sums of data. They are computed from values, not from bytes, if the
 * same tokens may be stored in words of another width. */
#include "run/folder/data_sums.h"
#include <stdio.h>
#include <string.h>
#include "base/file/io.h"

enum {
    HASH = 33,
    TEXT = (8 + 2 * MF_TASKS_MAX + MF_SPLITS) * 64,
    RUN = 4096,        /* number of tokens that are hashed at once */
    STRETCH = 16 << 20 /* number of bytes of a file after which its pages are released */
};

/* Adds the hash of n bytes to a text. */
static void add_hash(char *text, size_t size, const void *data, size_t n)
{
    char hash[HASH] = "";
    const size_t used = strlen(text);
    if (data) mf_hash_bytes(data, n, hash);
    snprintf(text + used, size - used, "%s %zu\n", hash, n);
}

/* Continues a sum: the new sum is the hash of the old sum and of the hash of n bytes. */
static void chain(char sum[HASH], const void *data, size_t n)
{
    char both[2 * HASH];
    snprintf(both, HASH, "%s", sum);
    mf_hash_bytes(data, n, both + strlen(both));
    mf_hash_bytes(both, strlen(both), sum);
}

/* ---- pieces ---- */

static void add_pieces(char *text, size_t size, const mf_corpus *c)
{
    enum { PIECES = 256, PIECE = 1024 };
    int32_t ids[PIECE];
    const int64_t pieces = c->tokens > PIECES * PIECE ? PIECES : (c->tokens - 1) / PIECE + 1;
    char sum[HASH] = "";
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t begin = pieces < PIECES ? p * PIECE : (c->tokens - PIECE) / pieces * p;
        int64_t n = 0;
        while (n < PIECE && begin + n < c->tokens) {
            ids[n] = mf_corpus_id(c, begin + n);
            n++;
        }
        chain(sum, ids, (size_t)n * sizeof *ids);
    }
    add_hash(text, size, sum, strlen(sum));
    add_hash(text, size, &c->tokens, sizeof c->tokens);
}

/* ---- all tokens ---- */

/* Tokens that are collected for a sum, RUN at a time. */
typedef struct run {
    uint32_t word[RUN];
    int n;
    char sum[HASH];
} run;

static void end_run(run *r)
{
    if (r->n > 0) chain(r->sum, r->word, (size_t)r->n * sizeof *r->word);
    r->n = 0;
}

/* Reads the word at an address. `bytes` is a constant, so the compiler makes a loop for
 * each width. */
static inline uint32_t word_at(const unsigned char *at, int bytes)
{
    uint32_t word = at[0];
    if (bytes > 1) word |= (uint32_t)at[1] << 8;
    if (bytes > 2) word |= (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    return word;
}

static inline void add_words(run *r, const mf_id_part *p, int64_t from, int64_t to, int bytes)
{
    const unsigned char *at = (const unsigned char *)p->ids + from * bytes;
    for (int64_t left = to - from; left > 0;) {
        const int64_t n = left < RUN - r->n ? left : RUN - r->n;
        for (int64_t i = 0; i < n; i++)
            r->word[r->n + i] = word_at(at + i * bytes, bytes);
        at += n * bytes;
        left -= n;
        r->n += (int)n;
        if (r->n == RUN) end_run(r);
    }
}

static void add_part(run *r, const mf_id_part *p)
{
    const int64_t stretch = STRETCH / p->id_bytes;
    mf_map_ordered(&p->map);
    for (int64_t from = 0; from < p->n; from += stretch) {
        const int64_t to = p->n - from < stretch ? p->n : from + stretch;
        if (p->id_bytes == 1)
            add_words(r, p, from, to, 1);
        else if (p->id_bytes == 2)
            add_words(r, p, from, to, 2);
        else
            add_words(r, p, from, to, 4);
        mf_map_release(&p->map);
    }
    mf_map_scattered(&p->map);
}

/* Adds all ids of a corpus in memory. They are read as numbers, because words in memory have
 * the byte order of the machine, and words in files are little-endian. */
static void add_memory(run *r, const mf_corpus *c)
{
    for (int64_t i = 0; i < c->tokens; i++) {
        r->word[r->n++] = (uint32_t)mf_corpus_id(c, i);
        if (r->n == RUN) end_run(r);
    }
}

/* Adds the sum of the tokens in memory to the text; with `mapped`, also of the tokens in
 * mapped files. */
static void add_tokens(char *text, size_t size, const mf_corpus *c, bool mapped)
{
    run r;
    r.n = 0;
    r.sum[0] = '\0';
    if (c->ids) add_memory(&r, c);
    for (int32_t i = 0; !c->ids && i < c->stored.n_parts; i++)
        if (mapped || c->stored.part[i].own) add_part(&r, &c->stored.part[i]);
    end_run(&r);
    add_hash(text, size, r.sum, strlen(r.sum));
    add_hash(text, size, &c->tokens, sizeof c->tokens);
}

/* ---- what is beside the tokens ---- */

static void add_rest(char *text, size_t size, const mf_corpus *c)
{
    const size_t spans = (size_t)c->n_spans;
    if (c->given_labels) add_hash(text, size, c->labels, (size_t)c->tokens);
    for (int32_t i = 0; c->given_labels && i < c->n_labels; i++)
        add_hash(text, size, c->label_names[i], strlen(c->label_names[i]));
    if (c->counted) add_hash(text, size, c->counted, (size_t)c->tokens);
    add_hash(text, size, c->spans, spans * sizeof *c->spans);
    for (int i = 0; i < c->n_more; i++) {
        add_hash(text, size, c->more[i].label, spans * sizeof(int32_t));
        add_hash(text, size, c->more[i].value, spans * sizeof(float));
    }
    for (int i = 0; i < MF_SPLITS; i++) {
        const int64_t range[2] = {c->split[i].begin, c->split[i].end};
        add_hash(text, size, range, sizeof range);
    }
}

/* Returns the bytes of mapped files, and the sum of their sizes and times of change. */
static size_t look_at_files(const mf_corpus *c, char sum[HASH])
{
    size_t bytes = 0;
    sum[0] = '\0';
    for (int32_t i = 0; !c->ids && i < c->stored.n_parts; i++) {
        const mf_id_part *p = &c->stored.part[i];
        const int64_t known[2] = {(int64_t)p->map.size, p->map.changed};
        if (p->own) continue;
        bytes += (size_t)p->n * (size_t)p->id_bytes;
        chain(sum, known, sizeof known);
    }
    return bytes;
}

void mf_data_sums_take(const mf_corpus *c, mf_data_sums *ret)
{
    char pieces[TEXT] = "", all[TEXT] = "";
    const bool large = look_at_files(c, ret->files) > MF_SUMS_MAPPED;
    if (!large) ret->files[0] = '\0';
    if (c->ids)
        add_hash(pieces, sizeof pieces, c->ids, (size_t)c->tokens * (size_t)c->id_bytes);
    else
        add_pieces(pieces, sizeof pieces, c);
    add_tokens(all, sizeof all, c, !large);
    if (large) add_pieces(all, sizeof all, c);
    add_rest(pieces, sizeof pieces, c);
    add_rest(all, sizeof all, c);
    mf_hash_bytes(pieces, strlen(pieces), ret->pieces);
    mf_hash_bytes(all, strlen(all), ret->all);
}
