/* table.c: the kernel set `cpu`. It begins as a copy of `ref`; the kernels that kernels.def
 * lists as CPU, and as SIMD for the instruction set in use, replace those of `ref`. */
#include <stdlib.h>
#include <string.h>
#if defined(MF_HAVE_AVX2)
#include <cpuid.h>
#endif

#include "kernels/cpu/amx.h"
#include "kernels/cpu/cache.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/library.h"
#include "kernels/cpu/workspace.h"

typedef struct isa {
    const char *name;
    void (*fill)(mf_kernels *table);
    double (*multiply)(bool bf16, int64_t rounds);
} isa;

void mf_simd_fill_generic(mf_kernels *table);
double mf_simd_multiply_generic(bool bf16, int64_t rounds);
#if defined(MF_HAVE_AVX2)
void mf_simd_fill_avx2(mf_kernels *table);
double mf_simd_multiply_avx2(bool bf16, int64_t rounds);
#endif
#if defined(MF_HAVE_AVX512)
void mf_simd_fill_avx512(mf_kernels *table);
double mf_simd_multiply_avx512(bool bf16, int64_t rounds);
#endif

#if defined(MF_HAVE_AVX512) && defined(MF_HAVE_AMX)
void mf_simd_use_amx_avx512(void);
#endif

#define MAX_ISAS 3

#if defined(MF_HAVE_AVX2)
/* Each processor with AVX2 has F16C, but a virtual machine may hide it. Not every compiler
 * supports its name in __builtin_cpu_supports. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static int usable_isas(isa out[MAX_ISAS])
{
    int n = 0;
#if defined(MF_HAVE_AVX512)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("fma"))
        out[n++] = (isa){"avx512", mf_simd_fill_avx512, mf_simd_multiply_avx512};
#endif
#if defined(MF_HAVE_AVX2)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
        out[n++] = (isa){"avx2", mf_simd_fill_avx2, mf_simd_multiply_avx2};
#endif
    out[n++] = (isa){"generic", mf_simd_fill_generic, mf_simd_multiply_generic};
    return n;
}

bool mf_kernels_begin_thread(void)
{
    return mf_cpu_workspace();
}

const char *const *mf_kernels_isas(void)
{
    static const char *names[MAX_ISAS + 1];
    isa isas[MAX_ISAS];
    int n = usable_isas(isas);
    for (int i = 0; i < n; i++)
        names[i] = isas[i].name;
    return names;
}

static bool fill(mf_kernels *table, const char *name)
{
    isa isas[MAX_ISAS];
    int n = usable_isas(isas);
    for (int i = 0; i < n; i++)
        if (strcmp(isas[i].name, name) == 0) {
            *table = mf_kernels_ref;
            table->fuses = false;
            table->name = "cpu";
#define MF_FILL_REF(fn)
#define MF_FILL_SIMD(fn)
#define MF_FILL_CPU(fn)         table->fn = mf_cpu_##fn;
#define MF_KERNEL(fn, set, ...) MF_FILL_##set(fn)
#include "kernels/kernels.def"
            isas[i].fill(table);
            return true;
        }
    return false;
}

static const char *wanted_isa(void)
{
    const char *name = getenv("MOEFW_ISA");
    return name == NULL || name[0] == '\0' ? mf_kernels_isas()[0] : name;
}

static struct {
    bool judged, ok, gemms;
    mf_kernels table;
    char isa[16];
} chosen;

static bool judge(void)
{
    if (!chosen.judged) {
        const char *name = wanted_isa();
        mf_cpu_second_cache(); /* the size is read here, before threads need it */
        chosen.ok = fill(&chosen.table, name);
        if (chosen.ok) strncpy(chosen.isa, name, sizeof(chosen.isa) - 1);
        chosen.gemms = mf_library_choose(strcmp(name, "generic") != 0);
        chosen.ok = chosen.ok && chosen.gemms;
#if defined(MF_HAVE_AVX512) && defined(MF_HAVE_AMX)
        if (strcmp(chosen.isa, "avx512") == 0 && __builtin_cpu_supports("avx512bf16") &&
            mf_amx_permitted())
            mf_simd_use_amx_avx512();
#endif
        chosen.judged = true;
    }
    return chosen.ok;
}

const mf_kernels *mf_kernels_cpu(void)
{
    return judge() ? &chosen.table : NULL;
}

const char *mf_kernels_isa(void)
{
    return judge() ? chosen.isa : NULL;
}

double mf_kernels_multiply(bool bf16, int64_t rounds)
{
    isa isas[MAX_ISAS];
    judge();
    for (int i = 0, n = usable_isas(isas); i < n; i++)
        if (strcmp(isas[i].name, chosen.isa) == 0) return isas[i].multiply(bf16, rounds);
    return 0;
}

const char *mf_kernels_gemm(void)
{
    judge();
    if (!chosen.gemms) return NULL;
    return mf_library_chosen(strcmp(chosen.isa, "generic") != 0) ? "openblas" : "own";
}

const mf_kernels *mf_kernels_cpu_for(const char *name)
{
    static mf_kernels table;
    judge();
    return fill(&table, name) ? &table : NULL;
}
