/* data/tokenizer/pretrained/charsmap.c: the table by which sentencepiece normalizes a text
 * (Precompiled): the length of a trie, the trie as a double array of 32-bit units, and the
 * texts that replace characters, each ended by NUL. As in the library, a grapheme of fewer than
 * 6 bytes is looked up whole, else its characters one by one. The shortest entry that begins
 * the text is taken. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "io/base64.h"

#include <string.h>

struct mf_pt_charsmap {
    char *all;        /* the table */
    const char *text; /* [n_text] the texts that replace characters, in `all` */
    size_t units, n_text;
};

static uint32_t unit_at(const mf_pt_charsmap *m, size_t i)
{
    const unsigned char *b = (const unsigned char *)m->all + 4 + 4 * i;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* The distance from a node to its children. */
static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* Returns the text that replaces the shortest entry which begins these bytes; NULL: none. */
static const char *find(const mf_pt_charsmap *m, const char *bytes, size_t n)
{
    size_t at = offset_of(unit_at(m, 0));
    for (size_t i = 0; i < n && bytes[i]; i++) {
        at ^= (unsigned char)bytes[i];
        if (at >= m->units) return NULL;
        const uint32_t unit = unit_at(m, at);
        if ((unit & (1u << 31 | 0xff)) != (unsigned char)bytes[i]) return NULL;
        at ^= offset_of(unit);
        if (unit >> 8 & 1) {
            const size_t to = at < m->units ? unit_at(m, at) & 0x7fffffff : m->n_text;
            const bool inside = to < m->n_text && ((unsigned char)m->text[to] & 0xc0) != 0x80;
            return inside ? m->text + to : NULL;
        }
    }
    return NULL;
}

int mf_pt_charsmap_apply(const mf_pt_charsmap *m, const mf_pt_view *v, mf_pt_text *out)
{
    int rc = MF_OK;
    for (size_t at = 0, n; at < v->n && rc == MF_OK; at += n) {
        uint32_t c;
        n = mf_unicode_grapheme(v->bytes + at, v->n - at);
        const char *with = n < 6 ? find(m, v->bytes + at, n) : NULL;
        if (with) {
            rc = mf_pt_text_add(out, with, strlen(with), NULL, mf_pt_origin(v, at), false);
            continue;
        }
        for (size_t i = at, length; i < at + n && rc == MF_OK; i += length) {
            length = mf_unicode_read(v->bytes + i, v->n - i, &c);
            with = find(m, v->bytes + i, length);
            rc = mf_pt_text_add(out, with ? with : v->bytes + i, with ? strlen(with) : length,
                                NULL, mf_pt_origin(v, i), false);
        }
    }
    return rc;
}

/* Checks the texts that replace characters: valid, of bounded length, the last one ended. */
static int judge(const char *source, const mf_pt_charsmap *m)
{
    size_t longest = 0, begin = 0;
    for (size_t i = 0; i < m->n_text; i++)
        if (m->text[i] == '\0') {
            longest = i - begin > longest ? i - begin : longest;
            begin = i + 1;
        }
    if (m->n_text > 0 && begin == m->n_text && longest <= MF_PT_GROWTH &&
        mf_utf8_check(m->text, m->n_text) == m->n_text)
        return MF_OK;
    return mf_fail(MF_EINPUT,
                   "%s: \"precompiled_charsmap\": expected texts in UTF-8 of at most %d bytes, "
                   "each ended by NUL, behind its trie",
                   source, MF_PT_GROWTH);
}

int mf_pt_charsmap_read(const char *source, const char *text, size_t n, mf_pt_charsmap **ret)
{
    size_t size = 0;
    mf_pt_charsmap *m = mf_alloc(1, sizeof *m);
    *ret = m;
    if (!m) return MF_ENOMEM;
    const int rc = mf_base64_read(source, text, n, &m->all, &size);
    if (rc != MF_OK) return rc;
    /* the length of the trie is where unit -1 would be */
    const size_t trie = size >= 8 ? unit_at(m, (size_t)-1) : 0;
    if (trie < 4 || trie % 4 != 0 || trie > size - 4)
        return mf_fail(MF_EINPUT,
                       "%s: \"precompiled_charsmap\": expected the length of a trie, and the "
                       "trie",
                       source);
    m->units = trie / 4;
    m->text = m->all + 4 + trie;
    m->n_text = size - 4 - trie;
    return judge(source, m);
}

void mf_pt_charsmap_free(mf_pt_charsmap *m)
{
    if (!m) return;
    mf_free(m->all);
    mf_free(m);
}
