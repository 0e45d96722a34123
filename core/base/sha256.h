/* base/sha256.h: the hash SHA-256 (FIPS 180-4), for hashes that third-party tools compare, and
 * for values that nobody else may be able to forge. */
#ifndef MF_BASE_SHA256_H
#define MF_BASE_SHA256_H

#include <stddef.h>

/* The hash of n bytes in base 64: 44 characters and a NUL. */
void mf_sha256_base64(const void *data, size_t n, char out[45]);

/* Like mf_sha256_base64, but 64 hexadecimal digits and a NUL, as sha256sum prints them. */
#define MF_SHA256_HEX 65
void mf_sha256_hex(const void *data, size_t n, char out[MF_SHA256_HEX]);

/* HMAC-SHA256 (RFC 2104): an authentication code for n bytes of data, which only the owner of
 * the key can compute. key: k bytes, at most 64. */
enum { MF_HMAC_BYTES = 32 };
void mf_hmac_sha256(const void *key, size_t k, const void *data, size_t n,
                    unsigned char out[MF_HMAC_BYTES]);

#endif
