/* kernels/cuda/lt.c: dense gemms by cuBLASLt, computed as C^T = op(B)^T op(A)^T, because
 * cuBLASLt is column-major. Our own kernel computes all other gemms. The first gemm of a form
 * (sizes, types, strides, alignments) requests an algorithm that fits a workspace of fixed
 * size. Descriptors and algorithm are kept. So later gemms of the form have the same bits and
 * allocate nothing, which a recording requires.
 *
 * If the length of bf16 rows is no multiple of 16 bytes, as with a vocabulary of 50,257, rows
 * are read element by element, at a fifth of the speed. Such a gemm is divided into a large
 * gemm and a gemm of the remaining elements. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cublasLt.h>
#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"

enum { WORK_BYTES = 32 << 20, SLOTS = 1024, MOST_ALIGNED = 256 };
/* number of bf16 in 16 bytes; minimum length for which a second gemm saves more than
 * it costs */
enum { EIGHT = 8, SPLIT_FROM = 2048 };

/* Everything on which descriptors and algorithm depend. The struct has no padding, because its
 * bytes are compared. */
typedef struct form {
    int64_t m, n, k, lda, ldb, ldc, step_a, step_b, step_c, groups;
    int32_t type, type_c, trans_a, trans_b, bias, beta, align_a, align_b, align_c, reserved;
} form;

typedef struct plan {
    form of;
    bool used, own; /* own: our kernel computes the form, because cuBLASLt has no algorithm
                     * for it */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t x, y, c; /* layouts of the first factor, the second factor, and
                                     * the result */
    cublasLtMatmulAlgo_t algo;
} plan;

struct mf_cuda_lt {
    cublasLtHandle_t handle;
    void *work;
    plan *plans; /* [SLOTS], by a hash of the form */
    cublasStatus_t error;
    const char *failed;
};

/* ---- plans ---- */

static int32_t aligned(const void *p, int64_t step_bytes)
{
    const uintptr_t bits = (uintptr_t)p | (uintptr_t)step_bytes | MOST_ALIGNED;
    return (int32_t)(bits & -bits);
}

/* Whether cuBLASLt may compute g. */
static bool dense(const mf_gemm *g)
{
    const bool one_type = g->a.type == g->b.type && (!g->as_bf16 || g->a.type == MF_CAST_BF16);
    if (g->by != MF_BY_BATCH || g->a.row || g->b.row || g->b.packed || !one_type ||
        g->epilogue != MF_EPILOGUE_NONE || g->m <= 0 || g->n <= 0 || g->k <= 0)
        return false;
    return !g->bias || (g->c.type == MF_CAST_F32 && (g->groups <= 1 || g->step_bias == 0));
}

static form form_of(const mf_gemm *g)
{
    const int64_t groups = g->groups ? g->groups : 1, size = mf_cast_size((int)g->a.type);
    form f = {.m = g->m,
              .n = g->n,
              .k = g->k,
              .lda = g->a.ld,
              .ldb = g->b.ld,
              .ldc = g->c.ld,
              .step_a = groups > 1 ? g->a.step : 0,
              .step_b = groups > 1 ? g->b.step : 0,
              .step_c = groups > 1 ? g->c.step : 0,
              .groups = groups,
              .type = (int32_t)g->a.type,
              .type_c = (int32_t)g->c.type,
              .trans_a = g->a.trans,
              .trans_b = g->b.trans,
              .bias = g->bias != NULL,
              .beta = g->beta != 0};
    f.align_a = aligned(g->a.data, f.step_a * size);
    f.align_b = aligned(g->b.data, f.step_b * size);
    f.align_c = aligned(g->c.data, f.step_c * mf_cast_size((int)g->c.type));
    if (g->from && aligned(g->from, 0) < f.align_c) f.align_c = aligned(g->from, 0);
    return f;
}

static plan *slot_of(mf_cuda_lt *p, const form *f)
{
    const unsigned char *c = (const unsigned char *)f;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *f; i++)
        h = (h ^ c[i]) * 1099511628211u;
    for (int i = 0; i < SLOTS; i++) {
        plan *s = &p->plans[(h + (uint64_t)i) % SLOTS];
        if (!s->used || memcmp(&s->of, f, sizeof *f) == 0) return s;
    }
    return NULL;
}

static cudaDataType type_of(int32_t type)
{
    return type == MF_CAST_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* Describes a matrix for cuBLASLt: column-major, with columns `ld` apart. */
static cublasStatus_t layout(cublasLtMatrixLayout_t *ret, int32_t type, int64_t rows,
                             int64_t columns, int64_t ld, int64_t groups, int64_t step)
{
    const int32_t count = (int32_t)groups;
    cublasStatus_t s =
        cublasLtMatrixLayoutCreate(ret, type_of(type), (uint64_t)rows, (uint64_t)columns, ld);
    if (s != CUBLAS_STATUS_SUCCESS || groups == 1) return s;
    s = cublasLtMatrixLayoutSetAttribute(*ret, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                         sizeof count);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    return cublasLtMatrixLayoutSetAttribute(*ret, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &step, sizeof step);
}

static cublasStatus_t describe(plan *l)
{
    const form *f = &l->of;
    const int32_t n = CUBLAS_OP_N, t = CUBLAS_OP_T,
                  epilogue = f->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cublasStatus_t s = cublasLtMatmulDescCreate(&l->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(l->desc, CUBLASLT_MATMUL_DESC_TRANSA,
                                           f->trans_b ? &t : &n, sizeof n);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(l->desc, CUBLASLT_MATMUL_DESC_TRANSB,
                                           f->trans_a ? &t : &n, sizeof n);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(l->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                           sizeof epilogue);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = f->trans_b ? layout(&l->x, f->type, f->k, f->n, f->ldb, f->groups, f->step_b)
                       : layout(&l->x, f->type, f->n, f->k, f->ldb, f->groups, f->step_b);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = f->trans_a ? layout(&l->y, f->type, f->m, f->k, f->lda, f->groups, f->step_a)
                       : layout(&l->y, f->type, f->k, f->m, f->lda, f->groups, f->step_a);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = layout(&l->c, f->type_c, f->n, f->m, f->ldc, f->groups, f->step_c);
    return s;
}

static cublasStatus_t prefer(cublasLtMatmulPreference_t ret, const form *f)
{
    const size_t bytes = WORK_BYTES;
    /* Parts of a long sum are added in f32, in a fixed order, and not in bf16 if c is bf16. */
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t align[4] = {(uint32_t)f->align_b, (uint32_t)f->align_a, (uint32_t)f->align_c,
                               (uint32_t)f->align_c};
    static const cublasLtMatmulPreferenceAttributes_t which[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasStatus_t s = cublasLtMatmulPreferenceSetAttribute(
        ret, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulPreferenceSetAttribute(
            ret, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction);
    for (int i = 0; s == CUBLAS_STATUS_SUCCESS && i < 4; i++)
        s = cublasLtMatmulPreferenceSetAttribute(ret, which[i], &align[i], sizeof align[i]);
    return s;
}

/* Requests the algorithm of a plan whose descriptors exist; sets `own` if cuBLASLt has none. */
static cublasStatus_t choose(const mf_cuda_lt *p, plan *l)
{
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found = {0};
    int n = 0;
    cublasStatus_t s = cublasLtMatmulPreferenceCreate(&preference);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    s = prefer(preference, &l->of);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulAlgoGetHeuristic(p->handle, l->desc, l->x, l->y, l->c, l->c,
                                           preference, 1, &found, &n);
    (void)cublasLtMatmulPreferenceDestroy(preference);
    l->own = s == CUBLAS_STATUS_NOT_SUPPORTED || (s == CUBLAS_STATUS_SUCCESS && n == 0) ||
             (s == CUBLAS_STATUS_SUCCESS && found.state != CUBLAS_STATUS_SUCCESS);
    if (l->own) return CUBLAS_STATUS_SUCCESS;
    l->algo = found.algo;
    return s;
}

static void forget(plan *l)
{
    if (l->c) (void)cublasLtMatrixLayoutDestroy(l->c);
    if (l->y) (void)cublasLtMatrixLayoutDestroy(l->y);
    if (l->x) (void)cublasLtMatrixLayoutDestroy(l->x);
    if (l->desc) (void)cublasLtMatmulDescDestroy(l->desc);
    *l = (plan){0};
}

/* Returns the plan of a form, made now or earlier. NULL: making it failed, or there are too
 * many forms. */
static plan *plan_of(mf_cuda_lt *p, const form *f)
{
    plan *l = slot_of(p, f);
    if (!l || l->used) return l;
    l->used = true;
    l->of = *f;
    cublasStatus_t s = describe(l);
    if (s == CUBLAS_STATUS_SUCCESS) s = choose(p, l);
    if (s == CUBLAS_STATUS_SUCCESS) return l;
    forget(l);
    p->error = s;
    p->failed = "the choice of an algorithm";
    return NULL;
}

/* ---- launches ---- */

static void multiply(mf_cuda_lt *p, const plan *l, const mf_kctx *x, const mf_gemm *g)
{
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (g->bias)
        s = cublasLtMatmulDescSetAttribute(l->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias,
                                           sizeof g->bias);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmul(p->handle, l->desc, &g->alpha, g->b.data, l->x, g->a.data, l->y,
                           &g->beta, g->from ? g->from : g->c.data, l->c, g->c.data, l->c,
                           &l->algo, p->work, WORK_BYTES, x->stream);
    if (s == CUBLAS_STATUS_SUCCESS || p->error != CUBLAS_STATUS_SUCCESS) return;
    p->error = s;
    p->failed = "a gemm";
}

/* Computes a dense gemm, by a kernel of our own if cuBLASLt has no algorithm for it. */
static void whole(mf_cuda_lt *p, const mf_kctx *x, const mf_gemm *g)
{
    const form f = form_of(g);
    const plan *l = plan_of(p, &f);
    if (l && !l->own)
        multiply(p, l, x, g);
    else
        mf_cuda_gemm(x, g);
}

/* Returns the number of elements behind the last multiple of eight of a long dimension. along:
 * stored rows run along this dimension. */
static int64_t rest_of(bool along, int64_t length)
{
    return along && length >= SPLIT_FROM ? length % EIGHT : 0;
}

static const void *at(const mf_gemm_operand *o, int64_t row, int64_t column)
{
    const size_t size = (size_t)mf_cast_size((int)o->type);
    return (const char *)o->data + (size_t)(row * o->ld + column) * size;
}

/* Divides a dense g into *ret_rest and a gemm with row lengths that are multiples of eight,
 * which g becomes. False: g is not divided. The rest of a long sum is computed first, so that
 * only the smaller part of the sum is rounded twice, if c is bf16. */
static bool divide(mf_gemm *g, mf_gemm *ret_rest)
{
    mf_gemm *r = ret_rest;
    const int64_t n = rest_of(true, g->n), m = rest_of(g->a.trans, g->m),
                  k = rest_of(!g->a.trans || g->b.trans, g->k);
    *r = *g;
    if (g->groups > 1 || g->a.type != MF_CAST_BF16 || g->b.type != MF_CAST_BF16 ||
        (n != 0) + (m != 0) + (k != 0) != 1)
        return false;
    g->n -= n, g->m -= m, g->k -= k;
    r->a.data = g->a.trans ? at(&g->a, k ? g->k : 0, m ? g->m : 0) : at(&g->a, 0, k ? g->k : 0);
    r->b.data = g->b.trans ? at(&g->b, n ? g->n : 0, k ? g->k : 0)
                           : at(&g->b, k ? g->k : 0, n ? g->n : 0);
    if (n) r->n = n;
    if (m) r->m = m;
    if (k) r->k = k;
    if (n && g->bias) r->bias = g->bias + g->n;
    const int64_t c = (m ? g->m * g->c.ld : 0) + (n ? g->n : 0);
    const size_t bytes = (size_t)c * (size_t)mf_cast_size((int)g->c.type);
    r->c.data = (char *)g->c.data + bytes;
    if (g->from) r->from = g->from + c;
    if (k) g->beta = 1, g->bias = NULL, g->from = NULL;
    return true;
}

void mf_cuda_lt_gemm(const mf_kctx *x, const mf_gemm *given)
{
    const mf_cuda *c = mf_cuda_of_stream(x->stream);
    mf_gemm g = *given, rest;
    if (!c || !c->lt || !dense(given)) {
        mf_cuda_gemm(x, given);
        return;
    }
    if (divide(&g, &rest)) whole(c->lt, x, &rest);
    whole(c->lt, x, &g);
}

int mf_cuda_lt_error(mf_cuda *c)
{
    mf_cuda_lt *p = c->lt;
    const cublasStatus_t s = p->error;
    if (s == CUBLAS_STATUS_SUCCESS) return MF_OK;
    snprintf(c->message, sizeof c->message, "%s by cuBLASLt failed: status %d%s", p->failed,
             (int)s, s == CUBLAS_STATUS_ALLOC_FAILED ? " (no memory)" : "");
    p->error = CUBLAS_STATUS_SUCCESS;
    return s == CUBLAS_STATUS_ALLOC_FAILED ? MF_ENOMEM : MF_ERUN;
}

/* ---- life ---- */

int mf_cuda_lt_new(mf_cuda *c, mf_cuda_lt **ret)
{
    mf_cuda_lt *p = calloc(1, sizeof *p);
    if (p) p->plans = calloc(SLOTS, sizeof *p->plans);
    if (!p || !p->plans) {
        free(p);
        return mf_cuda_judge(c, cudaErrorMemoryAllocation, "the table of gemms");
    }
    const cublasStatus_t s = cublasLtCreate(&p->handle);
    if (s != CUBLAS_STATUS_SUCCESS) {
        snprintf(c->message, sizeof c->message, "cuBLASLt cannot be used: status %d", (int)s);
        p->handle = NULL;
        mf_cuda_lt_free(p);
        return MF_EDEP;
    }
    const int rc = mf_cuda_judge(c, cudaMalloc(&p->work, WORK_BYTES), "the workspace of gemms");
    if (rc != MF_OK) {
        p->work = NULL;
        mf_cuda_lt_free(p);
        return rc;
    }
    *ret = p;
    return MF_OK;
}

void mf_cuda_lt_free(mf_cuda_lt *p)
{
    if (!p) return;
    for (int i = 0; i < SLOTS; i++)
        if (p->plans[i].used) forget(&p->plans[i]);
    if (p->work) (void)cudaFree(p->work);
    if (p->handle) (void)cublasLtDestroy(p->handle);
    free(p->plans);
    free(p);
}
