/* onednn.c: gemms by oneDNN; no other file calls it. The library is opened at run time, so
 * programs that do not use it neither need nor load it. Calls run only in the
 * calling thread. */
#include "kernels/cpu/library.h"

#if defined(MF_ONEDNN)

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "kernels/cpu/onednn_api.h"

/* oneDNN makes a primitive for one shape only. Making one takes as long as a gemm of a hundred
 * rows, so each thread keeps its primitives. The number of rows of an expert varies: rows are
 * cut into pieces, so that large pieces have only a few different sizes. Inside a parallel
 * region oneDNN does not start another. Outside it uses the default number of threads of the
 * calling thread, which is set to 1. */

#define STRING2(x) #x
#define STRING(x)  STRING2(x)
#define FILE_NAME  "libdnnl.so." STRING(DNNL_VERSION_MAJOR)

static struct {
    void *handle;
    char text[256];
    dnnl_engine_t engine;
    void (*limit)(int threads); /* omp_set_num_threads, or NULL */
    tss_t key;
} lib;

/* ---- loading ---- */

static const char *refuse(const char *what, const char *why)
{
    snprintf(lib.text, sizeof lib.text, "%s: %s", what, why);
    return lib.text;
}

static void *address(void *handle, const char *name)
{
    return dlsym(handle, name);
}

static void *open_it(void)
{
    void *handle = NULL;
#if defined(MF_ONEDNN_FOLDER)
    handle = dlopen(MF_ONEDNN_FOLDER "/" FILE_NAME, RTLD_NOW | RTLD_LOCAL);
#endif
    return handle != NULL ? handle : dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
}

/* Refuses builds whose threads are not those of this program's OpenMP library, because they
 * would add a second pool of threads. Returns the reason, or NULL for builds that can
 * be used. */
static const char *judge_threads(unsigned runtime)
{
    static const char *const entries[] = {"GOMP_parallel", "__kmpc_fork_call"};
    if (runtime == DNNL_RUNTIME_SEQ) return NULL;
    if (runtime != DNNL_RUNTIME_OMP) return "is built with threads other than OpenMP's";
    for (int i = 0; i < 2; i++)
        if (address(lib.handle, entries[i]) != NULL &&
            address(RTLD_DEFAULT, entries[i]) == NULL)
            return "is built for another OpenMP library than this program";
    void *limit = address(RTLD_DEFAULT, "omp_set_num_threads");
    memcpy(&lib.limit, &limit, sizeof limit);
    return NULL;
}

static void forget(void *state);

static const char *load(void)
{
    const struct {
        const char *name;
        void *at;
    } functions[] = {
#define F(name) {#name, &api.name},
        API_FUNCTIONS(F)
#undef F
    };
    lib.handle = open_it();
    if (lib.handle == NULL) return refuse("oneDNN cannot be loaded", dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *at = address(lib.handle, functions[i].name);
        if (at == NULL) return refuse(FILE_NAME " lacks", functions[i].name);
        memcpy(functions[i].at, &at, sizeof at);
    }
    const dnnl_version_t *v = api.dnnl_version();
    const char *why = judge_threads(v->cpu_runtime);
    if (why != NULL) return refuse(FILE_NAME, why);
    if (api.dnnl_engine_create(&lib.engine, dnnl_cpu, 0) != dnnl_success ||
        tss_create(&lib.key, forget) != thrd_success)
        return refuse(FILE_NAME, "does not start");
    snprintf(lib.text, sizeof lib.text, "oneDNN %d.%d.%d (%s)", v->major, v->minor, v->patch,
             v->cpu_runtime == DNNL_RUNTIME_SEQ ? "without threads" : "OpenMP");
    return NULL;
}

static const char *about(void)
{
    return lib.text;
}

static void one_thread(void)
{
    static _Thread_local bool told;
    if (!told && lib.limit != NULL) lib.limit(1);
    told = true;
}

/* ---- primitives, by thread and shape ---- */

#define SLOTS 1024
#define FULL  768
/* pieces per dimension, at most; each takes at least four fifths of the remaining rows */
#define MOST_AT_A  8
#define MOST_EXACT 16

typedef struct shape {
    int64_t m, n, k, lda, ldb, ldc;
    float alpha;
    uint8_t trans_a, trans_b, half, half_c, bias, add, used, unused;
} shape;

typedef struct entry {
    shape shape;
    dnnl_primitive_t primitive; /* NULL: not supported */
    dnnl_memory_t a, b, c, bias, scratch;
    size_t scratch_size;
} entry;

typedef struct state {
    dnnl_stream_t stream;
    void *scratch;
    size_t scratch_size;
    int used;
    entry entries[SLOTS];
} state;

static void drop(entry *e)
{
    const dnnl_memory_t memory[] = {e->a, e->b, e->c, e->bias, e->scratch};
    for (int i = 0; i < 5; i++)
        if (memory[i] != NULL) api.dnnl_memory_destroy(memory[i]);
    if (e->primitive != NULL) api.dnnl_primitive_destroy(e->primitive);
    memset(e, 0, sizeof *e);
}

static void drop_all(state *s)
{
    for (int i = 0; i < SLOTS; i++)
        if (s->entries[i].shape.used) drop(&s->entries[i]);
    s->used = 0;
}

/* Frees the state of a thread when it ends. */
static void forget(void *of)
{
    state *s = of;
    drop_all(s);
    api.dnnl_stream_destroy(s->stream);
    free(s->scratch);
    free(s);
}

static state *mine(void)
{
    static _Thread_local state *s;
    if (s != NULL) return s;
    s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    if (api.dnnl_stream_create(&s->stream, lib.engine, dnnl_stream_default_flags) !=
            dnnl_success ||
        tss_set(lib.key, s) != thrd_success) {
        free(s);
        s = NULL;
    }
    return s;
}

typedef struct descriptions {
    dnnl_memory_desc_t a, b, c, bias;
} descriptions;

/* Whether oneDNN has a fast implementation. For other cases it uses plain loops, a hundred
 * times slower than our kernels. */
static bool is_fast(const_dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    return api.dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) ==
               dnnl_success &&
           name != NULL && strncmp(name, "ref", 3) != 0;
}

static bool make_primitive(entry *e, const descriptions *d)
{
    const shape *p = &e->shape;
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    bool ok =
        api.dnnl_post_ops_create(&ops) == dnnl_success &&
        api.dnnl_primitive_attr_create(&attr) == dnnl_success &&
        api_after(ops, p->alpha, p->add) == dnnl_success &&
        api.dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success &&
        api.dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) ==
            dnnl_success &&
        api_matmul(&desc, lib.engine, API_REF(d->a), API_REF(d->b),
                   p->bias ? API_REF(d->bias) : NULL, API_REF(d->c), attr) == dnnl_success &&
        is_fast(desc) && api.dnnl_primitive_create(&e->primitive, desc) == dnnl_success;
    if (ok) {
        api_desc_ref work = api.dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
        e->scratch_size = api.dnnl_memory_desc_get_size(work);
        ok = api.dnnl_memory_create(&e->scratch, work, lib.engine, DNNL_MEMORY_NONE) ==
                 dnnl_success &&
             api.dnnl_memory_create(&e->a, API_REF(d->a), lib.engine, DNNL_MEMORY_NONE) ==
                 dnnl_success &&
             api.dnnl_memory_create(&e->b, API_REF(d->b), lib.engine, DNNL_MEMORY_NONE) ==
                 dnnl_success &&
             api.dnnl_memory_create(&e->c, API_REF(d->c), lib.engine, DNNL_MEMORY_NONE) ==
                 dnnl_success &&
             (!p->bias || api.dnnl_memory_create(&e->bias, API_REF(d->bias), lib.engine,
                                                 DNNL_MEMORY_NONE) == dnnl_success);
    }
    if (desc != NULL) api.dnnl_primitive_desc_destroy(desc);
    if (attr != NULL) api.dnnl_primitive_attr_destroy(attr);
    if (ops != NULL) api.dnnl_post_ops_destroy(ops);
    return ok;
}

/* Fills an entry. Its primitive is NULL if oneDNN has none for this case, or only a
 * slow one. */
static void make(entry *e, const shape *p)
{
    const dnnl_data_type_t type = p->half ? dnnl_bf16 : dnnl_f32,
                           type_c = p->half_c ? dnnl_bf16 : dnnl_f32;
    descriptions d;
    e->shape = *p;
    if (api_matrix(&d.a, type, p->m, p->k, p->lda, p->trans_a) != dnnl_success) return;
    if (api_matrix(&d.b, type, p->k, p->n, p->ldb, p->trans_b) == dnnl_success) {
        if (api_matrix(&d.c, type_c, p->m, p->n, p->ldc, false) == dnnl_success) {
            if (api_matrix(&d.bias, dnnl_f32, 1, p->n, p->n, false) == dnnl_success) {
                if (!make_primitive(e, &d)) {
                    drop(e);
                    e->shape = *p;
                }
                api_matrix_free(d.bias);
            }
            api_matrix_free(d.c);
        }
        api_matrix_free(d.b);
    }
    api_matrix_free(d.a);
}

static entry *find(state *s, const shape *p)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const unsigned char *byte = (const unsigned char *)p;
    for (size_t i = 0; i < sizeof *p; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    for (uint64_t i = hash ^ hash >> 32;; i++) {
        entry *e = &s->entries[i % SLOTS];
        if (e->shape.used && memcmp(&e->shape, p, sizeof *p) == 0) return e;
        if (e->shape.used) continue;
        s->used++;
        make(e, p);
        return e;
    }
}

/* ---- a gemm ---- */

/* The size of the first piece of n rows: n rounded down to three binary digits, or n itself if
 * it is small. */
static int64_t piece(int64_t n)
{
    int64_t unit = 1;
    while (n > MOST_EXACT && n / unit >= 8)
        unit *= 2;
    return n / unit * unit;
}

static int pieces(int64_t n, bool cut, int64_t part[MOST_AT_A])
{
    int count = 0;
    for (; cut && count < MOST_AT_A - 1 && n > piece(n); n -= part[count++])
        part[count] = piece(n);
    part[count++] = n;
    return count;
}

static void *at(const void *base, bool half, int64_t elements)
{
    return (char *)(uintptr_t)base + elements * (half ? 2 : 4);
}

static bool scratch_for(state *s, size_t size)
{
    if (size <= s->scratch_size) return true;
    free(s->scratch);
    size = (size + 65535) / 65536 * 65536;
    s->scratch = aligned_alloc(4096, size);
    s->scratch_size = s->scratch != NULL ? size : 0;
    return s->scratch != NULL;
}

static void execute(const state *s, const entry *e, const mf_library_call *g, int64_t i,
                    int64_t p)
{
    const bool half = g->type == MF_CAST_BF16, half_c = g->type_c == MF_CAST_BF16;
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, e->a},
                                    {DNNL_ARG_WEIGHTS, e->b},
                                    {DNNL_ARG_DST, e->c},
                                    {DNNL_ARG_SCRATCHPAD, e->scratch},
                                    {DNNL_ARG_BIAS, e->bias}};
    api.dnnl_memory_set_data_handle(
        e->a, at(g->a, half, g->trans_a ? p * g->lda + i : i * g->lda + p));
    api.dnnl_memory_set_data_handle(e->b, at(g->b, half, g->trans_b ? p : p * g->ldb));
    api.dnnl_memory_set_data_handle(e->c, at(g->c, half_c, i * g->ldc));
    api.dnnl_memory_set_data_handle(e->scratch, s->scratch);
    if (e->bias != NULL) api.dnnl_memory_set_data_handle(e->bias, at(g->bias, false, 0));
    if (api.dnnl_primitive_execute(e->primitive, s->stream, e->bias != NULL ? 5 : 4, args) !=
            dnnl_success ||
        api.dnnl_stream_wait(s->stream) != dnnl_success) {
        fputs("oneDNN failed in the middle of a gemm\n", stderr);
        abort();
    }
}

static bool gemm(const mf_library_call *g)
{
    int64_t rows[MOST_AT_A], inner[MOST_AT_A];
    entry *parts[MOST_AT_A * MOST_AT_A];
    size_t scratch = 0;
    state *s = mine();
    if (s == NULL || (g->type != MF_CAST_BF16 && g->type_c == MF_CAST_BF16)) return false;
    /* In a^T b the inner index counts rows. */
    const bool sums = g->trans_a && !g->trans_b;
    const int of_rows = pieces(g->m, !g->trans_a, rows),
              of_inner = pieces(g->k, sums && g->type_c == MF_CAST_F32, inner);
    if (s->used > FULL) drop_all(s);
    for (int x = 0, n = 0; x < of_rows; x++)
        for (int y = 0; y < of_inner; y++) {
            shape want;
            memset(&want, 0, sizeof want);
            want.m = rows[x];
            want.n = g->n;
            want.k = inner[y];
            want.lda = g->lda;
            want.ldb = g->ldb;
            want.ldc = g->ldc;
            want.alpha = g->alpha;
            want.trans_a = g->trans_a;
            want.trans_b = g->trans_b;
            want.half = g->type == MF_CAST_BF16;
            want.half_c = g->type_c == MF_CAST_BF16;
            want.bias = g->bias != NULL && y == 0;
            want.add = g->beta != 0 || y > 0;
            want.used = 1;
            entry *e = parts[n++] = find(s, &want);
            if (e->primitive == NULL) return false;
            if (e->scratch_size > scratch) scratch = e->scratch_size;
        }
    if (!scratch_for(s, scratch)) return false;
    for (int x = 0, n = 0; x < of_rows; x++) {
        int64_t i = 0, p = 0;
        for (int before = 0; before < x; before++)
            i += rows[before];
        for (int y = 0; y < of_inner; p += inner[y++])
            execute(s, parts[n++], g, i, p);
    }
    return true;
}

#else

static const char *load(void)
{
    return "this program was built without oneDNN (configure --with-onednn=yes; Debian "
           "package: "
           "libdnnl-dev)";
}

static const char *about(void)
{
    return load();
}

static void one_thread(void) {}

static bool gemm(const mf_library_call *g)
{
    (void)g;
    return false;
}

#endif

const mf_library mf_library_onednn = {"onednn", NULL, load, about, one_thread, gemm};
