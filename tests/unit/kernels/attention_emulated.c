/* attention_emulated.c: kernels/cpu/simd/attention/attention_amx.c with loops
 * instead of the AMX instructions, for check_kernels. */
#if defined(MF_EMULATE)
#define MF_ISA          avx512
#define MF_AMX_EMULATED 1
#include "kernels/cpu/simd/attention/attention_amx.c"
#else
typedef int mf_no_emulation;
#endif
