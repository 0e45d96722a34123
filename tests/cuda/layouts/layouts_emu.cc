/* layouts_emu.cc: what layouts.cc compares, of the emulator and of the device code. */
#include "base.cuh"
#include "layouts.hh"

namespace mine {

at of_a(int lane, int i)
{
    return {emu::a_row(lane, i), emu::a_col(lane, i)};
}
at of_b(int lane, int i)
{
    return {emu::b_row(lane, i), emu::b_col(lane, i)};
}
at of_c(int lane, int i)
{
    return {emu::c_row(lane, i), emu::c_col(lane, i)};
}

void ldmatrix(bool trans, const uint16_t from[256], uint16_t out[32][8])
{
    emu::ldm_arg of[32];
    void *lanes[32];
    for (int l = 0; l < 32; l++) {
        of[l] = {from + 8 * l, (uint32_t *)(void *)out[l], trans};
        lanes[l] = &of[l];
    }
    emu::ldm_fn(lanes, MF_ALL_LANES);
}

int swizzled(int row, int column)
{
    return row * 128 + (column / 8 ^ row % 8) * 16 + column % 8 * 2; /* mf_feed<true>::begin */
}

#ifdef MF_HAS_WGMMA
template <int N, bool TRANS>
__global__ void multiply(const uint16_t *a, const uint16_t *b, float *out)
{
    MF_SHARED_DYNAMIC(shared);
    uint16_t *to = (uint16_t *)(void *)shared;
    for (int i = (int)threadIdx.x; i < 64 * 64; i += 128)
        to[i] = a[i];
    for (int i = (int)threadIdx.x; i < N * 64; i += 128)
        to[64 * 64 + i] = b[i];
    float d[N / 2] = {};
    mf_proxy_fence();
    __syncthreads();
    const uint64_t of_a = mf_wgmma_operand(shared, 1024, 1024);
    const uint64_t of_b =
        mf_wgmma_operand(shared + 64 * 128, 1024, TRANS ? (unsigned)N / 64 * 1024 : 1024u);
    mf_wgmma_fence();
    mf_wgmma<TRANS, TRANS>(d, of_a, of_b);
    mf_wgmma_commit();
    mf_wgmma_wait<0>(d);
    for (int i = 0; i < N / 2; i++)
        out[(int)threadIdx.x * (N / 2) + i] = d[i];
}

template <int N, bool TRANS>
static bool multiply_on(const uint16_t *a, const uint16_t *b, float *d)
{
    const size_t bytes[3] = {64 * 64 * 2, (size_t)N * 64 * 2, (size_t)128 * N / 2 * 4};
    void *at[3];
    for (int i = 0; i < 3; i++)
        at[i] = emu::dev_alloc(bytes[i]);
    emu::dev_show(true);
    memcpy(at[0], a, bytes[0]), memcpy(at[1], b, bytes[1]);
    emu::dev_mark_written(at[0], bytes[0]), emu::dev_mark_written(at[1], bytes[1]);
    emu::dev_show(false);
    emu::launch("multiply", 1, 128, (size_t)(64 + N) * 128, [=] {
        multiply<N, TRANS>((const uint16_t *)at[0], (const uint16_t *)at[1], (float *)at[2]);
    });
    emu::dev_show(true);
    memcpy(d, at[2], bytes[2]);
    emu::dev_show(false);
    for (void *p : at)
        emu::dev_free(p);
    return emu::findings() == 0;
}
bool wgmma(int n, bool trans, const uint16_t *a, const uint16_t *b, float *d)
{
    if (n == 128)
        return trans ? multiply_on<128, true>(a, b, d) : multiply_on<128, false>(a, b, d);
    return trans ? multiply_on<256, true>(a, b, d) : multiply_on<256, false>(a, b, d);
}
bool has_wgmma()
{
    return true;
}
#else
bool wgmma(int, bool, const uint16_t *, const uint16_t *, float *)
{
    return false;
}
bool has_wgmma()
{
    return false;
}
#endif

} // namespace mine
