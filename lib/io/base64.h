/* io/base64.h: bytes as text with 64 letters (RFC 4648). */
#ifndef MF_IO_BASE64_H
#define MF_IO_BASE64_H

#include <stddef.h>

/* Decodes n letters. The caller frees the result with mf_free. MF_EINPUT for another letter, or
 * for an incomplete group, with "%s: ..." and where; MF_ENOMEM. */
int mf_base64_read(const char *where, const char *text, size_t n, char **ret, size_t *ret_n);
/* Encodes n bytes as a NUL-terminated text, which the caller frees with mf_free. NULL: there is
 * no memory. */
char *mf_base64_write(const void *bytes, size_t n);

#endif
