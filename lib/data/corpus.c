/* data/corpus.c: loads sources, tokenizes them and divides them into splits. Two corpora of the
 * same specification and files are equal. */
#include "data/corpus_internal.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "base/rng.h"
#include "data/clean.h"
#include "data/stream/cache.h"
#include "data/turns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCES = MF_SOURCES };
typedef mf_corpus_loader loader;

const char *mf_split_name(mf_split s)
{
    static const char *const names[MF_SPLITS] = {"train", "val", "test"};
    return (unsigned)s < MF_SPLITS ? names[s] : "?";
}

void mf_corpus_defaults(mf_corpus_spec *ret)
{
    *ret = (mf_corpus_spec){.split = 0.9};
}

static bool given(const char *path)
{
    return path && *path != 0;
}

static int check_spec(const mf_corpus_spec *spec)
{
    if (!given(spec->path))
        return mf_fail(MF_ECONFIG, "data.path: expected a file or %s", MF_TOPICS_PREFIX);
    if (!(spec->split > 0 && spec->split <= 1))
        return mf_fail(MF_ECONFIG, "data.split = %g: expected more than 0, at most 1",
                       spec->split);
    if (spec->bin_bits != 0 && spec->bin_bits != 16 && spec->bin_bits != 32)
        return mf_fail(MF_ECONFIG, "data.bin_bits = %d: expected 16 or 32",
                       (int)spec->bin_bits);
    return MF_OK;
}

static int clean_source(mf_source *s)
{
    char *text;
    size_t n;
    int rc = mf_clean_text(s->text, s->size, &text, &n);
    if (rc != MF_OK) return rc;
    mf_free(s->text);
    s->text = text;
    s->size = n;
    return MF_OK;
}

/* Returns the size in bytes from which a text becomes a token file; 0: never. folder: for such
 * files; "": there is no folder, because data.cache = no, or auto without a home folder. */
static uint64_t large_of(const mf_corpus_spec *spec, const char *folder)
{
    if (spec->clean || mf_corpus_labelled(spec) || !*folder) return 0;
    return strcmp(spec->cache, "auto") == 0 ? MF_LARGE_TEXT : 1;
}

static int load_sources(loader *l)
{
    l->cache = mf_cache_folder(l->spec->cache ? l->spec->cache : "no");
    if (!l->cache) return MF_ENOMEM;
    const char *paths[SOURCES] = {l->spec->path, l->spec->val_path, l->spec->test_path};
    const mf_columns columns = {.first = l->spec->first_column,
                                .second = l->spec->second_column,
                                .label = l->spec->label_column,
                                .number = l->spec->task == MF_TASK_REGRESS,
                                .text = l->spec->text_field,
                                .prompt = l->spec->prompt_field,
                                .answer = l->spec->answer_field,
                                .messages = l->spec->messages_field,
                                .domain = l->spec->labels,
                                .domain_optional = l->spec->labels_optional,
                                .n_more = l->spec->n_more,
                                .more = l->more};
    for (int i = 0; i < l->spec->n_more; i++)
        l->more[i] = (mf_question){l->spec->more[i].column, l->spec->more[i].number};
    for (int i = 0; i < SOURCES; i++) {
        if (!given(paths[i])) continue;
        mf_format format = MF_FORMAT_TEXT;
        int rc = mf_corpus_in_folders(l->spec, paths[i])
                     ? MF_OK
                     : mf_format_of(l->spec->format, paths[i], &format);
        bool any = !given(l->spec->format) || strcmp(l->spec->format, "auto") == 0;
        if (rc == MF_OK && any && format == MF_FORMAT_TEXT && mf_task_by_row(l->spec->task))
            format = MF_FORMAT_TSV;
        if (rc == MF_OK) rc = mf_corpus_judge_labels(l->spec, paths[i], format);
        const mf_source_options options = {.bin_bits = l->spec->bin_bits,
                                           .large = large_of(l->spec, l->cache),
                                           .cache = l->cache,
                                           .columns = &columns,
                                           .told = i > 0 && given(paths[0]) &&
                                                   strcmp(paths[i], paths[0]) == 0};
        if (rc == MF_OK) rc = mf_source_load(&l->source[i], paths[i], format, &options);
        if (rc == MF_OK && l->spec->clean && format == MF_FORMAT_TEXT && !l->source[i].topics)
            rc = clean_source(&l->source[i]);
        if (rc != MF_OK) return rc;
        const mf_source *a = &l->source[0], *b = &l->source[i];
        if ((!a->documents) != (!b->documents) || a->is_ids != b->is_ids ||
            a->pairs != b->pairs)
            return mf_fail(MF_ECONFIG,
                           "%s and %s differ in form: both must be streams of text, of "
                           "tokens, documents, single sentences or pairs",
                           a->path, b->path);
    }
    return MF_OK;
}

/* ---- the tokenizer ---- */

/* Makes a tokenizer from the training text. A large text is mapped. */
static int train_tokenizer(const mf_source *s, const char *name,
                           const mf_tokenizer_options *options, mf_tokenizer **ret)
{
    mf_map map = {0};
    const bool read = s->large && strcmp(name, "byte") != 0;
    if (read && s->files.n > 1)
        return mf_fail(MF_ECONFIG,
                       "%s: a tokenizer is not learned from several large files: expected "
                       "data.tokenizer = byte or a file, as moefw tokenize train writes it",
                       s->path);
    int rc = read ? mf_map_open(s->files.path[0], &map) : MF_OK;
    if (rc == MF_OK)
        rc =
            mf_tokenizer_train(name, s->path, read ? map.data : s->text, s->size, options, ret);
    mf_map_close(&map);
    return rc;
}

static int choose_tokenizer(loader *l)
{
    mf_corpus *c = l->c;
    const mf_source *s = &l->source[0];
    const char *name = given(l->spec->tokenizer) ? l->spec->tokenizer : "byte";
    bool kind = mf_tokenizer_is_kind(name);
    c->tokenizer = l->spec->given;
    if (c->tokenizer || (s->is_ids && kind)) return MF_OK;
    int rc;
    if (kind) {
        mf_tokenizer_options options = {0};
        if (l->spec->task != MF_TASK_LM)
            options.specials = MF_SPECIAL_BIT(MF_SPECIAL_PAD) | MF_SPECIAL_BIT(MF_SPECIAL_UNK) |
                               MF_SPECIAL_BIT(MF_SPECIAL_CLS) | MF_SPECIAL_BIT(MF_SPECIAL_SEP);
        if (l->spec->task == MF_TASK_MLM) options.specials |= MF_SPECIAL_BIT(MF_SPECIAL_MASK);
        rc = train_tokenizer(s, name, &options, &c->own_tokenizer);
    } else if (strpbrk(name, "./") == NULL) {
        /* A name without . and / is not a path but an unknown kind. The call fails and lists
         * the kinds. */
        return mf_tokenizer_train(name, s->path, NULL, 0, NULL, &c->own_tokenizer);
    } else {
        rc = mf_tokenizer_load(name, &c->own_tokenizer);
    }
    c->tokenizer = c->own_tokenizer;
    return rc;
}

/* ---- classes ---- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const mf_label *)a)->name, ((const mf_label *)b)->name);
}

static int by_value(const void *a, const void *b)
{
    long long x = 0, y = 0;
    mf_parse_i64(((const mf_label *)a)->name, &x);
    mf_parse_i64(((const mf_label *)b)->name, &y);
    return x != y ? (x > y) - (x < y) : by_bytes(a, b);
}

static bool all_numbers(const mf_label *labels, int32_t n)
{
    long long value;
    for (int32_t i = 0; i < n; i++)
        if (!mf_parse_i64(labels[i].name, &value)) return false;
    return true;
}

int mf_corpus_copy_names(const mf_label *labels, const char *const *names, int32_t n,
                         char ***ret_classes, int32_t *ret_n)
{
    char **classes = *ret_classes = mf_alloc((size_t)n, sizeof *classes);
    if (!classes) return MF_ENOMEM;
    *ret_n = n;
    for (int32_t i = 0; i < n; i++)
        if ((classes[i] = mf_strdup(names ? names[i] : labels[i].name)) == NULL)
            return MF_ENOMEM;
    return MF_OK;
}

int mf_corpus_name_classes(const mf_source *s, const mf_labels *labels, int32_t most,
                           char ***ret_classes, int32_t *ret_n)
{
    const int32_t n = labels->n;
    if (n == 0) return MF_OK;
    if (most > 0 && n > most) {
        const mf_label *extra = &labels->at[most];
        return mf_fail(MF_EINPUT,
                       "%s:%lld: label \"%.40s\" is one too many: expected at most %d", s->path,
                       (long long)extra->line, extra->name, (int)most);
    }
    mf_label *sorted = mf_alloc((size_t)n, sizeof *sorted);
    if (!sorted) return MF_ENOMEM;
    memcpy(sorted, labels->at, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, all_numbers(sorted, n) ? by_value : by_bytes);
    int rc = mf_corpus_copy_names(sorted, NULL, n, ret_classes, ret_n);
    mf_free(sorted);
    return rc;
}

/* Names the classes of the label column and of the further columns. Classes that the caller
 * gave stay unchanged. */
static int name_all_classes(loader *l)
{
    const mf_corpus_spec *spec = l->spec;
    const mf_source *s = &l->source[0];
    mf_corpus *c = l->c;
    int rc =
        spec->class_names != NULL
            ? mf_corpus_copy_names(NULL, spec->class_names, spec->n_class_names, &c->classes,
                                   &c->n_classes)
            : mf_corpus_name_classes(s, &s->labels, spec->classes, &c->classes, &c->n_classes);
    for (int i = 0; rc == MF_OK && i < spec->n_more; i++) {
        const mf_corpus_question *q = &spec->more[i];
        mf_corpus_answers *a = &c->more[i];
        a->number = q->number;
        if (q->number) continue;
        rc = q->class_names != NULL
                 ? mf_corpus_copy_names(NULL, q->class_names, q->n_class_names, &a->classes,
                                        &a->n_classes)
                 : mf_corpus_name_classes(s, &s->more[i], q->classes, &a->classes,
                                          &a->n_classes);
        if (rc == MF_OK && a->n_classes == 0)
            rc = mf_fail(MF_EINPUT, "%s: no example has a label in column %s", s->path,
                         q->column);
    }
    return rc;
}

/* Sets class_of[label] to the class of each label of the source. MF_EINPUT if a label is not
 * a class. */
static int map_labels(const mf_source *s, const mf_labels *labels, char *const *classes,
                      int32_t n_classes, int32_t *class_of)
{
    for (int32_t i = 0; i < labels->n; i++) {
        class_of[i] = -1;
        for (int32_t k = 0; k < n_classes; k++)
            if (strcmp(labels->at[i].name, classes[k]) == 0) class_of[i] = k;
        if (class_of[i] < 0)
            return mf_fail(
                MF_EINPUT,
                "%s:%lld: label \"%.40s\" does not occur in the training data (there "
                "are %d, the first is \"%.40s\")",
                s->path, (long long)labels->at[i].line, labels->at[i].name, (int)n_classes,
                n_classes > 0 ? classes[0] : "");
    }
    return MF_OK;
}

/* ---- tokens ---- */

int mf_corpus_empty_side(const loader *l, const char *side, const char *what, size_t n)
{
    return mf_fail(MF_EINPUT, "%s: data.split = %g of %zu %s leaves none for %s", l->spec->path,
                   l->spec->split, n, what, side);
}

/* Sets *ret to the number of tokens from `before` on. */
static int count_new(const loader *l, const char *name, size_t before, int32_t *ret)
{
    const size_t n = l->ids.n - before;
    if (n > INT32_MAX / 2)
        return mf_fail(MF_EINPUT, "%s: more than %d tokens", name, INT32_MAX / 2);
    *ret = (int32_t)n;
    return MF_OK;
}

static int encode_part(loader *l, const mf_source *s, const mf_document *d, size_t begin,
                       size_t n, int32_t *ret)
{
    char name[4096];
    size_t before = l->ids.n;
    snprintf(name, sizeof name, "%s:%lld", s->path, (long long)d->line);
    const int rc = mf_tokenizer_encode(l->c->tokenizer, name, s->text + begin, n, &l->ids);
    return rc == MF_OK ? count_new(l, name, before, ret) : rc;
}

/* Encodes a prompt with its answer, or messages. */
static int encode_turns(loader *l, const mf_source *s, const mf_document *d, int32_t *ret)
{
    char name[4096];
    const size_t before = l->ids.n;
    snprintf(name, sizeof name, "%s:%lld", s->path, (long long)d->line);
    int rc =
        l->has_form ? MF_OK : mf_turns_form(l->c->tokenizer, !l->spec->plain_chat, &l->form);
    l->has_form = rc == MF_OK;
    while (rc == MF_OK && l->counted.n < before) /* the tokens of earlier documents count */
        rc = mf_ids_push(&l->counted, 1, 0);
    if (rc == MF_OK)
        rc = mf_turns_encode(l->c->tokenizer, &l->form, name, s, d, &l->ids, &l->counted);
    return rc == MF_OK ? count_new(l, name, before, ret) : rc;
}

/* Stores which tokens count, if some tokens do not count. */
static int keep_counted(loader *l)
{
    if (l->counted.n == 0 || l->spec->count_all) return MF_OK;
    l->c->counted = mf_alloc_raw(l->ids.n + 1);
    if (!l->c->counted) return MF_ENOMEM;
    for (size_t i = 0; i < l->ids.n; i++)
        l->c->counted[i] = i >= l->counted.n || l->counted.id[i] != 0;
    return MF_OK;
}

/* Stores the further labels of documents from..to-1 for the spans from `first` on. class_of:
 * work memory for MF_LABELS_MAX classes. */
static int add_answers(loader *l, const mf_source *s, int64_t from, int64_t to, int64_t first,
                       int32_t *class_of)
{
    int rc = MF_OK;
    for (int k = 0; rc == MF_OK && k < l->spec->n_more; k++) {
        mf_corpus_answers *a = &l->c->more[k];
        rc = map_labels(s, &s->more[k], a->classes, a->n_classes, class_of);
        for (int64_t i = from; rc == MF_OK && i < to; i++) {
            const mf_prediction *in = &s->answers[s->documents[i].more + k];
            if (a->number)
                a->value[first + i - from] = in->value;
            else
                a->label[first + i - from] = in->label < 0 ? -1 : class_of[in->label];
        }
    }
    return rc;
}

static int add_documents(loader *l, const mf_source *s, int64_t from, int64_t to,
                         mf_split split)
{
    mf_corpus *c = l->c;
    mf_split_range *r = &c->split[split];
    *r = (mf_split_range){.begin = c->n_spans};
    int32_t *class_of = mf_alloc(MF_LABELS_MAX, sizeof *class_of);
    int rc = class_of ? add_answers(l, s, from, to, c->n_spans, class_of) : MF_ENOMEM;
    if (rc == MF_OK) rc = map_labels(s, &s->labels, c->classes, c->n_classes, class_of);
    for (int64_t i = from; i < to && rc == MF_OK; i++) {
        const mf_document *d = &s->documents[i];
        mf_span *span = &c->spans[c->n_spans];
        int32_t second = 0;
        *span = (mf_span){.begin = (int64_t)l->ids.n,
                          .label = d->answer.label < 0 ? -1 : class_of[d->answer.label],
                          .value = d->answer.value};
        rc = d->n_turns > 0 ? encode_turns(l, s, d, &span->first)
                            : encode_part(l, s, d, d->begin, d->n_first, &span->first);
        if (rc == MF_OK && d->n > d->n_first)
            rc = encode_part(l, s, d, d->begin + d->n_first, d->n - d->n_first, &second);
        span->n = span->first + second;
        r->tokens += span->n;
        r->bytes += d->n;
        if (span->n > c->longest) c->longest = span->n;
        c->n_spans++;
    }
    mf_free(class_of);
    r->end = c->n_spans;
    return rc;
}

static int make_room(loader *l, int64_t spans)
{
    mf_corpus *c = l->c;
    c->spans = mf_alloc((size_t)spans, sizeof *c->spans);
    if (!c->spans) return MF_ENOMEM;
    c->n_more = l->spec->n_more;
    for (int k = 0; k < c->n_more; k++) {
        mf_corpus_answers *a = &c->more[k];
        if (l->spec->more[k].number)
            a->value = mf_alloc((size_t)spans, sizeof *a->value);
        else
            a->label = mf_alloc((size_t)spans, sizeof *a->label);
        if (!a->value && !a->label) return MF_ENOMEM;
    }
    return MF_OK;
}

/* Sets *ret to the mean of value [n_spans] (NULL: mf_span.value) over the training split.
 * Returns false, with mean 0, if the split has no number. */
static bool mean_number(const mf_corpus *c, const float *value, double *ret)
{
    const mf_split_range *r = &c->split[MF_SPLIT_TRAIN];
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = r->begin; i < r->end; i++) {
        const float v = value ? value[i] : c->spans[i].value;
        if (isnan(v)) continue;
        sum += (double)v;
        n++;
    }
    *ret = n > 0 ? sum / (double)n : 0;
    return n > 0;
}

static int find_means(loader *l)
{
    mf_corpus *c = l->c;
    c->numbers = mean_number(c, NULL, &c->mean);
    for (int k = 0; k < c->n_more; k++)
        if (c->more[k].number && !mean_number(c, c->more[k].value, &c->more[k].mean))
            return mf_fail(MF_EINPUT, "%s: no example to train on has a number in column %s",
                           l->spec->path, l->spec->more[k].column);
    return MF_OK;
}

static int add_all_documents(loader *l)
{
    const mf_source *s = &l->source[0];
    int64_t n = s->n_documents, cut = n, all = 0;
    for (int i = 0; i < SOURCES; i++)
        all += l->source[i].n_documents;
    if (!given(l->spec->val_path) && l->spec->split < 1) {
        cut = (int64_t)(l->spec->split * (double)n);
        if (cut == 0 || cut == n)
            return mf_corpus_empty_side(l, cut == 0 ? "training" : "validation", "documents",
                                        (size_t)n);
    }
    l->c->pairs = s->pairs;
    int rc = make_room(l, all);
    if (rc == MF_OK) rc = name_all_classes(l);
    if (rc == MF_OK) rc = add_documents(l, s, 0, cut, MF_SPLIT_TRAIN);
    if (rc == MF_OK && cut < n) rc = add_documents(l, s, cut, n, MF_SPLIT_VAL);
    for (int i = 1; i < SOURCES && rc == MF_OK; i++)
        if (l->source[i].path)
            rc = add_documents(l, &l->source[i], 0, l->source[i].n_documents, (mf_split)i);
    if (rc == MF_OK) rc = keep_counted(l);
    return rc == MF_OK ? find_means(l) : rc;
}

/* The largest id. If the ids are in files, it is the largest id of their parts. */
static int32_t largest_id(const mf_corpus *c)
{
    int32_t largest = 0;
    for (int32_t i = 0; i < c->stored.n_parts; i++)
        if (c->stored.part[i].largest > largest) largest = c->stored.part[i].largest;
    for (int64_t i = 0; c->ids && i < c->tokens; i++)
        if (mf_corpus_id(c, i) > largest) largest = mf_corpus_id(c, i);
    return largest;
}

static int check_vocabulary(loader *l)
{
    mf_corpus *c = l->c;
    const int32_t largest = largest_id(c);
    int64_t where = 0;
    c->vocab = c->tokenizer ? c->tokenizer->vocab : largest + 1;
    if (largest < c->vocab) return MF_OK;
    while (mf_corpus_id(c, where) != largest)
        where++;
    return mf_fail(MF_EINPUT, "%s: token %lld is %d, but the tokenizer knows %d ids",
                   l->spec->path, (long long)where, (int)largest, (int)c->vocab);
}

/* Warns of labels that occur once in a file whose other labels are frequent. They are probably
 * typing errors. */
static int warn_of_rare_labels(const mf_source *s)
{
    int64_t *count = mf_alloc((size_t)s->labels.n + 1, sizeof *count);
    if (!count) return MF_ENOMEM;
    for (int64_t i = 0; i < s->n_documents; i++)
        if (s->documents[i].answer.label >= 0) count[s->documents[i].answer.label]++;
    for (int32_t i = 0; i < s->labels.n; i++)
        if (count[i] == 1 && s->n_documents >= 50 * (int64_t)s->labels.n)
            mf_log(MF_LOG_WARN, "%s:%lld: label \"%.40s\": no other line of %lld has it",
                   s->path, (long long)s->labels.at[i].line, s->labels.at[i].name,
                   (long long)s->n_documents);
    mf_free(count);
    return MF_OK;
}

/* Keeps `limit` documents of the training file, in the order of the file. */
static int limit_documents(loader *l)
{
    mf_source *s = &l->source[0];
    const int64_t n = s->n_documents, limit = l->spec->limit;
    if (limit <= 0) return MF_OK;
    if (!s->documents)
        return mf_fail(MF_ECONFIG,
                       "data.limit = %lld: %s is a stream: expected documents "
                       "(jsonl) or examples (tsv)",
                       (long long)limit, s->path);
    if (limit >= n) return MF_OK;
    if (l->spec->pick_random) {
        int32_t *order = n <= INT32_MAX ? mf_alloc((size_t)n, sizeof *order) : NULL;
        bool *taken = mf_alloc((size_t)n, sizeof *taken);
        if (order && taken) {
            int64_t kept = 0;
            mf_rng_permutation(0, mf_rng_stream("data.pick"), 0, order, (size_t)n);
            for (int64_t i = 0; i < limit; i++)
                taken[order[i]] = true;
            for (int64_t i = 0; i < n; i++)
                if (taken[i]) s->documents[kept++] = s->documents[i];
        }
        const bool done = order && taken;
        mf_free(order);
        mf_free(taken);
        if (!done) return MF_ENOMEM;
    }
    s->n_documents = limit;
    return MF_OK;
}

/* Stores ids with as few bytes as the vocabulary allows. Otherwise a corpus of bytes would need
 * four times its size. */
static int shrink_ids(mf_corpus *c)
{
    const int32_t *wide = c->ids, bytes = c->vocab <= 256 ? 1 : c->vocab <= 65536 ? 2 : 4;
    if (bytes == 4 || c->id_bytes == 1 || !wide) return MF_OK;
    void *ids = mf_alloc_raw((size_t)c->tokens * (size_t)bytes);
    if (!ids) return MF_ENOMEM;
    for (int64_t i = 0; i < c->tokens && bytes == 1; i++)
        ((uint8_t *)ids)[i] = (uint8_t)wide[i];
    for (int64_t i = 0; i < c->tokens && bytes == 2; i++)
        ((uint16_t *)ids)[i] = (uint16_t)wide[i];
    mf_free(c->ids);
    c->ids = ids;
    c->id_bytes = bytes;
    return MF_OK;
}

static int name_files(loader *l)
{
    const char *val =
        l->spec->val_path && l->spec->val_path[0] ? l->spec->val_path : l->spec->path;
    const char *of[MF_SPLITS] = {l->spec->path, val, l->spec->test_path};
    for (int i = 0; i < MF_SPLITS; i++)
        if (of[i] && !(l->c->file[i] = mf_strdup(of[i]))) return MF_ENOMEM;
    return MF_OK;
}

static int load(loader *l)
{
    mf_corpus *c = l->c;
    int rc = check_spec(l->spec);
    if (rc == MF_OK) rc = load_sources(l);
    if (rc == MF_OK) rc = warn_of_rare_labels(&l->source[0]);
    if (rc == MF_OK) rc = limit_documents(l);
    if (rc == MF_OK) rc = choose_tokenizer(l);
    if (rc == MF_OK)
        rc = l->source[0].documents ? add_all_documents(l) : mf_corpus_add_streams(l);
    if (rc == MF_OK) rc = mf_corpus_label_topics(l);
    c->id_bytes = c->ids ? 1 : (int32_t)sizeof *l->ids.id;
    c->tokens = c->stored.n > 0 ? c->stored.n : (int64_t)l->ids.n;
    if (!c->ids && c->stored.n == 0) {
        c->ids = l->ids.id;
        l->ids.id = NULL;
    }
    for (int i = 0; i < SOURCES; i++) {
        c->own_topics[i] = l->source[i].topics;
        if (l->source[i].topics) l->source[i].text = NULL;
        l->source[i].topics = NULL;
    }
    if (rc == MF_OK) rc = check_vocabulary(l);
    if (rc == MF_OK) rc = mf_corpus_label_tokens(l);
    if (rc == MF_OK) rc = name_files(l);
    return rc == MF_OK ? shrink_ids(c) : rc;
}

int mf_corpus_load(const mf_corpus_spec *spec, mf_corpus **ret)
{
    *ret = NULL;
    mf_corpus_spec own = *spec;
    loader l = {.spec = &own, .c = mf_alloc(1, sizeof *l.c)};
    if (!l.c) return MF_ENOMEM;
    if (own.labels_optional) mf_corpus_drop_labels(&own);
    int rc = load(&l);
    mf_ids_free(&l.ids);
    mf_ids_free(&l.counted);
    mf_free(l.ranges);
    mf_free(l.cache);
    for (int i = 0; i < SOURCES; i++)
        mf_source_free(&l.source[i]);
    if (rc == MF_OK)
        *ret = l.c;
    else
        mf_corpus_free(l.c);
    return rc;
}

static void free_names(char **names, int32_t n)
{
    for (int32_t i = 0; names && i < n; i++)
        mf_free(names[i]);
    mf_free(names);
}

void mf_corpus_free(mf_corpus *c)
{
    if (!c) return;
    free_names(c->classes, c->n_classes);
    free_names(c->label_names, c->n_labels);
    for (int k = 0; k < MF_TASKS_MAX; k++) {
        free_names(c->more[k].classes, c->more[k].n_classes);
        mf_free(c->more[k].label);
        mf_free(c->more[k].value);
    }
    if (!c->own_topics[0] || c->ids != c->own_topics[0]->text) {
        mf_free(c->ids);
        mf_free(c->labels);
    }
    for (int i = 0; i < MF_SPLITS; i++) {
        mf_topics_free(c->own_topics[i]);
        mf_free(c->file[i]);
    }
    mf_id_parts_free(&c->stored);
    mf_tokenizer_free(c->own_tokenizer);
    mf_free(c->counted);
    mf_free(c->spans);
    mf_free(c);
}

int mf_corpus_floor(const mf_corpus *c, mf_split split, mf_topics_floor_kind kind, int64_t n,
                    int32_t window, int32_t context, double *ret)
{
    const mf_split_range *r = &c->split[split];
    if (n == 0) n = r->tokens;
    *ret = NAN;
    if (!r->topics || (uint64_t)r->tokens != r->bytes || n < 2 || n > r->tokens) return MF_OK;
    return mf_topics_floor(r->topics, kind, r->text_begin, r->text_begin + (size_t)n, window,
                           context, ret);
}
