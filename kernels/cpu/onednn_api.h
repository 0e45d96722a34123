/* onednn_api.h: the functions of oneDNN that onednn.c calls, as pointers that are set when it
 * is loaded, in one form for versions 2 and 3 of its interface.
 *
 * Version 3 made descriptions of memory opaque, and merged the description of an operation with
 * that of its primitive. */
#ifndef MF_CPU_ONEDNN_API_H
#define MF_CPU_ONEDNN_API_H

#include <dnnl.h>

#define API_FUNCTIONS(F)                                                                       \
    F(dnnl_version)                                                                            \
    F(dnnl_engine_create)                                                                      \
    F(dnnl_stream_create)                                                                      \
    F(dnnl_stream_destroy)                                                                     \
    F(dnnl_stream_wait)                                                                        \
    F(dnnl_memory_create)                                                                      \
    F(dnnl_memory_destroy)                                                                     \
    F(dnnl_memory_set_data_handle)                                                             \
    F(dnnl_memory_desc_get_size)                                                               \
    F(dnnl_post_ops_create)                                                                    \
    F(dnnl_post_ops_destroy)                                                                   \
    F(dnnl_post_ops_append_sum)                                                                \
    F(dnnl_post_ops_append_eltwise)                                                            \
    F(dnnl_primitive_attr_create)                                                              \
    F(dnnl_primitive_attr_destroy)                                                             \
    F(dnnl_primitive_attr_set_post_ops)                                                        \
    F(dnnl_primitive_attr_set_scratchpad_mode)                                                 \
    F(dnnl_primitive_desc_query)                                                               \
    F(dnnl_primitive_desc_query_md)                                                            \
    F(dnnl_primitive_desc_destroy)                                                             \
    F(dnnl_primitive_create)                                                                   \
    F(dnnl_primitive_execute)                                                                  \
    F(dnnl_primitive_destroy)                                                                  \
    API_FUNCTIONS_OF_VERSION(F)

#if DNNL_VERSION_MAJOR >= 3
#define API_FUNCTIONS_OF_VERSION(F)                                                            \
    F(dnnl_memory_desc_create_with_strides)                                                    \
    F(dnnl_memory_desc_destroy)                                                                \
    F(dnnl_matmul_primitive_desc_create)
#else
#define API_FUNCTIONS_OF_VERSION(F)                                                            \
    F(dnnl_memory_desc_init_by_strides)                                                        \
    F(dnnl_matmul_desc_init)                                                                   \
    F(dnnl_primitive_desc_create)
#endif

static struct {
#define F(name) __typeof__(name) *name;
    API_FUNCTIONS(F)
#undef F
} api;

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t api_desc_ref;
#define API_REF(desc) (desc)
#else
typedef const dnnl_memory_desc_t *api_desc_ref;
#define API_REF(desc) (&(desc))
#endif

/* Describes a matrix: row-major, or column-major if `turned`. */
static inline dnnl_status_t api_matrix(dnnl_memory_desc_t *ret, dnnl_data_type_t type,
                                       int64_t rows, int64_t columns, int64_t ld, bool turned)
{
    const dnnl_dims_t dims = {rows, columns}, strides = {turned ? 1 : ld, turned ? ld : 1};
#if DNNL_VERSION_MAJOR >= 3
    return api.dnnl_memory_desc_create_with_strides(ret, 2, dims, type, strides);
#else
    return api.dnnl_memory_desc_init_by_strides(ret, 2, dims, type, strides);
#endif
}

static inline void api_matrix_free(dnnl_memory_desc_t desc)
{
#if DNNL_VERSION_MAJOR >= 3
    api.dnnl_memory_desc_destroy(desc);
#else
    (void)desc;
#endif
}

/* bias may be NULL. */
static inline dnnl_status_t api_matmul(dnnl_primitive_desc_t *ret, dnnl_engine_t engine,
                                       api_desc_ref a, api_desc_ref b, api_desc_ref bias,
                                       api_desc_ref c, const_dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR >= 3
    return api.dnnl_matmul_primitive_desc_create(ret, engine, a, b, bias, c, attr);
#else
    dnnl_matmul_desc_t op;
    dnnl_status_t rc = api.dnnl_matmul_desc_init(&op, a, b, bias, c);
    return rc != dnnl_success ? rc
                              : api.dnnl_primitive_desc_create(ret, &op, attr, engine, NULL);
#endif
}

/* Appends the operations after a gemm: c = alpha c if alpha is not 1, then c += old c
 * if `add`. */
static inline dnnl_status_t api_after(dnnl_post_ops_t ops, float alpha, bool add)
{
    dnnl_status_t rc = dnnl_success;
#if DNNL_VERSION_MAJOR >= 3
    if (alpha != 1) rc = api.dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_linear, alpha, 0);
    if (rc == dnnl_success && add)
        rc = api.dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
#else
    if (alpha != 1)
        rc = api.dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_linear, alpha, 0);
    if (rc == dnnl_success && add) rc = api.dnnl_post_ops_append_sum(ops, 1);
#endif
    return rc;
}

#endif
