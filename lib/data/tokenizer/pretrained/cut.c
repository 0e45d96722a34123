/* data/tokenizer/pretrained/cut.c: cuts a text into words at the matches of an expression or a
 * string. As in the library, the text is first divided into matches and what lies between them;
 * the behavior then decides which of these parts are joined or removed. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

void mf_pt_words_free(mf_pt_words *w)
{
    for (int i = 0; i < w->n; i++) {
        mf_regex_free(w->rule[i].regex);
        mf_free(w->rule[i].text);
    }
    *w = (mf_pt_words){0};
}

bool mf_pt_add_splitter(mf_pt_words *w, mf_pt_splitter split)
{
    if (w->n == MF_PT_RULES) return false;
    w->rule[w->n++] = (mf_pt_rule){.split = split, .behavior = MF_PT_ISOLATED};
    return true;
}

int mf_pt_pieces_begin(mf_pt_pieces *p, const mf_pt_rule *cut, mf_regex_scan *scan,
                       const char *text, size_t n)
{
    *p = (mf_pt_pieces){.cut = cut, .scan = scan, .text = text, .n = n};
    return cut->kind == MF_PT_CUT_REGEX ? mf_regex_scan_begin(scan, text, n) : MF_OK;
}

/* ---- matches ---- */

static bool is_sign(const char *text, size_t n, size_t *length)
{
    uint32_t c;
    *length = mf_unicode_read(text, n, &c);
    return c >= 0x80 ? mf_pt_is_sign(c)
                     : (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
                           (c >= 123 && c <= 126);
}

static int find_match(mf_pt_pieces *p, size_t *begin, size_t *end, bool *found)
{
    const mf_pt_rule *c = p->cut;
    *found = false;
    if (c->kind == MF_PT_CUT_REGEX) return mf_regex_scan_next(p->scan, begin, end, found);
    if (c->kind == MF_PT_CUT_STRING) {
        const char *hit =
            p->n - p->at >= c->n ? memmem(p->text + p->at, p->n - p->at, c->text, c->n) : NULL;
        *found = hit != NULL;
        if (hit) {
            *begin = (size_t)(hit - p->text);
            *end = *begin + c->n;
        }
        return MF_OK;
    }
    for (size_t at = p->at, length; at < p->n && !*found; at += length) {
        *found = is_sign(p->text + at, p->n - at, &length);
        *begin = at;
        *end = at + length;
    }
    return MF_OK;
}

/* Finds the next part: a match, or the text before it. */
static int next_part(mf_pt_pieces *p, mf_pt_piece *ret, bool *more)
{
    const bool match = !p->cut->invert;
    int rc = MF_OK;
    if (!p->found && !p->ended) {
        rc = find_match(p, &p->next.begin, &p->next.end, &p->found);
        if (rc != MF_OK) return rc;
        p->ended = !p->found;
    }
    const size_t begin = p->found ? p->next.begin : p->n;
    *more = true;
    if (p->at < begin) {
        *ret = (mf_pt_piece){p->at, begin, !match};
        p->at = begin;
    } else if (p->found) {
        *ret = (mf_pt_piece){p->next.begin, p->next.end, match};
        p->at = p->next.end;
        p->found = false;
    } else {
        *more = false;
    }
    return rc;
}

/* ---- words ---- */

/* Whether a part is added to the word before it. */
static bool joins(const mf_pt_pieces *p, const mf_pt_piece *part)
{
    if (!p->holds) return false;
    switch (p->cut->behavior) {
    case MF_PT_WITH_PREVIOUS:
        return part->match && !p->last;
    case MF_PT_WITH_NEXT:
        return p->held.match && !part->match;
    case MF_PT_CONTIGUOUS:
        return part->match == p->last;
    case MF_PT_REMOVED:
    case MF_PT_ISOLATED:
        break;
    }
    return false;
}

int mf_pt_pieces_next(mf_pt_pieces *p, size_t *begin, size_t *end, bool *more)
{
    for (;;) {
        mf_pt_piece part = {0};
        const int rc = next_part(p, &part, more);
        if (rc != MF_OK) return rc;
        if (*more && joins(p, &part)) {
            p->held.end = part.end;
            p->held.match = part.match;
            p->last = part.match;
            continue;
        }
        const mf_pt_piece word = p->held;
        const bool held = p->holds && word.end > word.begin &&
                          !(p->cut->behavior == MF_PT_REMOVED && word.match);
        const bool ends = !*more;
        p->held = part;
        p->last = part.match;
        p->holds = *more;
        if (held) {
            *begin = word.begin;
            *end = word.end;
            *more = true;
            return MF_OK;
        }
        if (ends) return MF_OK;
    }
}
