/* data/tokenizer/pretrained/normalize.c: the steps of a normalizer. Each step reads a text from
 * beginning to end and writes another text. Each byte of the new text keeps the origin of the
 * characters that it replaces. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/tokenizer/letters.h"

#include <string.h>

void mf_pt_steps_free(mf_pt_steps *s)
{
    for (int i = 0; i < s->n; i++) {
        mf_free(s->step[i].text);
        mf_free(s->step[i].with);
        mf_regex_free(s->step[i].regex);
        mf_pt_charsmap_free(s->step[i].map);
    }
    *s = (mf_pt_steps){0};
}

static int copy(const mf_pt_view *v, size_t begin, size_t end, mf_pt_text *out)
{
    const mf_pt_view part = mf_pt_part(v, begin, end);
    return mf_pt_text_add(out, part.bytes, part.n, part.from, part.base, true);
}

/* Returns the length of the first part that may have another normal form. The part ends before
 * a character that no normal form changes. 0: the text begins with such a character, which has
 * *ret_length bytes. */
static size_t part_of(const char *text, size_t n, size_t *ret_length)
{
    const size_t whole = mf_unicode_part(text, n);
    size_t at = 0;
    while (at < whole) {
        uint32_t c;
        *ret_length = mf_unicode_read(text + at, n - at, &c);
        if (!mf_pt_has_form(c)) break;
        at += *ret_length;
    }
    return at < whole ? at : whole;
}

static int to_form(mf_unicode_form form, const mf_pt_view *v, mf_pt_text *out)
{
    char normal[MF_UNICODE_ROOM];
    int rc = MF_OK;
    for (size_t at = 0; at < v->n && rc == MF_OK;) {
        const size_t plain = mf_unicode_plain(form, v->bytes + at, v->n - at);
        rc = copy(v, at, at + plain, out);
        at += plain;
        if (rc != MF_OK || at == v->n) break;
        size_t length = 0;
        const size_t part = part_of(v->bytes + at, v->n - at, &length);
        if (part == 0) {
            rc = copy(v, at, at + length, out);
            at += length;
            continue;
        }
        const size_t n = mf_unicode_normalize(form, v->bytes + at, part, normal);
        rc = n == part && memcmp(normal, v->bytes + at, n) == 0
                 ? copy(v, at, at + n, out)
                 : mf_pt_text_add(out, normal, n, NULL, mf_pt_origin(v, at), false);
        at += part;
    }
    return rc;
}

static int put(uint32_t c, size_t origin, mf_pt_text *out)
{
    char bytes[4];
    return mf_pt_text_add(out, bytes, mf_unicode_write(c, bytes), NULL, origin, false);
}

/* Writes the lower case. U+0130 is the only code point whose lower case has two code points. */
static int put_lower(uint32_t c, size_t origin, mf_pt_text *out)
{
    int rc = put(c == 0x130 ? 'i' : mf_pt_lower(c), origin, out);
    return rc == MF_OK && c == 0x130 ? put(0x307, origin, out) : rc;
}

/* Writes the characters by which BERT replaces a character of a text. */
static int bert_letter(const mf_pt_step *s, uint32_t c, size_t origin, mf_pt_text *out)
{
    uint32_t parts[MF_UNICODE_DECOMPOSED] = {c};
    size_t n = 1;
    const bool alone = s->ideographs && mf_letter_is_ideograph(c);
    int rc = MF_OK;
    if (s->clean && mf_pt_is_control(c)) return MF_OK;
    if (s->clean && mf_unicode_is_space(c)) parts[0] = c = ' ';
    if (s->accents && c >= 0x80 && mf_pt_has_form(c)) n = mf_unicode_decompose(c, parts);
    if (alone) rc = put(' ', origin, out);
    for (size_t i = 0; i < n && rc == MF_OK; i++) {
        if (s->accents && mf_pt_is_accent(parts[i])) continue;
        rc = s->lower ? put_lower(parts[i], origin, out) : put(parts[i], origin, out);
    }
    return rc == MF_OK && alone ? put(' ', origin, out) : rc;
}

/* Performs the steps that process one character at a time. */
static int each_letter(const mf_pt_step *s, const mf_pt_view *v, mf_pt_text *out)
{
    int rc = MF_OK;
    for (size_t at = 0; at < v->n && rc == MF_OK;) {
        uint32_t c;
        const size_t n = mf_unicode_read(v->bytes + at, v->n - at, &c),
                     origin = mf_pt_origin(v, at);
        if (s->kind == MF_PT_BERT)
            rc = bert_letter(s, c, origin, out);
        else if (s->kind == MF_PT_LOWER)
            rc = put_lower(c, origin, out);
        else if (!mf_pt_is_mark(c))
            rc = copy(v, at, at + n, out);
        at += n;
    }
    return rc;
}

static int replace(const mf_pt_step *s, const mf_pt_view *v, mf_pt_text *out)
{
    size_t at = 0;
    int rc = MF_OK;
    while (at < v->n && rc == MF_OK) {
        const char *hit = memmem(v->bytes + at, v->n - at, s->text, s->n_text);
        const size_t begin = hit ? (size_t)(hit - v->bytes) : v->n;
        rc = copy(v, at, begin, out);
        if (hit && rc == MF_OK)
            rc = mf_pt_text_add(out, s->with, s->n_with, NULL, mf_pt_origin(v, begin), false);
        at = hit ? begin + s->n_text : v->n;
    }
    return rc;
}

static int replace_matches(const mf_pt_step *s, const mf_pt_view *v, mf_pt_text *out)
{
    mf_regex_scan *scan;
    size_t at = 0, begin = 0, end = 0;
    bool found = true;
    int rc = mf_regex_scan_new(s->regex, &scan);
    if (rc == MF_OK) rc = mf_regex_scan_begin(scan, v->bytes, v->n);
    while (rc == MF_OK && found && v->n > 0) {
        rc = mf_regex_scan_next(scan, &begin, &end, &found);
        if (rc != MF_OK || !found) break;
        rc = copy(v, at, begin, out);
        const size_t origin = begin < v->n ? begin : v->n - 1;
        if (rc == MF_OK)
            rc = mf_pt_text_add(out, s->with, s->n_with, NULL, mf_pt_origin(v, origin), false);
        at = end;
    }
    if (rc == MF_OK) rc = copy(v, at, v->n, out);
    mf_regex_scan_free(scan);
    return rc;
}

static int trim(const mf_pt_step *s, const mf_pt_view *v, mf_pt_text *out)
{
    size_t begin = 0, end = v->n, last = 0;
    bool leading = s->left;
    for (size_t at = 0; at < v->n;) {
        uint32_t c;
        at += mf_unicode_read(v->bytes + at, v->n - at, &c);
        if (!mf_unicode_is_space(c)) {
            leading = false;
            last = at;
        } else if (leading) {
            begin = at;
        }
    }
    if (s->right) end = last > begin ? last : begin;
    return copy(v, begin, end, out);
}

static int run_step(const mf_pt_step *s, const mf_pt_view *v, mf_pt_text *out)
{
    out->n = 0;
    switch (s->kind) {
    case MF_PT_FORM:
        return to_form(s->form, v, out);
    case MF_PT_BERT:
    case MF_PT_LOWER:
    case MF_PT_UNMARK:
        return each_letter(s, v, out);
    case MF_PT_REPLACE:
        return replace(s, v, out);
    case MF_PT_TRIM:
        return trim(s, v, out);
    case MF_PT_MATCHES:
        return replace_matches(s, v, out);
    case MF_PT_CHARSMAP:
        return mf_pt_charsmap_apply(s->map, v, out);
    case MF_PT_PREPEND:
        break;
    }
    if (v->n == 0) return MF_OK;
    int rc = mf_pt_text_add(out, s->text, s->n_text, NULL, mf_pt_origin(v, 0), false);
    return rc == MF_OK ? copy(v, 0, v->n, out) : rc;
}

int mf_pt_normalize(const mf_pt_steps *s, const mf_pt_view *v, mf_pt_text work[2],
                    mf_pt_view *ret)
{
    *ret = *v;
    for (int i = 0; i < s->n; i++) {
        int rc = run_step(&s->step[i], ret, &work[i % 2]);
        if (rc != MF_OK) return rc;
        *ret = mf_pt_whole(&work[i % 2]);
    }
    return MF_OK;
}
