/* lab/trace/npy.h: arrays of whole numbers as other programs send them: the format .npy of
 * NumPy, or raw little-endian int32. */
#ifndef MF_LAB_NPY_H
#define MF_LAB_NPY_H

#include <stddef.h>
#include <stdint.h>

enum { MF_NPY_RANK_MAX = 4 };

typedef struct mf_npy {
    int rank;
    int64_t shape[MF_NPY_RANK_MAX];
    size_t count;
    int32_t *data; /* [count], row by row */
} mf_npy;

/* Reads n bytes in the format .npy (versions 1 to 3) with elements u1, i2, u2 or i4,
 * little-endian and in the order of C. where: for messages. MF_EINPUT, MF_ENOMEM. The caller
 * frees data with mf_free. */
int mf_npy_read(const char *where, const char *bytes, size_t n, mf_npy *ret);
/* Reads raw int32; the result has rank 1. MF_EINPUT if n is no multiple of 4. */
int mf_npy_read_raw(const char *where, const char *bytes, size_t n, mf_npy *ret);

#endif
