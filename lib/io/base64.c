/* io/base64.c: bytes as text. Four letters have the bits of three bytes. The last group may
 * have fewer, and is filled with =. */
#include "io/base64.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int mf_base64_read(const char *where, const char *text, size_t n, char **ret, size_t *ret_n)
{
    size_t full = n, made = 0;
    unsigned bits = 0;
    *ret = NULL;
    while (full > 0 && n - full < 2 && text[full - 1] == '=')
        full--;
    if (n % 4 != 0 || full % 4 == 1)
        return mf_fail(MF_EINPUT, "%s: base64 of %zu letters: expected whole groups of 4",
                       where, n);
    char *out = mf_alloc_raw(n / 4 * 3 + 1);
    if (!out) return MF_ENOMEM;
    for (size_t i = 0; i < full; i++) {
        const char *at = text[i] ? strchr(letters, text[i]) : NULL;
        if (!at) {
            mf_free(out);
            return mf_fail(MF_EINPUT, "%s: base64: byte %zu (0x%02x) is no letter of it", where,
                           i, (unsigned char)text[i]);
        }
        bits = bits << 6 | (unsigned)(at - letters);
        if (i % 4 > 0) out[made++] = (char)(bits >> (6 - 2 * (i % 4)) & 0xff);
    }
    *ret = out;
    *ret_n = made;
    return MF_OK;
}

char *mf_base64_write(const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    char *out = mf_alloc_raw((n + 2) / 3 * 4 + 1), *to = out;
    if (!out) return NULL;
    for (size_t i = 0; i < n; i += 3) {
        const unsigned second = i + 1 < n ? b[i + 1] : 0, third = i + 2 < n ? b[i + 2] : 0,
                       bits = (unsigned)b[i] << 16 | second << 8 | third;
        *to++ = letters[bits >> 18];
        *to++ = letters[bits >> 12 & 63];
        *to++ = i + 1 < n ? letters[bits >> 6 & 63] : '=';
        *to++ = i + 2 < n ? letters[bits & 63] : '=';
    }
    *to = '\0';
    return out;
}
