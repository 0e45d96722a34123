/* data/source_bin_width.c: detects from the values of a token file that they have another size,
 * or are not ids. The ids of a text are similar at even and odd indices. If some values are
 * rare at even indices and common at odd ones, or the reverse, the words are halves of larger
 * values. A few values that are not ids (-100, which losses ignore), and bytes before or after
 * the ids, do not change the result. */
#include "data/source_bin.h"

#include <string.h>
#include "base/error.h"
#include "base/text/utf8.h"
#include "data/source.h"

enum { ENOUGH = 1 << 20, LOW = MF_IDS_VOCAB >> 16 };

static uint32_t word_at(const void *at, int64_t i, size_t width)
{
    const unsigned char *b = (const unsigned char *)at + (size_t)i * width;
    const uint32_t word = (uint32_t)b[0] | (uint32_t)b[1] << 8;
    return width == 2 ? word : word | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* ---- what upper halves are ---- */

typedef bool (*form)(uint32_t word);

static bool is_zero(uint32_t w)
{
    return w == 0;
}

/* upper half of ids below 65536, and of -1 and -100; lower half of small whole numbers
 * as f32 */
static bool is_sign(uint32_t w)
{
    return w == 0 || w == 0xFFFF || w == 0x8000;
}

/* upper half of all ids that a vocabulary may have */
static bool is_low(uint32_t w)
{
    return w < LOW || w == 0xFFFF;
}

/* is_low for words whose upper byte comes first */
static bool is_low_turned(uint32_t w)
{
    return is_low((w & 0xFF) << 8 | w >> 8);
}

static bool is_byte(uint32_t w)
{
    return w < 256;
}

/* upper half of f32 values that are 0, or whose size is from 1e-10 to 1e10 */
static bool is_float(uint32_t w)
{
    const uint32_t exponent = w >> 7 & 0xFF;
    return w == 0 || w == 0x8000 || (exponent >= 94 && exponent <= 160);
}

/* Counts of the words, at even and at odd indices, that do not have a form. */
typedef struct others {
    int64_t at[2], n; /* n: number of words at even, and at odd indices */
} others;

static others count(const void *ids, int64_t n, size_t width, form is)
{
    others o = {.n = (n < ENOUGH ? n : ENOUGH) / 2};
    for (int64_t i = 0; i < 2 * o.n; i++)
        o.at[i % 2] += !is(word_at(ids, i, width));
    return o;
}

/* Returns the indices at which (nearly) all words have the form, while many words at the other
 * indices do not: 0 even, 1 odd; -1: no difference. In ids of a text, the probability of such
 * counts is below 1e-4. least: number of words at even, and at odd indices, below which a short
 * file is not judged. */
static int one_sided(const others *o, int64_t least)
{
    enum { FEW = 32 };
    for (int p = 0; p < 2; p++) {
        const int64_t rare = o->at[p], common = o->at[1 - p];
        if (o->n >= FEW ? rare <= o->n / 64 + 1 && common >= 16 + 8 * rare
                        : o->n >= least && rare == 0 && common >= 3 && 4 * common >= 3 * o->n)
            return p;
    }
    return -1;
}

/* Whether the bytes look like text: valid UTF-8 without control characters, with at least KINDS
 * different bytes. */
static bool looks_like_text(const char *data, size_t n)
{
    enum { LEAST = 16, MOST = 65536, KINDS = 8 };
    bool seen[256] = {false};
    int kinds = 0;
    const size_t end = n < MOST ? n : MOST;
    for (size_t i = 0; i < end; i++) {
        const unsigned char c = (unsigned char)data[i];
        if ((c < ' ' && c != '\n' && c != '\r' && c != '\t') || c == 0x7F) return false;
        kinds += !seen[c];
        seen[c] = true;
    }
    /* The last character may be cut off. */
    return n >= LEAST && kinds >= KINDS && mf_utf8_check(data, end) + 3 >= end;
}

/* ---- refusals ---- */

static int refuse_halves(const char *path, const mf_id_part *p)
{
    const others sign = count(p->ids, p->n, 2, is_sign), low = count(p->ids, p->n, 2, is_low),
                 turned = count(p->ids, p->n, 2, is_low_turned),
                 real = count(p->ids, p->n, 2, is_float);
    const bool all_real = real.n > 0 && real.at[1] <= real.n / 64;
    const int by_sign = one_sided(&sign, 3);
    int upper = by_sign >= 0 ? by_sign : one_sided(&low, 8);
    if (upper < 0 && one_sided(&turned, 8) >= 0) upper = 0;
    if (by_sign != 1 && (one_sided(&real, 8) == 1 || (by_sign == 0 && all_real)))
        return mf_fail(MF_EINPUT,
                       "%s: every second id of 16 bits is as the upper halves of f32 values "
                       "are: expected ids (in Python: ids.astype('<u4').tofile(FILE), with "
                       "data.bin_bits = 32), or data.bin_bits = 16 if they are",
                       path);
    if (upper == 1)
        return mf_fail(MF_EINPUT,
                       "%s: every second id of 16 bits is 0 or small, as the upper halves of "
                       "ids of 32 bits are: expected data.bin_bits = 32, or 16 if they are",
                       path);
    if (upper == 0)
        return mf_fail(MF_EINPUT,
                       "%s: every second id of 16 bits, from the first, is 0 or small, as in "
                       "ids of 32 bits with the upper half first (big-endian) or behind 2 "
                       "bytes that are no ids: expected the lower half first, and nothing "
                       "before (in Python: ids.astype('<u4').tofile(FILE), with data.bin_bits "
                       "= 32), or data.bin_bits = 16 if they are",
                       path);
    return MF_OK;
}

/* Detects small ids of 16 bits that were read in pairs, as ids of 32 bits: both halves
 * are small. */
static bool looks_like_pairs(const mf_id_part *p)
{
    enum { LEAST = 32 };
    const others byte = count(p->ids, 2 * p->n, 2, is_byte),
                 zero = count(p->ids, 2 * p->n, 2, is_zero);
    return byte.n >= LEAST && byte.at[0] == 0 && byte.at[1] == 0 && zero.at[1] >= zero.n / 4;
}

int mf_bin_judge_width(const char *path, const mf_id_part *p, int32_t bits)
{
    const size_t bytes = (size_t)p->n * (size_t)p->id_bytes;
    if (bits == 0 && p->id_bytes == 2) {
        if (looks_like_text(p->ids, bytes))
            return mf_fail(MF_EINPUT,
                           "%s: a text, not ids: expected data.format = text, which needs a "
                           "tokenizer, or ids (moefw tokenize encode --bin writes them), or "
                           "data.bin_bits = 16 if they are",
                           path);
        return refuse_halves(path, p);
    }
    if (p->id_bytes != 4) return MF_OK;
    const others zero = count(p->ids, p->n, 4, is_zero);
    if (one_sided(&zero, 3) == 1)
        return mf_fail(MF_EINPUT,
                       "%s: every second id of 32 bits is 0, as the upper halves of ids of 64 "
                       "bits are: expected 16 or 32 bits (in Python: "
                       "ids.astype('<u4').tofile(FILE))",
                       path);
    if (looks_like_pairs(p))
        return mf_fail(MF_EINPUT,
                       "%s: both halves of each id of 32 bits are small, as pairs of ids of 16 "
                       "bits are: expected data.bin_bits = 16",
                       path);
    return MF_OK;
}
