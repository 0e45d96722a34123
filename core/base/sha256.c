/* SHA-256 (FIPS 180-4) of a text in memory. The constants are the first 32 bits of the
 * fractional parts of roots of the first primes. */
#include "base/sha256.h"

#include <stdint.h>
#include <string.h>

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t right(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void block(uint32_t h[8], const unsigned char *p)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] +
               (right(w[i - 15], 7) ^ right(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (right(w[i - 2], 17) ^ right(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        const uint32_t a = v[0], e = v[4];
        const uint32_t t1 = v[7] + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) +
                            ((e & v[5]) ^ (~e & v[6])) + K[i] + w[i];
        const uint32_t t2 = (right(a, 2) ^ right(a, 13) ^ right(a, 22)) +
                            ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

static void base64(const unsigned char *p, size_t n, char *out)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
                           (i + 2 < n ? p[i + 2] : 0u);
        for (size_t k = 0; k < 4; k++)
            *out++ = i + k <= n ? digits[v >> (18 - 6 * k) & 63] : '=';
    }
    *out = '\0';
}

static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/* Hashes the last n bytes. h is the state after the `before` bytes that precede them, which are
 * whole blocks. */
static void finish(uint32_t h[8], size_t before, const void *data, size_t n,
                   unsigned char hash[32])
{
    const unsigned char *p = data;
    unsigned char last[128] = {0};
    size_t rest = n % 64, end = rest < 56 ? 64 : 128;
    for (size_t i = 0; i + 64 <= n; i += 64)
        block(h, p + i);
    if (rest > 0) memcpy(last, p + n - rest, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        last[end - 1 - i] = (unsigned char)((uint64_t)(before + n) * 8 >> (8 * i));
    for (size_t i = 0; i < end; i += 64)
        block(h, last + i);
    for (int i = 0; i < 32; i++)
        hash[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}

static void sha256(const void *data, size_t n, unsigned char hash[32])
{
    uint32_t h[8];
    memcpy(h, start, sizeof h);
    finish(h, 0, data, n, hash);
}

/* Hashes a key, each byte of which is combined with `pad` by exclusive or, followed by
 * n bytes. */
static void keyed(const unsigned char key[64], unsigned char pad, const void *data, size_t n,
                  unsigned char hash[32])
{
    uint32_t h[8];
    unsigned char first[64];
    memcpy(h, start, sizeof h);
    for (int i = 0; i < 64; i++)
        first[i] = key[i] ^ pad;
    block(h, first);
    finish(h, sizeof first, data, n, hash);
}

void mf_hmac_sha256(const void *key, size_t k, const void *data, size_t n,
                    unsigned char out[MF_HMAC_BYTES])
{
    unsigned char whole[64] = {0}, inner[MF_HMAC_BYTES];
    memcpy(whole, key, k < sizeof whole ? k : sizeof whole);
    keyed(whole, 0x36, data, n, inner);
    keyed(whole, 0x5c, inner, sizeof inner, out);
}

void mf_sha256_base64(const void *data, size_t n, char out[45])
{
    unsigned char hash[32];
    sha256(data, n, hash);
    base64(hash, sizeof hash, out);
}

void mf_sha256_hex(const void *data, size_t n, char out[MF_SHA256_HEX])
{
    unsigned char hash[32];
    sha256(data, n, hash);
    for (size_t i = 0; i < sizeof hash; i++) {
        out[2 * i] = "0123456789abcdef"[hash[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[hash[i] & 15];
    }
    out[2 * sizeof hash] = '\0';
}
