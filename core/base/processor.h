/* base/processor.h: what /proc/cpuinfo says of the processor; empty where it says nothing. */
#ifndef MF_BASE_PROCESSOR_H
#define MF_BASE_PROCESSOR_H

#include <stddef.h>

#define MF_CPU_TEXT 128

/* Its name, as its maker has it. */
void mf_cpu_name(char out[MF_CPU_TEXT]);
/* Those of its instruction sets that kernels are made for, parted by blanks. */
void mf_cpu_features(char out[MF_CPU_TEXT]);

#endif
