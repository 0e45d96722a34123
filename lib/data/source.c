/* data/source.c: reads the files of one part of a corpus in their format. A source that failed
 * to load is empty. */
#include "data/source.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/recognise.h"
#include "data/source_files.h"

#include <string.h>

static const char *const formats[] = {"text", "jsonl", "tsv", "bin", NULL};

/* Whether the file holds JSON lines; false if it cannot be read. */
static bool holds_jsonl(const char *path)
{
    enum { HEAD = 1 << 16 };
    char *data = NULL;
    uint64_t size = 0;
    size_t n = 0;
    int fd = -1, rc;
    if (mf_is_standard_input(path)) {
        rc = mf_read_input(path, 0, &data, &n);
    } else {
        rc = mf_file_open(path, &fd, &size);
        n = size < HEAD ? (size_t)size : HEAD;
        if (rc == MF_OK && !(data = mf_alloc_raw(n + 1))) rc = MF_ENOMEM;
        if (rc == MF_OK) rc = mf_file_read_at(fd, path, data, n, 0);
        mf_file_close(fd);
    }
    const bool is = rc == MF_OK && mf_recognise_jsonl(data, n);
    mf_free(data);
    if (rc != MF_OK) mf_error_clear(); /* the reader of the file reports this error */
    return is;
}

/* Finds the format of one file by its ending or its content. */
static mf_format format_of_file(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (mf_topics_is(path)) return MF_FORMAT_TEXT;
    for (int i = 0; dot && formats[i]; i++)
        if (strcmp(dot + 1, formats[i]) == 0 && i != MF_FORMAT_TEXT) return (mf_format)i;
    return holds_jsonl(path) ? MF_FORMAT_JSONL : MF_FORMAT_TEXT;
}

int mf_format_of(const char *name, const char *path, mf_format *ret)
{
    if (!name || *name == 0 || strcmp(name, "auto") == 0) {
        mf_source_files files;
        const int rc = mf_source_files_of(path, &files);
        if (rc != MF_OK) return rc;
        *ret = format_of_file(files.path[0]);
        mf_source_files_free(&files);
        return MF_OK;
    }
    for (int i = 0; formats[i] != NULL; i++)
        if (strcmp(name, formats[i]) == 0) {
            *ret = (mf_format)i;
            return MF_OK;
        }
    const char *nearest = mf_nearest(name, formats);
    return mf_fail(
        MF_ECONFIG, "unknown data format %s: expected auto, text, jsonl, tsv, bin%s%s%s", name,
        nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

void mf_source_append(mf_source *s, const char *text, size_t n)
{
    memcpy(s->text + s->size, text, n);
    s->size += n;
}

static int add_answers(mf_source *s, const mf_prediction *more)
{
    const int64_t n = s->columns.n_more;
    if (s->n_answers + n > s->answers_cap) {
        const int64_t cap = s->answers_cap < 256 ? 256 : s->answers_cap * 2;
        mf_prediction *grown = mf_realloc(s->answers, (size_t)s->n_answers * sizeof *grown,
                                          (size_t)cap * sizeof *grown);
        if (!grown) return MF_ENOMEM;
        s->answers = grown;
        s->answers_cap = cap;
    }
    memcpy(s->answers + s->n_answers, more, (size_t)n * sizeof *more);
    s->n_answers += n;
    return MF_OK;
}

int mf_source_add_document(mf_source *s, const mf_document *d, const mf_prediction *more)
{
    if (s->n_documents == s->documents_cap) {
        int64_t cap = s->documents_cap < 256 ? 256 : s->documents_cap * 2;
        mf_document *larger = mf_realloc(s->documents, (size_t)s->n_documents * sizeof *larger,
                                         (size_t)cap * sizeof *larger);
        if (!larger) return MF_ENOMEM;
        s->documents = larger;
        s->documents_cap = cap;
    }
    s->documents[s->n_documents] = *d;
    s->documents[s->n_documents++].more = s->n_answers;
    return s->columns.n_more > 0 ? add_answers(s, more) : MF_OK;
}

int mf_source_label(const mf_source *s, mf_labels *set, const char *name, size_t n,
                    int64_t line, int32_t *ret)
{
    for (int32_t i = 0; i < set->n; i++)
        if (strncmp(set->at[i].name, name, n) == 0 && set->at[i].name[n] == 0) {
            *ret = i;
            return MF_OK;
        }
    if (set->n == MF_LABELS_MAX)
        return mf_fail(
            MF_EINPUT,
            "%s:%lld: label \"%.*s\": more than %d distinct labels: is this the label's "
            "column?",
            s->path, (long long)line, (int)(n < 40 ? n : 40), name, MF_LABELS_MAX);
    if (set->n == set->cap) {
        int32_t cap = set->cap < 16 ? 16 : set->cap * 2;
        mf_label *more =
            mf_realloc(set->at, (size_t)set->n * sizeof *more, (size_t)cap * sizeof *more);
        if (!more) return MF_ENOMEM;
        set->at = more;
        set->cap = cap;
    }
    char *copy = mf_strndup(name, n);
    if (!copy) return MF_ENOMEM;
    *ret = set->n;
    set->at[set->n++] = (mf_label){copy, line};
    return MF_OK;
}

static int load_topics(mf_source *s)
{
    mf_topics_spec spec;
    int rc = mf_topics_parse(s->path, &spec);
    if (rc == MF_OK) rc = mf_topics_make(&spec, &s->topics);
    if (rc != MF_OK) return rc;
    s->text = s->topics->text;
    s->size = s->topics->size;
    return MF_OK;
}

/* Maps a file; *ret_own is then NULL. Standard input is copied into memory that is used like a
 * mapped file; the caller frees this memory, *ret_own. */
static int map_input(const char *path, mf_map *ret, char **ret_own)
{
    *ret = (mf_map){0};
    *ret_own = NULL;
    if (!mf_is_standard_input(path)) return mf_map_open(path, ret);
    const int rc = mf_read_input(path, 0, ret_own, &ret->size);
    ret->data = *ret_own;
    return rc;
}

/* Reads the ids of a token file. If a Megatron-LM index is beside the file, the index
 * is used. */
static int read_ids(mf_source *s, int32_t bin_bits)
{
    const size_t n = strlen(s->path);
    mf_map map = {0}, index = {0};
    char *own = NULL;
    const bool named = n > 4 && strcmp(s->path + n - 4, ".bin") == 0;
    char *path = named ? mf_strf("%.*s.idx", (int)n - 4, s->path) : NULL;
    if (named && !path) return MF_ENOMEM;
    int rc = map_input(s->path, &map, &own);
    if (rc == MF_OK && map.size == 0) rc = mf_fail(MF_EINPUT, "%s: the file is empty", s->path);
    if (rc == MF_OK && path && mf_exists(path)) rc = mf_map_open(path, &index);
    if (rc == MF_OK)
        rc = mf_source_is_megatron(index.data, index.size)
                 ? mf_source_read_megatron(s, &map, path, &index)
                 : mf_source_read_bin(s, &map, bin_bits);
    s->is_ids = true;
    mf_map_close(&index);
    if (own) map.data = NULL;
    mf_map_close(&map);
    mf_free(own);
    mf_free(path);
    return rc;
}

/* Makes space for `size` more bytes of text. */
static int grow_text(mf_source *s, size_t size)
{
    char *more = mf_realloc(s->text, s->size, s->size + size);
    if (!more) return MF_ENOMEM;
    s->text = more;
    return MF_OK;
}

static int read_file(mf_source *s, mf_format format)
{
    char *data;
    size_t size;
    int rc = mf_read_input(s->path, 0, &data, &size);
    if (rc != MF_OK) return rc;
    rc = mf_recognise_foreign(s->path, data, size);
    if (rc == MF_OK && size == 0) rc = mf_fail(MF_EINPUT, "%s: the file is empty", s->path);
    if (rc == MF_OK && format == MF_FORMAT_TEXT && !s->text) { /* a single file is not copied */
        s->text = data;
        s->size = size;
        return MF_OK;
    }
    if (rc == MF_OK) rc = grow_text(s, size);
    if (rc != MF_OK) {
        mf_free(data);
        return rc;
    }
    if (format == MF_FORMAT_TEXT)
        mf_source_append(s, data, size);
    else if (format == MF_FORMAT_JSONL)
        rc = mf_source_read_jsonl(s, data, size);
    else
        rc = mf_source_read_tsv(s, data, size);
    mf_free(data);
    return rc;
}

/* Finds out whether the text files are large enough to be read in pieces (`large` bytes). */
static int judge_size(mf_source *s, uint64_t large)
{
    uint64_t all = 0;
    s->files.end = mf_alloc((size_t)s->files.n, sizeof *s->files.end);
    if (!s->files.end) return MF_ENOMEM;
    for (int i = 0; i < s->files.n; i++) {
        uint64_t size;
        char head[16] = {0};
        int fd;
        if (mf_is_standard_input(s->files.path[i])) return MF_OK;
        int rc = mf_file_open(s->files.path[i], &fd, &size);
        if (rc != MF_OK) return rc;
        const size_t n = size < sizeof head ? (size_t)size : sizeof head;
        rc = mf_file_read_at(fd, s->files.path[i], head, n, 0);
        mf_file_close(fd);
        if (rc == MF_OK) rc = mf_recognise_foreign(s->files.path[i], head, n);
        if (rc == MF_OK && size == 0)
            rc = mf_fail(MF_EINPUT, "%s: the file is empty", s->files.path[i]);
        if (rc != MF_OK) return rc;
        all += size;
        s->files.end[i] = all;
    }
    s->large = all >= large;
    if (s->large) s->size = (size_t)all;
    return MF_OK;
}

/* Reads text files. The folder of a file is its domain; files are sorted by path, so files of a
 * domain are neighbours. */
static int load_domains(mf_source *s)
{
    const char *whole = s->path;
    int rc = mf_source_files_in_folders(whole, &s->files);
    if (rc == MF_OK && !(s->domain_end = mf_alloc((size_t)s->files.n, sizeof *s->domain_end)))
        rc = MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < s->files.n; i++) {
        const char *path = s->files.path[i], *end = strrchr(path, '/'), *name = end;
        int32_t domain = 0;
        while (name > path && name[-1] != '/')
            name--;
        s->path = path;
        if (format_of_file(path) != MF_FORMAT_TEXT)
            rc = mf_fail(MF_EINPUT,
                         "%s: data.labels = folder reads text, and this file seems to be %s",
                         path, formats[format_of_file(path)]);
        if (rc == MF_OK)
            rc = mf_source_label(s, &s->domains, name, (size_t)(end - name), 0, &domain);
        if (rc == MF_OK && domain != s->n_domains && domain != s->n_domains - 1)
            rc = mf_fail(MF_EINPUT,
                         "%s: two folders are called %.*s: expected one folder for each domain",
                         path, (int)(end - name), name);
        if (rc == MF_OK && !s->text && !(s->text = mf_alloc_raw(1))) rc = MF_ENOMEM;
        if (rc == MF_OK) rc = read_file(s, MF_FORMAT_TEXT);
        if (rc != MF_OK) break;
        s->n_domains = domain + 1;
        s->domain_end[domain] = s->size;
    }
    s->path = whole;
    return rc;
}

static int load_files(mf_source *s, mf_format format, const mf_source_options *o)
{
    const char *whole = s->path;
    if (format == MF_FORMAT_TEXT && s->columns.domain && *s->columns.domain)
        return load_domains(s);
    int rc = mf_source_files_of(whole, &s->files);
    if (rc == MF_OK && format == MF_FORMAT_TEXT && o->large > 0) rc = judge_size(s, o->large);
    for (int i = 0; rc == MF_OK && !s->large && i < s->files.n; i++) {
        s->path = s->files.path[i]; /* messages name the current file */
        rc = format == MF_FORMAT_BIN ? read_ids(s, o->bin_bits) : read_file(s, format);
    }
    s->path = whole;
    return rc;
}

int mf_source_load(mf_source *s, const char *path, mf_format format,
                   const mf_source_options *options)
{
    *s = (mf_source){.path = path, .cache = options->cache, .told = options->told};
    if (options->columns) s->columns = *options->columns;
    int rc = mf_topics_is(path) ? load_topics(s) : load_files(s, format, options);
    if (rc != MF_OK) mf_source_free(s);
    return rc;
}

static void free_labels(mf_labels *set)
{
    for (int32_t i = 0; i < set->n; i++)
        mf_free(set->at[i].name);
    mf_free(set->at);
}

void mf_source_free(mf_source *s)
{
    free_labels(&s->labels);
    free_labels(&s->domains);
    mf_free(s->domain_end);
    for (int i = 0; i < MF_TASKS_MAX; i++)
        free_labels(&s->more[i]);
    if (!s->topics) mf_free(s->text);
    mf_topics_free(s->topics);
    mf_free(s->answers);
    mf_free(s->documents);
    mf_free(s->turns);
    mf_free(s->own);
    mf_id_parts_free(&s->tokens);
    mf_source_files_free(&s->files);
    *s = (mf_source){0};
}
