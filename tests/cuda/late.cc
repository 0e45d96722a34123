/* late.cc: what goes on after the instruction that began it: cp.async, bulk copies with
 * mbarriers, and wgmma. Each happens as late as the instructions that wait for it allow. */
#include "state.hh"

#include <cmath>
#include <cstring>

namespace emu {

/* ---- copies that end later ---- */
static void land(const copying &c, int t)
{
    memcpy(c.dst, c.src, (size_t)c.valid);
    memset((char *)c.dst + c.valid, 0, (size_t)(c.bytes - c.valid));
    for (size_t g = (size_t)((char *)c.dst - B.shared) / 2, n = 0; n < (size_t)c.bytes / 2; n++)
        B.cells[g + n] = {B.f[t].clock, (uint16_t)t, NOBODY, 0, -1, B.gen, B.gen};
}
void cp_async(void *dst, const void *src, int bytes, int valid, const char *file, int line)
{
    const void *pc = __builtin_return_address(0);
    if (((uintptr_t)dst | (uintptr_t)src) % (unsigned)bytes)
        finding("align", "%s:%d: cp.async of %d bytes", file, line, bytes);
    if (valid) access(src, (size_t)valid, false, pc);
    if (opt.profile) count(dst, (size_t)bytes, pc, true);
    shared_access(dst, (size_t)bytes, true, pc, true);
    memset(dst, 0xff, (size_t)bytes);
    B.f[B.cur].open.push_back({dst, src, bytes, valid, nullptr});
}
void cp_async_commit()
{
    fiber &f = B.f[B.cur];
    f.groups.push_back(std::move(f.open));
    f.open.clear();
}
void cp_async_wait(int left)
{
    fiber &f = B.f[B.cur];
    while ((int)f.groups.size() > left) {
        for (auto &c : f.groups.front())
            land(c, B.cur);
        f.groups.erase(f.groups.begin());
    }
}
/* ---- wgmma ---- */
void fence_proxy_async()
{
    fiber &f = B.f[B.cur];
    f.fenced = f.clock++;
}
uint32_t shared_address(const void *p)
{
    return (uint32_t)((const char *)p - B.shared);
}
/* The place of inner index k of row (of A) or column (of B) i: bits 4 .. 6 of an address are
 * changed by bits 7 .. 9. */
static const char *wg_at(uint64_t desc, bool trans, int i, int k)
{
    const size_t leading = (desc >> 16 & 0x3fff) << 4, stride = (desc >> 32 & 0x3fff) << 4;
    size_t at = (size_t)(desc & 0x3fff) << 4;
    if (trans)
        at += i / 64 * leading + k / 8 * stride + k % 8 * 128 + i % 64 * 2;
    else
        at += i / 8 * stride + i % 8 * 128 + k * 2;
    return B.shared + (at ^ (at >> 7 & 7) << 4);
}
static float wg_get(uint64_t desc, bool trans, int i, int k)
{
    uint16_t half;
    memcpy(&half, wg_at(desc, trans, i, k), 2);
    return to_f32(half);
}
static void wg_judge(uint64_t desc, const char *which, const void *pc)
{
    if (desc >> 62 != 1 || (desc >> 49 & 7) != 0)
        finding("wgmma", "the descriptor of %s is not of rows of 128 bytes, at %s", which,
                where(pc));
    else if ((desc << 4 & 0x380) != 0)
        finding("wgmma", "%s begins at row %d of eight, at %s", which,
                (int)(desc << 4 >> 7 & 7), where(pc));
}
/* Looks at rows or columns i0 .. i0 + n - 1 of an operand, 16 bytes at once; returns a number
 * that changes when somebody writes there. count: these reads are requests to memory. */
static uint64_t wg_look(uint64_t desc, bool trans, int i0, int n, const void *pc, bool count)
{
    uint64_t writes = 0;
    for (int i8 = i0; i8 < i0 + n; i8 += 8)
        for (int h = 0; h < 2; h++) { /* eight times 16 bytes */
            const char *row[8];
            for (int q = 0; q < 8; q++) {
                row[q] = trans ? wg_at(desc, true, i8, 8 * h + q)
                               : wg_at(desc, false, i8 + q, 8 * h);
                if (row[q] < B.shared || row[q] + 16 > B.shared + SHARED) {
                    finding("bounds", "wgmma reads behind shared memory, at %s", where(pc));
                    return 0;
                }
                const cell *c = &B.cells[(size_t)(row[q] - B.shared) / 2];
                for (int i = 0; i < 8; i++, c++) {
                    if (c->w < FLYING - 1 && c->wclock > B.f[c->w].fenced)
                        finding("proxy",
                                "wgmma reads what thread %d wrote without fence.proxy.async "
                                "after it, at %s",
                                c->w, where(pc));
                    writes = (writes ^ c->wclock ^ (uint64_t)c->w << 32) * 0x9e3779b97f4a7c15u;
                }
                shared_access(row[q], 16, false, pc, false);
            }
            if (count) count_core(row);
        }
    return writes;
}
static uint64_t wg_look_both(const wg_args &w, int warp, const void *pc, bool count)
{
    return wg_look(w.a, w.trans_a, warp * 16, 16, pc, count) +
           wg_look(w.b, w.trans_b, 0, w.n, pc, count && warp == 0);
}
void wg_fence()
{
    B.f[B.cur].wg_fenced = true;
}
static bool same(const wg_args &a, const wg_args &b)
{
    return a.a == b.a && a.b == b.b && a.n == b.n && a.trans_a == b.trans_a &&
           a.trans_b == b.trans_b;
}
void wg_mma(float *d, const wg_args &args, const char *file, int line)
{
    const void *pc = __builtin_return_address(0);
    const int n = args.n;
    warp(0xffffffffu, no_op, nullptr, false, file, line);
    fiber &f = B.f[B.cur];
    if (!f.wg_fenced) finding("wgmma", "%s:%d: no wgmma.fence before it", file, line);
    auto &seen = B.wg_seen[B.cur / 128];
    if (seen.size() <= f.wg_count)
        seen.push_back(args);
    else if (!same(seen[f.wg_count], args))
        finding("wgmma", "%s:%d: threads of a warpgroup differ in operands", file, line);
    f.wg_count++;
    wg_op o{d, args, 0};
    if (B.cur % 32 == 0) {
        wg_judge(args.a, "a", pc);
        wg_judge(args.b, "b", pc);
        o.writes = wg_look_both(args, B.cur / 32 & 3, pc, opt.profile);
    }
    auto &held = f.wg_held[d];
    if (held.empty()) {
        held.assign(d, d + n / 2);
        for (int i = 0; i < n / 2; i++)
            d[i] = NAN;
    }
    f.wg_open.push_back(o);
}
void wg_commit()
{
    fiber &f = B.f[B.cur];
    f.wg_groups.push_back(std::move(f.wg_open));
    f.wg_open.clear();
    f.wg_fenced = false;
}
static void wg_sum(const wg_args &w, float *acc)
{
    const int lane = B.cur & 31, row0 = (B.cur / 32 & 3) * 16;
    float a[2][16];
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 16; k++)
            a[h][k] = wg_get(w.a, w.trans_a, row0 + h * 8 + lane / 4, k);
    for (int j = 0; j < w.n / 8; j++)
        for (int c = 0; c < 2; c++) {
            float s[2] = {};
            for (int k = 0; k < 16; k++) {
                const float b = wg_get(w.b, w.trans_b, j * 8 + lane % 4 * 2 + c, k);
                s[0] += a[0][k] * b, s[1] += a[1][k] * b;
            }
            acc[j * 4 + c] += s[0], acc[j * 4 + 2 + c] += s[1];
        }
}
void wg_wait(int left)
{
    const void *pc = __builtin_return_address(0);
    fiber &f = B.f[B.cur];
    while ((int)f.wg_groups.size() > left) {
        for (auto &o : f.wg_groups.front()) {
            /* it may have read until now */
            if (B.cur % 32 == 0 && o.writes != wg_look_both(o.args, B.cur / 32 & 3, pc, false))
                finding("wgmma",
                        "an operand was written while the gemm was under way, waited for at %s",
                        where(pc));
            wg_sum(o.args, f.wg_held[o.d].data());
        }
        f.wg_groups.erase(f.wg_groups.begin());
    }
    for (auto h = f.wg_held.begin(); h != f.wg_held.end();) {
        bool busy = false;
        for (auto &g : f.wg_groups)
            for (auto &o : g)
                busy |= o.d == h->first;
        if (busy) {
            ++h;
            continue;
        }
        memcpy(h->first, h->second.data(), h->second.size() * sizeof(float));
        h = f.wg_held.erase(h);
    }
}
void mbar_init(uint64_t *bar, int n, const char *, int)
{
    look(bar, 8, true);
    B.bars[bar] = {n, n, 0, 0, std::vector<uint32_t>(B.n, 0)};
}
static void mbar_turn(uint64_t *at, mbar &m)
{
    if (m.left > 0 || m.tx > 0) return;
    m.left = m.count, m.phase++;
    for (int t = 0; t < B.n; t++)
        if (B.f[t].at == AT_MBAR && B.f[t].arg == at && (m.phase & 1) != B.f[t].parity) wake(t);
}
static void mbar_join(mbar &m, int t, bool into)
{
    if (!into) B.joined = true;
    for (int u = 0; u < B.n; u++)
        if (into)
            m.vc[u] = std::max(m.vc[u], seen(t, u));
        else
            B.vc[(size_t)t * B.n + u] = std::max(B.vc[(size_t)t * B.n + u], m.vc[u]);
    if (into) B.f[t].clock++;
}
void mbar_arrive(uint64_t *bar, uint32_t tx, const char *file, int line)
{
    look(bar, 8, false);
    if (!B.bars.count(bar)) {
        finding("mbarrier", "%s:%d: not initialised", file, line);
        return;
    }
    mbar &m = B.bars[bar];
    mbar_join(m, B.cur, true);
    m.left--, m.tx += tx;
    if (m.left < 0) finding("mbarrier", "%s:%d: one arrival too many", file, line);
    mbar_turn(bar, m);
}
void mbar_wait(uint64_t *bar, uint32_t parity, const char *file, int line)
{
    look(bar, 8, false);
    fiber &f = B.f[B.cur];
    if (!B.bars.count(bar)) {
        finding("mbarrier", "%s:%d: not initialised", file, line);
        return;
    }
    f.arg = bar, f.parity = parity, f.file = file, f.line = line;
    while ((B.bars[bar].phase & 1) == parity)
        sleep_as(AT_MBAR);
    mbar_join(B.bars[bar], B.cur, false);
}
void bulk_copy(void *dst, const void *src, int bytes, uint64_t *bar, const char *file, int line)
{
    const void *pc = __builtin_return_address(0);
    if (((uintptr_t)dst | (uintptr_t)src | (unsigned)bytes) % 16)
        finding("align", "%s:%d: bulk copy", file, line);
    for (int i = 0; i < bytes; i += 16)
        access((const char *)src + i, 16, false, pc),
            shared_access((char *)dst + i, 16, true, pc, true);
    memset(dst, 0xff, (size_t)bytes);
    B.bulk.push_back({dst, src, bytes, bytes, bar});
}
bool land_one_bulk()
{
    if (B.bulk.empty()) return false;
    size_t i = draw() % B.bulk.size();
    copying c = B.bulk[i];
    B.bulk.erase(B.bulk.begin() + (long)i);
    uint16_t by = B.cells[(size_t)((char *)c.dst - B.shared) / 2].r;
    land(c, by);
    mbar &m = B.bars[c.bar];
    m.vc[by] = std::max(m.vc[by], B.f[by].clock++);
    m.tx -= c.bytes;
    mbar_turn(c.bar, m);
    return true;
}

} // namespace emu
