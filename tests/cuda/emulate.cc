/* emulate.cc: the program with which `make emulate` of a plugin runs its kernels without a GPU.
 *
 *     run ./PLUGIN.so [TOLERANCE]
 *
 * For each example of the plugin (mf_plugin.examples) whose op has code for cuda, made by an
 * ordinary C++ compiler: computes values and gradients on the host, and by the kernels on the
 * emulator, in three orders of the threads; compares them (whole numbers exactly, others up to
 * TOLERANCE (1 + |value|), 1e-5), and fails for whatever the emulator finds. Each tensor is a
 * block of its own, so every access beside one is found.
 *
 * It needs the public headers and the emulator's files, which it includes as one. */
#include "emu.cc"
#include "judge.cc"
#include "late.cc"
#include "traffic.cc"

#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <elf.h>
#include <memory>
#include <moefw/moefw.h>
#include <unistd.h>

typedef void (*kernel_fn)(mf_kernel_args);

static double tolerance = 1e-5;
static int failures;

__attribute__((format(printf, 2, 3))) static void fail(const mf_op_example &e, const char *fmt,
                                                       ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("not ok - %s: ", e.op->name);
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    failures++;
}

/* ---- what an op's functions get on the host ---- */

static char refusal[512];
static int refuse_shapes(const mf_infer *, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(refusal, sizeof refusal, fmt, ap);
    va_end(ap);
    return MF_ESHAPE;
}
static int refuse_call(const mf_call *, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(refusal, sizeof refusal, fmt, ap);
    va_end(ap);
    return code;
}
static void one_by_one(const mf_exec *, int64_t tiles, void (*fn)(void *arg, int64_t tile),
                       void *arg)
{
    for (int64_t t = 0; t < tiles; t++)
        fn(arg, t);
}
static const mf_exec host_exec = [] {
    mf_exec x{};
    x.size = sizeof x, x.training = 1, x.parallel = one_by_one;
    return x;
}();

/* ---- tensors ---- */

struct tensor {
    mf_view view{}; /* shape and type; data is NULL */
    std::vector<char> host;
    bool there = false;
};
static size_t bytes_of(const mf_view &v)
{
    return (size_t)mf_shape_count(v.shape) * (v.dtype == MF_BF16 ? 2
                                              : v.dtype == MF_U8 ? 1
                                                                 : 4);
}
static tensor make(const mf_view &like, bool there)
{
    tensor t;
    t.view = like, t.view.data = nullptr, t.there = there && like.shape.rank >= 0;
    if (t.there) t.host.resize(bytes_of(like));
    return t;
}
static uint64_t drawn = 1;
static double draw_from(double lo, double hi)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return lo + (hi - lo) * (double)(drawn >> 11) * 0x1p-53;
}
static void fill(tensor &t, double lo, double hi)
{
    const int64_t n = t.there ? mf_shape_count(t.view.shape) : 0;
    for (int64_t i = 0; i < n; i++)
        if (t.view.dtype == MF_I32)
            ((int32_t *)t.host.data())[i] =
                (int32_t)(lo + std::floor(draw_from(0, hi - lo + 1)));
        else
            ((float *)t.host.data())[i] = (float)draw_from(lo, hi);
}

/* One call of a function of the op, or of its kernels. */
struct work {
    const mf_op_example *e;
    std::vector<tensor> in, out;
    size_t bytes; /* of scratch memory */
    bool backward;
};

static mf_call call_of(const work &w, std::vector<mf_view> &views)
{
    mf_call c{};
    c.size = sizeof c, c.n_in = (int32_t)w.in.size(), c.n_out = (int32_t)w.out.size();
    c.attr = &w.e->attr, c.user = w.e->op->user, c.stream = 7, c.exec = &host_exec;
    c.fail = refuse_call;
    views.clear();
    for (auto *list : {&w.in, &w.out})
        for (auto &t : *list)
            views.push_back(t.view);
    c.in = views.data(), c.out = views.data() + w.in.size();
    return c;
}

/* Computes w.out on the host. */
static bool on_host(work &w)
{
    std::vector<mf_view> views;
    mf_call c = call_of(w, views);
    std::vector<char> scratch(w.bytes + 64);
    size_t i = 0;
    for (auto *list : {&w.in, &w.out})
        for (auto &t : *list)
            views[i++].data = t.there ? t.host.data() : nullptr;
    c.work = (void *)(((uintptr_t)scratch.data() + 63) & ~(uintptr_t)63);
    const int rc = w.backward ? w.e->op->backward(&c) : w.e->op->forward(&c);
    if (rc != MF_OK) fail(*w.e, "on the host: status %d: %s", rc, refusal);
    return rc == MF_OK;
}

static bool launch_all(const work &w, const mf_device_kernel *list, void *twins,
                       const mf_call &c, mf_kernel_args args)
{
    for (const mf_device_kernel *k = list; k->name;
         k = (const mf_device_kernel *)((const char *)k + k->size)) {
        mf_kernel_launch l{};
        l.size = sizeof l, l.attr = w.e->attr;
        for (int i = 0; i < 3; i++)
            l.grid[i] = l.block[i] = 1;
        const int rc = k->launch(&c, &l);
        kernel_fn fn = (kernel_fn)dlsym(twins, k->name);
        if (rc != MF_OK) fail(*w.e, "launch of %s: status %d: %s", k->name, rc, refusal);
        if (!fn) fail(*w.e, "its image has no kernel %s (MF_DEVICE_KERNEL)", k->name);
        if (rc != MF_OK || !fn) return false;
        if (l.grid[0] == 0 || l.grid[1] == 0 || l.grid[2] == 0) continue;
        args.attr = l.attr;
        emu::launch(k->name, dim3(l.grid[0], l.grid[1], l.grid[2]),
                    dim3(l.block[0], l.block[1], l.block[2]), l.shared_bytes,
                    [=] { fn(args); });
    }
    return true;
}

/* Computes the outputs by kernels; ret has them. */
static bool on_emulator(const work &w, const mf_device_kernel *list, void *twins,
                        std::vector<std::vector<char>> &ret)
{
    std::vector<mf_view> views;
    std::vector<void *> blocks;
    mf_call c = call_of(w, views);
    mf_kernel_args args{};
    static int32_t none = 0;
    int32_t *fault = (int32_t *)emu::dev_alloc(sizeof *fault);
    blocks.push_back(fault);
    memcpy(fault, &none, sizeof none), emu::dev_mark_written(fault, sizeof none);
    size_t i = 0;
    for (auto *side : {&w.in, &w.out})
        for (auto &t : *side) {
            void *p = t.there ? emu::dev_alloc(t.host.size()) : nullptr;
            if (p) blocks.push_back(p);
            if (p && side == &w.in) {
                memcpy(p, t.host.data(), t.host.size());
                emu::dev_mark_written(p, t.host.size());
            }
            views[i++].data = p;
        }
    if (w.bytes > 0) blocks.push_back(c.work = emu::dev_alloc(w.bytes));
    args.size = sizeof args, args.n_in = c.n_in, args.n_out = c.n_out;
    args.work = c.work, args.fault = fault;
    memcpy(args.in, c.in, (size_t)c.n_in * sizeof *args.in);
    memcpy(args.out, c.out, (size_t)c.n_out * sizeof *args.out);
    const bool done = launch_all(w, list, twins, c, args);
    ret.clear();
    for (i = 0; i < w.out.size(); i++) {
        const char *p = (const char *)c.out[i].data;
        ret.emplace_back(p ? std::vector<char>(p, p + w.out[i].host.size())
                           : std::vector<char>());
    }
    for (void *p : blocks)
        emu::dev_free(p);
    return done;
}

static bool same(const work &w, const std::vector<std::vector<char>> &device, double &worst)
{
    for (size_t i = 0; i < w.out.size(); i++) {
        const tensor &t = w.out[i];
        const int64_t n = t.there ? mf_shape_count(t.view.shape) : 0;
        for (int64_t k = 0; k < n; k++) {
            const bool whole = t.view.dtype == MF_I32;
            const double a = whole ? ((const int32_t *)t.host.data())[k]
                                   : (double)((const float *)t.host.data())[k];
            const double b = whole ? ((const int32_t *)device[i].data())[k]
                                   : (double)((const float *)device[i].data())[k];
            const double off =
                whole ? (a == b ? 0 : 2) : std::fabs(a - b) / (tolerance * (1 + std::fabs(a)));
            if (!(off <= 1) && !(std::isnan(a) && std::isnan(b))) {
                fail(*w.e,
                     "%s: element %" PRId64
                     " of %s %zu: expected %.9g as on the host, found %.9g",
                     w.backward ? "backward" : "forward", k, w.backward ? "gradient" : "output",
                     i, a, b);
                return false;
            }
            if (off > worst) worst = off;
        }
    }
    return true;
}

static bool run_all(work &w, const mf_device_kernel *list, void *twins)
{
    const int failed = failures;
    double worst = 0;
    if (!on_host(w)) return false;
    for (int order = 0; order < 4 && failures == failed; order++) {
        std::vector<std::vector<char>> found;
        emu::opt.order = order < 3 ? order : 2;
        emu::opt.seed = (uint64_t)order + 1;
        const bool done = on_emulator(w, list, twins, found);
        if (emu::findings() > 0) {
            fail(*w.e, "%s: the emulator has %d findings, the first of each sort above",
                 w.backward ? "backward" : "forward", emu::findings());
            emu::forget();
        } else if (done)
            (void)same(w, found, worst);
    }
    if (failures == failed)
        printf("ok - %s: %s as on the host, worst difference %.2f of what is tolerated\n",
               w.e->op->name, w.backward ? "backward" : "forward", worst);
    return failures == failed;
}

/* ---- examples ---- */

static void *load_twins(const mf_op_example &e, const mf_device_code *code)
{
    static std::map<const void *, void *> known;
    const char *image = (const char *)code->image;
    const size_t bytes = (size_t)((const char *)code->image_end - image);
    if (known.count(image)) return known[image];
    if (bytes < SELFMAG || memcmp(image, ELFMAG, SELFMAG) != 0) {
        fail(e, "its image is not for the emulator; build it as `make emulate` does");
        return nullptr;
    }
    char path[] = "/tmp/moefw-emulate-XXXXXX";
    const int fd = mkstemp(path);
    if (fd < 0 || write(fd, image, bytes) != (ssize_t)bytes) {
        fail(e, "%s: cannot write the image", path);
        return nullptr;
    }
    close(fd);
    void *twins = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!twins) fail(e, "%s", dlerror());
    static std::vector<std::string> paths; /* findings read lines from it until the end */
    if (paths.empty())
        atexit([] {
            for (auto &p : paths)
                unlink(p.c_str());
        });
    paths.push_back(path);
    return known[image] = twins;
}

/* The outputs' shapes, and the bytes of scratch memory of both passes. */
static bool infer(const mf_op_example &e, std::vector<mf_view> &in, std::vector<mf_view> &out,
                  size_t &forward, size_t &backward)
{
    mf_infer f{};
    in.assign((size_t)e.n_in, mf_view{});
    out.assign(MF_OP_MAX_OUT, mf_view{});
    for (int i = 0; i < e.n_in; i++)
        in[(size_t)i].shape = e.shape[i], in[(size_t)i].dtype = e.dtype[i];
    f.size = sizeof f, f.n_in = e.n_in, f.in = in.data(), f.out = out.data(), f.attr = &e.attr;
    f.user = e.op->user, f.fail = refuse_shapes;
    if (e.op->infer(&f) != MF_OK) {
        fail(e, "its shapes are refused: %s", refusal);
        return false;
    }
    out.resize((size_t)f.n_out);
    forward = f.work_bytes, backward = f.backward_work_bytes;
    return true;
}

static bool example(const mf_op_example &e, const mf_device_code *code)
{
    std::vector<mf_view> in, out;
    size_t work_bytes = 0, backward_bytes = 0;
    const mf_opdef *op = e.op;
    void *twins = load_twins(e, code);
    if (!twins || !infer(e, in, out, work_bytes, backward_bytes)) return false;
    work f{&e, {}, {}, work_bytes, false}, b{&e, {}, {}, backward_bytes, true};
    for (int i = 0; i < e.n_in; i++) {
        const bool given = e.lo[i] != 0 || e.hi[i] != 0;
        f.in.push_back(make(in[(size_t)i], true));
        fill(f.in.back(), given ? e.lo[i] : -2, given ? e.hi[i] : 2);
    }
    for (auto &v : out)
        f.out.push_back(make(v, true));
    if (op->flags & MF_OP_STATE) {
        printf("skipped - %s: an op in place (MF_OP_STATE)\n", op->name);
        return true;
    }
    if (!run_all(f, code->forward, twins)) return false;
    if (!op->backward || op->flags & MF_OP_NO_GRAD) return true;
    for (int i = 0; i < e.n_in; i++) {
        const bool read = op->backward_in >> i & 1u;
        b.in.push_back(make(in[(size_t)i], read));
        if (read) b.in.back().host = f.in[(size_t)i].host;
        b.out.push_back(make(in[(size_t)i], e.dtype[i] == MF_F32 && (op->diff_in >> i & 1u)));
    }
    for (size_t i = 0; i < out.size(); i++) {
        const bool read = op->backward_out >> i & 1u;
        b.in.push_back(make(out[i], read));
        if (read) b.in.back().host = f.out[i].host;
    }
    for (auto &v : out) {
        b.in.push_back(make(v, v.dtype == MF_F32));
        fill(b.in.back(), -0.5, 0.5);
    }
    return run_all(b, code->backward, twins);
}

static const mf_device_code *code_of(const mf_opdef *op)
{
    if (!MF_HAS(op, mf_opdef, launch)) return nullptr;
    for (const mf_device_op *l = op->launch; l && l->device;
         l = (const mf_device_op *)((const char *)l + l->size))
        if (strcmp(l->device, "cuda") == 0 && MF_HAS(l, mf_device_op, code)) return l->code;
    return nullptr;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (argc < 2) {
        fprintf(stderr, "usage: %s ./PLUGIN.so [TOLERANCE]\n", argv[0]);
        return 2;
    }
    if (argc > 2) tolerance = atof(argv[2]);
    void *file = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    const mf_plugin *p = file ? (const mf_plugin *)dlsym(file, "moefw_plugin") : nullptr;
    if (!p || p->magic != MF_MAGIC || p->abi != MF_ABI || p->size < sizeof *p) {
        fprintf(stderr, "%s: %s\n", argv[1], file ? "no plugin of these headers" : dlerror());
        return 2;
    }
    int n = 0;
    for (int32_t i = 0; i < p->n_examples; i++) {
        const mf_op_example &e =
            *(const mf_op_example *)((const char *)p->examples + (size_t)i * p->examples->size);
        const mf_device_code *code = code_of(e.op);
        if (code) n++, (void)example(e, code);
    }
    if (n == 0) printf("not ok - no example's op has code for cuda\n");
    return n == 0 || failures > 0;
}
