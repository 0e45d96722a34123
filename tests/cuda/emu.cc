/* emu.cc: fibres, barriers and launches. A fibre is one CUDA thread; blocks run one after
 * another. After every barrier and every operation of a warp the next fibre is drawn.
 *
 * The order between accesses is a vector clock for each thread (Mattern 1989): a barrier of
 * the block raises a floor that all threads share; __syncwarp, named barriers and mbarriers
 * join clocks. Blocks of one launch are ordered by nothing. */
#include "state.hh"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emu {

/* ---- switching ---- */
extern "C" void emu_switch(void **from, void *to);
asm(".text\n.globl emu_switch\nemu_switch:\n"
    "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n");

static void to_scheduler(fiber &f)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(f.at == DONE ? nullptr : &f.fake, B.fake, 8 << 20);
    emu_switch(&f.sp, B.sp);
    __sanitizer_finish_switch_fiber(f.fake, nullptr, nullptr);
#else
    emu_switch(&f.sp, B.sp);
#endif
}
static void to_fiber(fiber &f)
{
#if defined(__SANITIZE_ADDRESS__)
    void *mine;
    __sanitizer_start_switch_fiber(&mine, f.stack, STACK);
    emu_switch(&B.sp, f.sp);
    __sanitizer_finish_switch_fiber(mine, nullptr, nullptr);
#else
    emu_switch(&B.sp, f.sp);
#endif
}
static void fiber_main()
{
    fiber *f = &B.f[B.cur];
#if defined(__SANITIZE_ADDRESS__)
    size_t size;
    const void *bottom;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
    B.fake = const_cast<void *>(bottom);
#endif
    B.c->run();
    f = &B.f[B.cur];
    if (!f->open.empty() || !f->groups.empty())
        finding("cp.async", "thread ends with copies not waited for");
    if (!f->wg_groups.empty() || !f->wg_open.empty())
        finding("wgmma", "thread ends with gemms that were not waited for");
    f->at = DONE;
    B.ended[B.cur / 32]++;
    B.live--;
    to_scheduler(*f);
    abort();
}
/* ---- order ---- */
struct few {
    int n = 0, t[1024];
    void push_back(int v) { t[n++] = v; }
    int *begin() { return t; }
    int *end() { return t + n; }
    size_t size() const { return (size_t)n; }
};
static void join_all(few &who)
{
    std::vector<uint32_t> m(B.n, 0);
    for (int t : who)
        for (int u = 0; u < B.n; u++)
            m[u] = std::max(m[u], seen(t, u));
    B.joined = true;
    for (int t : who) {
        for (int u = 0; u < B.n; u++)
            B.vc[(size_t)t * B.n + u] = m[u];
        B.f[t].clock++;
    }
}
void wake(int t)
{
    B.f[t].at = READY;
    B.ready.push_back(t);
}
void sleep_as(state s)
{
    fiber &f = B.f[B.cur];
    f.at = s;
    to_scheduler(f);
}

void (*queue)(void *stream, const char *name, std::function<void()> launch);

std::vector<twin> &twins()
{
    static std::vector<twin> all;
    return all;
}

void barrier(int id, int threads, const char *file, int line)
{
    fiber &f = B.f[B.cur];
    f.bar = id, f.bar_threads = threads, f.file = file, f.line = line;
    f.at = AT_BARRIER;
    static few who;
    who.n = 0;
    if (id < 0 || id >= BARRIERS)
        finding("barrier", "%s:%d: barrier %d", file, line, id), id = 0;
    if (++B.arrived[id] < (threads ? threads : B.n)) {
        sleep_as(AT_BARRIER);
        return;
    }
    B.arrived[id] = 0;
    for (int t = 0; t < B.n; t++)
        if (B.f[t].at == AT_BARRIER && B.f[t].bar == id) who.push_back(t);
    for (int t : who)
        if (B.f[t].line != line || (B.f[t].file != file && strcmp(B.f[t].file, file))) {
            finding("barrier", "%s:%d meets %s:%d", file, line, B.f[t].file, B.f[t].line);
            break;
        }
    if ((int)who.size() == B.n) {
        B.gen++, B.many_used = 0;
        for (int u : who)
            B.floor[u] = B.f[u].clock++;
    } else
        join_all(who);
    for (int t : who)
        if (t != B.cur) wake(t);
    f.at = READY;
    B.ready.push_back(B.cur); /* nobody knows who goes on first */
    to_scheduler(f);
}

void warp(uint32_t mask, warp_fn fn, void *arg, bool order, const char *file, int line)
{
    fiber &f = B.f[B.cur];
    const int first = B.cur & ~31, lane = B.cur & 31;
    f.mask = mask, f.fn = fn, f.arg = arg, f.order = order, f.file = file, f.line = line;
    if (!(mask >> lane & 1))
        finding("warp", "%s:%d: the caller is not in the mask %08x", file, line, mask);
    f.at = AT_WARP;
    /* Most arrive before the last lane: this many cannot be all of the mask. */
    if (++B.at_warp[first / 32] < __builtin_popcount(mask) && B.ended[first / 32] == 0) {
        sleep_as(AT_WARP);
        return;
    }
    void *args[32] = {};
    static few who;
    who.n = 0;
    for (int l = 0; l < 32; l++) {
        if (!(mask >> l & 1)) continue;
        if (first + l >= B.n || B.f[first + l].at == DONE) {
            finding("warp", "%s:%d: lane %d of the mask is not there", file, line, l);
            mask &= ~(1u << l);
            continue;
        }
        fiber &o = B.f[first + l];
        if (o.at != AT_WARP || o.mask != f.mask || o.fn != fn) {
            sleep_as(AT_WARP);
            return;
        }
        args[l] = o.arg;
        who.push_back(first + l);
    }
    B.at_warp[first / 32] -= (int)who.size();
    for (int t : who)
        if (B.f[t].line != line || (B.f[t].file != file && strcmp(B.f[t].file, file))) {
            finding("warp", "%s:%d meets %s:%d", file, line, B.f[t].file, B.f[t].line);
            break;
        }
    fn(args, mask);
    if (order) join_all(who);
    for (int t : who)
        if (t != B.cur) wake(t);
    f.at = READY;
    B.ready.push_back(B.cur);
    to_scheduler(f);
}
/* ---- blocks ---- */
static void deadlock()
{
    std::map<std::string, int> at;
    static const char *const how[] = {"ready", "__syncthreads", "warp", "mbarrier", "ended"};
    for (auto &f : B.f) {
        char text[160];
        snprintf(text, sizeof text, "%s%s%s:%d", how[f.at], f.at == DONE ? "" : " at ",
                 f.at == DONE ? "" : f.file, f.at == DONE ? 0 : f.line);
        at[text]++;
    }
    std::string all;
    for (auto &a : at)
        all += std::to_string(a.second) + " threads " + a.first + "; ";
    finding("deadlock", "%s", all.c_str());
}
static void run_block()
{
    B.ready.clear();
    B.arrays.clear();
    B.bars.clear();
    B.bulk.clear();
    for (auto &seen : B.wg_seen)
        seen.clear();
    B.many_used = 0;
    B.dyn_at = 0;
    const size_t used = std::min((size_t)SHARED, B.shared_used + 128); /* by the block before */
    std::fill(B.cells.begin(), B.cells.begin() + (long)used / 2,
              cell{0, NOBODY, NOBODY, 0, -1, 0, 0});
    memset(B.shared, 0xff, used);
    B.shared_used = B.dyn ? ((B.dyn + GAP + 127) & ~(size_t)127) : 0;
    std::fill(B.floor.begin(), B.floor.end(), 0);
    if (B.joined) std::fill(B.vc.begin(), B.vc.end(), 0);
    B.joined = false;
    B.live = B.n;
    std::fill(B.arrived, B.arrived + BARRIERS, 0);
    std::fill(B.at_warp, B.at_warp + 32, 0);
    std::fill(B.ended, B.ended + 32, 0);
    if (B.n % 32) B.ended[B.n / 32] = 32 - B.n % 32; /* lanes that never were */
    for (int t = 0; t < B.n; t++) {
        fiber &f = B.f[t];
        f.at = READY, f.clock = 1, f.fake = nullptr;
        f.tid = {t % B.block.x, t / B.block.x % B.block.y, t / B.block.x / B.block.y};
        f.open.clear(), f.groups.clear(), f.visits.clear(), f.wg_open.clear(),
            f.wg_groups.clear(), f.wg_held.clear();
        f.wg_fenced = false, f.wg_count = 0, f.fenced = 0;
#if defined(__SANITIZE_ADDRESS__)
        __asan_unpoison_memory_region(f.stack, STACK);
#endif
        void **sp =
            (void **)(f.stack + STACK - 72 -
                      t % 61 * 592); /* as after a call; not all in one set of the cache */
        *--sp = (void *)fiber_main;
        sp -= 6;
        f.sp = sp;
        B.ready.push_back(t);
    }
    while (B.live > 0) {
        if (!B.bulk.empty() && (B.ready.empty() || draw() % 8 == 0)) land_one_bulk();
        if (B.ready.empty()) {
            if (B.bulk.empty()) {
                B.cur = 0;
                deadlock();
                break;
            }
            continue;
        }
        size_t i = opt.order == 0   ? 0
                   : opt.order == 1 ? B.ready.size() - 1
                                    : draw() % B.ready.size();
        B.cur = B.ready[i];
        if (opt.order == 0)
            B.ready.erase(B.ready.begin());
        else
            B.ready[i] = B.ready.back(), B.ready.pop_back();
        to_fiber(B.f[B.cur]);
    }
}
void run(const char *name, dim3 grid, dim3 block, size_t shared, call &c)
{
    make_arena();
    const int n = (int)(block.x * block.y * block.z);
    B.name = name, B.c = &c, B.grid = {grid.x, grid.y, grid.z},
    B.block = {block.x, block.y, block.z};
    if (n < 1 || n > 1024 || grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.y > 65535 ||
        grid.z > 65535 || shared > 227 << 10) {
        finding("launch", "%s: grid %u %u %u, block %u %u %u, %zu bytes of shared memory", name,
                grid.x, grid.y, grid.z, block.x, block.y, block.z, shared);
        return;
    }
    B.n = n, B.dyn = shared, B.launch = ordered ? next_launch : B.launch + 1,
    B.rng = opt.seed * 0x2545f4914f6cdd1du;
    if (!B.shared)
        B.shared = (char *)mmap(nullptr, SHARED, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        B.cells.assign(SHARED / 2, cell{0, NOBODY, NOBODY, 0, -1, 0, 0}),
        memset(B.shared, 0xff, SHARED);
    if ((int)B.f.size() < n) B.f.resize((size_t)n);
    B.f.resize((size_t)std::max(n, (int)B.f.size()));
    for (auto &f : B.f)
        if (!f.stack) {
            f.stack = (char *)mmap(nullptr, STACK + 4096, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            mprotect(f.stack, 4096, PROT_NONE); /* an overflow faults */
        }
    for (size_t t = (size_t)n; t < B.f.size(); t++)
        B.f[t].at = DONE;
    B.floor.assign((size_t)n, 0);
    B.vc.assign((size_t)n * (size_t)n, 0);
    B.joined = false;
    dev_show(true);
    B.running = true;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                B.index = {x, y, z};
                B.block_no = x + grid.x * (y + grid.y * z);
                run_block();
            }
    count_up(name, n, shared);
    B.running = false;
    dev_show(false);
}
uint3 thread_index()
{
    return B.f[B.cur].tid;
}
uint3 block_index()
{
    return B.index;
}
uint3 block_size()
{
    return B.block;
}
uint3 grid_size()
{
    return B.grid;
}
} // namespace emu
