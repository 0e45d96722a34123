/* folder/processor.h: properties of the processor from /proc/cpuinfo. A property that the file
 * does not contain is empty. */
#ifndef MF_FOLDER_PROCESSOR_H
#define MF_FOLDER_PROCESSOR_H

#include <stddef.h>

#define MF_CPU_TEXT 128

/* The name of the processor, as its manufacturer wrote it. */
void mf_cpu_name(char out[MF_CPU_TEXT]);
/* The instruction sets that the kernels can use and the processor has, separated by blanks. The
 * kernels use avx2, fma, avx512f, avx512_bf16 and amx_bf16. */
void mf_cpu_features(char out[MF_CPU_TEXT]);

#endif
