/* fake_cudart.cc: the runtime library of CUDA for machines without a device, with kernels on
 * the emulator. It is as strict as a device is only sometimes:
 *
 *   streams   work waits until somebody waits for it; streams take turns in an order that is
 *             drawn from MOEFW_FAKE_SEED. Work of two streams on the same bytes without an
 *             event between them is a finding
 *   copies    host memory must not change while a copy waits; the target of a copy to the host
 *             holds 0xa5 until the copy ran; the host cannot read memory of the device
 *   calls     call number MOEFW_FAKE_FAIL fails; kernel:N and gemm:N count only launches of
 *             kernels, or gemms of cuBLASLt, plugin:N launches of kernels of plugins, library:N
 *             what loads these. A finding makes the next wait fail
 * MOEFW_FAKE_STATS=1 prints at the end what was called; MOEFW_FAKE_LEAKS=1 what was not
 * freed, and the program then ends with 99. One thread at a time calls it. */
#include <cuda_runtime_api.h>

#include "emu.hh"
#include "fake.hh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unistd.h>

/* By stream: how many of its ops come before. */
typedef std::map<int, uint64_t> clocks;

struct CUevent_st {
    bool recorded = false, timed = false;
    int stream = 0;
    uint64_t number = 0; /* the event is done when the stream has done so many ops */
    CUstream_st *capture = nullptr;
};
struct work {
    std::string what;
    fake::op run;
    bool signals = false, waits = false;
    int on_stream = 0;
    uint64_t on_number = 0;
};
struct CUgraph_st {
    std::vector<work> ops;
};
struct CUgraphExec_st : CUgraph_st {};
struct CUstream_st {
    int id;
    std::vector<work> queue;
    uint64_t done = 0;
    clocks before;
    CUgraph_st *capture = nullptr;
    bool broken = false; /* a call that a capture does not allow came while it was open */
};
struct config {
    dim3 grid, block;
    size_t shared;
    void *stream;
};

static std::map<int, CUstream_st *> streams;
static std::set<void *> events, graphs, execs;
static std::map<char *, size_t> pinned;
static std::map<void *, size_t> blocks; /* of the device */
static size_t taken, most_taken;        /* bytes */
static std::map<const void *, std::string> kernels;
static std::vector<config> configs;
static std::vector<std::pair<int, uint64_t>>
    op_at(1); /* stream and number of each op that ran */
static std::map<std::pair<int, uint64_t>, clocks> clock_of;
static clocks now_before;
static int now_stream = -1, next_id;
static cudaError_t last;
static long calls, fail_at = -1;
static std::string fail_kind; /* "": each call counts */
static bool lost; /* a kernel has failed: nothing that is queued later runs, as on a GPU */
static uint64_t rng = 1;
static std::map<std::string, long> counts;

static uint64_t draw()
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return rng >> 11;
}
static cudaError_t give(int e)
{
    if (e != cudaSuccess) last = (cudaError_t)e;
    return (cudaError_t)e;
}

/* ---- life ---- */

static void report()
{
    const size_t left = emu::dev_live() + pinned.size() + events.size() + graphs.size() +
                        execs.size() + streams.size() - streams.count(0) +
                        fake::libraries_left();
    emu::dev_show(true);
    if (getenv("MOEFW_FAKE_STATS")) {
        fprintf(stderr, "fake runtime: calls %ld\n", calls);
        counts["bytes of the device at most"] = (long)most_taken;
        for (auto &c : counts)
            fprintf(stderr, "fake runtime: %s %ld\n", c.first.c_str(), c.second);
    }
    if (getenv("MOEFW_FAKE_LEAKS") && left > 0)
        fprintf(stderr,
                "fake runtime: left at the end: %zu blocks of the device, %zu of the host, %zu "
                "events, %zu graphs, %zu streams, %zu libraries\n",
                emu::dev_live(), pinned.size(), events.size(), graphs.size() + execs.size(),
                streams.size() - streams.count(0), fake::libraries_left());
    if (emu::findings() > 0) fprintf(stderr, "fake runtime: %d findings\n", emu::findings());
    if (emu::findings() > 0 || (getenv("MOEFW_FAKE_LEAKS") && left > 0)) {
        fflush(nullptr);
        _exit(99);
    }
    if (streams.count(0)) delete streams[0]; /* nobody destroys the usual stream */
    streams.erase(0);
}
static bool before(uint32_t op)
{
    const auto at = op_at[op];
    return at.first == now_stream || now_before[at.first] >= at.second;
}
/* Counts a call. True: it is the one that has to fail. */
static bool fails_now(const char *kind)
{
    static long of_kind;
    calls++;
    if (!fail_kind.empty() && fail_kind != (kind ? kind : "")) return false;
    return (fail_kind.empty() ? calls : ++of_kind) == fail_at;
}
static void queued(void *stream, const char *name, std::function<void()> launch)
{
    counts["kernels"]++, lost |= fails_now("kernel");
    (void)give(lost ? (int)cudaErrorLaunchFailure
                    : fake::enqueue(stream, name, std::move(launch)));
}
static int number(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value && *value ? atoi(value) : otherwise;
}
static void begin()
{
    static bool done;
    if (done) return;
    done = true;
    if (const char *fail = getenv("MOEFW_FAKE_FAIL")) {
        const char *colon = strchr(fail, ':');
        if (colon) fail_kind.assign(fail, colon);
        fail_at = atol(colon ? colon + 1 : fail);
    }
    rng = (uint64_t)number("MOEFW_FAKE_SEED", 0) * 2654435761u + 1;
    emu::opt.order = number("MOEFW_EMU_ORDER", 2);
    emu::opt.seed = (uint64_t)number("MOEFW_EMU_SEED", 1);
    emu::opt.hide = true;
    emu::ordered = before;
    emu::queue = queued;
    atexit(report);
}
/* Opens each call. True: it is the one that has to fail. */
static bool enter(const char *kind = nullptr)
{
    begin();
    return fails_now(kind);
}
static bool capturing()
{
    bool any = false;
    for (auto &s : streams)
        if (s.second->capture) any = s.second->broken = true;
    return any;
}

/* ---- streams ---- */

static CUstream_st *stream_of(void *s)
{
    if (!streams.count(0)) streams[0] = new CUstream_st{0, {}, 0, {}, nullptr, false};
    if (!s) return streams[0];
    for (auto &t : streams)
        if (t.second == s) return t.second;
    emu::finding("stream", "a stream that does not exist");
    return nullptr;
}
static void join(clocks &a, const clocks &b)
{
    for (auto &c : b)
        if (a[c.first] < c.second) a[c.first] = c.second;
}
static bool may_run(const CUstream_st *s)
{
    if (s->queue.empty()) return false;
    const work &w = s->queue.front();
    return !w.waits || !streams.count(w.on_stream) || streams[w.on_stream]->done >= w.on_number;
}
static void step(CUstream_st *s)
{
    work w = std::move(s->queue.front());
    s->queue.erase(s->queue.begin());
    s->done++;
    if (w.waits) {
        join(s->before, clock_of[{w.on_stream, w.on_number}]);
        s->before[w.on_stream] = std::max(s->before[w.on_stream], w.on_number);
    }
    if (w.run) {
        now_stream = s->id, now_before = s->before;
        op_at.push_back({s->id, s->done});
        emu::next_launch = (uint32_t)op_at.size() - 1;
        w.run();
        now_stream = -1;
    }
    if (w.signals) clock_of[{s->id, s->done}] = s->before;
}
/* Runs until stream s (NULL: each stream) has done `until` ops; others go on by chance. */
static void drain(CUstream_st *s, uint64_t until)
{
    emu::dev_show(true); /* once for all ops: it takes long */
    for (;;) {
        bool all = true;
        std::vector<CUstream_st *> can;
        for (auto &t : streams) {
            if (!t.second->queue.empty()) all = false;
            if (may_run(t.second)) can.push_back(t.second);
        }
        if (s ? s->done >= until : all) break;
        if (can.empty()) {
            emu::finding("stream", "streams wait for each other");
            break;
        }
        step(can[draw() % can.size()]);
    }
    emu::dev_show(false);
    for (auto &t : streams) /* what follows was queued by a host that has seen the end */
        for (auto &u : streams)
            if (!s || u.second == s) t.second->before[u.first] = u.second->done;
}
static cudaError_t wait_for(CUstream_st *s)
{
    if (capturing()) return give(cudaErrorStreamCaptureUnsupported);
    counts["waits"]++;
    drain(s, s ? s->done + s->queue.size() : 0);
    return give(emu::findings() > 0 ? cudaErrorLaunchFailure : cudaSuccess);
}
static int push(CUstream_st *s, work w)
{
    if (!s) return cudaErrorInvalidResourceHandle;
    (s->capture ? s->capture->ops : s->queue).push_back(std::move(w));
    if (!s->capture && draw() % 16 == 0) {
        emu::dev_show(true);
        for (uint64_t n = draw() % 8; n > 0 && may_run(s); n--)
            step(s);
        emu::dev_show(false);
    }
    return cudaSuccess;
}

namespace fake {
int enqueue(void *stream, const char *what, op f)
{
    work w;
    if (strcmp(what, "cublasLtMatmul") == 0) counts["gemms of cuBLASLt"]++;
    w.what = what;
    if (!lost) w.run = std::move(f);
    return push(stream_of(stream), std::move(w));
}
bool is_device(const void *p, size_t n)
{
    return emu::dev_has(p, n);
}
void reads(const void *p, size_t n, const char *what)
{
    if (!emu::dev_has(p, n))
        emu::finding("bounds", "%s reads %zu bytes that are no block of the device", what, n);
    else
        emu::dev_touch((void *)p, n, false);
}
void writes(void *p, size_t n, const char *what)
{
    if (!emu::dev_has(p, n))
        emu::finding("bounds", "%s writes %zu bytes that are no block of the device", what, n);
    else
        emu::dev_touch(p, n, true);
}
bool fails(const char *kind)
{
    return enter(kind);
}
int give(int error)
{
    return ::give(error);
}
void finish()
{
    drain(nullptr, 0);
}
void count(const char *what)
{
    counts[what]++;
}
void all_written()
{
    for (auto &b : blocks)
        emu::dev_mark_written(b.first, b.second);
}
} // namespace fake

/* The start of the pinned block that holds p; NULL: there is none. */
static char *pin_of(const void *p)
{
    auto i = pinned.upper_bound((char *)p);
    if (i == pinned.begin()) return nullptr;
    --i;
    return (char *)p < i->first + i->second ? i->first : nullptr;
}

static cudaError_t upload(void *to, const void *from, size_t n, cudaStream_t s)
{
    const bool is_pinned = pin_of(from) != nullptr, recorded = stream_of(s)->capture != nullptr;
    if (!is_pinned && recorded) {
        stream_of(s)->broken = true;
        return give(cudaErrorStreamCaptureUnsupported);
    }
    auto then = std::make_shared<std::string>((const char *)from, recorded ? 0 : n);
    return give(fake::enqueue(s, "upload", [=] {
        if (is_pinned && !recorded && memcmp(then->data(), from, n) != 0)
            emu::finding("staging", "host memory changed while a copy of %zu bytes waited", n);
        fake::writes(to, n, "upload");
        memcpy(to, is_pinned ? from : then->data(), n);
    }));
}
static cudaError_t download(void *to, const void *from, size_t n, cudaStream_t s)
{
    if (!stream_of(s)->capture) memset(to, 0xa5, n);
    const int e = fake::enqueue(s, "download", [=] {
        fake::reads(from, n, "download");
        memcpy(to, from, n);
    });
    CUstream_st *t = stream_of(s);
    if (!pin_of(to) && !t->capture) drain(t, t->done + t->queue.size());
    return give(e);
}

extern "C" {
/* ---- device ---- */
cudaError_t cudaGetDeviceCount(int *n)
{
    if (enter()) return give(cudaErrorNoDevice);
    *n = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int d)
{
    if (enter()) return give(cudaErrorInvalidDevice);
    return give(d == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int)
{
    if (enter()) return give(cudaErrorInvalidDevice);
    /* only the name: host code that CUDA's header compiled has less room for the rest */
    const char *name = getenv("MOEFW_FAKE_NAME");
    snprintf(p->name, sizeof p->name, "%s", name ? name : "emulator of moefw");
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *v, enum cudaDeviceAttr a, int)
{
    const int arch = number("MOEFW_EMU_ARCH", 80);
    if (enter()) return give(cudaErrorInvalidValue);
    *v = a == cudaDevAttrMultiProcessorCount            ? number("MOEFW_FAKE_PROCESSORS", 4)
         : a == cudaDevAttrClockRate                    ? number("MOEFW_FAKE_KHZ", 0)
         : a == cudaDevAttrComputeCapabilityMajor       ? arch / 10
         : a == cudaDevAttrComputeCapabilityMinor       ? arch % 10
         : a == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 227 << 10
                                                        : 0;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *v)
{
    *v = number("MOEFW_FAKE_DRIVER", CUDART_VERSION); /* without a driver CUDA says 0 */
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *v)
{
    *v = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *f, size_t *t)
{
    if (enter()) return give(cudaErrorInvalidValue);
    *t = (size_t)number("MOEFW_FAKE_MIB", 8192) << 20;
    *f = taken < *t ? *t - taken : 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    if (enter()) return give(cudaErrorLaunchFailure);
    return wait_for(nullptr);
}
cudaError_t cudaGetLastError(void)
{
    const cudaError_t e = last;
    last = cudaSuccess;
    return e;
}
const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorMemoryAllocation ? "out of memory"
           : e                            ? "an error of the fake runtime"
                                          : "no error";
}

/* ---- memory ---- */
cudaError_t cudaMalloc(void **p, size_t n)
{
    *p = nullptr;
    if (enter()) return give(cudaErrorMemoryAllocation);
    if (capturing()) return give(cudaErrorStreamCaptureUnsupported);
    if (taken + n > (size_t)number("MOEFW_FAKE_MIB", 8192) << 20)
        return give(cudaErrorMemoryAllocation);
    counts["allocations"]++;
    *p = n ? emu::dev_alloc(n) : nullptr;
    if (*p) blocks[*p] = n, taken += n, most_taken = std::max(most_taken, taken);
    return give(*p || !n ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void *p)
{
    begin();
    if (capturing()) return give(cudaErrorStreamCaptureUnsupported);
    if (!p) return cudaSuccess;
    drain(nullptr, 0);
    taken -= blocks[p], blocks.erase(p);
    emu::dev_free(p);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned)
{
    *p = nullptr;
    if (enter()) return give(cudaErrorMemoryAllocation);
    *p = aligned_alloc(4096, (n + 4096) / 4096 * 4096);
    if (!*p) return give(cudaErrorMemoryAllocation);
    memset(*p, 0xa5, n);
    pinned[(char *)*p] = n;
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *p)
{
    begin();
    if (!p) return cudaSuccess;
    drain(nullptr, 0);
    if (!pinned.erase((char *)p)) emu::finding("free", "not pinned memory");
    free(p);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s)
{
    if (enter()) return give(cudaErrorInvalidValue);
    counts["fills"]++;
    return give(fake::enqueue(s, "fill", [=] {
        fake::writes(p, n, "fill");
        memset(p, v, n);
    }));
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    if (enter()) return give(cudaErrorInvalidValue);
    const bool to_device = emu::dev_has(to, n), from_device = emu::dev_has(from, n);
    if (!stream_of(s)) return give(cudaErrorInvalidResourceHandle);
    if (kind != (to_device && from_device ? cudaMemcpyDeviceToDevice
                 : to_device              ? cudaMemcpyHostToDevice
                                          : cudaMemcpyDeviceToHost))
        return give(cudaErrorInvalidValue);
    counts[to_device && from_device ? "copies within"
           : to_device              ? "copies to"
                                    : "copies from"]++;
    if (to_device && from_device)
        return give(fake::enqueue(s, "copy", [=] {
            fake::reads(from, n, "copy");
            fake::writes(to, n, "copy");
            memmove(to, from, n);
        }));
    if (to_device) return upload(to, from, n, s);
    if (from_device) return download(to, from, n, s);
    emu::finding("copy", "neither side is (wholly) memory of the device");
    return give(cudaErrorInvalidValue);
}

/* ---- streams, events ---- */
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = nullptr;
    if (enter()) return give(cudaErrorMemoryAllocation);
    *s = new CUstream_st{++next_id, {}, 0, {}, nullptr, false};
    streams[next_id] = *s;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    begin();
    CUstream_st *t = stream_of(s);
    if (!t) return give(cudaErrorInvalidResourceHandle);
    drain(t, t->done + t->queue.size());
    streams.erase(t->id);
    delete t;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    if (enter()) return give(cudaErrorLaunchFailure);
    CUstream_st *t = stream_of(s);
    return t ? wait_for(t) : give(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    *e = nullptr;
    if (enter()) return give(cudaErrorMemoryAllocation);
    events.insert(*e = new CUevent_st);
    (*e)->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    begin();
    if (!events.erase(e)) {
        emu::finding("event", "destroyed twice");
        return give(cudaErrorInvalidResourceHandle);
    }
    delete e;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    if (enter()) return give(cudaErrorInvalidResourceHandle);
    CUstream_st *t = stream_of(s);
    if (!t) return give(cudaErrorInvalidResourceHandle);
    work w;
    w.what = "record", w.signals = true;
    e->recorded = true, e->stream = t->id, e->number = t->done + t->queue.size() + 1;
    e->capture = t->capture ? t : nullptr;
    return give(push(t, std::move(w)));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    if (enter()) return give(cudaErrorInvalidResourceHandle);
    CUstream_st *t = stream_of(s);
    if (!t) return give(cudaErrorInvalidResourceHandle);
    if (!e->recorded) return cudaSuccess;
    /* A stream that waits for a captured one joins the capture, which runs in one line. */
    if (e->capture && !t->capture) t->capture = e->capture->capture;
    if (t->capture) return cudaSuccess;
    work w;
    w.what = "wait", w.waits = true, w.on_stream = e->stream, w.on_number = e->number;
    return give(push(t, std::move(w)));
}
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    if (enter()) return give(cudaErrorLaunchFailure);
    if (capturing()) return give(cudaErrorStreamCaptureUnsupported);
    counts["waits"]++;
    if (e->recorded && streams.count(e->stream)) drain(streams[e->stream], e->number);
    return give(emu::findings() > 0 ? cudaErrorLaunchFailure : cudaSuccess);
}
/* A millisecond for each op between them. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    const bool timed = from->timed && to->timed && from->recorded && to->recorded;
    if (enter() || !timed || from->stream != to->stream || !streams.count(to->stream))
        return give(cudaErrorInvalidResourceHandle);
    *ms = (float)(to->number - from->number);
    return give(streams[to->stream]->done < to->number ? cudaErrorNotReady : cudaSuccess);
}

/* ---- graphs ---- */
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode)
{
    if (enter()) return give(cudaErrorMemoryAllocation);
    CUstream_st *t = stream_of(s);
    if (!t || t->id == 0 || t->capture) return give(cudaErrorStreamCaptureUnsupported);
    t->capture = new CUgraph_st;
    t->broken = false;
    return cudaSuccess;
}
/* Ends the capture even if the call fails, as the library does. */
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    const bool fail = enter();
    CUstream_st *t = stream_of(s);
    CUgraph_st *c = t ? t->capture : nullptr;
    bool broken = false;
    *g = nullptr;
    if (!c) return give(cudaErrorIllegalState);
    for (auto &u : streams)
        if (u.second->capture == c) {
            u.second->capture = nullptr;
            broken |= u.second->broken;
            u.second->broken = false;
        }
    if (broken || fail) {
        delete c;
        return give(fail ? cudaErrorMemoryAllocation : cudaErrorStreamCaptureInvalidated);
    }
    graphs.insert(*g = c);
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long)
{
    *x = nullptr;
    if (enter()) return give(cudaErrorMemoryAllocation);
    execs.insert(*x = new CUgraphExec_st{{g->ops}});
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s)
{
    if (enter()) return give(cudaErrorLaunchFailure);
    if (!stream_of(s)) return give(cudaErrorInvalidResourceHandle);
    counts["graph launches"]++;
    for (auto &w : x->ops)
        if (w.run) {
            work v;
            v.what = w.what, v.run = w.run;
            push(stream_of(s), std::move(v));
        }
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    begin();
    if (!graphs.erase(g)) emu::finding("graph", "destroyed twice");
    delete g;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x)
{
    begin();
    drain(nullptr, 0);
    if (!execs.erase(x)) emu::finding("graph", "destroyed twice");
    delete x;
    return cudaSuccess;
}

/* ---- what code made by nvcc calls to launch kernels ---- */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st *stream)
{
    configs.push_back({grid, block, shared, stream});
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    const config c = configs.back();
    configs.pop_back();
    *grid = c.grid, *block = c.block, *shared = c.shared, *(void **)stream = c.stream;
    return cudaSuccess;
}
void __cudaRegisterFunction(void **, const char *host, char *, const char *name, int, void *,
                            void *, void *, void *, int *)
{
    kernels[host] = name;
}
cudaError_t __cudaGetKernel(void **kernel, const void *host)
{
    *kernel = (void *)host;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute, int value)
{
    if (enter(fake::has_kernel(host) ? "library" : nullptr)) return give(cudaErrorInvalidValue);
    if (fake::has_kernel(host)) fake::permit(host, (size_t)value);
    return give((kernels.count(host) || fake::has_kernel(host)) && value <= 227 << 10
                    ? cudaSuccess
                    : cudaErrorInvalidValue);
}
/* The kernel as an ordinary compiler made it, from the library that MOEFW_FAKE_TWINS names. */
static const emu::twin *twin_of(const std::string &name)
{
    static std::map<std::string, const emu::twin *> known;
    if (known.empty()) {
        const char *path = getenv("MOEFW_FAKE_TWINS");
        if (!dlopen(path ? path : "libtwins.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND))
            fprintf(stderr, "fake runtime: %s\n", dlerror());
        for (auto &t : emu::twins()) {
            Dl_info at{};
            if (dladdr(t.kernel, &at) && at.dli_sname) known[at.dli_sname] = &t;
        }
    }
    return known.count(name) ? known[name] : nullptr;
}
cudaError_t __cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t s)
{
    const emu::twin *t = kernels.count(host) ? twin_of(kernels[host]) : nullptr;
    if (enter("kernel")) return give(cudaErrorLaunchFailure);
    if (!t) emu::finding("kernel", "%s has no twin", kernels[host].c_str());
    if (!t) return give(cudaErrorInvalidValue);
    counts["kernels"]++;
    return give(fake::enqueue(s, kernels[host].c_str(), t->bind(args, grid, block, shared)));
}
} // extern "C"
