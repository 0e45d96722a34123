/* data/tokenizer/pretrained/show.c: the text of each id, as the decoder makes it from the
 * token's name. Every id from 0 to the greatest has a text. The text of an id without a token
 * is empty. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

static const char bar[] = "\xE2\x96\x81"; /* U+2581 */
enum { BAR = sizeof bar - 1 };

/* Whether the byte is represented by the letter with the same code. The other bytes are
 * represented by U+0100 and the following letters, in order. */
static bool is_itself(uint32_t byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
           (byte >= 174 && byte <= 255);
}

/* Returns the byte that a letter represents, -1: none. */
static int byte_of(uint32_t letter)
{
    if (letter < 256) return is_itself(letter) ? (int)letter : -1;
    if (letter <= 288) return (int)letter - 256;       /* bytes 0 to 32 */
    if (letter <= 322) return (int)letter - 289 + 127; /* bytes 127 to 160 */
    return letter == 323 ? 173 : -1;
}

uint32_t mf_pt_letter_of(unsigned char byte)
{
    if (is_itself(byte)) return byte;
    return byte <= 32 ? 256u + byte : byte < 173 ? 289u + byte - 127 : 323;
}

/* Adds the bytes that a name's letters represent. Returns false if a letter represents
 * no byte. */
static bool add_bytes(const char *name, size_t n, mf_pt_text *out, int *code)
{
    const size_t before = out->n;
    for (size_t at = 0; at < n && *code == MF_OK;) {
        uint32_t c;
        at += mf_unicode_read(name + at, n - at, &c);
        const int byte = byte_of(c);
        if (byte < 0) {
            out->n = before;
            return false;
        }
        *code = mf_pt_text_add(out, &(char){(char)byte}, 1, NULL, 0, false);
    }
    return true;
}

bool mf_pt_means_bytes(const char *name, size_t n)
{
    bool other = false;
    for (size_t at = 0; at < n;) {
        uint32_t c;
        at += mf_unicode_read(name + at, n - at, &c);
        if (byte_of(c) < 0) return false;
        other = other || c >= 128;
    }
    return other;
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns the byte of a name <0xHH>, -1: another name. */
static int fallback_byte(const char *name, size_t n)
{
    if (n != 6 || memcmp(name, "<0x", 3) != 0 || name[5] != '>') return -1;
    const int high = hex(name[3]), low = hex(name[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* Adds a text in which blanks replace U+2581. */
static int add_with_blanks(const char *name, size_t n, mf_pt_text *out)
{
    int rc = MF_OK;
    for (size_t at = 0; at < n && rc == MF_OK;) {
        const char *hit = memmem(name + at, n - at, bar, BAR);
        const size_t end = hit ? (size_t)(hit - name) : n;
        rc = mf_pt_text_add(out, name + at, end - at, NULL, 0, false);
        if (hit && rc == MF_OK) rc = mf_pt_text_add(out, " ", 1, NULL, 0, false);
        at = hit ? end + BAR : n;
    }
    return rc;
}

/* Whether no blank precedes this token. */
static bool clings(const char *name, size_t n)
{
    static const char *const after[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++)
        if (strlen(after[i]) <= n && memcmp(after[i], name, strlen(after[i])) == 0) return true;
    return false;
}

/* Adds the text of a token. added: an added token, whose name is its text. */
static int add_text(const mf_pretrained *t, const char *name, size_t n, bool added,
                    mf_pt_text *out)
{
    const mf_pt_decoding *d = &t->decoding;
    const mf_pt_model *m = &t->model;
    int rc = MF_OK;
    if (d->bytes && !added && add_bytes(name, n, out, &rc)) return rc;
    const int byte = d->byte_fallback ? fallback_byte(name, n) : -1;
    if (byte >= 0) return mf_pt_text_add(out, &(char){(char)byte}, 1, NULL, 0, false);
    const bool inside = d->words && n > m->n_prefix && m->n_prefix > 0 &&
                        memcmp(name, m->prefix, m->n_prefix) == 0;
    if (inside) {
        name += m->n_prefix;
        n -= m->n_prefix;
    } else if ((d->words && !(d->clean && clings(name, n))) || d->joined) {
        rc = mf_pt_text_add(out, " ", 1, NULL, 0, false);
    }
    if (rc != MF_OK) return rc;
    const size_t suffix = d->suffix ? m->n_suffix : 0;
    if (suffix > 0 && n >= suffix && memcmp(name + n - suffix, m->suffix, suffix) == 0) {
        rc = mf_pt_text_add(out, name, n - suffix, NULL, 0, false);
        return rc == MF_OK ? mf_pt_text_add(out, " ", 1, NULL, 0, false) : rc;
    }
    return d->bars ? add_with_blanks(name, n, out)
                   : mf_pt_text_add(out, name, n, NULL, 0, false);
}

/* ---- owners of ids ---- */

static int count_ids(const char *source, mf_pretrained *t)
{
    const int64_t entries = (int64_t)t->model.names.n + t->added_names.n;
    int32_t last = -1;
    for (int32_t i = 0; i < t->model.names.n; i++)
        if (t->model.id_of[i] > last) last = t->model.id_of[i];
    for (int32_t i = 0; i < t->added_names.n; i++)
        if (t->added[i].id > last) last = t->added[i].id;
    if (last > 2 * entries + UINT16_MAX)
        return mf_fail(MF_EINPUT,
                       "%s: id %d: expected fewer gaps between the ids of %lld tokens", source,
                       (int)last, (long long)entries);
    t->base.pieces = last + 1;
    return MF_OK;
}

/* Sets owner[id] to index + 1 of its name, or to -1 - index of its added token; 0: none. */
static int find_owners(const char *source, const mf_pretrained *t, int32_t *owner)
{
    for (int32_t i = 0; i < t->model.names.n; i++) {
        int32_t *at = &owner[t->model.id_of[i]];
        if (*at != 0)
            return mf_fail(MF_EINPUT, "%s: id %d is of two tokens", source,
                           (int)t->model.id_of[i]);
        *at = i + 1;
    }
    for (int32_t i = 0; i < t->added_names.n; i++) {
        size_t n, m;
        const char *name = mf_strings_get(&t->added_names, i, &n);
        int32_t *at = &owner[t->added[i].id];
        const char *other = *at > 0 ? mf_strings_get(&t->model.names, *at - 1, &m) : NULL;
        if (*at < 0 || (other && (m != n || memcmp(name, other, n) != 0)))
            return mf_fail(MF_EINPUT, "%s: id %d is of two tokens", source,
                           (int)t->added[i].id);
        *at = -1 - i;
    }
    return MF_OK;
}

static int add_all(mf_pretrained *t, const int32_t *owner, mf_pt_text *out)
{
    int rc = MF_OK;
    for (int32_t id = 0; id < t->base.pieces && rc == MF_OK; id++) {
        size_t n = 0;
        const char *name = owner[id] > 0   ? mf_strings_get(&t->model.names, owner[id] - 1, &n)
                           : owner[id] < 0 ? mf_strings_get(&t->added_names, -1 - owner[id], &n)
                                           : NULL;
        t->shown_begin[id] = out->n;
        if (name) rc = add_text(t, name, n, owner[id] < 0, out);
        if (out->n - t->shown_begin[id] > t->base.longest)
            t->base.longest = out->n - t->shown_begin[id];
    }
    t->shown_begin[t->base.pieces] = out->n;
    return rc;
}

int mf_pt_show(const char *source, mf_pretrained *t)
{
    mf_pt_text out = {0};
    int rc = count_ids(source, t);
    if (rc != MF_OK) return rc;
    const size_t pieces = (size_t)t->base.pieces;
    int32_t *owner = mf_alloc(pieces, sizeof *owner);
    t->shown_begin = mf_alloc(pieces + 1, sizeof *t->shown_begin);
    if (!owner || !t->shown_begin) rc = MF_ENOMEM;
    if (rc == MF_OK) rc = find_owners(source, t, owner);
    if (rc == MF_OK) rc = add_all(t, owner, &out);
    t->shown = out.bytes;
    mf_free(owner);
    return rc;
}
