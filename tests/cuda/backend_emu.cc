/* backend_emu.cc: the emulator as a device: CUDA's kernels, made by an ordinary C++ compiler,
 * on a CPU, with every access judged. Work is done when it is queued. A finding of the
 * emulator is an error of the next wait.
 *
 * MOEFW_EMU_ORDER=0|1|2 (rising, falling, drawn) and MOEFW_EMU_SEED decide in which order
 * threads run; MOEFW_EMU_PREEMPT=1 lets them change between any two accesses. MOEFW_EMU_ARCH is
 * the compute capability, 80 or 90: some kernels are for one alone. MOEFW_EMU_PROFILE=FILE
 * writes the traffic of memory by kernel when the device is closed. */
#include <cstdio>
#include <cstdlib>

#include <moefw/version.h>
#include "graph/device/device.h"
#include "kernels/cuda/launch.h"
#include "emu.hh"

static char text[256];

static const char *message(mf_device *)
{
    return text;
}

/* ---- memory ---- */

static int alloc(mf_device *, size_t bytes, void **ret)
{
    *ret = emu::dev_alloc(bytes);
    if (*ret) return MF_OK;
    snprintf(text, sizeof text, "no memory for %zu bytes", bytes);
    return MF_ENOMEM;
}
static void free_block(mf_device *, void *block)
{
    if (block) emu::dev_free(block);
}
static int alloc_host(mf_device *, size_t bytes, void **ret)
{
    *ret = aligned_alloc(64, (bytes + 64) / 64 * 64);
    return *ret ? MF_OK : MF_ENOMEM;
}
static void free_host(mf_device *, void *block)
{
    free(block);
}
static int memory(mf_device *, size_t *ret_free, size_t *ret_total)
{
    *ret_free = *ret_total = (size_t)1 << 30;
    return MF_OK;
}

static int refuse(const char *what)
{
    snprintf(text, sizeof text, "%s: not memory of the device", what);
    return MF_ERUN;
}
static int write_to(mf_device *, void *, void *to, const void *from, size_t bytes)
{
    if (!emu::dev_has(to, bytes) || emu::dev_has(from, bytes))
        return refuse("a copy to the device");
    emu::dev_show(true);
    memcpy(to, from, bytes);
    emu::dev_mark_written(to, bytes);
    emu::dev_show(false);
    return MF_OK;
}
static int read_from(mf_device *, void *, void *to, const void *from, size_t bytes)
{
    if (!emu::dev_has(from, bytes) || emu::dev_has(to, bytes))
        return refuse("a copy to the host");
    emu::dev_show(true);
    memcpy(to, from, bytes);
    emu::dev_show(false);
    return MF_OK;
}
static int copy(mf_device *, void *, void *to, const void *from, size_t bytes)
{
    if (!emu::dev_has(from, bytes) || !emu::dev_has(to, bytes)) return refuse("a copy");
    emu::dev_show(true);
    memmove(to, from, bytes);
    emu::dev_mark_written(to, bytes);
    emu::dev_show(false);
    return MF_OK;
}
static int fill(mf_device *, void *, void *to, int byte, size_t bytes)
{
    if (!emu::dev_has(to, bytes)) return refuse("a fill");
    emu::dev_show(true);
    memset(to, byte, bytes);
    emu::dev_mark_written(to, bytes);
    emu::dev_show(false);
    return MF_OK;
}

/* ---- streams and events: nothing is ever open ---- */

static int make(mf_device *, void **ret)
{
    *ret = malloc(1);
    return *ret ? MF_OK : MF_ENOMEM;
}
static void drop(mf_device *, void *what)
{
    free(what);
}
static int nothing(mf_device *, void *, void *)
{
    return MF_OK;
}
static int wait_for(mf_device *, void *)
{
    if (emu::findings() == 0) return MF_OK;
    snprintf(text, sizeof text, "the emulator has %d findings", emu::findings());
    return MF_ERUN;
}

static void close_device(mf_device *)
{
    const char *path = getenv("MOEFW_EMU_PROFILE");
    if (path && *path) emu::traffic_write(path);
}

static const mf_device_ops ops = {
    .size = sizeof ops,
    .flags = MF_DEVICE_BF16_ATTENTION,
    .name = "emu",
    .close = close_device,
    .message = message,
    .alloc = alloc,
    .free = free_block,
    .alloc_host = alloc_host,
    .free_host = free_host,
    .memory = memory,
    .write = write_to,
    .read = read_from,
    .copy = copy,
    .fill = fill,
    .stream_new = make,
    .stream_free = drop,
    .event_new = make,
    .event_free = drop,
    .event_record = nothing,
    .stream_wait = nothing,
    .event_wait = wait_for,
    .synchronize = wait_for,
    .kernels_like = NULL,
    .record_begin = NULL, /* steps are queued each time */
    .record_end = NULL,
    .replay = NULL,
    .recording_free = NULL,
    .code_load = NULL, /* code of plugins runs on the libraries that stand for CUDA */
    .code_kernel = NULL,
    .code_launch = NULL,
    .code_free = NULL,
    .peak = NULL,
    .event_elapsed = NULL,
};

static int number(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value && *value ? atoi(value) : otherwise;
}

void *mf_cuda_scratch(const mf_kctx *, size_t bytes)
{
    static void *block;
    if (bytes > MF_CUDA_SCRATCH) return NULL;
    if (block) emu::dev_free(block); /* what an earlier launcher left there cannot be read */
    return block = emu::dev_alloc(bytes > 0 ? bytes : 1);
}

static int open_device(const mf_backend_host *, int index, mf_device *d, char *reason,
                       size_t size)
{
    if (index != 0) {
        snprintf(reason, size, "there is one emulator, expected number 0");
        return MF_EDEP;
    }
    emu::opt.order = number("MOEFW_EMU_ORDER", 2);
    emu::opt.seed = (uint64_t)number("MOEFW_EMU_SEED", 1);
    emu::opt.preempt = number("MOEFW_EMU_PREEMPT", 0) != 0;
    emu::opt.profile = getenv("MOEFW_EMU_PROFILE") != NULL;
    emu::opt.hide = true;
    mf_cuda_processors = 4;
    mf_cuda_capability = number("MOEFW_EMU_ARCH", 80);
    d->ops = &ops;
    d->self = NULL;
    d->kernels = &mf_kernels_cuda;
    return MF_OK;
}

extern "C" __attribute__((visibility("default"))) const mf_backend moefw_backend;
const mf_backend moefw_backend = {
    .magic = MF_BACKEND_MAGIC,
    .size = sizeof moefw_backend,
    .device_size = sizeof(mf_device_ops),
    .kernels_size = sizeof(mf_kernels),
    .version = MOEFW_VERSION,
    .name = "emu",
    .open = open_device,
    .describe = NULL,
};
