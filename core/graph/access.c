/* graph/access.c: reads and writes tensors for the host.
 *
 * Code outside core/graph accesses the values of a tensor only through these functions, because
 * the values may be in memory of a device. On a device, `host` of a leaf that the host fills is
 * the memory from which its values are sent; `host` of any other tensor is a copy of its values
 * after run number `seen`. */
#include "graph/internal.h"

#include <string.h>

/* Whether t has values that can be read. If t is not kept, another value may have
 * overwritten it. */
static bool visible(const mf_tensor *t)
{
    if (!t) return false;
    if (t->kind != MF_TENSOR_VALUE) return t->data || t->host;
    return t->data && (t->keep || t->graph->options.no_reuse);
}

/* Whether t->host holds the present values. The device has the same values, or gets them in the
 * next run. */
static bool has_host_side(const mf_tensor *t)
{
    if (t->kind == MF_TENSOR_INPUT) return !mf_input_stays(t) || t->refreshed || !t->data;
    return t->kind == MF_TENSOR_CONST || t->kind == MF_TENSOR_LIVE;
}

static size_t bytes_of(const mf_tensor *t)
{
    return mf_shape_bytes(t->shape, t->dtype);
}

static bool is_f32_param(const mf_tensor *t)
{
    return t->kind == MF_TENSOR_PARAM && t->dtype == MF_F32;
}

void *mf_tensor_data(const mf_tensor *t)
{
    return visible(t) && !mf_tensor_is_stored(t) ? t->data : NULL;
}

/* Returns a copy of the values on the host; NULL on failure. Outputs of nodes are copied again
 * only after a run or a write. */
static const void *copy_of(mf_tensor *t)
{
    mf_graph *g = t->graph;
    const bool lasts = t->kind == MF_TENSOR_VALUE && t->seen == g->runs;
    if (!t->host) t->host = mf_graph_alloc(g, bytes_of(t) + 1);
    if (!t->host || lasts) return t->host;
    if (mf_device_read_now(g->options.device, t->host, t->data, bytes_of(t)) != MF_OK)
        return NULL;
    t->seen = g->runs;
    return t->host;
}

const void *mf_tensor_host(const mf_tensor *t)
{
    if (!visible(t)) return NULL;
    if (mf_tensor_is_stored(t)) return mf_param_host(t->param);
    if (!t->graph->options.device) return t->data;
    mf_tensor *owner = mf_owner(t);
    if (has_host_side(owner)) return owner->host;
    if (is_f32_param(owner)) return mf_param_host(owner->param);
    if (owner->kind != MF_TENSOR_VALUE || owner->at < 0) return copy_of(owner);
    const char *view = mf_exchange_view(t->graph);
    return view ? view + owner->at : NULL;
}

/* If the input stays on the device, its present values are first read from the device. */
void *mf_tensor_input(mf_tensor *t)
{
    if (!t || t->kind != MF_TENSOR_INPUT) return NULL;
    if (!t->graph->options.device || has_host_side(t)) return t->host;
    if (mf_device_read_now(t->graph->options.device, t->host, t->data, bytes_of(t)) != MF_OK)
        return NULL;
    t->refreshed = true;
    return t->host;
}

static int check_range(const mf_tensor *t, size_t offset, size_t bytes)
{
    const char *name = t && t->name ? t->name : "a tensor";
    if (!visible(t))
        return mf_fail(MF_EINVAL, "%s: its values are not kept, or not there yet", name);
    const size_t size = bytes_of(t);
    if (offset <= size && bytes <= size - offset) return MF_OK;
    return mf_fail(MF_EINVAL, "%s: bytes %zu to %zu, but it has %zu", name, offset,
                   offset + bytes, size);
}

int mf_tensor_read(const mf_tensor *t, void *to, size_t offset, size_t bytes)
{
    const int rc = check_range(t, offset, bytes);
    if (rc != MF_OK || bytes == 0) return rc;
    const mf_tensor *owner = mf_owner(t);
    if (has_host_side(owner)) {
        memcpy(to, (const char *)owner->host + offset, bytes);
        return MF_OK;
    }
    if (mf_tensor_is_stored(t) || (t->graph->options.device && is_f32_param(owner)))
        return mf_param_read(owner->param, to, offset, bytes);
    return mf_device_read_now(t->graph->options.device, to, (const char *)t->data + offset,
                              bytes);
}

int mf_tensor_write(mf_tensor *t, const void *from, size_t offset, size_t bytes)
{
    const int rc = check_range(t, offset, bytes);
    if (rc != MF_OK || bytes == 0) return rc;
    mf_tensor *owner = mf_owner(t);
    mf_device *d = t->graph->options.device;
    if (mf_tensor_is_stored(t) || (d && is_f32_param(owner)))
        return mf_param_write(owner->param, from, offset, bytes);
    if (has_host_side(owner)) memcpy((char *)owner->host + offset, from, bytes);
    const bool sent_later = has_host_side(owner) && owner->kind != MF_TENSOR_CONST;
    if (!t->data || (d ? sent_later : t->data == owner->host)) return MF_OK;
    owner->seen = 0;
    return mf_device_write_now(d, (char *)t->data + offset, from, bytes);
}
