/* data/labels/corpus_labels.c: labels of the tokens of the user's texts: their domains. They
 * come from a member of jsonl objects, from the folders of text files, or from a file of ids.
 * Labels are never learned; statistics and routers such as `oracle` read them. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/corpus_internal.h"

enum { LABELS_MAX = MF_NO_LABEL }; /* labels of tokens are stored in bytes */

typedef mf_corpus_loader loader;

static bool given(const char *text)
{
    return text && *text != 0;
}

bool mf_corpus_labelled(const mf_corpus_spec *spec)
{
    return given(spec->labels) || given(spec->labels_path);
}

bool mf_corpus_in_folders(const mf_corpus_spec *spec, const char *path)
{
    const bool text = !given(spec->format) || strcmp(spec->format, "auto") == 0 ||
                      strcmp(spec->format, "text") == 0;
    return text && given(spec->labels) && strcmp(spec->labels, "folder") == 0 &&
           mf_is_dir(path);
}

int mf_corpus_judge_labels(const mf_corpus_spec *spec, const char *path, mf_format format)
{
    if (!mf_corpus_labelled(spec)) return MF_OK;
    if (mf_topics_is(path))
        return mf_fail(MF_ECONFIG, "data.labels: %s has labels of its own: expected none",
                       path);
    if (given(spec->labels_path) != (format == MF_FORMAT_BIN) || format == MF_FORMAT_TSV)
        return mf_fail(
            MF_ECONFIG,
            "%s: data.labels: expected a member of jsonl objects, or folder for text "
            "files in folders, or labels_path for token files; found %s = %s with %s",
            path, given(spec->labels) ? "labels" : "labels_path",
            given(spec->labels) ? spec->labels : spec->labels_path,
            format == MF_FORMAT_BIN     ? "token files"
            : format == MF_FORMAT_TSV   ? "tsv"
            : format == MF_FORMAT_JSONL ? "jsonl"
                                        : "text");
    if (format == MF_FORMAT_TEXT && strcmp(spec->labels, "folder") != 0)
        return mf_fail(
            MF_ECONFIG,
            "%s: data.labels = %s: plain text has no such member: expected folder, if "
            "the texts of each domain are in a folder, or jsonl",
            path, spec->labels);
    if (format == MF_FORMAT_TEXT && spec->clean)
        return mf_fail(MF_ECONFIG, "data.labels = folder: expected data.clean = no");
    return MF_OK;
}

/* Whether the data can have labels of this form. */
static bool has_form(const mf_corpus_spec *spec)
{
    mf_source_files files;
    mf_format format = MF_FORMAT_TEXT;
    bool is;
    if (mf_topics_is(spec->path)) return false;
    if (strcmp(spec->labels, "folder") == 0 && mf_is_dir(spec->path)) {
        is = mf_source_files_in_folders(spec->path, &files) == MF_OK;
        if (is) mf_source_files_free(&files);
    } else {
        is = mf_format_of(spec->format, spec->path, &format) == MF_OK &&
             (format == MF_FORMAT_JSONL ||
              (format == MF_FORMAT_TEXT && strcmp(spec->labels, "folder") == 0 &&
               strpbrk(spec->path, "*?[") != NULL));
    }
    if (!is) mf_error_clear(); /* the reader of the data reports what is wrong with them */
    return is;
}

void mf_corpus_drop_labels(mf_corpus_spec *spec)
{
    const bool any = mf_corpus_labelled(spec);
    spec->labels_path = NULL;
    if (given(spec->labels) && !has_form(spec)) spec->labels = NULL;
    if (any && !mf_corpus_labelled(spec))
        mf_log(MF_LOG_WARN, "%s: no labels of the run: its tokens have none", spec->path);
}

/* ---- texts in folders ---- */

static int add_range(loader *l, int source, int32_t label)
{
    mf_label_range *grown = mf_realloc(l->ranges, (size_t)l->n_ranges * sizeof *grown,
                                       ((size_t)l->n_ranges + 1) * sizeof *grown);
    if (!grown) return MF_ENOMEM;
    l->ranges = grown;
    l->ranges[l->n_ranges++] = (mf_label_range){(int64_t)l->ids.n, label, source};
    return MF_OK;
}

/* The offset at which a domain's text is cut; never inside a character. */
static size_t cut_of(const mf_source *s, double share, size_t begin, size_t end)
{
    size_t cut = begin + (size_t)(share * (double)(end - begin));
    while (cut > begin && cut < end && ((unsigned char)s->text[cut] & 0xC0) == 0x80)
        cut--;
    return cut;
}

/* Adds the first part of each domain, or the part after its cut. */
static int add_parts(loader *l, int source, double share, bool rest, mf_split_range *r)
{
    mf_corpus *c = l->c;
    const mf_source *s = &l->source[source];
    int rc = MF_OK;
    *r = (mf_split_range){.begin = (int64_t)l->ids.n};
    for (int32_t i = 0; rc == MF_OK && i < s->n_domains; i++) {
        const size_t begin = i > 0 ? s->domain_end[i - 1] : 0, end = s->domain_end[i],
                     cut = share < 1 ? cut_of(s, share, begin, end) : end,
                     from = rest ? cut : begin, to = rest ? end : cut;
        if (from == to) continue;
        rc = c->tokenizer->ops->encode(c->tokenizer, s->path, from, s->text + from, to - from,
                                       &l->ids);
        if (rc == MF_OK) rc = add_range(l, source, i);
        r->bytes += to - from;
    }
    r->end = (int64_t)l->ids.n;
    r->tokens = r->end - r->begin;
    return rc;
}

int mf_corpus_add_domains(loader *l, int source, double share, mf_split split)
{
    int rc = add_parts(l, source, share, false, &l->c->split[split]);
    if (rc != MF_OK || share >= 1) return rc;
    rc = add_parts(l, source, share, true, &l->c->split[MF_SPLIT_VAL]);
    for (int i = 0; rc == MF_OK && i < 2; i++)
        if (l->c->split[i == 0 ? split : MF_SPLIT_VAL].tokens == 0)
            rc = mf_corpus_empty_side(l, i == 0 ? "training" : "validation", "bytes",
                                      l->source[source].size);
    return rc;
}

/* ---- labels of sources ---- */

/* Sets number[label] for each label of a source. */
static int number_labels(const loader *l, const mf_source *s, int32_t *number)
{
    const mf_corpus *c = l->c;
    for (int32_t i = 0; i < s->domains.n; i++) {
        number[i] = -1;
        for (int32_t k = 0; k < c->n_labels; k++)
            if (strcmp(s->domains.at[i].name, c->label_names[k]) == 0) number[i] = k;
        if (number[i] < 0 && l->spec->labels_optional)
            number[i] = MF_NO_LABEL;
        else if (number[i] < 0)
            return mf_fail(MF_EINPUT,
                           "%s: label \"%.40s\" does not occur in the training data (there are "
                           "%d, the first is \"%.40s\")",
                           s->path, s->domains.at[i].name, (int)c->n_labels, c->label_names[0]);
    }
    return MF_OK;
}

static int name_labels(loader *l)
{
    mf_corpus *c = l->c;
    const mf_corpus_spec *spec = l->spec;
    const mf_source *s = &l->source[0];
    int rc = spec->label_names
                 ? mf_corpus_copy_names(NULL, spec->label_names, spec->n_label_names,
                                        &c->label_names, &c->n_labels)
                 : mf_corpus_name_classes(s, &s->domains, 0, &c->label_names, &c->n_labels);
    if (rc == MF_OK && c->n_labels > LABELS_MAX)
        rc = mf_fail(MF_EINPUT,
                     "%s: data.labels = %s: %d distinct labels: expected at most %d domains",
                     s->path, spec->labels, (int)c->n_labels, LABELS_MAX);
    return rc;
}

/* Labels the documents of all sources, which are in the order of the spans. A limit may have
 * removed documents of the first source. */
static int label_documents(loader *l, int32_t *number)
{
    int64_t at = 0;
    for (int i = 0; i < MF_SOURCES; i++) {
        const mf_source *s = &l->source[i];
        const int rc = number_labels(l, s, number);
        if (rc != MF_OK) return rc;
        for (int64_t d = 0; d < s->n_documents; d++, at++)
            memset(l->c->labels + l->c->spans[at].begin,
                   s->documents[d].domain < 0 ? MF_NO_LABEL : number[s->documents[d].domain],
                   (size_t)l->c->spans[at].n);
    }
    return MF_OK;
}

static int label_ranges(loader *l, int32_t *number)
{
    int64_t begin = 0;
    int source = -1;
    for (int32_t i = 0; i < l->n_ranges; i++) {
        const mf_label_range *r = &l->ranges[i];
        if (r->source != source) {
            const int rc = number_labels(l, &l->source[r->source], number);
            if (rc != MF_OK) return rc;
            source = r->source;
        }
        memset(l->c->labels + begin, number[r->label], (size_t)(r->end - begin));
        begin = r->end;
    }
    return MF_OK;
}

/* ---- a file of ids ---- */

/* Names the labels 0, 1, ... */
static int name_ids(mf_corpus *c, const char *path, int32_t largest)
{
    char *digits[LABELS_MAX] = {0};
    int rc = MF_OK;
    if (largest >= LABELS_MAX)
        return mf_fail(MF_EINPUT, "%s: label %d: expected labels from 0 to %d", path,
                       (int)largest, LABELS_MAX - 1);
    for (int32_t i = 0; i <= largest; i++)
        if (!(digits[i] = mf_strf("%d", (int)i))) rc = MF_ENOMEM;
    if (rc == MF_OK)
        rc = mf_corpus_copy_names(NULL, (const char *const *)digits, largest + 1,
                                  &c->label_names, &c->n_labels);
    for (int32_t i = 0; i <= largest; i++)
        mf_free(digits[i]);
    return rc;
}

/* Reads one label for each token: of path, then of val_path. If both are the same file, the
 * labels are those of its tokens. */
static int label_ids(loader *l)
{
    mf_corpus *c = l->c;
    const mf_corpus_spec *spec = l->spec;
    const mf_source_options options = {.bin_bits = spec->bin_bits, .cache = ""};
    const bool twice = given(spec->val_path) && strcmp(spec->val_path, spec->path) == 0;
    const int64_t wanted = twice ? c->tokens / 2 : c->tokens;
    mf_source s;
    int32_t largest = 0;
    int rc = mf_source_load(&s, spec->labels_path, MF_FORMAT_BIN, &options);
    if (rc != MF_OK) return rc == MF_ENOTFOUND ? mf_fail_context(rc, "data.labels_path") : rc;
    if (s.tokens.n != wanted)
        rc = mf_fail(MF_EINPUT,
                     "%s: %lld labels: expected one for each of the %lld tokens of %s%s%s",
                     spec->labels_path, (long long)s.tokens.n, (long long)wanted, spec->path,
                     given(spec->val_path) && !twice ? " and " : "",
                     given(spec->val_path) && !twice ? spec->val_path : "");
    for (int32_t i = 0; i < s.tokens.n_parts; i++)
        if (s.tokens.part[i].largest > largest) largest = s.tokens.part[i].largest;
    if (rc == MF_OK && spec->label_names && largest >= spec->n_label_names)
        rc = mf_fail(MF_EINPUT, "%s: label %d: expected less than %d, the labels of the run",
                     spec->labels_path, (int)largest, (int)spec->n_label_names);
    if (rc == MF_OK)
        rc = name_ids(c, spec->labels_path,
                      spec->label_names ? spec->n_label_names - 1 : largest);
    for (int64_t i = 0; rc == MF_OK && i < c->tokens; i++)
        c->labels[i] = (uint8_t)mf_id_parts_id(&s.tokens, i % wanted);
    mf_source_free(&s);
    return rc;
}

static void warn_of_unlabelled(const loader *l)
{
    int64_t n = 0;
    for (int64_t i = 0; i < l->c->tokens; i++)
        n += l->c->labels[i] == MF_NO_LABEL;
    if (n > 0)
        mf_log(MF_LOG_WARN,
               "%s: %.1f %% of the tokens have no label of the run (data.labels = %s)",
               l->spec->path, 100 * (double)n / (double)l->c->tokens, l->spec->labels);
}

int mf_corpus_label_tokens(loader *l)
{
    mf_corpus *c = l->c;
    if (!mf_corpus_labelled(l->spec)) return MF_OK;
    int32_t *number = mf_alloc(MF_LABELS_MAX, sizeof *number);
    c->labels = mf_alloc((size_t)c->tokens + 1, 1);
    int rc = number && c->labels ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && given(l->spec->labels_path))
        rc = label_ids(l);
    else if (rc == MF_OK) {
        rc = name_labels(l);
        if (rc == MF_OK) rc = c->spans ? label_documents(l, number) : label_ranges(l, number);
    }
    c->given_labels = rc == MF_OK;
    if (rc == MF_OK && l->spec->labels_optional) warn_of_unlabelled(l);
    mf_free(number);
    return rc;
}
