/* emu.hh: what a CUDA kernel needs, for an ordinary C++ compiler. One fibre a CUDA thread;
 * blocks one after the other. With -fsanitize=thread on the kernels' file alone, emu.cc
 * receives every access to memory and judges it (races, bounds, first use); nothing of
 * libtsan is linked. */
#ifndef TESTS_CUDA_EMU_HH
#define TESTS_CUDA_EMU_HH
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
static inline float2 make_float2(float a, float b)
{
    return {a, b};
}
static inline float4 make_float4(float a, float b, float c, float d)
{
    return {a, b, c, d};
}

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define EMU_AT       __FILE__, __LINE__
#define EMU_RAW      __attribute__((no_sanitize("thread")))

namespace emu {
/* ---- of the running thread ---- */
uint3 thread_index() __attribute__((const));
uint3 block_index() __attribute__((pure));
uint3 block_size() __attribute__((pure));
uint3 grid_size() __attribute__((pure));
void barrier(int id, int threads, const char *file, int line); /* threads 0: the whole block */
void *shared_at(const char *file, int line, size_t bytes);     /* one array of the block */
void *shared_dyn();

/* Meets the lanes of mask: the last one there calls fn over all arguments, NULL where a lane
 * is not in mask. order: memory of before is visible after, as __syncwarp does and shuffles
 * do not. */
typedef void (*warp_fn)(void **lane, uint32_t mask);
void warp(uint32_t mask, warp_fn fn, void *arg, bool order, const char *file, int line);

/* ---- memory that is moved for a thread by something else ---- */
void aligned(const void *p, size_t n);              /* a finding if it is not */
void look(const void *p, size_t bytes, bool write); /* as if the thread had accessed it */
void cp_async(void *dst, const void *src, int bytes, int valid, const char *file, int line);
void cp_async_commit();
void cp_async_wait(int groups_left);
void mbar_init(uint64_t *bar, int count, const char *file, int line);
void mbar_arrive(uint64_t *bar, uint32_t tx, const char *file, int line);
void mbar_wait(uint64_t *bar, uint32_t parity, const char *file, int line);
void bulk_copy(void *dst, const void *src, int bytes, uint64_t *bar, const char *file,
               int line);

/* ---- wgmma: d [n / 2] of this lane = rows of A 64 x 16 times B 16 x n, both in shared memory
 * as descriptors say (PTX ISA: matrix descriptor, 128-byte swizzle). Operands are read when the
 * gemm is waited for, and d is NaN until then. ---- */
uint32_t shared_address(const void *shared); /* as kernels see it */
struct wg_args {
    uint64_t a, b;
    int n;
    bool trans_a, trans_b; /* inner indices do not follow each other in memory */
};
void wg_fence();
void wg_mma(float *d, const wg_args &args, const char *file, int line);
void wg_commit();
void wg_wait(int groups_left);
void fence_proxy_async(); /* writes and copies of this thread, for wgmma and bulk copies */

/* ---- atomics: one at a time anyway; noted as such ---- */
void look_atomic(const void *p, size_t bytes);

/* ---- launching ---- */
struct call {
    virtual void run() = 0;
    virtual size_t size() const = 0;
    virtual ~call() {}
};
template <class F> struct call_of final : call {
    F f;
    explicit call_of(F g) : f(std::move(g)) {}
    EMU_RAW void run() override { f(); }
    size_t size() const override { return sizeof *this; }
};
void run(const char *name, dim3 grid, dim3 block, size_t shared, call &c);
template <class F> void launch(const char *name, dim3 grid, dim3 block, size_t shared, F f)
{
    call_of<F> c(std::move(f));
    run(name, grid, block, shared, c);
}
/* Of a fake runtime: a kernel by the name that compilers give it, so that code of nvcc finds
 * what this compiler made of it. bind copies the arguments, an address each, and returns the
 * launch. */
struct twin {
    const void *kernel;
    std::function<std::function<void()>(void **args, dim3 grid, dim3 block, size_t shared)>
        bind;
};
std::vector<twin> &twins();

template <class... A, size_t... I>
EMU_RAW std::tuple<A...> copied(void **args, std::index_sequence<I...>)
{
    return std::tuple<A...>(*static_cast<A *>(args[I])...);
}
template <class... A> EMU_RAW bool twin_of(void (*k)(A...))
{
    twins().push_back({(const void *)k, [k](void **args, dim3 grid, dim3 block, size_t shared) {
                           auto kept = copied<A...>(args, std::index_sequence_for<A...>{});
                           return [=] {
                               launch("kernel", grid, block, shared,
                                      [k, kept] { std::apply(k, kept); });
                           };
                       }});
    return true;
}
template <auto K> struct known {
    static const bool yes;
};
template <auto K> const bool known<K>::yes = twin_of(K);
/* A launch in the kernels' own file, by MF_LAUNCH: at once, or when `queue` says. */
extern void (*queue)(void *stream, const char *name, std::function<void()> launch);
template <auto K, class... A>
EMU_RAW void start(const char *name, dim3 grid, dim3 block, size_t shared, void *stream, A... a)
{
    (void)&known<K>::yes;
    auto f = [=] { launch(name, grid, block, shared, [=] { K(a...); }); };
    if (queue)
        queue(stream, name, f);
    else
        f();
}

/* ---- device memory and findings, for tests and runtimes of tests ---- */
void *dev_alloc(size_t bytes);
void dev_free(void *p);
bool dev_has(const void *p, size_t bytes);
void dev_mark_written(void *p, size_t bytes);
/* The host may look at device memory until each dev_show(true) has its dev_show(false). */
void dev_show(bool on);
size_t dev_live();
/* With a runtime that has streams: the number of the op that runs, and whether an earlier one
 * is ordered before it. */
extern uint32_t next_launch;
extern bool (*ordered)(uint32_t earlier);
void dev_touch(void *p, size_t bytes, bool write);
struct options {
    int order;
    uint64_t seed;
    bool quiet, profile, preempt;
    bool hide; /* the host may look at device memory only between dev_show(true) and (false) */
};
extern options opt; /* order: 0 rising, 1 falling, 2 drawn at every switch */
int findings(const char *kind = nullptr); /* so far, of that kind */
void forget();
void finding(const char *kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct traffic {
    uint64_t requests, sectors, ideal_sectors, shared_requests, shared_passes;
};
traffic traffic_take(); /* of the launches since the last call, with opt.profile */
/* A line for each kernel, with tabs: name without template arguments, launches, threads, bytes
 * of dynamic shared memory, then the numbers of struct traffic. */
void traffic_write(const char *path);
} // namespace emu

#define threadIdx             (emu::thread_index())
#define blockIdx              (emu::block_index())
#define blockDim              (emu::block_size())
#define gridDim               (emu::grid_size())
#define warpSize              32
#define __syncthreads()       emu::barrier(0, 0, EMU_AT)
#define __syncwarp(...) \
    emu::warp(emu::mask_or(__VA_ARGS__), emu::no_op, nullptr, true, EMU_AT)

namespace emu {
inline uint32_t mask_or(uint32_t m = 0xffffffffu)
{
    return m;
}
inline void no_op(void **, uint32_t) {}
template <class T> struct shuffle {
    T in, out;
    int from;
};
template <class T> EMU_RAW void shuffle_fn(void **lane, uint32_t mask)
{
    shuffle<T> *s[32];
    for (int i = 0; i < 32; i++)
        s[i] = static_cast<shuffle<T> *>(lane[i]);
    for (int i = 0; i < 32; i++) {
        if (!(mask >> i & 1)) continue;
        if (!s[s[i]->from])
            finding("shuffle", "lane %d reads lane %d, which is not in the mask", i,
                    s[i]->from);
        else
            s[i]->out = s[s[i]->from]->in;
    }
}
template <class T> EMU_RAW T shfl(uint32_t mask, T v, int from, const char *file, int line)
{
    shuffle<T> s{v, v, from & 31};
    warp(mask, shuffle_fn<T>, &s, false, file, line);
    return s.out;
}
EMU_RAW inline int lane()
{
    uint3 t = thread_index(), b = block_size();
    return (int)((t.x + b.x * (t.y + b.y * t.z)) & 31);
}
struct vote {
    uint32_t in, out;
};
EMU_RAW inline void vote_fn(void **lane, uint32_t)
{
    uint32_t m = 0;
    for (int i = 0; i < 32; i++)
        if (lane[i]) m |= (uint32_t)(static_cast<vote *>(lane[i])->in != 0) << i;
    for (int i = 0; i < 32; i++)
        if (lane[i]) static_cast<vote *>(lane[i])->out = m;
}
EMU_RAW inline uint32_t ballot(uint32_t mask, int p, const char *file, int line)
{
    vote v{(uint32_t)(p != 0), 0};
    warp(mask, vote_fn, &v, false, file, line);
    return v.out;
}
template <class T> EMU_RAW T atomic_add(T *p, T v)
{
    look_atomic(p, sizeof *p);
    T old = *p;
    *p = old + v;
    return old;
}

/* ---- numbers: what ex2.approx.ftz and rcp.approx.ftz, but for 2 ulp, and cvt.rn.bf16x2
 * give ---- */
static inline float exp2_ftz(float v)
{
    const float r = exp2f(v);
    return r < 0x1p-126f ? 0 : r;
}
static inline float reciprocal_ftz(float v)
{
    const float in = std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v, r = 1 / in;
    return std::fabs(r) < 0x1p-126f ? std::copysign(0.0f, r) : r;
}
static inline uint32_t round_bf16(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return v != v ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static inline uint32_t round_bf16x2(float low, float high)
{
    return round_bf16(low) | round_bf16(high) << 16;
}

/* ---- matrix fragments, by the PTX ISA's tables for mma.m16n8k16 (.bf16) and ldmatrix ---- */
EMU_RAW inline float to_f32(uint32_t half)
{
    uint32_t u = half << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
struct mma_arg {
    const uint32_t *a, *b;
    const float *c;
    float *d;
};
constexpr int a_row(int lane, int i)
{
    return (lane >> 2) + (i >> 1 & 1) * 8;
} /* i: 0 .. 7 */
constexpr int a_col(int lane, int i)
{
    return (lane & 3) * 2 + (i & 1) + (i >> 2) * 8;
}
constexpr int b_row(int lane, int i)
{
    return (lane & 3) * 2 + (i & 1) + (i >> 1) * 8;
} /* 0 .. 3 */
constexpr int b_col(int lane, int)
{
    return lane >> 2;
}
constexpr int c_row(int lane, int i)
{
    return (lane >> 2) + (i >> 1) * 8;
} /* 0 .. 3 */
constexpr int c_col(int lane, int i)
{
    return (lane & 3) * 2 + (i & 1);
}
EMU_RAW inline void mma_fn(void **lane, uint32_t mask)
{
    float a[16][16], b[8][16];
    if (mask != 0xffffffffu) {
        finding("mma", "called by a part of the warp");
        return;
    }
    for (int l = 0; l < 32; l++) {
        auto *m = static_cast<mma_arg *>(lane[l]);
        for (int i = 0; i < 8; i++)
            a[a_row(l, i)][a_col(l, i)] = to_f32(m->a[i / 2] >> (i & 1) * 16 & 0xffffu);
        for (int i = 0; i < 4; i++)
            b[b_col(l, i)][b_row(l, i)] = to_f32(m->b[i / 2] >> (i & 1) * 16 & 0xffffu);
    }
    for (int l = 0; l < 32; l++) {
        auto *m = static_cast<mma_arg *>(lane[l]);
        for (int i = 0; i < 4; i++) {
            float s = 0;
            for (int k = 0; k < 16; k++)
                s += a[c_row(l, i)][k] * b[c_col(l, i)][k];
            m->d[i] = m->c[i] + s;
        }
    }
}
struct ldm_arg {
    const void *row;
    uint32_t *out;
    bool trans;
};
void ldmatrix_seen(void **lane);
EMU_RAW inline void ldm_fn(void **lane, uint32_t mask)
{
    if (mask != 0xffffffffu) {
        finding("ldmatrix", "called by a part of the warp");
        return;
    }
    ldmatrix_seen(lane);
    for (int l = 0; l < 32; l++) {
        auto *m = static_cast<ldm_arg *>(lane[l]);
        for (int j = 0; j < 4; j++) {
            uint16_t v[2];
            for (int i = 0; i < 2; i++) {
                int row = m->trans ? (l & 3) * 2 + i : l >> 2,
                    col = m->trans ? l >> 2 : (l & 3) * 2 + i;
                memcpy(&v[i],
                       (const char *)static_cast<ldm_arg *>(lane[8 * j + row])->row + 2 * col,
                       2);
            }
            m->out[j] = (uint32_t)v[0] | (uint32_t)v[1] << 16;
        }
    }
}
EMU_RAW inline void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2],
                             const float c[4], const char *file, int line)
{
    mma_arg m{a, b, c, d};
    warp(0xffffffffu, mma_fn, &m, false, file, line);
}
EMU_RAW inline void ldmatrix_x4(uint32_t r[4], const void *row, bool trans, const char *file,
                                int line)
{
    ldm_arg m{row, r, trans};
    look(row, 16, false); /* lane l reads row l for others */
    warp(0xffffffffu, ldm_fn, &m, false, file, line);
}
} // namespace emu

#define __shfl_sync(m, v, l)      emu::shfl(m, v, l, EMU_AT)
#define __shfl_xor_sync(m, v, d)  emu::shfl(m, v, emu::lane() ^ (d), EMU_AT)
#define __ballot_sync(m, p)       emu::ballot(m, p, EMU_AT)
#define atomicAdd                 emu::atomic_add
#define __popc                    __builtin_popcount
constexpr double emu_pi = 3.14159265358979323846;
static inline double sinpi(double x)
{
    return sin(emu_pi * x);
}
static inline double cospi(double x)
{
    return cos(emu_pi * x);
}
static inline float sinpif(float x)
{
    return (float)sin(emu_pi * x);
}
static inline float cospif(float x)
{
    return (float)cos(emu_pi * x);
}
using std::max;
using std::min;
#endif
