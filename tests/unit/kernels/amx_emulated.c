/* amx_emulated.c: the gemms of kernels/cpu/simd/gemm/amx.c, with loops instead of the AMX
 * instructions, for check_kernels. stored_emulated.c contains those of stored/amx.c, and
 * attention_emulated.c and attention_backward_emulated.c attention. */
#include "amx_emulated.h"

#if defined(MF_EMULATE)
#define MF_ISA          avx512
#define MF_AMX_EMULATED 1
#include "kernels/cpu/simd/gemm/amx.c"
#include "kernels/cpu/simd/attention/attention.h"
#include "kernels/cpu/simd/stored/stored.h"

stored_by_amx NAME(stored_gemm_amx);
attention_fn NAME(attention_by_amx), NAME(attention_by_amx_backward);

bool mf_amx_emulate(bool yes)
{
    static bool (*real)(const gemm_tile *b);
    static stored_by_amx *real_stored;
    static attention_fn *real_attention, *real_backward;
    static bool kept;
    if (!__builtin_cpu_supports("avx512bf16")) return false;
    if (!kept) real = MF_SIMD(gemm_amx);
    if (!kept) real_stored = MF_SIMD(stored_amx);
    if (!kept) real_attention = MF_SIMD(attention_amx);
    if (!kept) real_backward = MF_SIMD(attention_amx_backward);
    kept = true;
    MF_SIMD(attention_amx) = yes ? NAME(attention_by_amx) : real_attention;
    MF_SIMD(attention_amx_backward) = yes ? NAME(attention_by_amx_backward) : real_backward;
    MF_SIMD(gemm_amx) = yes ? NAME(gemm_tile_amx) : real;
    MF_SIMD(stored_amx) = yes ? NAME(stored_gemm_amx) : real_stored;
    return true;
}
bool mf_amx_emulated_works(void)
{
    return NAME(gemm_amx_works)();
}
#else
bool mf_amx_emulate(bool yes)
{
    (void)yes;
    return false;
}

bool mf_amx_emulated_works(void)
{
    return false;
}
#endif
