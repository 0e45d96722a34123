/* base/sha256.h: the hash SHA-256 (FIPS 180-4), for what others compare by it, and for
 * what nobody may be able to forge. */
#ifndef MF_BASE_SHA256_H
#define MF_BASE_SHA256_H

#include <stddef.h>

/* The hash of n bytes in base 64: 44 characters and a NUL. */
void mf_sha256_base64(const void *data, size_t n, char out[45]);

/* The same as 64 hexadecimal digits and a NUL, as sha256sum prints it. */
#define MF_SHA256_HEX 65
void mf_sha256_hex(const void *data, size_t n, char out[MF_SHA256_HEX]);

/* HMAC (RFC 2104): what only who has the key can say of n bytes. key: at most 64 bytes. */
enum { MF_HMAC_BYTES = 32 };
void mf_hmac_sha256(const void *key, size_t k, const void *data, size_t n,
                    unsigned char out[MF_HMAC_BYTES]);

#endif
