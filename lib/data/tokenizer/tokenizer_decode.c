/* data/tokenizer/tokenizer_decode.c: converts ids to text, one id after another. The output
 * never contains a part of a character. */
#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "data/tokenizer/tokenizer.h"

#include <string.h>

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
enum { REPLACEMENT = sizeof replacement - 1, LONGEST_CHARACTER = 4 };

int mf_decoder_open(mf_decoder *d, const mf_tokenizer *t)
{
    *d = (mf_decoder){.tokenizer = t};
    /* In the worst case every byte, including the bytes kept from earlier calls, becomes a
     * replacement character. The raw bytes are stored after the space for the output. */
    size_t raw = t->longest + LONGEST_CHARACTER + 1;
    d->buffer = mf_alloc(raw * REPLACEMENT + 1 + raw, 1);
    return d->buffer ? MF_OK : MF_ENOMEM;
}

void mf_decoder_close(mf_decoder *d)
{
    mf_free(d->buffer);
    *d = (mf_decoder){0};
}

/* Whether the n < 4 bytes can begin a valid character. Every valid range of a second byte
 * contains 0x80, 0x90, 0xa0 or 0xbf, so these four are tried; later bytes may be 0x80. */
static bool can_go_on(const char *text, size_t n)
{
    static const char tries[] = {'\x80', '\x90', '\xA0', '\xBF'};
    char whole[LONGEST_CHARACTER];
    memcpy(whole, text, n);
    for (size_t length = n + 1; length <= LONGEST_CHARACTER; length++)
        for (size_t i = 0; i < sizeof tries; i++) {
            memset(whole + n, '\x80', LONGEST_CHARACTER - n);
            whole[n] = tries[i];
            if (mf_utf8_length(whole, length) == length) return true;
        }
    return false;
}

/* Writes the complete characters of raw. The bytes of an incomplete character are kept, unless
 * this is the last call. */
static size_t settle(mf_decoder *d, const char *raw, size_t n, bool end)
{
    size_t out = 0;
    d->n_wait = 0;
    for (size_t at = 0; at < n;) {
        size_t length = mf_utf8_length(raw + at, n - at);
        if (length > 0) {
            memcpy(d->buffer + out, raw + at, length);
            out += length;
            at += length;
            continue;
        }
        if (!end && n - at < LONGEST_CHARACTER && can_go_on(raw + at, n - at)) {
            d->n_wait = n - at;
            memcpy(d->wait, raw + at, d->n_wait);
            break;
        }
        memcpy(d->buffer + out, replacement, REPLACEMENT);
        out += REPLACEMENT;
        at++;
    }
    d->buffer[out] = 0;
    return out;
}

const char *mf_decoder_next(mf_decoder *d, int32_t id, size_t *ret_n)
{
    size_t n, room = d->tokenizer->longest + LONGEST_CHARACTER + 1;
    const char *piece = mf_tokenizer_piece(d->tokenizer, id, &n);
    char *raw = d->buffer + room * REPLACEMENT + 1;
    if (d->tokenizer->trim_first && !d->begun && n > 0 && piece[0] == ' ') {
        piece++;
        n--;
        d->begun = true;
    }
    d->begun = d->begun || n > 0;
    memcpy(raw, d->wait, d->n_wait);
    size_t at = d->n_wait;
    if (d->blank && n > 0) raw[at++] = ' ';
    if (n > 0) d->blank = d->tokenizer->trim_last && piece[n - 1] == ' ';
    if (n > 0 && d->blank) n--;
    memcpy(raw + at, piece, n);
    *ret_n = settle(d, raw, at + n, false);
    return d->buffer;
}

const char *mf_decoder_end(mf_decoder *d, size_t *ret_n)
{
    char raw[LONGEST_CHARACTER];
    memcpy(raw, d->wait, d->n_wait);
    *ret_n = settle(d, raw, d->n_wait, true);
    d->begun = d->blank = false;
    return d->buffer;
}
