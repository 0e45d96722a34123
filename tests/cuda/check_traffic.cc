/* check_traffic: gemms by wgmma ask memory for little more than the least that their bytes
 * need, by the emulator's counts: passes of shared memory (copies, operands of wgmma), and
 * sectors of global memory. Operands fill whole tiles, since elsewhere the least is not
 * reached. */
#include <cstdio>
#include <initializer_list>

#include "kernels/cuda/launch.h"
#include "emu.hh"

constexpr double MOST_PASSES = 1.1, MOST_SECTORS = 1.35;
constexpr int64_t ROWS = 512, GROUPS = 2, N = 512, K = 256;

void *mf_cuda_scratch(const mf_kctx *, size_t)
{
    return NULL; /* no gemm asks for it */
}

static void *zeros(int64_t bytes)
{
    void *p = emu::dev_alloc((size_t)bytes);
    emu::dev_show(true);
    memset(p, 0, (size_t)bytes);
    emu::dev_mark_written(p, (size_t)bytes);
    emu::dev_show(false);
    return p;
}
/* Numbers of rows in an order that is not their own; step 1: offsets of groups of one size. */
static const int32_t *list(int64_t count, int64_t each)
{
    int32_t *p = (int32_t *)zeros(count * 4);
    emu::dev_show(true);
    for (int64_t i = 0; i < count; i++)
        p[i] = (int32_t)(each ? i * each : i * 37 % count);
    emu::dev_show(false);
    return p;
}

static int number, failed;

static void judge(const char *name, const mf_gemm &g)
{
    const mf_kctx x = {};
    emu::forget();
    emu::traffic_take();
    mf_cuda_gemm(&x, &g);
    const emu::traffic t = emu::traffic_take();
    const double passes = (double)t.shared_passes / (double)t.shared_requests;
    const double sectors = (double)t.sectors / (double)t.ideal_sectors;
    const bool good = emu::findings() == 0 && t.shared_requests > 10000 && t.sectors > 10000 &&
                      passes <= MOST_PASSES && sectors <= MOST_SECTORS;
    failed += !good;
    printf("%sok %d - %s: %.3f passes, %.3f sectors of the least\n", good ? "" : "not ",
           ++number, name, passes, sectors);
}

static mf_gemm by_rows(mf_cast_type type, bool trans)
{
    mf_gemm g = {};
    g.m = ROWS, g.n = N, g.k = K, g.alpha = 1, g.by = MF_BY_ROWS, g.groups = GROUPS;
    g.a.data = zeros(ROWS * K * 2), g.a.type = MF_CAST_BF16, g.a.ld = K;
    g.a.row = list(ROWS, 0);
    g.b.data = zeros(GROUPS * N * K * 2), g.b.type = MF_CAST_BF16, g.b.trans = trans;
    g.b.ld = trans ? K : N, g.b.step = N * K;
    g.c.data = zeros(ROWS * N * 4), g.c.type = type, g.c.ld = N;
    g.offset = list(GROUPS + 1, ROWS / GROUPS);
    return g;
}

int main()
{
    emu::opt.profile = true;
    mf_cuda_capability = 90;
    mf_cuda_processors = 4;
    judge("rows to bf16", by_rows(MF_CAST_BF16, true));
    judge("rows to f32", by_rows(MF_CAST_F32, true));
    judge("rows, weights by columns", by_rows(MF_CAST_BF16, false));

    mf_gemm g = by_rows(MF_CAST_BF16, true);
    g.epilogue = MF_EPILOGUE_SWIGLU, g.keep = true;
    g.y.data = zeros(ROWS * N), g.y.type = MF_CAST_BF16, g.y.ld = N / 2;
    if (mf_cuda_can_swiglu(&g)) judge("rows with SwiGLU", g);
    g.keep = false;
    if (mf_cuda_can_swiglu(&g)) judge("rows with SwiGLU alone", g);

    g = {};
    g.m = N, g.n = K, g.k = ROWS, g.alpha = 1, g.by = MF_BY_INNER, g.groups = GROUPS;
    g.a.data = zeros(ROWS * N * 2), g.a.type = MF_CAST_BF16, g.a.trans = true, g.a.ld = N;
    g.b.data = zeros(ROWS * K * 2), g.b.type = MF_CAST_BF16, g.b.ld = K;
    g.b.row = list(ROWS, 0);
    g.c.data = zeros(GROUPS * N * K * 4), g.c.ld = K, g.c.step = N * K;
    g.offset = list(GROUPS + 1, ROWS / GROUPS);
    judge("gradients of weights", g);
    printf("1..%d\n", number);
    return failed != 0 || number != 6;
}
