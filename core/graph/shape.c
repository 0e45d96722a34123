/* graph/shape.c: element types and shapes as text, and their sizes. The texts also represent
 * invalid values, because plugins may pass them. */
#include "graph/shape.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [MF_F32] = {"f32", 4}, [MF_BF16] = {"bf16", 2}, [MF_I32] = {"i32", 4}, [MF_U8] = {"u8", 1}};

static bool known(int64_t dtype)
{
    return dtype >= 0 && dtype < (int64_t)(sizeof types / sizeof *types);
}

/* Returns 0 for an unknown type. */
static size_t dtype_size(mf_dtype dtype)
{
    return known(dtype) ? types[dtype].size : 0;
}

const char *mf_dtype_text(int64_t dtype)
{
    return known(dtype) ? types[dtype].name : "?";
}

bool mf_dtype_is_float(mf_dtype dtype)
{
    return dtype == MF_F32 || dtype == MF_BF16;
}

const char *mf_shape_text(mf_shape s, char buf[MF_SHAPE_TEXT])
{
    size_t used = 0;
    if (s.rank <= 0 || s.rank > MF_MAX_RANK) {
        snprintf(buf, MF_SHAPE_TEXT, "%s",
                 s.rank == 0  ? "scalar"
                 : s.rank < 0 ? "absent"
                              : "a shape of too many dimensions");
        return buf;
    }
    for (int i = 0; i < s.rank; i++) /* a dimension takes at most 21 bytes with its comma */
        used += (size_t)snprintf(buf + used, MF_SHAPE_TEXT - used, "%c%" PRId64, i ? ',' : '[',
                                 s.dim[i]);
    snprintf(buf + used, MF_SHAPE_TEXT - used, "]");
    return buf;
}

bool mf_shape_valid(mf_shape s, mf_dtype dtype)
{
    int64_t bytes = (int64_t)dtype_size(dtype);
    if (s.rank < 0 || s.rank > MF_MAX_RANK || bytes == 0) return false;
    for (int i = 0; i < s.rank; i++) {
        if (s.dim[i] < 0 || __builtin_mul_overflow(bytes, s.dim[i], &bytes)) return false;
        if (bytes > MF_MAX_BYTES) return false;
    }
    return true;
}

size_t mf_shape_bytes(mf_shape s, mf_dtype dtype)
{
    return (size_t)mf_shape_count(s) * dtype_size(dtype);
}

const char *mf_views_text(const mf_view *views, int n, char *text, size_t size)
{
    char shape[MF_SHAPE_TEXT];
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < n && used < size; i++)
        if (views[i].shape.rank >= 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s %s", used > 0 ? ", " : "",
                                     mf_dtype_text(views[i].dtype),
                                     mf_shape_text(views[i].shape, shape));
    return text;
}
