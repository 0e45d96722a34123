/* data/jinja/methods.c: methods of texts and dictionaries, with the rules of Python. Those that
 * change a value do not exist here, as in the sandbox of transformers. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"
#include "io/unicode.h"

#include <string.h>

static size_t read(jv v, size_t at, uint32_t *c)
{
    return mf_unicode_read(v.as.s + at, v.n - at, c);
}

static bool is_blank(uint32_t c)
{
    return mf_unicode_is_space(c) || (c >= 0x1c && c <= 0x1f);
}

/* Whether a character is removed: it is among `chars`, or blank if that is no text. */
static bool is_removed(jj_run *r, jv chars, uint32_t c)
{
    if (!jj_spend(r, 4)) return false;
    if (chars.kind != JV_STRING) return is_blank(c);
    for (size_t at = 0; at < chars.n && jj_spend(r, 4);) {
        uint32_t other;
        at += read(chars, at, &other);
        if (other == c) return true;
    }
    return false;
}

jv jj_trim(jj_run *r, jv v, jv chars, bool left, bool right)
{
    size_t begin = 0, end = v.n;
    uint32_t c;
    while (left && begin < end) {
        const size_t n = read(v, begin, &c);
        if (!is_removed(r, chars, c)) break;
        begin += n;
    }
    while (right && begin < end) {
        size_t last = end - 1;
        while (((unsigned char)v.as.s[last] & 0xc0) == 0x80)
            last--;
        read(v, last, &c);
        if (!is_removed(r, chars, c)) break;
        end = last;
    }
    return jv_text(v.as.s + begin, end - begin);
}

/* ---- cases ---- */

static void add_case(jj_run *r, jj_out *out, uint32_t c, bool upper)
{
    char text[4];
    if (upper && c == 0xdf)
        jj_add(r, out, "SS", 2);
    else
        jj_add(r, out, text,
               mf_unicode_write(upper ? mf_unicode_upper(c) : mf_unicode_lower(c), text));
}

jv jj_upper(jj_run *r, jv v, bool upper)
{
    jj_out out = {0};
    for (size_t at = 0; at < v.n && r->rc == MF_OK;) {
        uint32_t c;
        at += read(v, at, &c);
        add_case(r, &out, c, upper);
    }
    return jj_captured(r, &out);
}

/* Whether a word may begin behind this character: for the filter title. */
static bool ends_word(uint32_t c)
{
    return is_blank(c) || (c < 0x80 && c && strchr("-({[<", (int)c));
}

jv jj_title(jj_run *r, jv v, bool every_word)
{
    jj_out out = {0};
    bool begins = true;
    for (size_t at = 0; at < v.n && r->rc == MF_OK;) {
        uint32_t c;
        at += read(v, at, &c);
        add_case(r, &out, c, begins);
        begins = every_word && ends_word(c);
    }
    return jj_captured(r, &out);
}

/* The method title: a word begins behind each character that is no letter with case. */
static jv title(jj_run *r, jv v)
{
    jj_out out = {0};
    bool begins = true;
    for (size_t at = 0; at < v.n && r->rc == MF_OK;) {
        uint32_t c;
        at += read(v, at, &c);
        add_case(r, &out, c, begins);
        begins = !(mf_unicode_category(c) & (MF_UC_LU | MF_UC_LL | MF_UC_LT));
    }
    return jj_captured(r, &out);
}

/* ---- parts ---- */

static jv need_text(jj_run *r, jv v, const char *method)
{
    if (v.kind != JV_STRING)
        return jj_fail(r, "%s: expected a text, found %s", method, jv_type(v));
    return v;
}

static int64_t count_of(jj_run *r, jv v)
{
    if (v.kind == JV_UNDEFINED || v.kind == JV_NONE) return -1;
    if (v.kind != JV_INT) jj_fail(r, "expected a whole number, found %s", jv_type(v));
    return v.kind == JV_INT ? v.as.i : -1;
}

jv jj_replace(jj_run *r, jv v, jv from, jv to, int64_t most)
{
    jj_out out = {0};
    size_t at = 0;
    need_text(r, from, "replace");
    need_text(r, to, "replace");
    if (!jj_spend(r, v.n)) return jv_none();
    for (int64_t i = 0; i != most && jj_step(r, 0); i++) {
        if (from.n == 0) { /* between all characters */
            jj_add(r, &out, to.as.s, to.n);
            if (at == v.n) break;
            uint32_t c;
            const size_t n = read(v, at, &c);
            jj_add(r, &out, v.as.s + at, n);
            at += n;
            continue;
        }
        const char *hit = at < v.n ? memmem(v.as.s + at, v.n - at, from.as.s, from.n) : NULL;
        if (!hit) break;
        jj_add(r, &out, v.as.s + at, (size_t)(hit - v.as.s) - at);
        jj_add(r, &out, to.as.s, to.n);
        at = (size_t)(hit - v.as.s) + from.n;
    }
    jj_add(r, &out, v.as.s + at, v.n - at);
    return jj_captured(r, &out);
}

/* Splits at runs of blanks. */
static jv split_blanks(jj_run *r, jv v, int64_t most)
{
    const jv all = jv_new_list(r);
    size_t begin = 0, at = 0;
    bool word = false;
    jj_spend(r, v.n);
    for (size_t n; at < v.n && r->rc == MF_OK; at += n) {
        uint32_t c;
        n = read(v, at, &c);
        if (!is_blank(c) && !word) {
            begin = at;
            word = true;
            if (most >= 0 && (int64_t)all.as.list->n == most) break;
        } else if (is_blank(c) && word) {
            jv_append(r, all, jv_text(v.as.s + begin, at - begin));
            word = false;
        }
    }
    if (word && r->rc == MF_OK) {
        const jv rest = jv_text(v.as.s + begin, v.n - begin);
        jv_append(r, all, at < v.n ? jj_trim(r, rest, jv_none(), false, true) : rest);
    }
    return all;
}

static jv split(jj_run *r, jv v, jv by, int64_t most)
{
    if (by.kind == JV_UNDEFINED || by.kind == JV_NONE) return split_blanks(r, v, most);
    need_text(r, by, "split");
    if (r->rc == MF_OK && by.n == 0) jj_fail(r, "split: expected a separator");
    if (!jj_spend(r, v.n)) return jv_none();
    const jv all = jv_new_list(r);
    size_t at = 0;
    while (r->rc == MF_OK && (most < 0 || (int64_t)all.as.list->n < most)) {
        const char *hit = at < v.n ? memmem(v.as.s + at, v.n - at, by.as.s, by.n) : NULL;
        if (!hit) break;
        jv_append(r, all, jv_text(v.as.s + at, (size_t)(hit - v.as.s) - at));
        at = (size_t)(hit - v.as.s) + by.n;
    }
    jv_append(r, all, jv_text(v.as.s + at, v.n - at));
    return all;
}

/* Splits from the end: all parts, then those in front are joined again. */
static jv split_last(jj_run *r, jv v, jv by, int64_t most)
{
    const jv parts = split(r, v, by, -1);
    if (r->rc != MF_OK || most < 0 || (int64_t)parts.as.list->n <= most + 1) return parts;
    if (by.kind != JV_STRING) return jj_fail(r, "rsplit with a number needs a separator");
    const jv all = jv_new_list(r);
    const size_t first = parts.as.list->n - (size_t)most - 1;
    const jv last = parts.as.list->item[first];
    jv_append(r, all, jv_text(v.as.s, (size_t)(last.as.s - v.as.s) + last.n));
    for (size_t i = first + 1; i < parts.as.list->n; i++)
        jv_append(r, all, parts.as.list->item[i]);
    return all;
}

static jv lines(jj_run *r, jv v)
{
    const jv all = jv_new_list(r);
    size_t begin = 0;
    jj_spend(r, v.n);
    for (size_t at = 0; at < v.n && r->rc == MF_OK; at++) {
        const char c = v.as.s[at];
        if (c != '\n' && c != '\r') continue;
        jv_append(r, all, jv_text(v.as.s + begin, at - begin));
        if (c == '\r' && at + 1 < v.n && v.as.s[at + 1] == '\n') at++;
        begin = at + 1;
    }
    if (begin < v.n) jv_append(r, all, jv_text(v.as.s + begin, v.n - begin));
    return all;
}

static bool begins(jj_run *r, jv v, jv with, bool at_end)
{
    return with.n <= v.n && jj_spend(r, with.n) &&
           memcmp(v.as.s + (at_end ? v.n - with.n : 0), with.as.s, with.n) == 0;
}

/* startswith and endswith: of a text, or of one of a list. */
static jv touches(jj_run *r, jv v, jv with, bool at_end)
{
    if (with.kind != JV_LIST) {
        need_text(r, with, at_end ? "endswith" : "startswith");
        return jv_bool(r->rc == MF_OK && begins(r, v, with, at_end));
    }
    for (size_t i = 0; i < with.as.list->n && jj_step(r, 0); i++)
        if (with.as.list->item[i].kind == JV_STRING &&
            begins(r, v, with.as.list->item[i], at_end))
            return jv_bool(true);
    return jv_bool(false);
}

static jv find(jj_run *r, jv v, jv what)
{
    need_text(r, what, "find");
    if (!jj_spend(r, v.n)) return jv_none();
    const char *hit = what.n == 0 ? v.as.s : memmem(v.as.s, v.n, what.as.s, what.n);
    return jv_int(hit ? jv_length(r, jv_text(v.as.s, (size_t)(hit - v.as.s))) : -1);
}

static jv count(jj_run *r, jv v, jv what)
{
    int64_t n = 0;
    need_text(r, what, "count");
    if (!jj_spend(r, v.n)) return jv_none();
    if (what.n == 0) return jv_int(jv_length(r, v) + 1);
    for (size_t at = 0; at < v.n; n++) {
        const char *hit = memmem(v.as.s + at, v.n - at, what.as.s, what.n);
        if (!hit) break;
        at = (size_t)(hit - v.as.s) + what.n;
    }
    return jv_int(n);
}

static jv join(jj_run *r, jv between, jv list)
{
    jj_out out = {0};
    const jv items = jv_items(r, list);
    for (size_t i = 0; i < items.as.list->n && jj_step(r, 0); i++) {
        const jv one = need_text(r, items.as.list->item[i], "join");
        if (r->rc != MF_OK) break;
        if (i > 0) jj_add(r, &out, between.as.s, between.n);
        jj_add(r, &out, one.as.s, one.n);
    }
    return jj_captured(r, &out);
}

static jv digits(jj_run *r, jv v)
{
    bool all = v.n > 0;
    for (size_t at = 0; all && at < v.n && jj_spend(r, 4);) {
        uint32_t c;
        at += read(v, at, &c);
        all = all && (mf_unicode_category(c) & MF_UC_DIGIT);
    }
    return jv_bool(all);
}

static jv without(jj_run *r, jv v, jv part, bool at_end)
{
    if (part.kind != JV_STRING || !begins(r, v, part, at_end)) return v;
    return jv_text(v.as.s + (at_end ? 0 : part.n), v.n - part.n);
}

/* ---- dictionaries ---- */

static jv members(jj_run *r, jv v, bool keys, bool values)
{
    const jv all = jv_new_list(r);
    for (size_t i = 0; i < v.as.dict->n && r->rc == MF_OK; i++) {
        jv one = keys ? v.as.dict->key[i] : v.as.dict->value[i];
        if (keys && values) {
            one = jv_new_list(r);
            one.n = 1;
            if (r->rc == MF_OK) jv_append(r, one, v.as.dict->key[i]);
            if (r->rc == MF_OK) jv_append(r, one, v.as.dict->value[i]);
        }
        if (r->rc == MF_OK) jv_append(r, all, one);
    }
    return all;
}

/* ---- the tables ---- */

static const char *const of_texts[] = {"strip",        "lstrip",       "rstrip",     "split",
                                       "rsplit",       "splitlines",   "startswith", "endswith",
                                       "upper",        "lower",        "title",      "replace",
                                       "removeprefix", "removesuffix", "find",       "count",
                                       "join",         "capitalize",   "isdigit",    NULL};
static const char *const of_dicts[] = {"items", "keys", "values", "get", NULL};

bool jj_has_method(jv v, const char *name)
{
    const char *const *list = v.kind == JV_STRING ? of_texts
                              : v.kind == JV_DICT ? of_dicts
                                                  : NULL;
    for (; list && *list; list++)
        if (strcmp(*list, name) == 0) return true;
    return false;
}

static jv of_dict(jj_run *r, jv v, const char *name, const jj_args *a)
{
    if (strcmp(name, "get") == 0) {
        const jv *found = jv_find(r, v, jj_arg_of(a, 0, "key")),
                 other = jj_arg_of(a, 1, "default");
        return found ? *found : other.kind == JV_UNDEFINED ? jv_none() : other;
    }
    return members(r, v, strcmp(name, "values") != 0, strcmp(name, "keys") != 0);
}

jv jj_method(jj_run *r, jv v, const char *name, const jj_args *a)
{
    const jv first = jj_arg_of(a, 0, NULL), second = jj_arg_of(a, 1, NULL);
    if (v.kind == JV_DICT) return of_dict(r, v, name, a);
    const bool is_split = strcmp(name, "split") == 0;
    if (is_split || strcmp(name, "rsplit") == 0) {
        const jv by = jj_arg_of(a, 0, "sep");
        const int64_t most = count_of(r, jj_arg_of(a, 1, "maxsplit"));
        if (r->rc != MF_OK) return jv_none();
        return is_split ? split(r, v, by, most) : split_last(r, v, by, most);
    }
    if (strcmp(name, "strip") == 0) return jj_trim(r, v, first, true, true);
    if (strcmp(name, "lstrip") == 0) return jj_trim(r, v, first, true, false);
    if (strcmp(name, "rstrip") == 0) return jj_trim(r, v, first, false, true);
    if (strcmp(name, "splitlines") == 0) return lines(r, v);
    if (strcmp(name, "startswith") == 0) return touches(r, v, first, false);
    if (strcmp(name, "endswith") == 0) return touches(r, v, first, true);
    if (strcmp(name, "upper") == 0) return jj_upper(r, v, true);
    if (strcmp(name, "lower") == 0) return jj_upper(r, v, false);
    if (strcmp(name, "title") == 0) return title(r, v);
    if (strcmp(name, "capitalize") == 0) return jj_title(r, v, false);
    if (strcmp(name, "removeprefix") == 0) return without(r, v, first, false);
    if (strcmp(name, "removesuffix") == 0) return without(r, v, first, true);
    if (strcmp(name, "find") == 0) return find(r, v, first);
    if (strcmp(name, "count") == 0) return count(r, v, first);
    if (strcmp(name, "join") == 0) return join(r, v, first);
    if (strcmp(name, "isdigit") == 0) return digits(r, v);
    return jj_replace(r, v, first, second, count_of(r, jj_arg_of(a, 2, "count")));
}
