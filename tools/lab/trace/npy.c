/* lab/trace/npy.c: reads small arrays of whole numbers. The header of .npy is the text of a
 * dictionary, {'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }; only what NumPy
 * writes is accepted. */
#include "lab/trace/npy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

static const char magic[] = "\x93NUMPY";
enum { MAGIC = sizeof magic - 1, HEADER_MAX = 1024 };

static uint32_t number_at(const char *bytes, size_t width)
{
    uint32_t v = 0;
    for (size_t i = 0; i < width; i++)
        v |= (uint32_t)(unsigned char)bytes[i] << 8 * i;
    return v;
}

static int32_t element(const char *at, size_t width, bool with_sign)
{
    const uint32_t v = number_at(at, width);
    return width == 2 && with_sign ? (int16_t)v : (int32_t)v;
}

static int convert(const char *where, const char *bytes, size_t n, size_t width, bool with_sign,
                   mf_npy *ret)
{
    if (n / width != ret->count || n % width != 0)
        return mf_fail(MF_EINPUT, "%s: expected %zu elements of %zu bytes, found %zu bytes",
                       where, ret->count, width, n);
    ret->data = mf_alloc(ret->count + 1, sizeof *ret->data);
    if (!ret->data) return MF_ENOMEM;
    for (size_t i = 0; i < ret->count; i++)
        ret->data[i] = element(bytes + i * width, width, with_sign);
    return MF_OK;
}

/* Reads "(3, 4, 2)". */
static bool read_shape(const char *at, mf_npy *ret)
{
    const char *p = strchr(at, '(');
    ret->count = 1;
    if (!p) return false;
    for (p++; *p && *p != ')';) {
        char *end;
        const long long v = strtoll(p, &end, 10);
        if (end == p || v < 0 || v > INT32_MAX || ret->rank == MF_NPY_RANK_MAX) return false;
        if (v > 0 && ret->count > (size_t)INT32_MAX / (size_t)v) return false;
        ret->shape[ret->rank++] = v;
        ret->count *= (size_t)v;
        p = end + strspn(end, ", ");
    }
    return *p == ')';
}

int mf_npy_read(const char *where, const char *bytes, size_t n, mf_npy *ret)
{
    static const struct {
        const char *name;
        size_t width;
        bool with_sign;
    } types[] = {{"|u1", 1, false},
                 {"<u1", 1, false},
                 {"<u2", 2, false},
                 {"<i2", 2, true},
                 {"<i4", 4, true}};
    char header[HEADER_MAX + 1];
    *ret = (mf_npy){0};
    if (n < MAGIC + 4 || memcmp(bytes, magic, MAGIC) != 0)
        return mf_fail(MF_EINPUT, "%s: expected an array in the format .npy", where);
    const size_t width = bytes[MAGIC] == 1 ? 2 : 4, begin = MAGIC + 2 + width;
    if (bytes[MAGIC] < 1 || bytes[MAGIC] > 3 || n < begin)
        return mf_fail(MF_EINPUT, "%s: expected .npy of version 1 to 3", where);
    const size_t length = number_at(bytes + MAGIC + 2, width);
    if (length > HEADER_MAX || length > n - begin)
        return mf_fail(MF_EINPUT, "%s: the header of .npy is too long", where);
    memcpy(header, bytes + begin, length);
    header[length] = '\0';
    const char *descr = strstr(header, "'descr': '"), *shape = strstr(header, "'shape': ");
    if (!descr || !shape || !strstr(header, "'fortran_order': False") ||
        !read_shape(shape, ret))
        return mf_fail(MF_EINPUT, "%s: expected .npy of at most %d axes, in the order of C",
                       where, (int)MF_NPY_RANK_MAX);
    descr += strlen("'descr': '");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const size_t m = strlen(types[i].name);
        if (strncmp(descr, types[i].name, m) == 0 && descr[m] == '\'')
            return convert(where, bytes + begin + length, n - begin - length, types[i].width,
                           types[i].with_sign, ret);
    }
    return mf_fail(MF_EINPUT, "%s: expected elements u1, u2, i2 or i4, found '%.*s'", where,
                   (int)strcspn(descr, "'"), descr);
}

int mf_npy_read_raw(const char *where, const char *bytes, size_t n, mf_npy *ret)
{
    *ret = (mf_npy){.rank = 1, .shape = {(int64_t)(n / 4)}, .count = n / 4};
    return convert(where, bytes, n, 4, true, ret);
}
