/* moefw/kernel.cuh: for the file of a plugin's kernels, which nvcc compiles for GPUs and an
 * ordinary C++ compiler for moefw's emulator (moefw-plugin(7), "DEVICE CODE").
 * `pkg-config --cflags-only-I moefw-cuda` finds it and what it includes.
 *
 *     MF_DEVICE_KERNEL(mine_square, a)
 *     {
 *         const float *x = (const float *)a.in[0].data;
 *         float *y = (float *)a.out[0].data;
 *         const int64_t n = mf_shape_size(a.in[0].shape);
 *         for (int64_t i = mf_thread_index(); i < n; i += mf_thread_count())
 *             y[i] = x[i] * x[i];
 *     }
 *
 * A kernel may use threadIdx, blockIdx, blockDim, gridDim, __syncthreads, __syncwarp, shuffles,
 * __ballot_sync, atomicAdd and mathematical functions; MF_SHARED(type, name, [n]) declares
 * memory that a block shares, MF_INLINE a function of the device. Rules: no float is added
 * atomically and no block waits for another, so that results have the same bits in each run. */
#ifndef MOEFW_KERNEL_CUH
#define MOEFW_KERNEL_CUH

#include <moefw/op.h>

#include "device.cuh"

/* Begins a kernel, whose body follows; args: the name of its parameter. */
#ifdef __CUDACC__
#define MF_DEVICE_KERNEL(name, args)                                                           \
    extern "C" __global__ void name(const __grid_constant__ mf_kernel_args args)
#else
#define MF_DEVICE_KERNEL(name, args)                                                           \
    extern "C" __attribute__((visibility("default"))) void name(mf_kernel_args args);          \
    void name(const mf_kernel_args args)
#endif

/* The number of this thread among all of the launch, whose blocks and grid have one dimension,
 * and how many there are. */
MF_INLINE int64_t mf_thread_index()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
MF_INLINE int64_t mf_thread_count()
{
    return (int64_t)gridDim.x * blockDim.x;
}
/* mf_shape_count for the device */
MF_INLINE int64_t mf_shape_size(const mf_shape &s)
{
    int64_t n = 1;
    for (int32_t i = 0; i < s.rank; i++)
        n *= s.dim[i];
    return n;
}

#endif
