/* data/safetensors/safetensors.c: element types, and the rules that each tensor must meet.
 * Reader and writer both call these checks, so a written file can always be read. */
#include "data/safetensors/safetensors.h"
#include "base/error.h"
#include "data/safetensors/safetensors_internal.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [MF_ST_UNKNOWN] = {"?", 0},       [MF_ST_BOOL] = {"BOOL", 1},
    [MF_ST_U8] = {"U8", 1},           [MF_ST_I8] = {"I8", 1},
    [MF_ST_F8_E5M2] = {"F8_E5M2", 1}, [MF_ST_F8_E4M3] = {"F8_E4M3", 1},
    [MF_ST_I16] = {"I16", 2},         [MF_ST_U16] = {"U16", 2},
    [MF_ST_F16] = {"F16", 2},         [MF_ST_BF16] = {"BF16", 2},
    [MF_ST_I32] = {"I32", 4},         [MF_ST_U32] = {"U32", 4},
    [MF_ST_F32] = {"F32", 4},         [MF_ST_F64] = {"F64", 8},
    [MF_ST_I64] = {"I64", 8},         [MF_ST_U64] = {"U64", 8},
};

enum { TYPES = sizeof types / sizeof *types };

size_t mf_st_dtype_size(mf_st_dtype dtype)
{
    return (unsigned)dtype < TYPES ? types[dtype].size : 0;
}

const char *mf_st_dtype_name(mf_st_dtype dtype)
{
    return types[(unsigned)dtype < TYPES ? dtype : MF_ST_UNKNOWN].name;
}

mf_st_dtype mf_st_dtype_of(const char *name)
{
    for (int i = MF_ST_UNKNOWN + 1; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0) return (mf_st_dtype)i;
    return MF_ST_UNKNOWN;
}

/* Names appear on terminals and in reports, so control characters are refused. */
int mf_st_check_name(const char *where, const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > MF_ST_NAME_MAX)
        return mf_fail(MF_EINPUT, "%s: tensor name of %zu bytes: expected 1 to %d", where, n,
                       MF_ST_NAME_MAX);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return mf_fail(MF_EINPUT,
                           "%s: tensor '%.*s...': control character 0x%02x in the name", where,
                           (int)i, name, (unsigned char)name[i]);
    return MF_OK;
}

int mf_st_measure(const char *where, mf_st_tensor *t)
{
    uint64_t count = 1, bytes = 0;
    if (t->rank < 0 || t->rank > MF_ST_RANK_MAX)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': rank %d: expected at most %d", where,
                       t->name, t->rank, MF_ST_RANK_MAX);
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0)
            return mf_fail(MF_EINPUT,
                           "%s: tensor '%s': dimension %d is %lld: expected 0 or more", where,
                           t->name, i, (long long)t->shape[i]);
        if (__builtin_mul_overflow(count, (uint64_t)t->shape[i], &count) || count > INT64_MAX)
            return mf_fail(MF_EINPUT, "%s: tensor '%s': more elements than can be counted",
                           where, t->name);
    }
    if (__builtin_mul_overflow(count, mf_st_dtype_size(t->dtype), &bytes) || bytes > INT64_MAX)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': more bytes than can be counted", where,
                       t->name);
    t->count = count;
    t->bytes = bytes;
    return MF_OK;
}
