/* data/source_lines.c: reads the formats with one document per line, jsonl and tsv. Every error
 * names the file. If a line is wrong, the error also names the line. */
#include "base/error.h"
#include "io/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "base/text/utf8.h"
#include "data/members/learned.h"
#include "data/source.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct line {
    const char *text;
    size_t n;
    int64_t number; /* number of the line, from 1 */
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

/* Reads the next line, without its LF or CRLF. Returns false at the end. */
static bool next_line(lines *l, line *ret)
{
    if (l->at == l->end) return false;
    const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
    const char *end = newline ? newline : l->end;
    ret->text = l->at;
    ret->n = (size_t)(end - l->at);
    if (ret->n > 0 && end[-1] == '\r') ret->n--;
    ret->number = ++l->number;
    l->at = newline ? newline + 1 : l->end;
    return true;
}

static bool is_blank(const line *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (!strchr(" \t\r", l->text[i]) || l->text[i] == 0) return false;
    return true;
}

static int check_line(const mf_source *s, const line *l)
{
    const char *nul = memchr(l->text, 0, l->n);
    if (nul)
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

static const mf_prediction no_answer = {-1, NAN};

/* Converts to float. Returns false if the value is outside the range of float. */
static bool to_value(double v, float *ret)
{
    if (!(fabs(v) <= (double)FLT_MAX)) return false;
    *ret = (float)v;
    return true;
}

/* ---- jsonl ---- */

static int json_number(const mf_source *s, const char *member, const mf_json *v, const line *l,
                       float *ret)
{
    double value;
    if (mf_json_real(v, &value) && to_value(value, ret)) return MF_OK;
    return mf_fail(MF_EINPUT, "%s:%lld: \"%s\": expected a number", s->path,
                   (long long)l->number, member);
}

/* Reads the label of an object. A missing member means that there is no label. */
static int json_answer(const mf_source *s, mf_labels *set, bool number, const char *member,
                       const mf_json *object, const line *l, mf_prediction *ret)
{
    const mf_json *v = mf_json_get(object, member);
    size_t n;
    int64_t whole;
    char digits[32];
    const char *name = mf_json_string(v, &n);
    *ret = no_answer;
    if (mf_json_typeof(v) == MF_JSON_NULL) return MF_OK;
    if (number) return json_number(s, member, v, l, &ret->value);
    if (!name && mf_json_int(v, &whole)) {
        n = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)whole);
        name = digits;
    }
    if (!name || n == 0 || memchr(name, 0, n) != NULL)
        return mf_fail(MF_EINPUT, "%s:%lld: \"%s\": expected a string or a whole number",
                       s->path, (long long)l->number, member);
    return mf_source_label(s, set, name, n, l->number, &ret->label);
}

static bool asked_for(const char *column)
{
    return column && *column != 0;
}

static const char *label_member(const mf_source *s)
{
    return asked_for(s->columns.label) ? s->columns.label : "label";
}

/* Whether a member contains the answer of a further task. */
static bool is_column(const mf_source *s, const char *key)
{
    for (int k = 0; k < s->columns.n_more; k++)
        if (strcmp(key, s->columns.more[k].column) == 0) return true;
    return false;
}

static bool is_domain(const mf_source *s, const char *key)
{
    return asked_for(s->columns.domain) && strcmp(key, s->columns.domain) == 0;
}

/* Reads the domain of the text, which every object must have if it is asked for. */
static int read_domain(mf_source *s, const mf_json *object, const line *l, int32_t *ret)
{
    mf_prediction p = no_answer;
    int rc = MF_OK;
    if (asked_for(s->columns.domain))
        rc = json_answer(s, &s->domains, false, s->columns.domain, object, l, &p);
    *ret = p.label;
    if (rc == MF_OK && p.label < 0 && asked_for(s->columns.domain) &&
        !s->columns.domain_optional)
        rc = mf_fail(
            MF_EINPUT,
            "%s:%lld: no \"%s\", the member that data.labels names: expected a string or "
            "a whole number",
            s->path, (long long)l->number, s->columns.domain);
    return rc;
}

/* Whether the line is marked as not learned. A member that contains a label or the answer of a
 * task does not count as such a mark. */
static bool is_skipped(const mf_source *s, const mf_json *object)
{
    const char *key;
    const mf_json *v;
    bool on;
    for (size_t i = 0; mf_json_member(object, i, &key, &v); i++)
        if (mf_learned_names(key) && strcmp(key, label_member(s)) != 0 && !is_column(s, key) &&
            !is_domain(s, key) && mf_learned_value(v, &on) && !on)
            return true;
    return false;
}

/* Notes the members of an object that are neither its text nor a label. */
static void note_unread(mf_source *s, const mf_json *object, const char *text)
{
    const char *key;
    const mf_json *v;
    for (size_t i = 0; mf_json_member(object, i, &key, &v); i++) {
        bool read = mf_json_typeof(v) == MF_JSON_NULL || strcmp(key, text) == 0 ||
                    strcmp(key, label_member(s)) == 0;
        read = read || is_column(s, key) || is_domain(s, key);
        bool on;
        read = read || (mf_learned_names(key) && mf_learned_value(v, &on));
        if (!read) mf_unread_note(&s->unread, "", key);
    }
}

static int add_json(mf_source *s, const line *l)
{
    char name[4096];
    snprintf(name, sizeof name, "%s:%lld", s->path, (long long)l->number);
    mf_json *object;
    int rc = mf_json_parse(name, l->text, l->n, &object);
    if (rc != MF_OK) return rc;
    if (is_skipped(s, object)) {
        s->skipped++;
        mf_json_free(object);
        return MF_OK;
    }
    mf_document d = {.begin = s->size, .line = l->number};
    bool turns = false;
    const char *member = asked_for(s->columns.text) ? s->columns.text : "text";
    const char *text = mf_json_string(mf_json_get(object, member), &d.n);
    mf_prediction more[MF_TASKS_MAX];
    d.answer = no_answer;
    for (int i = 0; i < s->columns.n_more; i++)
        more[i] = no_answer;
    if (!text || asked_for(s->columns.prompt) || asked_for(s->columns.answer) ||
        asked_for(s->columns.messages))
        rc = mf_source_read_turns(s, name, l->text, l->n, object, &d, &turns);
    if (rc == MF_OK && !turns && (!text || d.n == 0))
        rc = mf_fail(MF_EINPUT,
                     "%s: expected an object with a member \"%s\", a string that is not empty, "
                     "or \"prompt\" and \"answer\", or \"messages\"",
                     name, member);
    else if (rc == MF_OK && !turns)
        rc = json_answer(s, &s->labels, s->columns.number, label_member(s), object, l,
                         &d.answer);
    for (int i = 0; rc == MF_OK && !turns && i < s->columns.n_more; i++)
        rc = json_answer(s, &s->more[i], s->columns.more[i].number, s->columns.more[i].column,
                         object, l, &more[i]);
    if (rc == MF_OK) rc = read_domain(s, object, l, &d.domain);
    d.n_first = d.n;
    if (rc == MF_OK) {
        if (!turns) {
            mf_source_append(s, text, d.n);
            note_unread(s, object, member);
        }
        rc = mf_source_add_document(s, &d, more);
    }
    mf_json_free(object);
    return rc;
}

static bool answered(const mf_document *d)
{
    return d->answer.label >= 0 || !isnan(d->answer.value);
}

static int all_or_none(const mf_source *s)
{
    bool any = false;
    for (int64_t i = 0; i < s->n_documents; i++)
        any = any || answered(&s->documents[i]);
    for (int64_t i = 0; any && i < s->n_documents; i++)
        if (!answered(&s->documents[i]))
            return mf_fail(MF_EINPUT, "%s:%lld: no \"%s\", but other lines have one", s->path,
                           (long long)s->documents[i].line, label_member(s));
    return MF_OK;
}

int mf_source_read_jsonl(mf_source *s, const char *data, size_t size)
{
    lines all = lines_of(data, size);
    line l;
    while (next_line(&all, &l)) {
        if (is_blank(&l)) continue; /* other readers of JSON lines also skip blank lines */
        int rc = check_line(s, &l);
        if (rc == MF_OK) rc = add_json(s, &l);
        if (rc != MF_OK) return rc;
    }
    if (!s->told) mf_unread_tell(&s->unread, s->path);
    s->unread = (mf_unread){0};
    if (s->skipped > 0 && !s->told)
        mf_log(MF_LOG_INFO,
               "%s: %lld line%s skipped: weight, train, training or loss is 0 or false",
               s->path, (long long)s->skipped, s->skipped == 1 ? "" : "s");
    s->skipped = 0;
    if (s->n_documents == 0) return no_documents(s);
    return all_or_none(s);
}

/* ---- tsv ---- */

/* The number of columns, and the index of each that is read; -1: none. */
typedef struct columns {
    int32_t n, first, second, label, more[MF_TASKS_MAX];
    bool named;  /* the first line is a header */
    line header; /* the first line */
} columns;

static const char *const first_names[] = {"sentence1", "sentence_A", "premise",
                                          "sentence",  "text",       NULL};
static const char *const second_names[] = {"sentence2", "sentence_B", "hypothesis", NULL};
static const char *const label_names[] = {"gold_label", "entailment_judgment", "label", "class",
                                          NULL};
static const char *const number_names[] = {"relatedness_score", "score", "label", NULL};

static const char *const *usual_labels(const mf_source *s)
{
    return s->columns.number ? number_names : label_names;
}

/* Finds column i of a line, i from 0. Returns false if the line has fewer columns. */
static bool column(const line *l, int32_t i, const char **text, size_t *n)
{
    const char *at = l->text, *end = l->text + l->n;
    for (;; i--) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        if (i == 0) {
            *text = at;
            *n = (size_t)((tab ? tab : end) - at);
            return true;
        }
        if (!tab) return false;
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

/* Returns the index of the column that has one of the names, in any case; -1: none. If several
 * names occur, the first name in the list decides. */
static int32_t find_column(const line *header, const char *const *names)
{
    const char *text;
    size_t n;
    for (; names && *names != NULL; names++)
        for (int32_t i = 0; column(header, i, &text, &n); i++)
            if (n == strlen(*names) && strncasecmp(text, *names, n) == 0) return i;
    return -1;
}

static int no_column(const mf_source *s, const line *header, const char *name)
{
    return mf_fail(MF_EINPUT, "%s:1: no column named %s: the header is \"%.*s\"", s->path, name,
                   (int)(header->n < 200 ? header->n : 200), header->text);
}

/* Finds the column with the requested name (MF_EINPUT if there is none) or, if none is
 * requested, the column with a usual name (-1 if there is none). */
static int choose_column(const mf_source *s, const line *header, const char *asked,
                         const char *const *usual, int32_t *ret)
{
    const char *const only[] = {asked, NULL};
    if (!asked || *asked == 0) {
        *ret = find_column(header, usual);
        return MF_OK;
    }
    *ret = find_column(header, only);
    return *ret >= 0 ? MF_OK : no_column(s, header, asked);
}

/* Finds columns that are given by name. The first line must be a header with these names. */
static int named_columns(const mf_source *s, const line *l, columns *ret)
{
    const mf_columns *asked = &s->columns;
    const bool single = asked->second && strcmp(asked->second, "none") == 0;
    *ret = (columns){.n = count_columns(l), .second = -1, .named = true, .header = *l};
    int rc = choose_column(s, l, asked->first, first_names, &ret->first);
    if (rc == MF_OK && !single)
        rc = choose_column(s, l, asked->second, second_names, &ret->second);
    if (rc == MF_OK) rc = choose_column(s, l, asked->label, usual_labels(s), &ret->label);
    if (rc == MF_OK && ret->first < 0) rc = no_column(s, l, "sentence");
    if (rc == MF_OK && ret->label < 0) rc = no_column(s, l, "label");
    for (int i = 0; rc == MF_OK && i < asked->n_more; i++)
        rc = choose_column(s, l, asked->more[i].column, NULL, &ret->more[i]);
    return rc;
}

static int judge_columns(const mf_source *s, const line *l, columns *ret)
{
    if (asked_for(s->columns.first) || asked_for(s->columns.second) ||
        asked_for(s->columns.label) || s->columns.n_more > 0)
        return named_columns(s, l, ret);
    *ret = (columns){.n = count_columns(l),
                     .first = find_column(l, first_names),
                     .second = find_column(l, second_names),
                     .label = find_column(l, usual_labels(s)),
                     .header = *l};
    ret->named = ret->first >= 0 && (ret->label >= 0 || ret->second >= 0);
    if (ret->named && ret->label >= 0) return MF_OK;
    if (ret->named)
        return mf_fail(MF_EINPUT, "%s:1: the header names no label: expected a column %s",
                       s->path,
                       s->columns.number ? "relatedness_score, score or label"
                                         : "gold_label, entailment_judgment, label or class");
    if (ret->n == 2)
        *ret = (columns){.n = 2, .first = 0, .second = -1, .label = 1};
    else if (ret->n == 3)
        *ret = (columns){.n = 3, .first = 0, .second = 1, .label = 2};
    else
        return mf_fail(
            MF_EINPUT,
            "%s:1: %d column%s: expected SENTENCE TAB LABEL, SENTENCE TAB SENTENCE TAB "
            "LABEL, or a header that names columns sentence (or sentence1, sentence2) "
            "and label",
            s->path, (int)ret->n, ret->n == 1 ? "" : "s");
    return MF_OK;
}

/* Writes "column score" to out, or "column 3" if the file does not name its columns. */
static const char *column_name(const columns *c, int32_t i, char out[96])
{
    const char *name = "";
    size_t n = 0;
    if (c->named && column(&c->header, i, &name, &n))
        snprintf(out, 96, "column %.*s", (int)(n < 80 ? n : 80), name);
    else
        snprintf(out, 96, "column %d", (int)i + 1);
    return out;
}

static int tsv_number(const mf_source *s, const columns *c, int32_t i, const line *l,
                      const char *text, size_t n, float *ret)
{
    char copy[64], name[96];
    double value;
    if (n < sizeof copy) {
        memcpy(copy, text, n);
        copy[n] = '\0';
        if (mf_parse_f64(copy, &value) && to_value(value, ret)) return MF_OK;
    }
    return mf_fail(MF_EINPUT, "%s:%lld: %s: \"%.*s\": expected a number", s->path,
                   (long long)l->number, column_name(c, i, name), (int)(n < 40 ? n : 40), text);
}

/* Reads the value of a line in further column k; "-" means no label. */
static int tsv_more(mf_source *s, const columns *c, int k, const line *l, mf_prediction *ret)
{
    const char *text = "";
    size_t n = 0;
    char name[96];
    column(l, c->more[k], &text, &n);
    *ret = no_answer;
    if (n == 1 && *text == '-') return MF_OK;
    if (n == 0)
        return mf_fail(MF_EINPUT, "%s:%lld: %s: the label is empty", s->path,
                       (long long)l->number, column_name(c, c->more[k], name));
    return s->columns.more[k].number
               ? tsv_number(s, c, c->more[k], l, text, n, &ret->value)
               : mf_source_label(s, &s->more[k], text, n, l->number, &ret->label);
}

static int add_example(mf_source *s, const columns *c, const line *l, int64_t *skipped)
{
    mf_prediction more[MF_TASKS_MAX];
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
    if (n_label == 1 && *label == '-' && !s->columns.number) {
        ++*skipped;
        return MF_OK;
    }
    mf_document d = {.begin = s->size,
                     .n = n_first + n_second,
                     .n_first = n_first,
                     .line = l->number,
                     .answer = no_answer};
    int rc = s->columns.number
                 ? tsv_number(s, c, c->label, l, label, n_label, &d.answer.value)
                 : mf_source_label(s, &s->labels, label, n_label, l->number, &d.answer.label);
    for (int i = 0; rc == MF_OK && i < s->columns.n_more; i++)
        rc = tsv_more(s, c, i, l, &more[i]);
    if (rc != MF_OK) return rc;
    mf_source_append(s, first, n_first);
    mf_source_append(s, second, n_second);
    return mf_source_add_document(s, &d, more);
}

/* Whether this line and all lines after it are empty. Editors write such lines at the end. */
static bool is_end(const lines *all, const line *l)
{
    const char *at = all->at;
    while (at < all->end && (*at == '\n' || *at == '\r'))
        at++;
    return l->n == 0 && l->number > 1 && at == all->end;
}

/* Warns if the columns are probably not in the order of files without a header: all labels
 * together are much longer than all texts. */
static void judge_order(const mf_source *s, const columns *c, size_t texts, size_t labels)
{
    if (s->told || c->named || labels <= 2 * texts) return;
    mf_log(MF_LOG_WARN,
           "%s: column 1 is taken as text and column %d as label, but the labels are longer; "
           "if they are not in this order, a first line names them: label TAB sentence",
           s->path, (int)c->label + 1);
}

int mf_source_read_tsv(mf_source *s, const char *data, size_t size)
{
    lines all = lines_of(data, size);
    line l;
    columns c = {0};
    int64_t skipped = 0;
    const size_t before = s->size;
    while (next_line(&all, &l)) {
        if (is_end(&all, &l)) break;
        int rc = check_line(s, &l);
        if (rc == MF_OK && l.number == 1) rc = judge_columns(s, &l, &c);
        if (rc == MF_OK && !(l.number == 1 && c.named)) rc = add_example(s, &c, &l, &skipped);
        if (rc != MF_OK) return rc;
    }
    s->pairs = c.second >= 0;
    judge_order(s, &c, s->size - before,
                size > s->size - before ? size - (s->size - before) : 0);
    if (skipped > 0 && !s->told)
        mf_log(MF_LOG_WARN, "%s: %lld examples skipped: their label is \"-\"", s->path,
               (long long)skipped);
    return s->n_documents > 0 ? MF_OK : no_documents(s);
}
