/* fake.hh: what the fake libcublasLt needs of the fake libcudart, and the files of the latter
 * of each other. */
#ifndef TESTS_CUDA_FAKE_HH
#define TESTS_CUDA_FAKE_HH

#include <cstddef>
#include <functional>

namespace fake {
typedef std::function<void()> op;
/* Queues work in a stream; it runs when somebody waits for it, or earlier. Returns an error
 * of the runtime. */
int enqueue(void *stream, const char *what, op f);
/* Of device memory, to be called while an op runs. */
void reads(const void *p, size_t bytes, const char *what);
void writes(void *p, size_t bytes, const char *what);
bool is_device(const void *p, size_t bytes);
/* Whether this call is the one that has to fail; kind: "gemm", or NULL. */
bool fails(const char *kind = nullptr);
/* Records an error for cudaGetLastError, and returns it. */
int give(int error);
/* For what MOEFW_FAKE_STATS prints. */
void count(const char *what);
/* Runs all that waits. */
void finish();
/* From now on all memory of the device counts as written. */
void all_written();

/* ---- fake_library.cc: kernels of plugins ---- */
bool has_kernel(const void *kernel);
void permit(const void *kernel, size_t shared);
size_t libraries_left();
} // namespace fake

#endif
