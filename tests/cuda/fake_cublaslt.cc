/* fake_cublaslt.cc: the part of libcublasLt that the backend calls, in plain loops over the
 * fake runtime's memory. Its workspace is written, so that two gemms with one workspace in
 * two streams are found. An algorithm is for the matrices, the workspace and the alignments
 * that were asked for: with others a gemm is refused. What is not destroyed when the last
 * handle goes is a finding. */
#include <cublasLt.h>

#include "emu.hh"
#include "fake.hh"

#include <cstdlib>
#include <cstring>

struct desc {
    int trans_a = 0, trans_b = 0, epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr;
};
struct layout {
    cudaDataType type;
    int64_t rows, columns, ld, stride = 0;
    int32_t order = CUBLASLT_ORDER_COL, batch = 1;
};
struct preference {
    uint64_t work = 0;
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_MASK;
    uint32_t align[4] = {256, 256, 256, 256}; /* as the library assumes, of A, B, C, D */
};
enum { WORKSPACE = 256 };
static int handles, objects; /* objects: descriptors, layouts and preferences that exist */

static float get(const void *p, int64_t i, cudaDataType t)
{
    float f;
    if (t == CUDA_R_32F) return ((const float *)p)[i];
    const uint32_t u = (uint32_t)((const uint16_t *)p)[i] << 16;
    memcpy(&f, &u, sizeof f);
    return f;
}
static void put(void *p, int64_t i, cudaDataType t, float v)
{
    uint32_t u;
    if (t == CUDA_R_32F) {
        ((float *)p)[i] = v;
        return;
    }
    memcpy(&u, &v, sizeof u);
    ((uint16_t *)p)[i] = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static int64_t at(const layout &l, int64_t row, int64_t column)
{
    return l.order == CUBLASLT_ORDER_ROW ? row * l.ld + column : column * l.ld + row;
}
static size_t span(const layout &l)
{
    const int64_t last = (l.batch - 1) * l.stride + at(l, l.rows - 1, l.columns - 1);
    return (size_t)(last + 1) * (l.type == CUDA_R_32F ? 4 : 2);
}

typedef struct gemm {
    desc d;
    layout a, b, c, out;
    const void *A, *B, *C;
    void *D, *work;
    float alpha, beta;
    int64_t m, n, k;
} gemm;

static void one(const gemm &g, int64_t part, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t q = 0; q < g.k; q++) {
        const int64_t in_a = g.d.trans_a ? at(g.a, q, i) : at(g.a, i, q);
        const int64_t in_b = g.d.trans_b ? at(g.b, j, q) : at(g.b, q, j);
        sum += (double)get(g.A, part * g.a.stride + in_a, g.a.type) *
               (double)get(g.B, part * g.b.stride + in_b, g.b.type);
    }
    float v = (float)((double)g.alpha * sum);
    if (g.beta != 0) v += g.beta * get(g.C, part * g.c.stride + at(g.c, i, j), g.c.type);
    if (g.d.epilogue == CUBLASLT_EPILOGUE_BIAS) v += get(g.d.bias, i, CUDA_R_32F);
    put(g.D, part * g.out.stride + at(g.out, i, j), g.out.type, v);
}
static void run(const gemm &g)
{
    fake::reads(g.A, span(g.a), "cublasLtMatmul");
    fake::reads(g.B, span(g.b), "cublasLtMatmul");
    if (g.beta != 0) fake::reads(g.C, span(g.c), "cublasLtMatmul");
    if (g.d.bias) fake::reads(g.d.bias, (size_t)g.m * 4, "the bias of cublasLtMatmul");
    fake::writes(g.D, span(g.out), "cublasLtMatmul");
    fake::writes(g.work, WORKSPACE, "the workspace of cublasLtMatmul");
    for (int64_t part = 0; part < g.out.batch; part++)
        for (int64_t j = 0; j < g.n; j++)
            for (int64_t i = 0; i < g.m; i++)
                one(g, part, i, j);
}

/* What an algorithm was chosen for: a number of each matrix, and of all of them. */
static uint64_t hash_of(const desc &d, const layout *const l[4])
{
    uint64_t h = 14695981039346656037u;
    const auto add = [&](int64_t v) { h = (h ^ (uint64_t)v) * 1099511628211u; };
    add(d.trans_a), add(d.trans_b), add(d.epilogue);
    for (int i = 0; i < 4; i++)
        add(l[i]->type), add(l[i]->rows), add(l[i]->columns), add(l[i]->ld), add(l[i]->stride),
            add(l[i]->order), add(l[i]->batch);
    return h;
}
/* Whether a matrix, in each of its parts, begins at a multiple of n bytes. */
static bool is_aligned(const void *p, const layout &l, uint64_t n)
{
    const uint64_t size = l.type == CUDA_R_32F ? 4 : 2;
    return (uintptr_t)p % n == 0 && (l.batch == 1 || (uint64_t)l.stride * size % n == 0);
}

template <class T> static T *in(void *opaque)
{
    return static_cast<T *>(opaque);
}

extern "C" {
size_t cublasLtGetVersion(void)
{
    return 130000;
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    if (fake::fails()) return CUBLAS_STATUS_ALLOC_FAILED;
    *h = (cublasLtHandle_t)malloc(1);
    handles++;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    if (--handles == 0 && objects > 0)
        emu::finding("leak", "%d descriptors of cuBLASLt are not destroyed", objects);
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t,
                                        cudaDataType_t)
{
    if (fake::fails()) return CUBLAS_STATUS_ALLOC_FAILED;
    *d = (cublasLtMatmulDesc_t)(void *)new desc;
    objects++;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    delete in<desc>(d);
    objects--;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t opaque,
                                              cublasLtMatmulDescAttributes_t a, const void *v,
                                              size_t n)
{
    desc *d = in<desc>(opaque);
    if (a == CUBLASLT_MATMUL_DESC_BIAS_POINTER && n == sizeof d->bias) {
        memcpy(&d->bias, v, n);
        return CUBLAS_STATUS_SUCCESS;
    }
    int *to = a == CUBLASLT_MATMUL_DESC_TRANSA     ? &d->trans_a
              : a == CUBLASLT_MATMUL_DESC_TRANSB   ? &d->trans_b
              : a == CUBLASLT_MATMUL_DESC_EPILOGUE ? &d->epilogue
                                                   : nullptr;
    if (!to || n != sizeof *to) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, v, n);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType t,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    if (fake::fails()) return CUBLAS_STATUS_ALLOC_FAILED;
    *l = (cublasLtMatrixLayout_t)(void *)new layout{t, (int64_t)rows, (int64_t)columns, ld};
    objects++;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    delete in<layout>(l);
    objects--;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t opaque,
                                                cublasLtMatrixLayoutAttribute_t a,
                                                const void *v, size_t n)
{
    layout *l = in<layout>(opaque);
    if (a == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && n == sizeof l->stride) {
        memcpy(&l->stride, v, n);
        return CUBLAS_STATUS_SUCCESS;
    }
    int32_t *to = a == CUBLASLT_MATRIX_LAYOUT_ORDER         ? &l->order
                  : a == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? &l->batch
                                                            : nullptr;
    if (!to || n != sizeof *to) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, v, n);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    if (fake::fails()) return CUBLAS_STATUS_ALLOC_FAILED;
    *p = (cublasLtMatmulPreference_t)(void *)new preference;
    objects++;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete in<preference>(p);
    objects--;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t opaque,
                                                    cublasLtMatmulPreferenceAttributes_t a,
                                                    const void *v, size_t n)
{
    preference *p = in<preference>(opaque);
    const int side = a - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (a == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && n == sizeof p->work)
        memcpy(&p->work, v, n);
    else if (a == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && n == sizeof p->reduction)
        memcpy(&p->reduction, v, n);
    else if (side >= 0 && side < 4 && n == sizeof p->align[0])
        memcpy(&p->align[side], v, n);
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out,
                               cublasLtMatmulPreference_t opaque, int n,
                               cublasLtMatmulHeuristicResult_t *r, int *found)
{
    const preference *p = in<preference>(opaque);
    const layout *const all[4] = {in<layout>(a), in<layout>(b), in<layout>(c), in<layout>(out)};
    if (fake::fails()) return CUBLAS_STATUS_NOT_SUPPORTED;
    /* Other schemes add parts in the type of c, which is worse than the sums in f32 promised.
     * An error, since without an algorithm the backend would go on with its own kernels. */
    if (p->reduction & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(r, 0, sizeof *r * (size_t)n);
    r->workspaceSize = WORKSPACE; /* so that a missing workspace is noticed */
    r->algo.data[0] = hash_of(*in<desc>(d), all);
    r->algo.data[1] = p->work;
    for (int i = 0; i < 4; i++)
        r->algo.data[2 + i] = p->align[i];
    *found = n > 0 && p->work >= WORKSPACE;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t a, const void *B,
                              cublasLtMatrixLayout_t b, const void *beta, const void *C,
                              cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t out,
                              const cublasLtMatmulAlgo_t *algo, void *work,
                              size_t work_bytes, cudaStream_t stream)
{
    gemm g = {*in<desc>(d),
              *in<layout>(a),
              *in<layout>(b),
              *in<layout>(c),
              *in<layout>(out),
              A,
              B,
              C,
              D,
              work,
              0,
              0,
              0,
              0,
              0};
    const layout *const all[4] = {&g.a, &g.b, &g.c, &g.out};
    const void *const at[4] = {A, B, C, D};
    if (fake::fails("gemm")) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (algo->data[0] != hash_of(g.d, all) || algo->data[1] > work_bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++)
        if (!is_aligned(at[i], *all[i], algo->data[2 + i])) return CUBLAS_STATUS_NOT_SUPPORTED;
    memcpy(&g.alpha, alpha, sizeof g.alpha); /* on the host */
    memcpy(&g.beta, beta, sizeof g.beta);
    g.m = g.d.trans_a ? g.a.columns : g.a.rows;
    g.k = g.d.trans_a ? g.a.rows : g.a.columns;
    g.n = g.d.trans_b ? g.b.rows : g.b.columns;
    if ((g.d.trans_b ? g.b.columns : g.b.rows) != g.k || g.out.rows != g.m ||
        g.out.columns != g.n || g.out.batch != g.a.batch || g.out.batch != g.b.batch ||
        g.out.batch != g.c.batch || !fake::is_device(work, work_bytes))
        return CUBLAS_STATUS_INVALID_VALUE;
    return fake::enqueue(stream, "cublasLtMatmul", [=] { run(g); })
               ? CUBLAS_STATUS_EXECUTION_FAILED
               : CUBLAS_STATUS_SUCCESS;
}
} // extern "C"
