/* data/tokenizer/tokenizer_bpe.c: byte pair encoding (Sennrich, Haddow and Birch 2016), of
 * characters and of bytes. Encoding repeats the merges in the order of learning, each over the
 * whole word from left to right. Words are cut after 256 characters.
 *
 *   bpe        Words are separated by blanks (ASCII). A word is its characters and an end of
 *              word, which is written and decoded as a blank after it. Ids: <pad>, <unk>, then
 *              the symbols sorted by their bytes. An imported vocabulary has ids of its own in
 *              `numbers`; symbols without an id encode as <unk>.
 *   bpe_bytes  A word is a run of letters (with all bytes from 0x80), of digits, of other
 *              characters or of blanks; one blank before a word belongs to it. Ids: the 256
 *              bytes, then the merges in their order. */
#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/tokenizer_kinds.h"

#include <string.h>

enum {
    CHUNK = MF_BPE_CHUNK,
    CHUNK_BYTES = MF_BPE_CHUNK_BYTES,
    OWN_SPECIALS = MF_BPE_OWN_SPECIALS
};

typedef struct bpe {
    mf_tokenizer base;
    mf_strings symbols; /* if there are no `numbers`, the id of a symbol is its index
                         * + `shift` */
    int32_t shift;
    mf_bpe_numbers numbers;
    mf_merge *merges;
    int32_t n_merges;
    int32_t max_iter; /* see mf_bpe_parts */
    int32_t *slot;    /* hash table of merges by pair: index + 1, 0: free */
    size_t slots;
} bpe;

/* ---- ids ---- */

void mf_bpe_numbers_free(mf_bpe_numbers *x)
{
    mf_free(x->id);
    mf_free(x->symbol);
    *x = (mf_bpe_numbers){0};
}

static int32_t id_of(const bpe *t, int32_t symbol)
{
    const int32_t id = symbol < 0      ? -1
                       : t->numbers.id ? t->numbers.id[symbol]
                                       : symbol + t->shift;
    return id >= 0 ? id : t->base.special[MF_SPECIAL_UNK];
}

bool mf_bpe_parts_of(const mf_tokenizer *base, mf_bpe_parts *ret)
{
    const bpe *t = (const bpe *)base;
    if (base->ops != &mf_tokenizer_bpe && base->ops != &mf_tokenizer_bpe_bytes) return false;
    *ret = (mf_bpe_parts){&t->symbols, t->merges, t->n_merges, t->max_iter};
    return true;
}

int32_t mf_bpe_symbol_of(const mf_tokenizer *base, int32_t id)
{
    const bpe *t = (const bpe *)base;
    if (id < 0 || id >= base->pieces) return -1;
    const int32_t symbol = t->numbers.id ? t->numbers.symbol[id] : id - t->shift;
    return symbol >= 0 ? symbol : -1;
}

void mf_bpe_set_max_iter(mf_tokenizer *base, int32_t max_iter)
{
    ((bpe *)base)->max_iter = max_iter;
}

void mf_bpe_read_max_iter(mf_tokenizer *base, const mf_json *object)
{
    int64_t max_iter;
    if (mf_json_int(mf_json_get(object, "max_iter"), &max_iter) && max_iter > 0 &&
        max_iter <= INT32_MAX)
        mf_bpe_set_max_iter(base, (int32_t)max_iter);
}

/* ---- encoding ---- */

static size_t slot_of(const bpe *t, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    size_t at = (h >> 32 ^ h) & (t->slots - 1);
    while (t->slot[at] != 0 && (t->merges[t->slot[at] - 1].left != left ||
                                t->merges[t->slot[at] - 1].right != right))
        at = (at + 1) & (t->slots - 1);
    return at;
}

/* The earliest merge after `last` that two neighbours allow; -1: none. */
static int32_t next_merge(const bpe *t, const int32_t *symbol, int32_t n, int32_t last)
{
    int32_t best = -1;
    for (int32_t i = 0; i + 1 < n; i++) {
        int32_t m = t->slot[slot_of(t, symbol[i], symbol[i + 1])] - 1;
        if (m > last && (best < 0 || m < best)) best = m;
    }
    return best;
}

static int encode_word(const bpe *t, const mf_bpe_word *w, size_t base, mf_ids *ids)
{
    int32_t symbol[CHUNK + 1], n = 0;
    size_t start[CHUNK + 1], last = 0;
    bool bytes = t->base.lossless;
    for (size_t at = 0; at < w->n; n++) {
        size_t length = mf_bpe_unit(bytes, w->text + at, w->n - at);
        symbol[n] = mf_strings_find(&t->symbols, w->text + at, length);
        /* An end-of-word symbol that was not merged gets the offset of the last character. */
        start[n] = !bytes && w->text[at] == ' ' ? last : at;
        last = at;
        at += length;
    }
    for (int32_t m = -1; (m = next_merge(t, symbol, n, m)) >= 0;) {
        int32_t to = 0;
        for (int32_t i = 0; i < n; i++, to++) {
            bool both = i + 1 < n && symbol[i] == t->merges[m].left &&
                        symbol[i + 1] == t->merges[m].right;
            start[to] = start[i];
            symbol[to] = both ? t->merges[m].made : symbol[i];
            i += both;
        }
        n = to;
    }
    for (int32_t i = 0; i < n; i++) {
        int rc = mf_ids_push(ids, id_of(t, symbol[i]), base + w->start + start[i]);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

static int encode(const mf_tokenizer *base, const char *source, size_t offset, const char *text,
                  size_t n, mf_ids *ids)
{
    const bpe *t = (const bpe *)base;
    mf_bpe_word w = {.end = 0};
    int rc = MF_OK;
    while (rc == MF_OK && mf_bpe_next_word(base->lossless, source, offset, text, n, &w, &rc))
        rc = encode_word(t, &w, offset, ids);
    return rc;
}

static const char *piece(const mf_tokenizer *base, int32_t id, size_t *ret_n)
{
    const bpe *t = (const bpe *)base;
    const int32_t symbol = mf_bpe_symbol_of(base, id);
    *ret_n = 0;
    return symbol >= 0 ? mf_strings_get(&t->symbols, symbol, ret_n) : "";
}

int mf_bpe_numbers_new(int32_t symbols, size_t specials, mf_bpe_numbers *ret)
{
    *ret = (mf_bpe_numbers){0};
    for (int s = 0; s < MF_SPECIALS; s++)
        ret->special[s] = -1;
    ret->id = mf_alloc((size_t)symbols + 1, sizeof *ret->id);
    ret->symbol = mf_alloc((size_t)symbols + specials + 1, sizeof *ret->symbol);
    ret->room = (size_t)symbols + specials;
    return ret->id && ret->symbol ? MF_OK : MF_ENOMEM;
}

/* Every id from 0 to the last one must belong to exactly one symbol or special token. */
int mf_bpe_numbers_settle(const char *source, int32_t symbols, mf_bpe_numbers *x)
{
    enum { FREE = -2, SPECIAL = -1 };
    size_t n = 0;
    for (int32_t i = 0; i < symbols; i++)
        n += x->id[i] >= 0;
    for (int s = 0; s < MF_SPECIALS; s++)
        n += x->special[s] >= 0;
    for (size_t i = 0; i < n && i < x->room; i++)
        x->symbol[i] = FREE;
    for (int32_t i = 0; i < symbols + MF_SPECIALS; i++) {
        const int32_t id = i < symbols ? x->id[i] : x->special[i - symbols];
        if (id < 0) continue;
        if ((size_t)id >= n || n > x->room || x->symbol[id] != FREE)
            return mf_fail(MF_EINPUT, "%s: id %d: expected each of 0 to %zu once", source,
                           (int)id, n - 1);
        x->symbol[id] = i < symbols ? i : SPECIAL;
    }
    if (x->special[MF_SPECIAL_UNK] < 0)
        return mf_fail(MF_EINPUT, "%s: expected an id of <unk>", source);
    x->n = (int32_t)n;
    return MF_OK;
}

/* ---- construction and reading ---- */

static void destroy(mf_tokenizer *base)
{
    bpe *t = (bpe *)base;
    mf_strings_free(&t->symbols);
    mf_bpe_numbers_free(&t->numbers);
    mf_free(t->merges);
    mf_free(t->slot);
    mf_free(t);
}

static int rank_merges(const char *source, bpe *t)
{
    t->slots = 16;
    while (t->slots < 2 * (size_t)t->n_merges)
        t->slots *= 2;
    t->slot = mf_alloc(t->slots, sizeof *t->slot);
    if (!t->slot) return MF_ENOMEM;
    for (int32_t i = 0; i < t->n_merges; i++) {
        size_t at = slot_of(t, t->merges[i].left, t->merges[i].right);
        if (t->slot[at] != 0)
            return mf_fail(MF_EINPUT, "%s: \"merges\": entry %d is there before, as entry %d",
                           source, (int)i, (int)t->slot[at] - 1);
        t->slot[at] = i + 1;
    }
    return MF_OK;
}

int mf_bpe_make(const char *source, bool bytes, mf_strings *symbols, mf_merge *merges,
                int32_t n_merges, mf_bpe_numbers *numbers, mf_tokenizer **ret)
{
    bpe *t = mf_alloc(1, sizeof *t);
    *ret = NULL;
    if (!t) {
        mf_strings_free(symbols);
        mf_free(merges);
        if (numbers) mf_bpe_numbers_free(numbers);
        return MF_ENOMEM;
    }
    t->shift = bytes ? 0 : OWN_SPECIALS;
    t->symbols = *symbols;
    t->merges = merges;
    t->n_merges = n_merges;
    *symbols = (mf_strings){0};
    t->base = (mf_tokenizer){.ops = bytes ? &mf_tokenizer_bpe_bytes : &mf_tokenizer_bpe,
                             .pieces = t->symbols.n + t->shift,
                             .own_specials = !bytes,
                             .lossless = bytes};
    for (int s = 0; s < MF_SPECIALS; s++)
        t->base.special[s] = numbers ? numbers->special[s] : -1;
    if (numbers) {
        t->numbers = *numbers;
        t->base.pieces = numbers->n;
        *numbers = (mf_bpe_numbers){0};
    } else if (!bytes) {
        t->base.special[MF_SPECIAL_PAD] = 0;
        t->base.special[MF_SPECIAL_UNK] = 1;
    }
    for (int32_t i = 0; i < t->symbols.n; i++) {
        size_t n;
        mf_strings_get(&t->symbols, i, &n);
        if (n > t->base.longest) t->base.longest = n;
    }
    int rc = rank_merges(source, t);
    if (rc == MF_OK)
        *ret = &t->base;
    else
        destroy(&t->base);
    return rc;
}

/* Reads the symbols of bpe. They must be sorted unless the vocabulary has ids of its own. */
static int read_vocabulary(const char *source, const mf_json *list, bool sorted,
                           mf_strings *symbols)
{
    size_t n_last = 0;
    const char *last = "";
    if (mf_json_typeof(list) != MF_JSON_ARRAY || mf_json_size(list) == 0)
        return mf_fail(MF_EINPUT, "%s: \"vocabulary\": expected a list of symbols", source);
    for (size_t i = 0; i < mf_json_size(list); i++) {
        int32_t id;
        bool added;
        size_t n = 0;
        const char *text = mf_json_string(mf_json_at(list, i), &n);
        int order = text && sorted ? memcmp(last, text, n < n_last ? n : n_last) : 0;
        if (!text || n == 0 || n > CHUNK_BYTES || order > 0 ||
            (sorted && order == 0 && n <= n_last))
            return mf_fail(MF_EINPUT,
                           "%s: \"vocabulary\": entry %zu: expected a string of 1 to %d bytes "
                           "that sorts behind the one before",
                           source, i, CHUNK_BYTES);
        int rc = mf_strings_add(symbols, text, n, &id, &added);
        if (rc != MF_OK) return rc;
        if (!added)
            return mf_fail(MF_EINPUT, "%s: \"vocabulary\": entry %zu is there before", source,
                           i);
        last = text;
        n_last = n;
    }
    return MF_OK;
}

/* Reads "ids", the id of each symbol of the vocabulary or -1, and "special_ids", the ids of
 * special tokens by name. */
static int read_numbers(const char *source, const mf_json *object, const mf_json *ids,
                        int32_t symbols, mf_bpe_numbers *ret)
{
    const mf_json *specials = mf_json_get(object, "special_ids");
    if (mf_json_typeof(ids) != MF_JSON_ARRAY || mf_json_size(ids) != (size_t)symbols)
        return mf_fail(MF_EINPUT, "%s: \"ids\": expected one of each entry of \"vocabulary\"",
                       source);
    int rc = mf_bpe_numbers_new(symbols, mf_json_size(specials), ret);
    for (int32_t i = 0; rc == MF_OK && i < symbols; i++) {
        int64_t id;
        if (!mf_json_int(mf_json_at(ids, (size_t)i), &id) || id < -1 || id > INT32_MAX)
            return mf_fail(MF_EINPUT, "%s: \"ids\": entry %d: expected an id, or -1", source,
                           (int)i);
        ret->id[i] = (int32_t)id;
    }
    const char *name;
    const mf_json *value;
    for (size_t i = 0; rc == MF_OK && mf_json_member(specials, i, &name, &value); i++) {
        int64_t id;
        const int s = mf_special_find(name);
        if (s < 0 || !mf_json_int(value, &id) || id < 0 || id > INT32_MAX)
            return mf_fail(MF_EINPUT,
                           "%s: \"special_ids\": %s: expected a special token and its id",
                           source, name);
        ret->special[s] = (int32_t)id;
    }
    return rc == MF_OK ? mf_bpe_numbers_settle(source, symbols, ret) : rc;
}

/* Reads one merge: two symbols, each given as its index + shift. These numbers are the ids of
 * the symbols, unless the vocabulary has ids of its own. In bpe_bytes a merge may make a
 * new symbol. */
static int read_merge(const char *source, const mf_json *list, size_t i, bool bytes,
                      mf_strings *symbols, mf_merge *m)
{
    const mf_json *entry = mf_json_at(list, i);
    int64_t id[2] = {-1, -1};
    int32_t shift = bytes ? 0 : OWN_SPECIALS;
    char text[2 * CHUNK_BYTES];
    bool added, fine = mf_json_typeof(entry) == MF_JSON_ARRAY && mf_json_size(entry) == 2;
    for (size_t j = 0; j < 2 && fine; j++)
        fine = mf_json_int(mf_json_at(entry, j), &id[j]) && id[j] >= shift &&
               id[j] - shift < symbols->n;
    if (!fine)
        return mf_fail(MF_EINPUT,
                       "%s: \"merges\": entry %zu: expected two ids of symbols, from %d to %d",
                       source, i, (int)shift, (int)(symbols->n + shift) - 1);
    m->left = (int32_t)id[0] - shift;
    m->right = (int32_t)id[1] - shift;
    size_t n, more;
    const char *left = mf_strings_get(symbols, m->left, &n);
    const char *right = mf_strings_get(symbols, m->right, &more);
    memcpy(text, left, n);
    memcpy(text + n, right, more);
    m->made = mf_strings_find(symbols, text, n + more);
    if (n + more > CHUNK_BYTES || (m->made < 0 && !bytes))
        return mf_fail(MF_EINPUT, "%s: \"merges\": entry %zu makes %s", source, i,
                       bytes || n + more > CHUNK_BYTES ? "too long a symbol"
                                                       : "what is not in the vocabulary");
    return m->made < 0 ? mf_strings_add(symbols, text, n + more, &m->made, &added) : MF_OK;
}

static int read_kind(const char *source, const mf_json *object, bool bytes, mf_tokenizer **ret)
{
    const mf_json *list = mf_json_get(object, "merges");
    const mf_json *own = bytes ? NULL : mf_json_get(object, "ids");
    mf_strings symbols = {0};
    mf_bpe_numbers numbers = {0};
    mf_merge *merges = NULL;
    if (mf_json_typeof(list) != MF_JSON_ARRAY || mf_json_size(list) > INT32_MAX / 2)
        return mf_fail(MF_EINPUT, "%s: \"merges\": expected a list of pairs of ids", source);
    size_t n = mf_json_size(list);
    int rc = bytes ? mf_bpe_all_bytes(&symbols)
                   : read_vocabulary(source, mf_json_get(object, "vocabulary"), !own, &symbols);
    if (rc == MF_OK && own) rc = read_numbers(source, object, own, symbols.n, &numbers);
    if (rc == MF_OK && (merges = mf_alloc(n + 1, sizeof *merges)) == NULL) rc = MF_ENOMEM;
    for (size_t i = 0; i < n && rc == MF_OK; i++)
        rc = read_merge(source, list, i, bytes, &symbols, &merges[i]);
    if (rc == MF_OK) {
        rc = mf_bpe_make(source, bytes, &symbols, merges, (int32_t)n, own ? &numbers : NULL,
                         ret);
        if (rc == MF_OK) mf_bpe_read_max_iter(*ret, object);
        return rc;
    }
    mf_strings_free(&symbols);
    mf_bpe_numbers_free(&numbers);
    mf_free(merges);
    return rc;
}

static int read_chars(const char *source, const mf_json *object, mf_tokenizer **ret)
{
    return read_kind(source, object, false, ret);
}

static int read_bytes(const char *source, const mf_json *object, mf_tokenizer **ret)
{
    return read_kind(source, object, true, ret);
}

static void write_numbers(const bpe *t, mf_jw *w)
{
    mf_jw_key(w, "ids");
    mf_jw_array(w);
    for (int32_t i = 0; i < t->symbols.n; i++)
        mf_jw_int(w, t->numbers.id[i]);
    mf_jw_end(w);
    mf_jw_key(w, "special_ids");
    mf_jw_object(w);
    for (int s = 0; s < MF_SPECIALS; s++)
        if (t->base.special[s] >= 0)
            mf_jw_kv_int(w, mf_special_name((mf_special)s), t->base.special[s]);
    mf_jw_end(w);
}

static int write_members(const mf_tokenizer *base, mf_jw *w)
{
    const bpe *t = (const bpe *)base;
    if (!base->lossless) {
        mf_jw_key(w, "vocabulary");
        mf_jw_array(w);
        for (int32_t i = 0; i < t->symbols.n; i++) {
            size_t n;
            const char *text = mf_strings_get(&t->symbols, i, &n);
            mf_jw_string_n(w, text, n);
        }
        mf_jw_end(w);
    }
    if (t->numbers.id) write_numbers(t, w);
    if (t->max_iter > 0) mf_jw_kv_int(w, "max_iter", t->max_iter);
    mf_jw_key(w, "merges");
    mf_jw_array(w);
    for (int32_t i = 0; i < t->n_merges; i++) {
        mf_jw_array(w);
        mf_jw_int(w, t->merges[i].left + t->shift);
        mf_jw_int(w, t->merges[i].right + t->shift);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    return MF_OK;
}

const mf_tokenizer_ops mf_tokenizer_bpe = {
    .name = "bpe",
    .encode = encode,
    .piece = piece,
    .write = write_members,
    .free = destroy,
    .train = mf_bpe_train_chars,
    .read = read_chars,
    .cut = mf_bpe_cut,
};

const mf_tokenizer_ops mf_tokenizer_bpe_bytes = {
    .name = "bpe_bytes",
    .encode = encode,
    .piece = piece,
    .write = write_members,
    .free = destroy,
    .train = mf_bpe_train_bytes,
    .read = read_bytes,
    .cut = mf_bpe_cut,
};
