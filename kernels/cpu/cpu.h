/* cpu.h: fast kernels that need no special instructions: cpu.def lists them. Those that are
 * compiled per instruction set are in simd/. */
#ifndef MF_CPU_H
#define MF_CPU_H

#include "kernels/kernel.h"

#define MF_KERNEL(fn, args) void mf_cpu_##fn args;
#include "kernels/kernels.def"
#undef MF_KERNEL

#endif
