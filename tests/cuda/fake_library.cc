/* fake_library.cc: images of plugins, as the fake runtime loads them. What a real runtime would
 * give to a GPU is looked up among kernels that an ordinary C++ compiler made, and these run on
 * the emulator, which judges every access:
 *
 *   an ELF file of this machine   is loaded itself; `make emulate` of a plugin builds one
 *   a fat binary                  must have code for the architecture MOEFW_EMU_ARCH; its
 *                                 kernels are those of the file beside the plugin that has
 *                                 `.twin` for `.so`
 *
 * Where there is no such file, nothing in the image is for this GPU.
 *   MOEFW_FAKE_LATE          that is said only when a kernel is asked for, by lazy loading
 *   MOEFW_FAKE_STATIC_SHARED bytes of static shared memory that each kernel has */
#include <cuda_runtime_api.h>

#include "emu.hh"
#include "fake.hh"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <map>
#include <moefw/op.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

typedef void (*twin_fn)(mf_kernel_args);
struct CUkern_st {
    std::string name;
    twin_fn fn;
    size_t most_shared; /* bytes that a launch may ask for */
};
struct CUlib_st {
    void *twins = nullptr;
    int fd = -1;
    std::map<std::string, CUkern_st> kernels;
};
static std::map<const void *, CUlib_st *> libraries;
static std::map<const void *, CUkern_st *> known;

/* ---- images ---- */

/* Whether a fat binary has code that a GPU of this architecture runs: of the same generation
 * and not newer, or PTX that is not newer. */
static bool fits(const char *image, int arch)
{
    uint64_t bytes, at = 16;
    memcpy(&bytes, image + 8, 8);
    while (at < 16 + bytes) {
        uint16_t kind;
        uint32_t header, of;
        uint64_t size;
        memcpy(&kind, image + at, 2), memcpy(&header, image + at + 4, 4);
        memcpy(&size, image + at + 8, 8), memcpy(&of, image + at + 28, 4);
        if ((int)of <= arch && (kind == 1 || (kind == 2 && (int)of / 10 == arch / 10)))
            return true;
        at += header + size;
    }
    return false;
}
/* The emulator's functions must be found by files that were not linked with it. */
static void show_emulator()
{
    Dl_info at{};
    static bool done;
    if (!done && dladdr((void *)&cudaLibraryLoadData, &at))
        done = dlopen(at.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) != nullptr;
}
static bool load(CUlib_st *l, const std::string &file)
{
    show_emulator();
    l->twins = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!l->twins) fprintf(stderr, "fake runtime: %s\n", dlerror());
    return l->twins != nullptr;
}
static bool load_bytes(CUlib_st *l, const char *image)
{
    Elf64_Ehdr h;
    memcpy(&h, image, sizeof h);
    const size_t bytes = h.e_shoff + (size_t)h.e_shnum * h.e_shentsize;
    l->fd = memfd_create("twin", 0);
    return l->fd >= 0 && write(l->fd, image, bytes) == (ssize_t)bytes &&
           load(l, "/proc/self/fd/" + std::to_string(l->fd));
}
static bool load_beside(CUlib_st *l, const void *image)
{
    Dl_info at{};
    if (!dladdr(image, &at) || !at.dli_fname) return false;
    std::string file = at.dli_fname;
    const size_t n = file.size();
    if (n < 3 || file.compare(n - 3, 3, ".so") != 0) return false;
    file = file.substr(0, n - 3) + ".twin";
    return access(file.c_str(), R_OK) == 0 && load(l, file);
}
static int look(CUlib_st *l, const void *image, int arch)
{
    const char *bytes = (const char *)image;
    const uint32_t fat = 0xba55ed50u;
    if (memcmp(bytes, &fat, 4) == 0)
        return fits(bytes, arch) && load_beside(l, image) ? cudaSuccess
                                                          : cudaErrorNoKernelImageForDevice;
    if (memcmp(bytes, ELFMAG, SELFMAG) != 0) return cudaErrorInvalidKernelImage;
    uint16_t machine;
    memcpy(&machine, bytes + offsetof(Elf64_Ehdr, e_machine), 2);
    if (machine == 190) return cudaErrorNoKernelImageForDevice;
    return load_bytes(l, bytes) ? cudaSuccess : cudaErrorInvalidKernelImage;
}
static void drop(CUlib_st *l)
{
    for (auto &k : l->kernels)
        known.erase(&k.second);
    if (l->twins) dlclose(l->twins);
    if (l->fd >= 0) close(l->fd);
    delete l;
}

/* ---- what fake_cudart.cc asks for ---- */

namespace fake {
bool has_kernel(const void *kernel)
{
    return known.count(kernel) != 0;
}
void permit(const void *kernel, size_t shared)
{
    known[kernel]->most_shared = shared;
}
size_t libraries_left()
{
    return libraries.size();
}
} // namespace fake

extern "C" {
cudaError_t cudaLibraryLoadData(cudaLibrary_t *ret, const void *image, enum cudaJitOption *,
                                void **, unsigned, enum cudaLibraryOption *, void **, unsigned)
{
    const char *arch = getenv("MOEFW_EMU_ARCH");
    *ret = nullptr;
    if (fake::fails("library")) return (cudaError_t)fake::give(cudaErrorMemoryAllocation);
    CUlib_st *l = new CUlib_st;
    int rc = look(l, image, arch && *arch ? atoi(arch) : 80);
    if (rc == cudaErrorNoKernelImageForDevice && getenv("MOEFW_FAKE_LATE")) rc = cudaSuccess;
    if (rc != cudaSuccess) {
        drop(l);
        return (cudaError_t)fake::give(rc);
    }
    libraries[l] = *ret = l;
    return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t *ret, cudaLibrary_t l, const char *name)
{
    *ret = nullptr;
    if (fake::fails("library")) return (cudaError_t)fake::give(cudaErrorInvalidValue);
    if (!libraries.count(l)) return (cudaError_t)fake::give(cudaErrorInvalidResourceHandle);
    const char *fixed = getenv("MOEFW_FAKE_STATIC_SHARED");
    void *fn = l->twins ? dlsym(l->twins, name) : nullptr;
    if (!fn && l->twins) return (cudaError_t)fake::give(cudaErrorSymbolNotFound);
    CUkern_st &k = l->kernels[name];
    k = {name, (twin_fn)fn, (size_t)((48 << 10) - (fixed ? atoi(fixed) : 0))};
    known[&k] = *ret = &k;
    return cudaSuccess;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t l)
{
    fake::finish(); /* work that waits may be kernels of it */
    if (!libraries.erase(l)) {
        emu::finding("library", "unloaded twice");
        return (cudaError_t)fake::give(cudaErrorInvalidResourceHandle);
    }
    drop(l);
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *, const void *kernel)
{
    if (fake::fails("library")) return (cudaError_t)fake::give(cudaErrorInvalidValue);
    if (!fake::has_kernel(kernel)) return (cudaError_t)fake::give(cudaErrorInvalidValue);
    return (cudaError_t)fake::give(known[kernel]->fn ? cudaSuccess
                                                     : cudaErrorInvalidDeviceFunction);
}
/* Images that nvcc has linked: their kernels are registered by name (fake_cudart.cc). */
void **__cudaRegisterFatBinary(void *)
{
    static void *handle;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}

/* of fake_cudart.cc */
cudaError_t __cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t s);
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args,
                             size_t shared, cudaStream_t s)
{
    if (!fake::has_kernel(kernel))
        return __cudaLaunchKernel(kernel, grid, block, args, shared, s);
    const CUkern_st k = *known[kernel];
    const mf_kernel_args kept = *static_cast<const mf_kernel_args *>(args[0]);
    if (fake::fails("plugin")) return (cudaError_t)fake::give(cudaErrorLaunchFailure);
    if (shared > k.most_shared) return (cudaError_t)fake::give(cudaErrorInvalidValue);
    fake::count("kernels"), fake::count("kernels of plugins");
    return (cudaError_t)fake::give(fake::enqueue(s, "kernel of a plugin", [=] {
        fake::all_written(); /* kernels of the backend are not judged */
        emu::launch(k.name.c_str(), grid, block, shared, [=] { k.fn(kept); });
    }));
}
} // extern "C"
