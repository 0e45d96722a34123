/* data/corpus_streams.c: splits of streams of text or ids. A split is a range of tokens. A text
 * is cut at the same byte whether its tokens are in memory or in a file. */
#include "data/corpus_internal.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/stream/cache.h"

typedef mf_corpus_loader loader;

static bool given(const char *path)
{
    return path && *path != 0;
}

static size_t size_of(const mf_source *s)
{
    return s->is_ids ? (size_t)s->tokens.n : s->size;
}

/* Whether the ids are in parts, because they come from token files or will be written to
 * token files. */
static bool in_parts(const loader *l)
{
    for (int i = 0; i < MF_SOURCES; i++)
        if (l->source[i].is_ids || l->source[i].large) return true;
    return false;
}

/* Moves the ids that were just made from a text into a part. */
static int to_part(loader *l)
{
    mf_id_part part = {
        .n = (int64_t)l->ids.n, .ids = l->ids.id, .id_bytes = 4, .own = l->ids.id};
    for (size_t i = 0; i < l->ids.n; i++)
        if (l->ids.id[i] > part.largest) part.largest = l->ids.id[i];
    l->ids.id = NULL;
    mf_ids_free(&l->ids);
    return part.n > 0 ? mf_id_parts_add(&l->c->stored, &part) : MF_OK;
}

/* Tokenizes bytes begin .. end-1 of a text into the split. */
static int add_text(loader *l, const mf_source *s, size_t begin, size_t end, mf_split split)
{
    mf_corpus *c = l->c;
    mf_split_range *r = &c->split[split];
    const bool parts = in_parts(l);
    r->begin = parts ? c->stored.n : (int64_t)l->ids.n;
    r->bytes = end - begin;
    r->topics = s->topics;
    r->text_begin = begin;
    int rc = s->large ? mf_cache_text(l->cache, c->tokenizer, s->path, &s->files, begin, end,
                                      &c->stored)
                      : c->tokenizer->ops->encode(c->tokenizer, s->path, begin, s->text + begin,
                                                  end - begin, &l->ids);
    if (rc == MF_OK && parts && !s->large) rc = to_part(l);
    r->end = parts ? c->stored.n : (int64_t)l->ids.n;
    r->tokens = r->end - r->begin;
    return rc;
}

/* Number of text bytes of ids in memory; 0: unknown, as for mapped files. */
static uint64_t bytes_of(const mf_corpus *c, const mf_split_range *r)
{
    uint64_t sum = 0;
    const mf_tokenizer *t = c->tokenizer;
    if (!t || mf_id_parts_mapped(&c->stored)) return 0;
    for (int64_t i = r->begin; i < r->end; i++) {
        const int32_t id = mf_id_parts_id(&c->stored, i);
        if (id >= 0 && id == t->special[MF_SPECIAL_UNK]) return 0;
        sum += mf_tokenizer_bytes(t, &id, 1);
    }
    return sum;
}

/* Adds the ids begin .. end-1 of a source to the split. Token `first` of the corpus is id 0 of
 * the source. */
static void add_ids(loader *l, int64_t first, size_t begin, size_t end, mf_split split)
{
    mf_split_range *r = &l->c->split[split];
    *r = (mf_split_range){.begin = first + (int64_t)begin,
                          .end = first + (int64_t)end,
                          .tokens = (int64_t)(end - begin)};
    r->bytes = bytes_of(l->c, r);
}

/* The offset at which the split cuts a stream. It is never inside a character. */
static int cut_of(const mf_source *s, double split, size_t size, size_t *ret)
{
    size_t cut = (size_t)(split * (double)size);
    int rc = MF_OK;
    while (!s->is_ids && cut > 0 && cut < size) {
        char c = 0;
        if (s->large) rc = mf_source_files_read(&s->files, cut, 1, &c);
        if (!s->large) c = s->text[cut];
        if (rc != MF_OK || ((unsigned char)c & 0xC0) != 0x80) break;
        cut--;
    }
    *ret = cut;
    return rc;
}

/* Adds a source. All of it belongs to one split, or it is cut into training and validation. */
static int add_source(loader *l, mf_source *s, size_t cut, mf_split split)
{
    const size_t size = size_of(s);
    const int64_t first = l->c->stored.n;
    if (!s->is_ids) {
        const int rc = add_text(l, s, 0, cut, split);
        return rc == MF_OK && cut < size ? add_text(l, s, cut, size, MF_SPLIT_VAL) : rc;
    }
    const int rc = mf_id_parts_append(&l->c->stored, &s->tokens);
    if (rc != MF_OK) return rc;
    add_ids(l, first, 0, cut, split);
    if (cut < size) add_ids(l, first, cut, size, MF_SPLIT_VAL);
    return MF_OK;
}

int mf_corpus_add_streams(loader *l)
{
    mf_source *s = &l->source[0];
    const bool cuts = !given(l->spec->val_path) && l->spec->split < 1;
    if (s->n_domains > 0) {
        int rc = mf_corpus_add_domains(l, 0, cuts ? l->spec->split : 1, MF_SPLIT_TRAIN);
        for (int i = 1; i < MF_SOURCES && rc == MF_OK; i++)
            if (l->source[i].path) rc = mf_corpus_add_domains(l, i, 1, (mf_split)i);
        return rc;
    }
    l->ids.want_start = s->topics != NULL; /* the label of a token is found by the
                                            * token's offset */
    size_t size = size_of(s), cut = size;
    const char *what = s->is_ids ? "tokens" : "bytes";
    int rc = MF_OK;
    if (cuts) {
        rc = cut_of(s, l->spec->split, size, &cut);
        if (rc == MF_OK && (cut == 0 || cut == size))
            return mf_corpus_empty_side(l, cut == 0 ? "training" : "validation", what, size);
    }
    if (rc == MF_OK) rc = add_source(l, s, cut, MF_SPLIT_TRAIN);
    for (int i = 1; i < MF_SOURCES && rc == MF_OK; i++)
        if (l->source[i].path)
            rc = add_source(l, &l->source[i], size_of(&l->source[i]), (mf_split)i);
    return rc;
}

/* Whether each token is one byte of generated text, and the corpus contains nothing else. */
static bool is_byte_by_byte(const loader *l)
{
    const mf_topics *t = l->source[0].topics;
    if (!t || l->ids.n != t->size) return false;
    for (size_t i = 0; i < t->size; i++)
        if (l->ids.start[i] != i || l->ids.id[i] != (unsigned char)t->text[i]) return false;
    return true;
}

static int name_topics(mf_corpus *c)
{
    char name[MF_TOPICS_NAME];
    if (!(c->label_names = mf_alloc((size_t)c->n_labels, sizeof *c->label_names)))
        return MF_ENOMEM;
    for (int32_t i = 0; i < c->n_labels; i++)
        if (!(c->label_names[i] = mf_strdup(mf_topics_name(i, name)))) return MF_ENOMEM;
    return MF_OK;
}

int mf_corpus_label_topics(loader *l)
{
    mf_corpus *c = l->c;
    for (int i = 0; i < MF_SPLITS; i++) {
        if (c->split[i].tokens > 0 && !c->split[i].topics) return MF_OK;
        if (c->split[i].topics && c->split[i].topics->spec.topics > c->n_labels)
            c->n_labels = c->split[i].topics->spec.topics;
    }
    if (c->n_labels > 0 && name_topics(c) != MF_OK) return MF_ENOMEM;
    if (is_byte_by_byte(l)) {
        c->labels = l->source[0].topics->labels;
        c->ids = l->source[0].topics->text;
        return MF_OK;
    }
    c->labels = mf_alloc_raw(l->ids.n);
    if (!c->labels) return MF_ENOMEM;
    for (int i = 0; i < MF_SPLITS; i++)
        for (int64_t t = c->split[i].begin; c->split[i].topics && t < c->split[i].end; t++)
            c->labels[t] = c->split[i].topics->labels[l->ids.start[t]];
    return MF_OK;
}
