/* layouts.cc: where the emulator and the device code have the elements of matrix instructions,
 * compared with CuTe, which NVIDIA wrote: mma.m16n8k16, ldmatrix with and without .trans, the
 * 128-byte swizzle, accumulators and operands of wgmma.m64nNk16. Prints how many places were
 * compared. It needs CuTe's headers and no device. */
#include <cstdio>
#include <cute/atom/copy_traits_sm75.hpp>
#include <cute/atom/mma_traits_sm80.hpp>
#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cute/tensor.hpp>
#include <vector>

#include "layouts.hh"

using namespace cute;
namespace gmma = SM90::GMMA;

static int places, differ;

static void compare(const char *what, int place, int theirs, int ours)
{
    places++;
    if (theirs == ours || differ++ > 10) return;
    printf("%s, place %d: CuTe has %d, we have %d\n", what, place, theirs, ours);
}

static void fragments()
{
    using traits = MMA_Traits<SM80_16x8x16_F32BF16BF16F32_TN>;
    for (int l = 0; l < 32; l++) {
        for (int i = 0; i < 8; i++) { /* CuTe: rows first, M x K */
            const mine::at a = mine::of_a(l, i);
            compare("A of mma", l * 8 + i, traits::ALayout{}(l, i), a.column * 16 + a.row);
        }
        for (int i = 0; i < 4; i++) { /* N x K, M x N */
            const mine::at b = mine::of_b(l, i), c = mine::of_c(l, i);
            compare("B of mma", l * 4 + i, traits::BLayout{}(l, i), b.row * 8 + b.column);
            compare("C of mma", l * 4 + i, traits::CLayout{}(l, i), c.column * 16 + c.row);
        }
    }
}

template <class OP> static void loads(const char *what, bool trans)
{
    using traits = Copy_Traits<OP>;
    uint16_t from[256], out[32][8];
    for (int i = 0; i < 256; i++) /* lane i / 8 gives row i / 8, of eight elements */
        from[i] = (uint16_t)(typename traits::SrcLayout{}(i / 8, i % 8 * 16) / 16);
    mine::ldmatrix(trans, from, out);
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 8; i++)
            compare(what, l * 8 + i, typename traits::DstLayout{}(l, i * 16) / 16, out[l][i]);
}

static void swizzle()
{
    auto theirs = as_position_independent_swizzle_layout(
        gmma::Layout_K_SW128_Atom<cutlass::bfloat16_t>{});
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 64; c++)
            compare("swizzle", r * 64 + c, (int)theirs(r, c) * 2, mine::swizzled(r, c));
}

/* bf16 of a whole number up to 256 is exact. */
static uint16_t bf16(int value)
{
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)(bits >> 16);
}

/* An operand of SIZE rows or columns as CuTe lays it out, in which element
 * (i, k) is `value` (i) where k is inner, else 0. */
template <int SIZE, class ATOM, class F>
static std::vector<uint16_t> operand(ATOM atom, int inner, F value)
{
    auto layout = as_position_independent_swizzle_layout(
        tile_to_shape(atom, make_shape(Int<SIZE>{}, Int<64>{})));
    std::vector<uint16_t> out(SIZE * 64, bf16(0));
    for (int i = 0; i < SIZE; i++)
        out[(size_t)layout(i, inner)] = bf16(value(i));
    return out;
}

/* A B with A (i, k) = i and B (k, j) = 1 gives the row of each accumulator, and the other way
 * round its column; for each inner index k alone. */
template <int N, class OP, class ATOM>
static void gemms(const char *what, ATOM atom, bool trans)
{
    using traits = MMA_Traits<OP>;
    std::vector<float> rows(128 * N / 2), columns(128 * N / 2);
    const auto index = [](int i) { return i; };
    const auto one = [](int) { return 1; };
    for (int k = 0; k < 16; k++) {
        if (!mine::wgmma(N, trans, operand<64>(atom, k, index).data(),
                         operand<N>(atom, k, one).data(), rows.data()) ||
            !mine::wgmma(N, trans, operand<64>(atom, k, one).data(),
                         operand<N>(atom, k, index).data(), columns.data())) {
            printf("%s: the emulator has a finding\n", what);
            differ++;
            return;
        }
        for (int t = 0; t < 128; t++)
            for (int i = 0; i < N / 2; i++) {
                const size_t at = (size_t)(t * (N / 2) + i);
                compare(what, (int)at, typename traits::CLayout{}(t, i),
                        (int)columns[at] * 64 + (int)rows[at]);
            }
    }
}

int main()
{
    fragments();
    loads<SM75_U32x4_LDSM_N>("ldmatrix", false);
    loads<SM75_U16x8_LDSM_T>("ldmatrix.trans", true);
    swizzle();
    if (mine::has_wgmma()) {
        using type = cutlass::bfloat16_t;
        constexpr auto K = gmma::Major::K, MN = gmma::Major::MN;
        gmma::Layout_K_SW128_Atom<type> along;
        gmma::Layout_MN_SW128_Atom<type> across;
        gemms<128, gmma::MMA_64x128x16_F32BF16BF16_SS<K, K>>("wgmma n128", along, false);
        gemms<256, gmma::MMA_64x256x16_F32BF16BF16_SS<K, K>>("wgmma n256", along, false);
        gemms<128, gmma::MMA_64x128x16_F32BF16BF16_SS<MN, MN>>("wgmma n128 trans", across,
                                                               true);
        gemms<256, gmma::MMA_64x256x16_F32BF16BF16_SS<MN, MN>>("wgmma n256 trans", across,
                                                               true);
    }
    printf("%d places compared, %d differ\n", places, differ);
    return differ != 0;
}
