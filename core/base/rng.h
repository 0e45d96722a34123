/* base/rng.h: counter-based random numbers (Philox4x32-10; Salmon et al., SC'11).
 *
 * There is no generator state: a number is a function of (seed, stream, step, index) alone. So
 * the numbers are the same at any number of threads, after any resume, and on any backend.
 *
 *   stream  the purpose of the numbers: mf_rng_stream("data.window"), a node, a parameter
 *   step    training step, or 0
 *   index   position within the stream */
#ifndef MF_BASE_RNG_H
#define MF_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* Computes one Philox block: counter[4], key[2] -> 4 words. */
void mf_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Returns the 64-bit stream number of a name (FNV-1a). */
uint64_t mf_rng_stream(const char *name);

/* Computes block number `block` of the stream: key = seed, counter = (block, step ^
 * fold(stream)), each 64 bits as (low, high) words. fold is a fixed bijection, so small stream
 * numbers 0, 1, 2... are as good as hashed names. */
void mf_rng_block(uint64_t seed, uint64_t stream, uint64_t step, uint64_t block,
                  uint32_t out[4]);

/* Returns word index % 4 of block index / 4. */
uint32_t mf_rng_u32(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index);
/* Returns a uniform integer in [0, n), n >= 1: the high 64 bits of n times a pair of words. The
 * bias is below n / 2^64. Index i uses words 2 (i % 2) and 2 (i % 2) + 1 of block i / 2. */
uint64_t mf_rng_below(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index,
                      uint64_t n);
/* uniform: a number in [0,1) with 24 bits, from mf_rng_u32. normal: a number with mean 0 and
 * variance 1, by Box-Muller. Words (2j) % 4 and (2j) % 4 + 1 of block j / 2 determine the
 * numbers at index 2j (the cosine) and 2j + 1 (the sine). fill: writes the numbers of indices
 * 0..n-1. uniforms, normals: write the numbers of indices from..from+n-1; from is a multiple
 * of 4. */
float mf_rng_uniform(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index);
float mf_rng_normal(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index);
void mf_rng_fill_normal(uint64_t seed, uint64_t stream, uint64_t step, float *out, size_t n);
void mf_rng_uniforms(uint64_t seed, uint64_t stream, uint64_t step, uint64_t from, float *out,
                     size_t n);
void mf_rng_normals(uint64_t seed, uint64_t stream, uint64_t step, uint64_t from, float *out,
                    size_t n);
/* Computes two normals from two words, by Box-Muller. mf_rng_normal_pairs computes the same for
 * many, faster. */
enum { MF_RNG_PAIRS = 16 };
void mf_rng_normal_pair(uint32_t a, uint32_t b, float out[2]);
void mf_rng_normal_pairs(const uint32_t a[MF_RNG_PAIRS], const uint32_t b[MF_RNG_PAIRS],
                         float out[2 * MF_RNG_PAIRS]);
/* Writes a permutation of 0..n-1 (Fisher-Yates from the top; position i uses mf_rng_below(..,
 * i, i + 1)). n <= INT32_MAX. */
void mf_rng_permutation(uint64_t seed, uint64_t stream, uint64_t step, int32_t *out, size_t n);

/* Returns the element at `index` of a permutation of 0..n-1, in constant time and memory, for
 * any n >= 1. The permutation is a Feistel network of Philox over the next power of 4, repeated
 * until the result is below n. It differs from the permutation of mf_rng_permutation. */
uint64_t mf_rng_shuffled(uint64_t seed, uint64_t stream, uint64_t step, uint64_t n,
                         uint64_t index);

#endif
