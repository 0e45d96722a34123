/* judge.cc: judges every access of a kernel to memory: races, bounds, first use, host memory.
 * The compiler calls the functions at the end of this file. Compiled without
 * -fsanitize=thread. */
#include "state.hh"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <deque>
#include <set>
#include <sys/mman.h>

namespace emu {
options opt = {2, 1, false, false, false, false};
bool (*ordered)(uint32_t earlier);
uint32_t next_launch;
block_state B;
char *arena;
static uint8_t *alive, *init;
static gcell *gcells;
static std::map<size_t, size_t> allocs;
static size_t arena_next = 256;

/* ---- findings ---- */

static std::map<std::string, int> found;
static std::set<std::string> said;
int findings(const char *kind)
{
    int n = 0;
    for (auto &f : found)
        if (!kind || f.first == kind) n += f.second;
    return n;
}
void forget()
{
    found.clear();
    said.clear();
}

uint64_t draw()
{
    uint64_t z = (B.rng += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return (z ^ z >> 27) >> 11;
}

void finding(const char *kind, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    found[kind]++;
    if (opt.quiet || !said.insert(std::string(kind) + (B.name ? B.name : "")).second) return;
    if (B.running)
        fprintf(stderr, "%s: %s: %s [block %u %u %u thread %u %u %u]\n", B.name, kind, text,
                B.index.x, B.index.y, B.index.z, B.f[B.cur].tid.x, B.f[B.cur].tid.y,
                B.f[B.cur].tid.z);
    else
        fprintf(stderr, "%s: %s\n", kind, text);
}
const char *where(const void *pc)
{
    static std::map<const void *, std::string> known;
    std::string &text = known[pc];
    if (!text.empty() || opt.quiet) return text.c_str();
    char cmd[640], line[512] = "?";
    Dl_info at{};
    dladdr(pc, &at);
    snprintf(cmd, sizeof cmd, "addr2line -s -e %s %#tx 2>/dev/null",
             at.dli_fname ? at.dli_fname : "",
             (const char *)pc - (const char *)at.dli_fbase - 1);
    FILE *p = popen(cmd, "r");
    if (p && fgets(line, sizeof line, p)) line[strcspn(line, "\n")] = 0;
    if (p) pclose(p);
    text = line;
    return text.c_str();
}
/* Constants of the kernel's own object: mapped from its file and not writable. */
static bool constant(const void *p, const void *pc)
{
    struct q {
        uintptr_t a, pc;
        bool in;
    } x{(uintptr_t)p, (uintptr_t)pc, false};
    dl_iterate_phdr(
        [](dl_phdr_info *i, size_t, void *arg) {
            q *y = (q *)arg;
            bool has_a = false, has_pc = false;
            for (int h = 0; h < i->dlpi_phnum; h++) {
                const auto &s = i->dlpi_phdr[h];
                const uintptr_t lo = i->dlpi_addr + s.p_vaddr;
                if (s.p_type == PT_GNU_RELRO || (s.p_type == PT_LOAD && !(s.p_flags & PF_W)))
                    has_a |= y->a - lo < s.p_memsz, has_pc |= y->pc - lo < s.p_memsz;
            }
            y->in |= has_a && has_pc;
            return 0;
        },
        &x);
    return x.in;
}
/* ---- shared memory ---- */
void *shared_at(const char *file, int line, size_t bytes)
{
    for (auto &a : B.arrays)
        if (a.line == line && a.file == file) return B.shared + a.offset;
    size_t at = (B.shared_used + 127) & ~(size_t)127;
    B.arrays.push_back({at, bytes, file, line});
    B.shared_used = at + bytes + GAP;
    size_t sum = 0;
    for (auto &a : B.arrays)
        sum += a.bytes;
    if (sum > STATIC_MAX) finding("launch", "%zu bytes of static shared memory", sum);
    return B.shared + at;
}
void *shared_dyn()
{
    return B.shared + B.dyn_at;
}

static void race(const char *what, int t, uint16_t u, const void *p, const void *pc)
{
    const char *name = "";
    int line = 0;
    size_t off = (size_t)((const char *)p - B.shared), in = off - B.dyn_at;
    for (auto &a : B.arrays)
        if (off >= a.offset && off < a.offset + a.bytes)
            name = a.file, line = a.line, in = off - a.offset;
    finding("race", "%s of shared byte %zu%s%s:%d by threads %d and %d, at %s", what, in,
            *name ? " of the array at " : " (dynamic) ", name, line, t, (int)u, where(pc));
}
static bool in_shared_array(size_t off, size_t bytes)
{
    if (B.dyn && off >= B.dyn_at && off + bytes <= B.dyn_at + B.dyn) return true;
    for (auto &a : B.arrays)
        if (off >= a.offset && off + bytes <= a.offset + a.bytes) return true;
    return false;
}
/* Whether kernels say what they store. Those of the plain build do not, so memory there may be
 * written without a sign. */
static bool instrumented;

void shared_access(const void *p, size_t bytes, bool write, const void *pc, bool flying)
{
    const size_t off = (size_t)((const char *)p - B.shared);
    const int t = B.cur;
    if (!in_shared_array(off, bytes)) {
        finding("bounds", "shared byte %zu + %zu, at %s", off, bytes, where(pc));
        return;
    }
    for (size_t g = off / 2; g < (off + bytes + 1) / 2; g++) {
        cell &c = B.cells[g];
        if (c.w == FLYING) {
            race(write ? "write over a copy under way" : "read before the copy was waited for",
                 t, c.r, p, pc);
            if (!write) return;
        } else if (c.w == NOBODY) {
            if (!write && instrumented) {
                finding("first use", "shared byte %zu is read before it was written, at %s",
                        off, where(pc));
                return;
            }
        } else if (c.wgen == B.gen && c.w != t && c.wclock > seen(t, c.w)) {
            race(write ? "write after write" : "read after write", t, c.w, p, pc);
            return;
        }
        const bool read_now = c.w != FLYING && c.rgen == B.gen && c.r != NOBODY;
        if (write) {
            if (read_now && c.many >= 0) {
                for (int u = 0; u < B.n; u++)
                    if (u != t && B.many[c.many][u] > seen(t, u)) {
                        race("write after read", t, (uint16_t)u, p, pc);
                        return;
                    }
            } else if (read_now && c.r != t && c.rclock > seen(t, c.r)) {
                race("write after read", t, c.r, p, pc);
                return;
            }
            c = {B.f[t].clock,
                 flying ? (uint16_t)FLYING : (uint16_t)t,
                 flying ? (uint16_t)t : (uint16_t)NOBODY,
                 0,
                 -1,
                 B.gen,
                 B.gen};
        } else if (read_now && c.many >= 0)
            B.many[c.many][t] = B.f[t].clock;
        else if (!read_now || c.r == t || c.rclock <= seen(t, c.r))
            c.r = (uint16_t)t, c.rclock = B.f[t].clock, c.rgen = B.gen, c.many = -1;
        else {
            if (B.many_used == B.many.size()) B.many.emplace_back();
            auto &m = B.many[B.many_used];
            m.assign((size_t)B.n, 0);
            m[c.r] = c.rclock, m[t] = B.f[t].clock;
            c.many = (int32_t)B.many_used++;
        }
    }
}
/* ---- global memory ---- */
enum { LARGE = 2 << 20 };

void make_arena()
{
    auto map = [](size_t n, int prot) {
        void *p = mmap(nullptr, n, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) abort();
        return p;
    };
    if (arena) return;
    /* In large pages, as far as there are some: hiding takes time for each page. */
    char *room = (char *)map(ARENA + LARGE, PROT_READ | PROT_WRITE);
    arena = room + (LARGE - (uintptr_t)room % LARGE) % LARGE;
    madvise(arena, ARENA, MADV_HUGEPAGE);
    alive = (uint8_t *)map(ARENA / 16, PROT_READ | PROT_WRITE);
    init = (uint8_t *)map(ARENA / 2, PROT_READ | PROT_WRITE);
    gcells = (gcell *)map(ARENA / 2 * sizeof(gcell), PROT_READ | PROT_WRITE);
}
/* Addresses that were freed are allocated again only after many more frees, so that most uses
 * of freed memory are found. */
enum { LATER = 96 };
struct freed {
    size_t at;
    uint64_t when;
};
static std::map<size_t, std::deque<freed>> quarantine; /* by size, in units of 256 bytes */
static uint64_t frees;

static size_t place_for(size_t bytes)
{
    const size_t units = (bytes + 512 + 255) / 256;
    auto &same = quarantine[units];
    size_t at = arena_next;
    if (!same.empty() && same.front().when + LATER < frees) {
        at = same.front().at;
        same.pop_front();
        memset(init + at / 2, 0, (bytes + 1) / 2);
        return at;
    }
    if (at + units * 256 > ARENA) return 0;
    arena_next = at + units * 256;
    return at;
}
void *dev_alloc(size_t bytes)
{
    make_arena();
    const size_t at = place_for(bytes);
    if (at == 0) return nullptr;
    allocs[at] = bytes;
    dev_show(true);
    memset(arena + at, 0xff, bytes); /* NaN as f32 and bf16, -1 as an index */
    memset(alive + at / 16, 16, bytes / 16);
    if (bytes % 16) alive[(at + bytes) / 16] = bytes % 16;
    dev_show(false);
    return arena + at;
}
void dev_free(void *p)
{
    auto a = allocs.find((size_t)((char *)p - arena));
    if (!p) return;
    if (a == allocs.end()) {
        finding("free", "%p is not the start of an allocation", p);
        return;
    }
    memset(alive + a->first / 16, 0, (a->second + 15) / 16);
    quarantine[(a->second + 512 + 255) / 256].push_back({a->first, frees++});
    allocs.erase(a);
}
bool dev_has(const void *p, size_t bytes)
{
    size_t at = (size_t)((const char *)p - arena);
    if (!arena || at >= ARENA) return false;
    auto a = allocs.upper_bound(at);
    return a != allocs.begin() && (--a, at + bytes <= a->first + a->second);
}
void dev_touch(void *p, size_t bytes, bool write) /* by a copy or a fill of op next_launch */
{
    static const char *const how[] = {"read", "written"};
    for (size_t g = (size_t)((char *)p - arena) / 2, n = (bytes + 1) / 2; n > 0; g++, n--) {
        gcell &c = gcells[g];
        if (!write && !init[g]) {
            finding("first use", "a copy reads device memory that nothing has written");
            return;
        }
        if ((c.wl && c.wl != next_launch && !ordered(c.wl)) ||
            (write && c.rl && c.rl != next_launch && !ordered(c.rl))) {
            finding("streams", "memory is %s by a copy without order after another stream",
                    how[write]);
            return;
        }
        if (write)
            c.wl = next_launch, c.wt = MANY, init[g] = 1;
        else
            c.rl = next_launch, c.reads = 0; /* a copy is one op: only its order counts */
    }
}
void dev_mark_written(void *p, size_t bytes)
{
    memset(init + ((char *)p - arena) / 2, 1, (bytes + 1) / 2);
}
void dev_show(bool on)
{
    static int depth;
    static bool hidden;
    depth += on ? 1 : depth > 0 ? -1 : 0;
    const bool hide = opt.hide && depth == 0;
    if (arena && hide != hidden)
        mprotect(arena, (arena_next + LARGE - 1) / LARGE * LARGE,
                 hide ? PROT_NONE : PROT_READ | PROT_WRITE),
            hidden = hide;
}
size_t dev_live()
{
    return allocs.size();
}

static void note_read(gcell &c, int t)
{
    const read_by now = {B.block_no, B.f[t].clock, (uint16_t)t};
    if (c.rl != B.launch) c.reads = 0;
    c.rl = B.launch;
    for (int i = c.reads - 1; i >= 0; i--) /* those that are ordered before this one */
        if (c.r[i].b == now.b && (c.r[i].t == t || c.r[i].c <= seen(t, c.r[i].t))) {
            if (i + 1 < c.reads) c.r[i] = c.r[i + 1];
            c.reads--;
        }
    if (c.reads == 2) {
        c.r[0] = c.r[1];
        c.reads = 1;
    }
    c.r[c.reads++] = now;
}
static void global_access(const void *p, size_t bytes, bool write, const void *pc, bool atomic)
{
    const size_t off = (size_t)((const char *)p - arena);
    const int t = B.cur;
    for (size_t i = off / 16; i <= (off + bytes - 1) / 16; i++) {
        size_t end = off + bytes - i * 16 < 16 ? off + bytes - i * 16 : 16;
        if (alive[i] < end) {
            finding("bounds", "%s of %zu bytes outside any allocation, at %s",
                    write ? "write" : "read", bytes, where(pc));
            return;
        }
    }
    for (size_t g = off / 2; g < (off + bytes + 1) / 2; g++) {
        gcell &c = gcells[g];
        if (!write && !init[g]) {
            finding("first use", "global memory is read before it was written, at %s",
                    where(pc));
            return;
        }
        if (ordered && ((c.wl && c.wl != B.launch && !ordered(c.wl)) ||
                        (write && c.rl && c.rl != B.launch && !ordered(c.rl)))) {
            finding("streams",
                    "%s of what another stream %s, without order between them, at %s",
                    write ? "write" : "read", c.wl && !ordered(c.wl) ? "writes" : "reads",
                    where(pc));
            return;
        }
        if (c.wl == B.launch && !(atomic && c.wt == MANY)) {
            if (c.wb != B.block_no) {
                finding("race", "global memory, write in block %u, %s in block %u, at %s", c.wb,
                        write ? "write" : "read", B.block_no, where(pc));
                return;
            }
            if (c.wt != MANY && c.wt != t && c.wc > seen(t, c.wt)) {
                finding("race", "global memory, write of thread %d, %s of thread %d, at %s",
                        c.wt, write ? "write" : "read", t, where(pc));
                return;
            }
        }
        if (write) {
            for (int i = 0; c.rl == B.launch && !atomic && i < c.reads; i++) {
                const read_by &r = c.r[i];
                if (r.b != B.block_no) {
                    finding("race", "global memory, read in block %u, write in block %u, at %s",
                            r.b, B.block_no, where(pc));
                    return;
                }
                if (r.t != t && r.c > seen(t, r.t)) {
                    finding("race",
                            "global memory, read of thread %d, write of thread %d, at %s", r.t,
                            t, where(pc));
                    return;
                }
            }
            c.wl = B.launch, c.wb = B.block_no, c.wc = B.f[t].clock,
            c.wt = atomic ? (uint16_t)MANY : (uint16_t)t;
            init[g] = 1;
        } else
            note_read(c, t);
    }
}
void access(const void *p, size_t bytes, bool write, const void *pc, bool atomic)
{
    if (!B.running || bytes == 0) return;
    const char *a = (const char *)p;
    if (a >= B.shared && a < B.shared + SHARED) {
        if (opt.profile) count(p, bytes, pc, true);
        if (!atomic) shared_access(p, bytes, write, pc, false);
    } else if (a >= arena && a < arena + ARENA) {
        if (opt.profile) count(p, bytes, pc, false);
        global_access(p, bytes, write, pc, atomic);
    } else {
        const fiber &f = B.f[B.cur];
        if (a >= f.stack && a < f.stack + STACK) return;
        if (!write && ((a >= (char *)B.c && a < (char *)B.c + B.c->size()) || constant(p, pc)))
            return;
        finding("host memory",
                "%s of %p, which is neither device memory nor the thread's own, at %s",
                write ? "write" : "read", p, where(pc));
    }
    if (opt.preempt && !atomic && draw() % 16 == 0) {
        B.ready.push_back(B.cur);
        sleep_as(READY);
    }
}
void aligned(const void *p, size_t n)
{
    fiber &f = B.f[B.cur];
    f.wide = (const char *)p, f.wide_bytes = n, f.wide_seen = false;
    if ((uintptr_t)p % n != 0)
        finding("align", "%zu bytes at once, at %s", n, where(__builtin_return_address(0)));
}
void look(const void *p, size_t bytes, bool write)
{
    access(p, bytes, write, __builtin_return_address(0));
}
void look_atomic(const void *p, size_t bytes)
{
    access(p, bytes, true, __builtin_return_address(0), true);
}

/* One load or store of n bytes, which a device refuses if its address is no multiple of n. */
static void access_of(const void *p, size_t n, bool write, const void *pc)
{
    access(p, n, write, pc);
    if (B.running && (uintptr_t)p % n != 0)
        finding("align", "%s of %zu bytes at %s", write ? "write" : "read", n, where(pc));
}

} // namespace emu

/* ---- what the compiler calls in code made with -fsanitize=thread ---- */
#define PC __builtin_return_address(0)
#define HOOKS(n)                                                                               \
    void __tsan_read##n(void *p)                                                               \
    {                                                                                          \
        emu::access_of(p, n, false, PC);                                                       \
    }                                                                                          \
    void __tsan_write##n(void *p)                                                              \
    {                                                                                          \
        emu::access_of(p, n, true, PC);                                                        \
    }                                                                                          \
    void __tsan_unaligned_read##n(void *p)                                                     \
    {                                                                                          \
        emu::access_of(p, n, false, PC);                                                       \
    }                                                                                          \
    void __tsan_unaligned_write##n(void *p)                                                    \
    {                                                                                          \
        emu::access_of(p, n, true, PC);                                                        \
    }
extern "C" {
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16) void __tsan_read_range(void *p, size_t n)
{
    emu::access(p, n, false, PC);
}
void __tsan_write_range(void *p, size_t n)
{
    emu::access(p, n, true, PC);
}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_init()
{
    emu::instrumented = true;
}
/* of host code in the same file (reference counts) */
uint32_t __tsan_atomic32_fetch_add(volatile uint32_t *p, uint32_t v, int)
{
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}
uint32_t __tsan_atomic32_load(const volatile uint32_t *p, int)
{
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
uint8_t __tsan_atomic8_load(const volatile uint8_t *p, int)
{
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
}
