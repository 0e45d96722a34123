/* state.hh: what the files of the emulator share: fibres, the block that runs, and the shadow
 * of its memory. */
#ifndef TESTS_CUDA_STATE_HH
#define TESTS_CUDA_STATE_HH

#include "emu.hh"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

namespace emu {

enum state : uint8_t { READY, AT_BARRIER, AT_WARP, AT_MBAR, DONE };
struct wg_op {
    float *d;
    wg_args args;
    uint64_t writes;
};
struct copying {
    void *dst;
    const void *src;
    int bytes, valid;
    uint64_t *bar;
};
struct fiber {
    void *sp = nullptr;
    char *stack = nullptr;
    void *fake = nullptr;
    state at = DONE;
    uint3 tid{};
    int bar = 0, bar_threads = 0;
    uint32_t mask = 0, parity = 0;
    warp_fn fn = nullptr;
    void *arg = nullptr;
    bool order = false;
    const char *file = "";
    int line = 0;
    uint32_t clock = 1;
    std::vector<copying> open;
    std::vector<std::vector<copying>> groups;
    std::unordered_map<uintptr_t, uint32_t> visits;
    std::vector<wg_op> wg_open;
    std::vector<std::vector<wg_op>> wg_groups;
    std::map<float *, std::vector<float>>
        wg_held; /* accumulators under way; what the kernel sees is NaN */
    bool wg_fenced = false;
    uint32_t wg_count = 0; /* gemms so far */
    const char *wide = nullptr; /* what `aligned` says is moved at once: bytes from there on, */
    size_t wide_bytes = 0;      /* which this compiler may move one by one */
    bool wide_seen = false;
    uint32_t fenced = 0; /* writes up to this clock are visible to the asynchronous proxy */
};
struct array {
    size_t offset, bytes;
    const char *file;
    int line;
};
/* Two bytes of shared memory: last write, last read or all reads of this generation. What was
 * done before the last barrier of the whole block (wgen, rgen < gen) is in order with
 * everything. */
struct cell {
    uint32_t wclock;
    uint16_t w, r;
    uint32_t rclock;
    int32_t many;
    uint32_t wgen, rgen;
};
/* The same of global memory: the last write, and two reads of which neither is ordered before
 * the other. What is ordered before a later read needs no place, since a write that may race
 * with it may race with that one, too. Two are enough to find a write by the thread that read
 * last. */
struct read_by {
    uint32_t b, c;
    uint16_t t;
};
struct gcell {
    uint32_t wl, wb, wc, rl;
    uint16_t wt, reads; /* reads: how many of r are of launch rl */
    read_by r[2];
};
struct mbar {
    int count, left;
    int64_t tx;
    uint32_t phase;
    std::vector<uint32_t> vc;
};
enum : uint16_t { NOBODY = 0xffff, FLYING = 0xfffe, MANY = 0xfffd };
enum { BARRIERS = 16 }; /* named ones of a block */
enum { STACK = 256 << 10, SHARED = 228 << 10, STATIC_MAX = 48 << 10, GAP = 64 };
const size_t ARENA =
    (size_t)16
    << 30; /* addresses; memory that was freed is given back, but not its addresses */

struct block_state {
    const char *name;
    call *c;
    uint3 grid, block, index;
    uint32_t launch, block_no;
    int n, cur, live;
    int arrived[BARRIERS];      /* threads that wait at this barrier */
    int at_warp[32], ended[32]; /* of this warp: lanes that wait for others, that ended */
    std::vector<fiber> f;
    std::vector<int> ready;
    void *sp, *fake;
    std::vector<uint32_t> floor, vc;         /* vc[t * n + u] */
    std::vector<std::vector<uint32_t>> many; /* read clocks by thread */
    size_t many_used;
    uint32_t gen;
    char *shared;
    size_t shared_used, dyn, dyn_at;
    bool joined; /* vc is not all zeros */
    std::vector<array> arrays;
    std::vector<cell> cells;
    std::map<uint64_t *, mbar> bars;
    std::vector<copying> bulk;
    std::vector<wg_args> wg_seen[8]; /* of each warpgroup: gemms that one of its warps began */
    bool running;
    uint64_t rng;
};
extern block_state B;
extern char *arena;

/* judge.cc */
uint64_t draw();
const char *where(const void *pc); /* file and line of an instruction */
void make_arena();
void shared_access(const void *p, size_t bytes, bool write, const void *pc, bool flying);
void access(const void *p, size_t bytes, bool write, const void *pc, bool atomic = false);
/* emu.cc */
inline uint32_t seen(int t, int u)
{
    return t == u ? B.f[(size_t)u].clock
                  : std::max(B.floor[(size_t)u], B.vc[(size_t)t * (size_t)B.n + (size_t)u]);
}
void wake(int t);
void sleep_as(state s);
/* late.cc */
bool land_one_bulk();
/* traffic.cc */
void count(const void *p, size_t bytes, const void *pc, bool shared);
void count_core(const char *const row[8]); /* 16 bytes of each of eight rows, of wgmma */
void count_up(const char *kernel, int threads, size_t shared);

} // namespace emu
#endif
