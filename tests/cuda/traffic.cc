/* traffic.cc: counts the requests of warps to memory: sectors of global memory and passes of
 * shared memory, against the least that the same bytes need. */
#include "state.hh"

#include <set>

namespace emu {

/* ---- requests of warps: the n-th visit of one instruction by each lane is one ---- */
struct request {
    bool shared;
    uint8_t n, bytes;
    uint64_t at[32];
};
static std::unordered_map<uint64_t, request> requests;
static traffic sum, running; /* of all launches, and of this one */
/* The same by kernel, number of threads and bytes of dynamic shared memory. */
struct launches {
    long n;
    traffic t;
};
static std::map<std::tuple<std::string, int, size_t>, launches> by_kernel;
static std::string plain_name(const char *kernel)
{
    std::string name = kernel;
    name.erase(std::remove(name.begin(), name.end(), '('), name.end());
    return name.substr(0, name.find_first_of("<)"));
}
static uint64_t passes(const request &r)
{
    uint64_t total = 0;
    const int lanes = r.bytes <= 4 ? 32 : 128 / r.bytes; /* one pass moves at most 128 bytes */
    for (int l0 = 0; l0 < 32; l0 += lanes) {
        std::set<uint64_t> bank[32];
        size_t most = 0;
        for (int l = l0; l < l0 + lanes; l++)
            if (r.at[l])
                for (int b = 0; b < (r.bytes + 3) / 4; b++)
                    bank[(r.at[l] / 4 + b) % 32].insert(r.at[l] / 4 + b);
        for (auto &b : bank)
            most = std::max(most, b.size());
        total += most;
    }
    return total;
}
void count(const void *p, size_t bytes, const void *pc, bool shared)
{
    fiber &f = B.f[B.cur];
    if (f.wide && p >= f.wide && p < f.wide + f.wide_bytes) { /* parts of one access */
        if (f.wide_seen) return;
        f.wide_seen = true;
        p = f.wide, bytes = f.wide_bytes;
    }
    if (bytes > 16) return;
    uint32_t n = B.f[B.cur].visits[(uintptr_t)pc]++;
    uint64_t key = ((uint64_t)(uintptr_t)pc << 24) ^ (uint64_t)n * 0x9e3779b97f4a7c15u ^
                   (uint64_t)(B.cur >> 5) << 56 ^ (uint64_t)B.block_no << 8;
    request &r = requests[key];
    r.shared = shared, r.bytes = (uint8_t)bytes, r.n++;
    r.at[B.cur & 31] =
        shared ? 256 + (uint64_t)((const char *)p - B.shared) : (uint64_t)(uintptr_t)p;
}
void count_up(const char *kernel, int threads, size_t shared)
{
    if (!opt.profile) return;
    for (auto &q : requests) {
        const request &r = q.second;
        std::set<uint64_t> sectors, words;
        if (r.shared) {
            running.shared_requests += std::max(1, r.n * r.bytes / 128);
            running.shared_passes += passes(r);
            continue;
        }
        for (uint64_t a : r.at)
            if (a) {
                for (uint64_t s = a / 32; s <= (a + r.bytes - 1) / 32; s++)
                    sectors.insert(s);
                words.insert(a);
            }
        running.requests++, running.sectors += sectors.size(),
            running.ideal_sectors += (words.size() * r.bytes + 31) / 32;
    }
    requests.clear();
    launches &all = by_kernel[{plain_name(kernel), threads, shared}];
    all.n++;
    for (traffic *t : {&sum, &all.t}) {
        t->requests += running.requests, t->sectors += running.sectors;
        t->ideal_sectors += running.ideal_sectors;
        t->shared_requests += running.shared_requests;
        t->shared_passes += running.shared_passes;
    }
    running = {};
}
void traffic_write(const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f) {
        perror(path);
        return;
    }
    for (auto &k : by_kernel) {
        const traffic &t = k.second.t;
        fprintf(f, "%s\t%ld\t%d\t%zu\t%llu\t%llu\t%llu\t%llu\t%llu\n",
                std::get<0>(k.first).c_str(), k.second.n, std::get<1>(k.first),
                std::get<2>(k.first), (unsigned long long)t.requests,
                (unsigned long long)t.sectors, (unsigned long long)t.ideal_sectors,
                (unsigned long long)t.shared_requests, (unsigned long long)t.shared_passes);
    }
    fclose(f);
}
traffic traffic_take()
{
    traffic t = sum;
    sum = {};
    return t;
}

void count_core(const char *const row[8])
{
    request r{true, 8, 16, {}};
    for (int i = 0; i < 8; i++)
        r.at[i] = 256 + (uint64_t)(row[i] - B.shared);
    running.shared_requests++, running.shared_passes += passes(r);
}
void ldmatrix_seen(void **lane)
{
    if (!opt.profile) return;
    for (int j = 0; j < 4;
         j++) { /* eight rows of 16 bytes: one pass each, if no bank is asked twice */
        const char *row[8];
        for (int i = 0; i < 8; i++)
            row[i] = (const char *)static_cast<ldm_arg *>(lane[8 * j + i])->row;
        count_core(row);
    }
}

} // namespace emu
