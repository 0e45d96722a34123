/* cpu.h: fast kernels without special instructions; cpu.def lists them. simd/ has those that
 * are compiled once per instruction set. */
#ifndef MF_CPU_H
#define MF_CPU_H

#include "kernels/kernel.h"

#define MF_KERNEL(fn, args) void mf_cpu_##fn args;
#include "kernels/kernels.def"
#undef MF_KERNEL

#endif
