/* data/tokenizer/bpe_train.c: trains the tokenizers bpe and bpe_bytes on a text. The result
 * depends only on the text and the options. */
#include "base/error.h"
#include "base/mem.h"
#include "data/tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, MERGES_DEFAULT = 100, VOCAB_DEFAULT = 30000, BYTES_VOCAB_DEFAULT = 4096 };

int mf_bpe_all_bytes(mf_strings *symbols)
{
    int rc = MF_OK;
    for (int i = 0; i < BYTES && rc == MF_OK; i++) {
        char c = (char)i;
        int32_t id;
        bool added;
        rc = mf_strings_add(symbols, &c, 1, &id, &added);
    }
    return rc;
}

static int learn_words(mf_learner *l, bool bytes, const char *source, const char *text,
                       size_t n)
{
    mf_bpe_word w = {.end = 0};
    int rc = MF_OK;
    while (rc == MF_OK && mf_bpe_next_word(bytes, source, 0, text, n, &w, &rc)) {
        int32_t symbol[MF_BPE_CHUNK + 1], count = 0;
        bool new, added;
        rc = mf_learner_word(l, w.text, w.n, &new);
        if (rc != MF_OK || !new) continue;
        for (size_t at = 0; at < w.n && rc == MF_OK; count++) {
            size_t length = mf_bpe_unit(bytes, w.text + at, w.n - at);
            rc = mf_strings_add(&l->symbols, w.text + at, length, &symbol[count], &added);
            at += length;
        }
        if (rc == MF_OK) rc = mf_learner_cut(l, symbol, count);
    }
    return rc;
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

/* Sorts the symbols by their bytes and renumbers the merges accordingly. */
static int sort_symbols(mf_learner *l, mf_strings *ret)
{
    size_t count = (size_t)l->symbols.n;
    sorted *order = mf_alloc(count, sizeof *order);
    int32_t *is = mf_alloc(count, sizeof *is);
    bool added;
    int rc = order && is ? MF_OK : MF_ENOMEM;
    for (size_t i = 0; i < count && rc == MF_OK; i++) {
        order[i].text = mf_strings_get(&l->symbols, (int32_t)i, &order[i].n);
        order[i].was = (int32_t)i;
    }
    if (rc == MF_OK) qsort(order, count, sizeof *order, by_bytes);
    for (size_t i = 0; i < count && rc == MF_OK; i++)
        rc = mf_strings_add(ret, order[i].text, order[i].n, &is[order[i].was], &added);
    for (int32_t i = 0; i < l->n_merges && rc == MF_OK; i++) {
        mf_merge *m = &l->merges[i];
        *m = (mf_merge){is[m->left], is[m->right], is[m->made]};
    }
    mf_free(order);
    mf_free(is);
    return rc;
}

/* ---- ids in the order of the layout vocab_dict ---- */

typedef struct listed {
    char text[MF_BPE_CHUNK_BYTES + 4];
    size_t n;
    int32_t *id; /* address at which the id is written */
} listed;

static int by_listed_text(const void *a, const void *b)
{
    const listed *x = a, *y = b;
    return compare(x->text, x->n, y->text, y->n);
}

/* <pad> gets id 0. The listed symbols, <unk> and the requested special tokens follow, sorted
 * together by their text in the layout vocab_dict. */
static int number_listed(const char *source, const mf_learner *l, uint32_t specials,
                         mf_bpe_numbers *ret)
{
    size_t n = 0;
    int rc = mf_bpe_numbers_new(l->symbols.n, MF_SPECIALS, ret);
    listed *all = rc == MF_OK ? mf_alloc((size_t)l->n_listed + MF_SPECIALS, sizeof *all) : NULL;
    if (!all) return MF_ENOMEM;
    for (int32_t i = 0; i < l->symbols.n; i++) {
        ret->id[i] = -1;
        if (!l->listed[i]) continue;
        size_t bytes;
        const char *text = mf_strings_get(&l->symbols, i, &bytes);
        all[n].n = mf_bpe_vocab_dict_text(text, bytes, all[n].text, sizeof all[n].text);
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
    qsort(all, n, sizeof *all, by_listed_text);
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
                            .keeps_counts = options->keeps_counts};
    if (vocab == 0)
        vocab =
            bytes ? BYTES_VOCAB_DEFAULT : VOCAB_DEFAULT + (options->keeps_counts ? shift : 0);
    rule.max_symbols = vocab - shift;
    int rc = bytes ? mf_bpe_all_bytes(&l->symbols) : MF_OK;
    if (rc == MF_OK) rc = learn_words(l, bytes, source, text, n);
    if (rc != MF_OK) return rc;
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
    const bool counts = options->keeps_counts;
    *ret = NULL;
    int rc = learn(&l, bytes, source, text, n, options);
    if (rc == MF_OK && counts) rc = number_listed(source, &l, options->specials, &numbers);
    if (rc == MF_OK && (bytes || counts)) {
        symbols = l.symbols;
        l.symbols = (mf_strings){0};
    } else if (rc == MF_OK) {
        rc = sort_symbols(&l, &symbols);
    }
    if (rc == MF_OK) {
        mf_merge *merges = l.merges;
        l.merges = NULL;
        rc = mf_bpe_make(source, bytes, &symbols, merges, l.n_merges, counts ? &numbers : NULL,
                         ret);
    }
    if (rc == MF_OK && counts && most_merges(options, bytes) < INT32_MAX)
        mf_bpe_set_max_iter(*ret, most_merges(options, bytes));
    mf_bpe_numbers_free(&numbers);
    mf_strings_free(&symbols);
    mf_learner_free(&l);
    return rc;
}

int mf_bpe_train_chars(const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret)
{
    return train_kind(source, text, n, false, options, ret);
}

int mf_bpe_train_bytes(const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret)
{
    if (options->keeps_counts)
        return mf_fail(MF_EUSAGE,
                       "the trainer vocab_dict makes tokenizers of kind bpe, not bpe_bytes");
    return train_kind(source, text, n, true, options, ret);
}
