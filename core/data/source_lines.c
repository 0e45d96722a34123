/* data/source_lines.c: formats of one document a line, jsonl and tsv. */
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "data/source.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct line {
    const char *text;
    size_t n;
    int64_t number; /* from 1 */
} line;

typedef struct lines {
    const char *at, *end;
    int64_t number;
} lines;

static lines lines_of(const char *data, size_t size)
{
    lines l = {data, data + size, 0};
    if (size >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0) l.at += 3;
    return l;
}

/* The next line, without its LF or CRLF. */
static bool next_line(lines *l, line *ret)
{
    if (l->at == l->end) return false;
    const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
    const char *end = newline != NULL ? newline : l->end;
    ret->text = l->at;
    ret->n = (size_t)(end - l->at);
    if (ret->n > 0 && end[-1] == '\r') ret->n--;
    ret->number = ++l->number;
    l->at = newline != NULL ? newline + 1 : l->end;
    return true;
}

static int check_line(const mf_source *s, const line *l)
{
    const char *nul = memchr(l->text, 0, l->n);
    if (nul != NULL)
        return mf_fail(MF_EINPUT, "%s:%lld: NUL at byte %zu of the line", s->path,
                       (long long)l->number, (size_t)(nul - l->text));
    size_t valid = mf_utf8_check(l->text, l->n);
    if (valid < l->n)
        return mf_fail(MF_EINPUT, "%s:%lld: byte %zu of the line (0x%02x) is not valid UTF-8",
                       s->path, (long long)l->number, valid, (unsigned char)l->text[valid]);
    if (l->n == 0)
        return mf_fail(MF_EINPUT, "%s:%lld: the line is empty: expected %s", s->path,
                       (long long)l->number, "one document or example a line");
    return MF_OK;
}

static int no_documents(const mf_source *s)
{
    return mf_fail(MF_EINPUT, "%s: no examples in the file", s->path);
}

/* ---- jsonl ---- */

static int json_label(mf_source *s, const mf_json *v, const line *l, int32_t *ret)
{
    size_t n;
    int64_t number;
    char digits[32];
    const char *name = mf_json_string(v, &n);
    *ret = -1;
    if (v == NULL) return MF_OK;
    if (name == NULL && mf_json_int(v, &number)) {
        n = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)number);
        name = digits;
    }
    if (name == NULL || n == 0 || memchr(name, 0, n) != NULL)
        return mf_fail(MF_EINPUT, "%s:%lld: \"label\": expected a string or a whole number",
                       s->path, (long long)l->number);
    return mf_source_label(s, name, n, l->number, ret);
}

static int add_json(mf_source *s, const line *l)
{
    char name[4096];
    snprintf(name, sizeof name, "%s:%lld", s->path, (long long)l->number);
    mf_json *object;
    int code = mf_json_parse(name, l->text, l->n, &object);
    if (code != MF_OK) return code;
    mf_document d = {.begin = s->size, .line = l->number};
    const char *text = mf_json_string(mf_json_get(object, "text"), &d.n);
    if (text == NULL || d.n == 0)
        code = mf_fail(MF_EINPUT,
                       "%s: expected an object with a member \"text\", a string that "
                       "is not empty",
                       name);
    else
        code = json_label(s, mf_json_get(object, "label"), l, &d.label);
    d.n_first = d.n;
    if (code == MF_OK) {
        mf_source_append(s, text, d.n);
        code = mf_source_add_document(s, &d);
    }
    mf_json_free(object);
    return code;
}

int mf_source_read_jsonl(mf_source *s, const char *data, size_t size)
{
    lines all = lines_of(data, size);
    line l;
    while (next_line(&all, &l)) {
        int code = check_line(s, &l);
        if (code == MF_OK) code = add_json(s, &l);
        if (code != MF_OK) return code;
    }
    for (int64_t i = 0; s->n_labels > 0 && i < s->n_documents; i++)
        if (s->documents[i].label < 0)
            return mf_fail(MF_EINPUT, "%s:%lld: no \"label\", but other lines have one",
                           s->path, (long long)s->documents[i].line);
    return s->n_documents > 0 ? MF_OK : no_documents(s);
}

/* ---- tsv ---- */

/* Which column holds what; -1: none. */
typedef struct columns {
    int32_t n, first, second, label;
    bool named; /* the first line is a header */
} columns;

static const char *const first_names[] = {"sentence1", "sentence_A", "premise",
                                          "sentence",  "text",       NULL};
static const char *const second_names[] = {"sentence2", "sentence_B", "hypothesis", NULL};
static const char *const label_names[] = {"gold_label", "entailment_judgment", "label", "class",
                                          NULL};

/* The i-th column of a line; false when there are fewer. */
static bool column(const line *l, int32_t i, const char **text, size_t *n)
{
    const char *at = l->text, *end = l->text + l->n;
    for (;; i--) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        if (i == 0) {
            *text = at;
            *n = (size_t)((tab != NULL ? tab : end) - at);
            return true;
        }
        if (tab == NULL) return false;
        at = tab + 1;
    }
}

static int32_t count_columns(const line *l)
{
    int32_t n = 1;
    for (size_t i = 0; i < l->n; i++)
        n += l->text[i] == '\t';
    return n;
}

/* Column of the first of the names that the header has, in any case. */
static int32_t find_column(const line *header, const char *const *names)
{
    const char *text;
    size_t n;
    for (; *names != NULL; names++)
        for (int32_t i = 0; column(header, i, &text, &n); i++)
            if (n == strlen(*names) && strncasecmp(text, *names, n) == 0) return i;
    return -1;
}

static int no_column(const mf_source *s, const line *header, const char *name)
{
    return mf_fail(MF_EINPUT, "%s:1: no column named %s: the header is \"%.*s\"", s->path, name,
                   (int)(header->n < 200 ? header->n : 200), header->text);
}

/* The column that was asked for by name, or else the one with a usual name. */
static int choose_column(const mf_source *s, const line *header, const char *asked,
                         const char *const *usual, int32_t *ret)
{
    const char *const only[] = {asked, NULL};
    if (asked == NULL || *asked == 0) {
        *ret = find_column(header, usual);
        return MF_OK;
    }
    *ret = find_column(header, only);
    return *ret >= 0 ? MF_OK : no_column(s, header, asked);
}

/* Columns that were named: then the first line is a header, and has them. */
static int named_columns(const mf_source *s, const line *l, columns *ret)
{
    const mf_columns *asked = &s->columns;
    const bool single = asked->second != NULL && strcmp(asked->second, "none") == 0;
    *ret = (columns){.n = count_columns(l), .second = -1, .named = true};
    int code = choose_column(s, l, asked->first, first_names, &ret->first);
    if (code == MF_OK && !single)
        code = choose_column(s, l, asked->second, second_names, &ret->second);
    if (code == MF_OK) code = choose_column(s, l, asked->label, label_names, &ret->label);
    if (code == MF_OK && ret->first < 0) code = no_column(s, l, "sentence");
    if (code == MF_OK && ret->label < 0) code = no_column(s, l, "label");
    return code;
}

static bool asked_for(const char *column)
{
    return column != NULL && *column != 0;
}

static int judge_columns(const mf_source *s, const line *l, columns *ret)
{
    if (asked_for(s->columns.first) || asked_for(s->columns.second) ||
        asked_for(s->columns.label))
        return named_columns(s, l, ret);
    *ret = (columns){.n = count_columns(l),
                     .first = find_column(l, first_names),
                     .second = find_column(l, second_names),
                     .label = find_column(l, label_names)};
    ret->named = ret->first >= 0 && (ret->label >= 0 || ret->second >= 0);
    if (ret->named && ret->label >= 0) return MF_OK;
    if (ret->named)
        return mf_fail(MF_EINPUT,
                       "%s:1: the header names no label: expected a column gold_label, "
                       "entailment_judgment, label or class",
                       s->path);
    if (ret->n == 2)
        *ret = (columns){2, 0, -1, 1, false};
    else if (ret->n == 3)
        *ret = (columns){3, 0, 1, 2, false};
    else
        return mf_fail(
            MF_EINPUT,
            "%s:1: %d column%s: expected SENTENCE TAB LABEL, SENTENCE TAB SENTENCE TAB "
            "LABEL, or a header that names columns sentence (or sentence1, sentence2) "
            "and label",
            s->path, (int)ret->n, ret->n == 1 ? "" : "s");
    return MF_OK;
}

static int add_example(mf_source *s, const columns *c, const line *l, int64_t *left_out)
{
    const char *first = "", *second = "", *label = "";
    size_t n_first = 0, n_second = 0, n_label = 0;
    int32_t n = count_columns(l);
    if (n != c->n)
        return mf_fail(MF_EINPUT, "%s:%lld: %d column%s: expected %d, as in the first line",
                       s->path, (long long)l->number, (int)n, n == 1 ? "" : "s", (int)c->n);
    column(l, c->first, &first, &n_first);
    column(l, c->label, &label, &n_label);
    if (c->second >= 0) column(l, c->second, &second, &n_second);
    if (n_first == 0 || (c->second >= 0 && n_second == 0))
        return mf_fail(MF_EINPUT, "%s:%lld: the %ssentence is empty", s->path,
                       (long long)l->number,
                       c->second < 0  ? ""
                       : n_first == 0 ? "first "
                                      : "second ");
    if (n_label == 0)
        return mf_fail(MF_EINPUT, "%s:%lld: the label is empty", s->path, (long long)l->number);
    if (n_label == 1 && *label == '-') {
        ++*left_out;
        return MF_OK;
    }
    mf_document d = {
        .begin = s->size, .n = n_first + n_second, .n_first = n_first, .line = l->number};
    int code = mf_source_label(s, label, n_label, l->number, &d.label);
    if (code != MF_OK) return code;
    mf_source_append(s, first, n_first);
    mf_source_append(s, second, n_second);
    return mf_source_add_document(s, &d);
}

int mf_source_read_tsv(mf_source *s, const char *data, size_t size)
{
    lines all = lines_of(data, size);
    line l;
    columns c = {0};
    int64_t left_out = 0;
    while (next_line(&all, &l)) {
        int code = check_line(s, &l);
        if (code == MF_OK && l.number == 1) code = judge_columns(s, &l, &c);
        if (code == MF_OK && !(l.number == 1 && c.named))
            code = add_example(s, &c, &l, &left_out);
        if (code != MF_OK) return code;
    }
    s->pairs = c.second >= 0;
    if (left_out > 0)
        mf_log(MF_LOG_WARN, "%s: %lld examples left out: their label is \"-\"", s->path,
               (long long)left_out);
    return s->n_documents > 0 ? MF_OK : no_documents(s);
}
