/* base/sha256.h: the hash SHA-256 (FIPS 180-4), for what browsers compare by it. */
#ifndef MF_BASE_SHA256_H
#define MF_BASE_SHA256_H

#include <stddef.h>

/* The hash of n bytes in base 64: 44 characters and a NUL. */
void mf_sha256_base64(const void *data, size_t n, char out[45]);

#endif
