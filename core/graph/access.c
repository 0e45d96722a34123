/* graph/access.c: the host's reads and writes of tensors.
 *
 * Everything outside core/graph that wants the numbers of a tensor comes through here, so that
 * they may live where the host cannot look.
 */
#include "graph/internal.h"

#include <string.h>

/* What a value left that is not kept may be overwritten by now. */
static bool visible(const mf_tensor *t)
{
    return t && t->data &&
           (t->kind != MF_TENSOR_VALUE || t->keep || t->graph->options.no_reuse);
}

void *mf_tensor_data(const mf_tensor *t)
{
    return visible(t) ? t->data : NULL;
}

const void *mf_tensor_host(const mf_tensor *t)
{
    return visible(t) ? t->data : NULL;
}

void *mf_tensor_input(mf_tensor *t)
{
    return t && t->kind == MF_TENSOR_INPUT ? t->data : NULL;
}

static int check_range(const mf_tensor *t, size_t offset, size_t bytes)
{
    const char *name = t && t->name ? t->name : "a tensor";
    if (!visible(t))
        return mf_fail(MF_EINVAL, "%s: its values are not kept, or not there yet", name);
    const size_t size = mf_shape_bytes(t->shape, t->dtype);
    if (offset <= size && bytes <= size - offset) return MF_OK;
    return mf_fail(MF_EINVAL, "%s: bytes %zu to %zu, but it has %zu", name, offset,
                   offset + bytes, size);
}

int mf_tensor_read(const mf_tensor *t, void *to, size_t offset, size_t bytes)
{
    const int rc = check_range(t, offset, bytes);
    if (rc == MF_OK && bytes) memcpy(to, (const char *)t->data + offset, bytes);
    return rc;
}

int mf_tensor_write(mf_tensor *t, const void *from, size_t offset, size_t bytes)
{
    const int rc = check_range(t, offset, bytes);
    if (rc == MF_OK && bytes) memcpy((char *)t->data + offset, from, bytes);
    return rc;
}
