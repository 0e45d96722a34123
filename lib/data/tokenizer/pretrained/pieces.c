/* data/tokenizer/pretrained/pieces.c: WordPiece of one word. The longest matching token of the
 * vocabulary is split off at the beginning, and this repeats to the end. Tokens inside of a
 * word have a prefix. A word that the vocabulary cannot spell, or that is too long, is one
 * unknown token. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

static size_t characters(const char *word, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)word[i] & 0xc0) != 0x80;
    return count;
}

/* Returns the longest token at `at`, and its length without prefix in *ret_n. name: work memory
 * for the prefix and the longest token. */
static int32_t longest(const mf_pt_model *m, const char *word, size_t n, size_t at, char *name,
                       size_t *ret_n)
{
    const size_t prefix = at > 0 ? m->n_prefix : 0;
    size_t length = n - at < m->longest ? n - at : m->longest;
    memcpy(name, m->prefix, prefix);
    memcpy(name + prefix, word + at, length);
    for (; length > 0; length--) {
        if (at + length < n && ((unsigned char)word[at + length] & 0xc0) == 0x80) continue;
        const int32_t id = mf_pt_id(m, name, prefix + length);
        if (id < 0) continue;
        *ret_n = length;
        return id;
    }
    return -1;
}

int mf_pt_piece_word(const mf_pt_model *m, const char *word, size_t n, mf_pt_found *f)
{
    enum { NAME = 512 };
    char own[NAME], *name = own;
    const size_t before = f->n, room = m->n_prefix + (n < m->longest ? n : m->longest);
    size_t length = 0, at = 0;
    int rc = MF_OK;
    if (characters(word, n) > m->word_max) return mf_pt_found_add(f, m->unk, n);
    if (room > NAME && (name = mf_alloc_raw(room)) == NULL) return MF_ENOMEM;
    for (; at < n && rc == MF_OK; at += length) {
        const int32_t id = longest(m, word, n, at, name, &length);
        if (id < 0) break;
        rc = mf_pt_found_add(f, id, length);
    }
    if (rc == MF_OK && at < n) {
        f->n = before;
        rc = mf_pt_found_add(f, m->unk, n);
    }
    if (name != own) mf_free(name);
    return rc;
}
