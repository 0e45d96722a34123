/* cpu.h: fast kernels without special instructions, which kernels.def lists as CPU. The folder
 * simd/ has the kernels that are compiled once per instruction set. */
#ifndef MF_CPU_H
#define MF_CPU_H

#include "kernels/kernel.h"

#define MF_KERNEL(fn, ...) void mf_cpu_##fn(const mf_kctx *x, const mf_##fn##_args *a);
#include "kernels/kernels.def"

#endif
