/* data/bpe_train.c: the tokenizers bpe and bpe_bytes made from a text. */
#include "base/error.h"
#include "base/mem.h"
#include "data/bpe.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, MERGES_DEFAULT = 100, VOCAB_DEFAULT = 30000, BYTES_VOCAB_DEFAULT = 4096 };

int mf_bpe_all_bytes(mf_strings *symbols)
{
    int code = MF_OK;
    for (int i = 0; i < BYTES && code == MF_OK; i++) {
        char c = (char)i;
        int32_t id;
        bool added;
        code = mf_strings_add(symbols, &c, 1, &id, &added);
    }
    return code;
}

static int learn_words(mf_learner *l, bool bytes, const char *source, const char *text,
                       size_t n)
{
    mf_bpe_word w = {.end = 0};
    int code = MF_OK;
    while (code == MF_OK && mf_bpe_next_word(bytes, source, 0, text, n, &w, &code)) {
        int32_t symbol[MF_BPE_CHUNK + 1], count = 0;
        bool new, added;
        code = mf_learner_word(l, w.text, w.n, &new);
        if (code != MF_OK || !new) continue;
        for (size_t at = 0; at < w.n && code == MF_OK; count++) {
            size_t length = mf_bpe_unit(bytes, w.text + at, w.n - at);
            code = mf_strings_add(&l->symbols, w.text + at, length, &symbol[count], &added);
            at += length;
        }
        if (code == MF_OK) code = mf_learner_cut(l, symbol, count);
    }
    return code;
}

typedef struct sorted {
    const char *text;
    size_t n;
    int32_t was;
} sorted;

static int compare(const char *x, size_t n, const char *y, size_t m)
{
    int order = memcmp(x, y, n < m ? n : m);
    return order != 0 ? order : (n > m) - (n < m);
}

static int by_bytes(const void *a, const void *b)
{
    const sorted *x = a, *y = b;
    return compare(x->text, x->n, y->text, y->n);
}

/* The symbols in the order of their bytes, and merges with them. */
static int sort_symbols(mf_learner *l, mf_strings *ret)
{
    size_t count = (size_t)l->symbols.n;
    sorted *order = mf_alloc(count, sizeof *order);
    int32_t *is = mf_alloc(count, sizeof *is);
    bool added;
    int code = order != NULL && is != NULL ? MF_OK : MF_ENOMEM;
    for (size_t i = 0; i < count && code == MF_OK; i++) {
        order[i].text = mf_strings_get(&l->symbols, (int32_t)i, &order[i].n);
        order[i].was = (int32_t)i;
    }
    if (code == MF_OK) qsort(order, count, sizeof *order, by_bytes);
    for (size_t i = 0; i < count && code == MF_OK; i++)
        code = mf_strings_add(ret, order[i].text, order[i].n, &is[order[i].was], &added);
    for (int32_t i = 0; i < l->n_merges && code == MF_OK; i++) {
        mf_merge *m = &l->merges[i];
        *m = (mf_merge){is[m->left], is[m->right], is[m->made]};
    }
    mf_free(order);
    mf_free(is);
    return code;
}

/* ---- as LaMoE's trainer numbers them ---- */

typedef struct listed {
    char text[MF_BPE_CHUNK_BYTES + 4];
    size_t n;
    int32_t *id; /* where the id goes */
} listed;

static int by_lamoe_text(const void *a, const void *b)
{
    const listed *x = a, *y = b;
    return compare(x->text, x->n, y->text, y->n);
}

/* <pad>, then the listed symbols, <unk> and the specials asked for, sorted as its file has
 * them. */
static int number_listed(const char *source, const mf_learner *l, uint32_t specials,
                         mf_bpe_numbers *ret)
{
    size_t n = 0;
    int code = mf_bpe_numbers_new(l->symbols.n, MF_SPECIALS, ret);
    listed *all =
        code == MF_OK ? mf_alloc((size_t)l->n_listed + MF_SPECIALS, sizeof *all) : NULL;
    if (all == NULL) return MF_ENOMEM;
    for (int32_t i = 0; i < l->symbols.n; i++) {
        ret->id[i] = -1;
        if (!l->listed[i]) continue;
        size_t bytes;
        const char *text = mf_strings_get(&l->symbols, i, &bytes);
        all[n].n = mf_bpe_lamoe_text(text, bytes, all[n].text, sizeof all[n].text);
        all[n++].id = &ret->id[i];
    }
    specials |= MF_SPECIAL_BIT(MF_SPECIAL_UNK);
    for (int s = 0; s < MF_SPECIALS; s++) {
        if (s == MF_SPECIAL_PAD || !(specials & MF_SPECIAL_BIT(s))) continue;
        const char *name = mf_special_name((mf_special)s);
        all[n].n = strlen(name);
        memcpy(all[n].text, name, all[n].n);
        all[n++].id = &ret->special[s];
    }
    qsort(all, n, sizeof *all, by_lamoe_text);
    ret->special[MF_SPECIAL_PAD] = 0;
    for (size_t i = 0; i < n; i++)
        *all[i].id = (int32_t)i + 1;
    mf_free(all);
    return mf_bpe_numbers_settle(source, l->symbols.n, ret);
}

/* ---- all kinds ---- */

static int32_t most_merges(const mf_tokenizer_options *options, bool bytes)
{
    if (options->merges > 0) return options->merges;
    return bytes || options->vocab_size > 0 ? INT32_MAX : MERGES_DEFAULT;
}

static int learn(mf_learner *l, bool bytes, const char *source, const char *text, size_t n,
                 const mf_tokenizer_options *options)
{
    int32_t vocab = options->vocab_size, shift = bytes ? 0 : MF_BPE_OWN_SPECIALS;
    mf_learner_rule rule = {.min_count = options->min_count,
                            .max_merges = most_merges(options, bytes),
                            .lamoe = options->lamoe};
    if (vocab == 0)
        vocab = bytes ? BYTES_VOCAB_DEFAULT : VOCAB_DEFAULT + (options->lamoe ? shift : 0);
    rule.max_symbols = vocab - shift;
    int code = bytes ? mf_bpe_all_bytes(&l->symbols) : MF_OK;
    if (code == MF_OK) code = learn_words(l, bytes, source, text, n);
    if (code != MF_OK) return code;
    if (l->symbols.n == 0)
        return mf_fail(MF_EINPUT, "%s: no word to make a vocabulary of", source);
    if (l->symbols.n > rule.max_symbols)
        return mf_fail(MF_EINPUT,
                       "%s: a vocabulary of %d cannot hold its %s: expected %d or more", source,
                       (int)vocab, bytes ? "bytes" : "characters", (int)(l->symbols.n + shift));
    return mf_learner_run(l, &rule);
}

static int train_kind(const char *source, const char *text, size_t n, bool bytes,
                      const mf_tokenizer_options *options, mf_tokenizer **ret)
{
    mf_learner l = {0};
    mf_strings symbols = {0};
    mf_bpe_numbers numbers = {0};
    const bool lamoe = options->lamoe;
    *ret = NULL;
    int code = learn(&l, bytes, source, text, n, options);
    if (code == MF_OK && lamoe) code = number_listed(source, &l, options->specials, &numbers);
    if (code == MF_OK && (bytes || lamoe)) {
        symbols = l.symbols;
        l.symbols = (mf_strings){0};
    } else if (code == MF_OK) {
        code = sort_symbols(&l, &symbols);
    }
    if (code == MF_OK) {
        mf_merge *merges = l.merges;
        l.merges = NULL;
        code = mf_bpe_make(source, bytes, &symbols, merges, l.n_merges, lamoe ? &numbers : NULL,
                           ret);
    }
    if (code == MF_OK && lamoe && most_merges(options, bytes) < INT32_MAX)
        mf_bpe_set_max_iter(*ret, most_merges(options, bytes));
    mf_bpe_numbers_free(&numbers);
    mf_strings_free(&symbols);
    mf_learner_free(&l);
    return code;
}

int mf_bpe_train_chars(const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret)
{
    return train_kind(source, text, n, false, options, ret);
}

int mf_bpe_train_bytes(const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret)
{
    if (options->lamoe)
        return mf_fail(MF_EUSAGE,
                       "LaMoE's trainer makes tokenizers of kind bpe, not bpe_bytes");
    return train_kind(source, text, n, true, options, ret);
}
