/* data/tokenizer/pretrained/added.c: finds added tokens in a text: the leftmost token, and
 * among tokens with the same beginning the longest. If a token must be a separate word and is
 * not, it is skipped with all of its text. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

void mf_pt_trie_begin(mf_pt_trie *t)
{
    *t = (mf_pt_trie){0};
    for (int i = 0; i < 256; i++)
        t->root[i] = -1;
}

void mf_pt_trie_free(mf_pt_trie *t)
{
    mf_free(t->node);
    mf_pt_trie_begin(t);
}

/* Returns the child of node `above` for this byte (above -1: a root node); -1: none. */
static int32_t below(const mf_pt_trie *t, int32_t above, unsigned char byte)
{
    if (above < 0) return t->root[byte];
    int32_t at = t->node[above].child;
    while (at >= 0 && t->node[at].byte != byte)
        at = t->node[at].sibling;
    return at;
}

static int add_node(mf_pt_trie *t, int32_t above, unsigned char byte)
{
    if (t->n == t->cap) {
        const int32_t cap = 2 * t->cap + 64;
        mf_pt_node *node =
            mf_realloc(t->node, (size_t)t->n * sizeof *node, (size_t)cap * sizeof *node);
        if (!node) return MF_ENOMEM;
        t->node = node;
        t->cap = cap;
    }
    int32_t *first = above < 0 ? &t->root[byte] : &t->node[above].child;
    t->node[t->n] = (mf_pt_node){above < 0 ? -1 : *first, -1, -1, byte};
    *first = t->n++;
    return MF_OK;
}

int mf_pt_trie_add(mf_pt_trie *t, const char *text, size_t n, int32_t token)
{
    int32_t at = -1;
    for (size_t i = 0; i < n; i++) {
        int32_t next = below(t, at, (unsigned char)text[i]);
        if (next < 0) {
            int rc = add_node(t, at, (unsigned char)text[i]);
            if (rc != MF_OK) return rc;
            next = t->n - 1;
        }
        at = next;
    }
    if (t->node[at].token < 0) t->node[at].token = token;
    return MF_OK;
}

int32_t mf_pt_trie_step(const mf_pt_trie *t, int32_t node, unsigned char byte)
{
    return below(t, node, byte);
}

/* Returns the length of the longest added token at text, 0: none. */
static size_t longest(const mf_pt_trie *t, const char *text, size_t n, int32_t *ret)
{
    size_t best = 0;
    int32_t at = -1;
    for (size_t i = 0; i < n; i++) {
        at = below(t, at, (unsigned char)text[i]);
        if (at < 0) break;
        if (t->node[at].token < 0) continue;
        *ret = t->node[at].token;
        best = i + 1;
    }
    return best;
}

/* Reads the code point that ends before text + at, at > 0, and returns its length. */
static size_t before(const char *text, size_t at, uint32_t *ret)
{
    size_t begin = at - 1;
    while (begin > 0 && ((unsigned char)text[begin] & 0xc0) == 0x80)
        begin--;
    return mf_unicode_read(text + begin, at - begin, ret);
}

static bool stands_alone(const char *text, size_t n, size_t begin, size_t end)
{
    uint32_t c;
    if (begin > 0 && before(text, begin, &c) > 0 && mf_pt_is_word(c)) return false;
    return end == n || mf_unicode_read(text + end, n - end, &c) == 0 || !mf_pt_is_word(c);
}

/* Extends a match by the blanks that belong to its token, on the left not beyond `from`. */
static void take_blanks(const mf_pt_added_token *token, const char *text, size_t n,
                        mf_pt_match *m)
{
    uint32_t c;
    while (token->lstrip && m->begin > m->from) {
        const size_t length = before(text, m->begin, &c);
        if (length == 0 || !mf_unicode_is_space(c)) break;
        m->begin -= length;
    }
    while (token->rstrip && m->end < n) {
        const size_t length = mf_unicode_read(text + m->end, n - m->end, &c);
        if (length == 0 || !mf_unicode_is_space(c)) break;
        m->end += length;
    }
}

bool mf_pt_next_added(const mf_pt_trie *t, const mf_pt_added_token *tokens, const char *text,
                      size_t n, mf_pt_match *m)
{
    m->from = m->end;
    while (m->search < n) {
        if (t->root[(unsigned char)text[m->search]] < 0) {
            m->search++;
            continue;
        }
        const size_t begin = m->search, length = longest(t, text + begin, n - begin, &m->token);
        m->search += length > 0 ? length : 1;
        if (length == 0) continue;
        const mf_pt_added_token *token = &tokens[m->token];
        if (token->single_word && !stands_alone(text, n, begin, begin + length)) continue;
        m->begin = begin > m->from ? begin : m->from;
        m->end = begin + length > m->from ? begin + length : m->from;
        take_blanks(token, text, n, m);
        return true;
    }
    m->token = -1;
    m->begin = m->end = n > m->from ? n : m->from;
    return m->from < n;
}
