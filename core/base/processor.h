/* base/processor.h: properties of the processor from /proc/cpuinfo; empty if it does not
 * contain them. */
#ifndef MF_BASE_PROCESSOR_H
#define MF_BASE_PROCESSOR_H

#include <stddef.h>

#define MF_CPU_TEXT 128

/* The name of the processor, as its maker wrote it. */
void mf_cpu_name(char out[MF_CPU_TEXT]);
/* The instruction sets of the kernels that the processor has, of avx2, fma, avx512f,
 * avx512_bf16 and amx_bf16, separated by blanks. */
void mf_cpu_features(char out[MF_CPU_TEXT]);

#endif
