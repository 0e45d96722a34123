/* preload.c: the source of faults.so, which preload.h describes. The record contains operations
 * in the order in which they ended, because a lock is held around each recorded call. */
#include "tests/faults/preload.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#define EXPORT   __attribute__((visibility("default")))
#define REAL(fn) ((__typeof__(&fn))real(&real_##fn, #fn))
#define CALLER   __builtin_return_address(0)

enum { RANGES = 32, FDS = 1024 };
static struct {
    uintptr_t from, to;
    bool memory_only; /* for libc: only its allocations count */
} ranges[RANGES];
static int n_ranges;
static fault_plan *plan;
static int record = -1;
static const char *root, *fatal;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *paths[FDS]; /* paths of open files whose operations are recorded */

static void *real(void **at, const char *name)
{
    if (!*at) *at = dlsym(RTLD_NEXT, name);
    return *at;
}

/* ---- who calls, and what fails ---- */

static int add_range(struct dl_phdr_info *info, size_t size, void *arg)
{
    static const char *const names[] = {"libmoefw", "libjansson", "libinih", "libutf8proc"};
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    const bool libc = strncmp(name, "libc.so", 7) == 0;
    bool ours = libc || info->dlpi_name[0] == '\0';
    (void)size;
    (void)arg;
    for (int i = 0; i < 4; i++)
        ours = ours || strncmp(name, names[i], strlen(names[i])) == 0;
    for (int i = 0; ours && i < info->dlpi_phnum && n_ranges < RANGES; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        ranges[n_ranges].from = info->dlpi_addr + p->p_vaddr;
        ranges[n_ranges].to = ranges[n_ranges].from + p->p_memsz;
        ranges[n_ranges++].memory_only = libc;
    }
    return 0;
}

static bool ours(const void *caller, int kind)
{
    const uintptr_t at = (uintptr_t)caller;
    for (int i = 0; i < n_ranges; i++)
        if (at >= ranges[i].from && at < ranges[i].to)
            return !ranges[i].memory_only || kind == FAULT_ALLOC;
    /* Threads of OpenMP count, too. A call without a caller comes from a stream, and counts. */
    return kind == FAULT_THREAD || !caller;
}

/* Adds a frame to the hash if it belongs to moefw or to one of its libraries. */
static _Unwind_Reason_Code add_frame(struct _Unwind_Context *frame, void *arg)
{
    const uintptr_t at = _Unwind_GetIP(frame);
    uint32_t *hash = arg;
    for (int i = 0; i < n_ranges; i++)
        if (at >= ranges[i].from && at < ranges[i].to && !ranges[i].memory_only)
            *hash = (*hash ^ (uint32_t)(at - ranges[i].from) ^ (uint32_t)i << 28) * 16777619u;
    return _URC_NO_REASON;
}

/* Calls of gcov and sanitizers after the end of the program are not counted. This handler is
 * registered among the first, so it runs after those of the program. */
static atomic_bool ended, registered;

static void end(void)
{
    atomic_store(&ended, true);
}

/* Set during a call of libc by a sanitizer. Such a call must not fail, because the sanitizer
 * ends the process if libc has no memory. */
static _Thread_local bool foreign;

/* Counts the call. caller NULL: the call of a stream. Returns true, with errno set, if the call
 * must fail. */
static bool fails(int kind, const void *caller)
{
    if (!plan || foreign || !ours(caller, kind)) return false;
    if (!atomic_exchange(&registered, true)) atexit(end);
    if (atomic_load(&ended)) return false;
    const long call = atomic_fetch_add(&plan->calls[kind], 1) + 1;
    if (plan->kind == FAULT_NOTE && call <= FAULT_CALLS) {
        uint32_t hash = 2166136261u;
        _Unwind_Backtrace(add_frame, &hash);
        plan->stacks[kind][call - 1] = hash | 1;
    }
    if (kind != plan->kind || call < plan->nth) return false;
    if (!plan->always && call != plan->nth) return false;
    atomic_fetch_add(&plan->hits, 1);
    if (plan->error != FAULT_SHORT) errno = plan->error;
    return true;
}

static bool shortens(void)
{
    return plan->error == FAULT_SHORT;
}

/* Number of bytes that a short transfer of n bytes moves. A single short transfer moves one
 * byte. If all transfers are short, each moves half, because with single bytes a file of a
 * megabyte would need a million calls. */
static size_t cut(size_t n)
{
    return plan->always ? (n + 1) / 2 : n > 0;
}

/* ---- memory ---- */

/* Memory for dlsym, which may allocate before the real functions are known, or free the text of
 * a failure. */
static char early[16384];
static size_t early_used;

static void *take_early(size_t n)
{
    void *at = early + early_used;
    early_used += (n + 63) & ~(size_t)63;
    return early_used <= sizeof early ? at : NULL;
}

#define ALLOCATOR(fn, params, args)                                                            \
    static void *real_##fn;                                                                    \
    EXPORT void *fn params                                                                     \
    {                                                                                          \
        if (fails(FAULT_ALLOC, CALLER)) return NULL;                                           \
        return REAL(fn) args;                                                                  \
    }
ALLOCATOR(malloc, (size_t n), (n))
ALLOCATOR(realloc, (void *block, size_t n), (block, n))
ALLOCATOR(aligned_alloc, (size_t unit, size_t n), (unit, n))

static void *real_calloc, *real_free;
EXPORT void *calloc(size_t count, size_t size)
{
    static bool looking;
    if (!real_calloc && looking) return take_early(count * size);
    looking = true;
    if (fails(FAULT_ALLOC, CALLER)) return NULL;
    return REAL(calloc)(count, size);
}

EXPORT void free(void *block)
{
    static bool looking;
    if ((char *)block >= early && (char *)block < early + sizeof early) return;
    if (!real_free && looking) return;
    looking = true;
    REAL(free)(block);
}

/* ---- the record ---- */

/* Enters the lock, if possible. A sanitizer makes calls before locks can be used. */
static void enter(void)
{
    if (record >= 0) pthread_mutex_lock(&lock);
}

static void leave(void)
{
    if (record >= 0) pthread_mutex_unlock(&lock);
}

static bool below_root(const char *path)
{
    const size_t n = root ? strlen(root) : 0;
    return record >= 0 && strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static void put(const void *data, size_t n)
{
    static void *real_write;
    const char *from = data;
    while (n > 0) {
        const ssize_t put_now =
            ((ssize_t(*)(int, const void *, size_t))real(&real_write, "write"))(record, from,
                                                                                n);
        if (put_now <= 0) abort();
        from += put_now;
        n -= (size_t)put_now;
    }
}

static void note(int op, const char *path, const char *other, int arg, uint64_t at,
                 const void *data, size_t n)
{
    const record_head head = {.op = (uint32_t)op,
                              .path = (uint32_t)strlen(path),
                              .other = (uint32_t)strlen(other),
                              .arg = arg,
                              .at = at,
                              .data = n};
    const int why = errno;
    put(&head, sizeof head);
    put(path, head.path);
    put(other, head.other);
    put(data, n);
    errno = why;
}

static const char *path_of(int fd)
{
    return fd >= 0 && fd < FDS ? paths[fd] : NULL;
}

static void forget(int fd)
{
    if (!path_of(fd)) return;
    free(paths[fd]);
    paths[fd] = NULL;
}

static void opened(int fd, const char *path, int flags)
{
    if (fd < 0 || fd >= FDS || !below_root(path)) return;
    forget(fd);
    paths[fd] = strdup(path);
    if (flags & (O_CREAT | O_TRUNC)) note(RECORD_OPEN, path, "", flags, 0, NULL, 0);
}

/* Updates the paths of open files after a rename, because a renamed file keeps
 * its descriptors. */
static void renamed(const char *from, const char *to)
{
    const size_t n = strlen(from);
    for (int fd = 0; fd < FDS; fd++) {
        char path[4096];
        if (!paths[fd] || strncmp(paths[fd], from, n) != 0) continue;
        if (paths[fd][n] != '\0' && paths[fd][n] != '/') continue;
        snprintf(path, sizeof path, "%s%s", to, paths[fd] + n);
        free(paths[fd]);
        paths[fd] = strdup(path);
    }
}

/* ---- files ---- */

static int open_it(const char *path, int flags, int mode, const void *caller)
{
    static void *real_open;
    if (fails(FAULT_OPEN, caller)) return -1;
    enter();
    const int fd = REAL(open)(path, flags, mode);
    opened(fd, path, flags);
    leave();
    return fd;
}

EXPORT int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;
    va_end(args);
    return open_it(path, flags, mode, CALLER);
}

int __open_2(const char *path, int flags);
EXPORT int __open_2(const char *path, int flags)
{
    return open_it(path, flags, 0, CALLER);
}

/* The path of a name in an open folder; the name itself if no path is recorded for
 * the folder. */
static const char *path_in(int folder, const char *name, char path[4096])
{
    snprintf(path, 4096, "%s/%s", path_of(folder) ? path_of(folder) : "", name);
    return path_of(folder) ? path : name;
}

static void *real_openat;
EXPORT int openat(int folder, const char *name, int flags, ...)
{
    char path[4096];
    va_list args;
    va_start(args, flags);
    const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;
    va_end(args);
    if (fails(FAULT_OPEN, CALLER)) return -1;
    enter();
    const int fd = REAL(openat)(folder, name, flags, mode);
    opened(fd, path_in(folder, name, path), flags);
    leave();
    return fd;
}

#define OPENER(fn, type, bad, params, args)                                                    \
    static void *real_##fn;                                                                    \
    EXPORT type fn params                                                                      \
    {                                                                                          \
        return fails(FAULT_OPEN, CALLER) ? (bad) : REAL(fn) args;                              \
    }
OPENER(opendir, DIR *, NULL, (const char *path), (path))
OPENER(fdopendir, DIR *, NULL, (int fd), (fd))
OPENER(memfd_create, int, -1, (const char *name, unsigned flags), (name, flags))
OPENER(pipe2, int, -1, (int fds[2], int flags), (fds, flags))
OPENER(mkstemp, int, -1, (char *name), (name))

static void *real_read;
EXPORT ssize_t read(int fd, void *to, size_t n)
{
    if (!fails(FAULT_READ, CALLER)) return REAL(read)(fd, to, n);
    return shortens() ? REAL(read)(fd, to, cut(n)) : -1;
}

static void *real_pread;
EXPORT ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    if (!fails(FAULT_READ, CALLER)) return REAL(pread)(fd, to, n, at);
    return shortens() ? REAL(pread)(fd, to, cut(n), at) : -1;
}

/* Short reads and EINTR are not simulated here: readdir never returns a part of an entry, and
 * reading a directory is not interrupted. */
static void *real_readdir;
EXPORT struct dirent *readdir(DIR *dir)
{
    const bool failed = fails(FAULT_READ, CALLER);
    return failed && !shortens() && errno != EINTR ? NULL : REAL(readdir)(dir);
}

static void *real_write;
EXPORT ssize_t write(int fd, const void *from, size_t n)
{
    if (fails(FAULT_WRITE, CALLER)) {
        if (!shortens()) return -1;
        n = cut(n);
    }
    if (!path_of(fd)) return REAL(write)(fd, from, n);
    enter();
    struct stat st = {0};
    fstat(fd, &st);
    const bool append = fcntl(fd, F_GETFL) & O_APPEND;
    const off_t at = append ? st.st_size : lseek(fd, 0, SEEK_CUR);
    const ssize_t put_now = REAL(write)(fd, from, n);
    if (put_now > 0)
        note(RECORD_WRITE, path_of(fd), "", 0, (uint64_t)at, from, (size_t)put_now);
    leave();
    return put_now;
}

static void *real_fsync;
EXPORT int fsync(int fd)
{
    if (fails(FAULT_FSYNC, CALLER)) return -1;
    enter();
    const int rc = REAL(fsync)(fd);
    if (rc == 0 && path_of(fd)) note(RECORD_FSYNC, path_of(fd), "", 0, 0, NULL, 0);
    leave();
    return rc;
}

static void *real_ftruncate;
EXPORT int ftruncate(int fd, off_t size)
{
    if (fails(FAULT_DIR, CALLER)) return -1;
    enter();
    const int rc = REAL(ftruncate)(fd, size);
    if (rc == 0 && path_of(fd))
        note(RECORD_TRUNCATE, path_of(fd), "", 0, (uint64_t)size, NULL, 0);
    leave();
    return rc;
}

static void *real_close;
EXPORT int close(int fd)
{
    const bool failed = fails(FAULT_CLOSE, CALLER);
    const int why = errno;
    enter();
    const int rc = REAL(close)(fd);
    forget(fd);
    leave();
    if (!failed) return rc;
    errno = why;
    return -1;
}

#define MOVER(fn, params, args)                                                                \
    static void *real_##fn;                                                                    \
    EXPORT int fn params                                                                       \
    {                                                                                          \
        if (fails(FAULT_RENAME, CALLER)) return -1;                                            \
        enter();                                                                               \
        const int rc = REAL(fn) args;                                                          \
        if (rc == 0 && below_root(to)) {                                                       \
            note(RECORD_RENAME, from, to, 0, 0, NULL, 0);                                      \
            renamed(from, to);                                                                 \
        }                                                                                      \
        leave();                                                                               \
        return rc;                                                                             \
    }
MOVER(rename, (const char *from, const char *to), (from, to))

static int move_in(int a, const char *from, int b, const char *to, int rc)
{
    char from_path[4096], to_path[4096];
    const char *at = path_in(b, to, to_path);
    if (rc == 0 && below_root(at)) {
        note(RECORD_RENAME, path_in(a, from, from_path), at, 0, 0, NULL, 0);
        renamed(path_in(a, from, from_path), at);
    }
    leave();
    return rc;
}

static void *real_renameat, *real_renameat2;
EXPORT int renameat(int a, const char *from, int b, const char *to)
{
    if (fails(FAULT_RENAME, CALLER)) return -1;
    enter();
    return move_in(a, from, b, to, REAL(renameat)(a, from, b, to));
}

EXPORT int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    if (fails(FAULT_RENAME, CALLER)) return -1;
    enter();
    return move_in(a, from, b, to, REAL(renameat2)(a, from, b, to, flags));
}

#define CHANGER(fn, op, params, args)                                                          \
    static void *real_##fn;                                                                    \
    EXPORT int fn params                                                                       \
    {                                                                                          \
        if (fails(FAULT_DIR, CALLER)) return -1;                                               \
        enter();                                                                               \
        const int rc = REAL(fn) args;                                                          \
        if (rc == 0 && below_root(path)) note(op, path, "", 0, 0, NULL, 0);                    \
        leave();                                                                               \
        return rc;                                                                             \
    }
CHANGER(unlink, RECORD_UNLINK, (const char *path), (path))
CHANGER(rmdir, RECORD_RMDIR, (const char *path), (path))

static void *real_unlinkat;
EXPORT int unlinkat(int folder, const char *name, int flags)
{
    char buffer[4096];
    if (fails(FAULT_DIR, CALLER)) return -1;
    enter();
    const int rc = REAL(unlinkat)(folder, name, flags);
    const char *path = path_in(folder, name, buffer);
    if (rc == 0 && below_root(path))
        note(flags & AT_REMOVEDIR ? RECORD_RMDIR : RECORD_UNLINK, path, "", 0, 0, NULL, 0);
    leave();
    return rc;
}

static void *real_mkdirat;
EXPORT int mkdirat(int folder, const char *name, mode_t mode)
{
    char buffer[4096];
    if (fails(FAULT_DIR, CALLER)) return -1;
    enter();
    const int rc = REAL(mkdirat)(folder, name, mode);
    const char *path = path_in(folder, name, buffer);
    if (rc == 0 && below_root(path)) note(RECORD_MKDIR, path, "", 0, 0, NULL, 0);
    if (rc == 0 && fatal && strcmp(path, fatal) == 0) kill(getpid(), SIGKILL);
    leave();
    return rc;
}

#define STAT(fn, params, args)                                                                 \
    static void *real_##fn;                                                                    \
    EXPORT int fn params                                                                       \
    {                                                                                          \
        return fails(FAULT_STAT, CALLER) ? -1 : REAL(fn) args;                                 \
    }
STAT(stat, (const char *path, struct stat *st), (path, st))
STAT(lstat, (const char *path, struct stat *st), (path, st))
STAT(fstat, (int fd, struct stat *st), (fd, st))
STAT(fstatat, (int folder, const char *name, struct stat *st, int flags),
     (folder, name, st, flags))
STAT(access, (const char *path, int mode), (path, mode))

static void *real_readlink, *real_realpath;
EXPORT ssize_t readlink(const char *path, char *to, size_t n)
{
    return fails(FAULT_STAT, CALLER) ? -1 : REAL(readlink)(path, to, n);
}

EXPORT char *realpath(const char *path, char *to)
{
    return fails(FAULT_STAT, CALLER) ? NULL : REAL(realpath)(path, to);
}

char *__realpath_chk(const char *path, char *to, size_t room);
EXPORT char *__realpath_chk(const char *path, char *to, size_t room)
{
    (void)room;
    return fails(FAULT_STAT, CALLER) ? NULL : REAL(realpath)(path, to);
}

/* ---- streams ----
 *
 * Calls of read and write within libc cannot be replaced. So streams use the transfer functions
 * below. They work like those of libc: after a short transfer the rest follows, and an error
 * becomes an error of the stream. */

static ssize_t transfer(int kind, int fd, const char *from, size_t n)
{
    size_t done = 0;
    while (done < n && !fails(kind, NULL)) {
        const ssize_t now = REAL(write)(fd, from + done, n - done);
        if (now < 0) break;
        done += (size_t)now;
    }
    return (ssize_t)done;
}

static ssize_t put_result(void *unused, const char *from, size_t n)
{
    (void)unused;
    return transfer(FAULT_STDOUT, STDOUT_FILENO, from, n);
}

static ssize_t put_message(void *unused, const char *from, size_t n)
{
    (void)unused;
    return transfer(FAULT_STDERR, STDERR_FILENO, from, n);
}

/* Replaces the standard streams by streams with our transfer functions. The streams of musl are
 * constants, so with musl only calls outside of streams can fail. */
static void stand_before_streams(void)
{
#ifdef __GLIBC__
    FILE *out = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put_result});
    FILE *err = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put_message});
    if (!out || !err) abort();
    setvbuf(err, NULL, _IONBF, 0);
    stdout = out;
    stderr = err;
#endif
}

static ssize_t take(void *file, char *to, size_t n)
{
    if (!fails(FAULT_READ, NULL)) return REAL(read)(fileno(file), to, n);
    return shortens() ? REAL(read)(fileno(file), to, cut(n)) : -1;
}

static int end_of(void *file)
{
    return fclose(file);
}

/* Opens a stream. The memory in use differs between runs, so /proc/self/status reads as an
 * empty file. Streams are used for files of the system and of the build, and opening such a
 * file is never interrupted. */
static void *real_fopen;
EXPORT FILE *fopen(const char *path, const char *mode)
{
    if (plan && strcmp(path, "/proc/self/status") == 0) return REAL(fopen)("/dev/null", mode);
    if (fails(FAULT_OPEN, CALLER) && errno != EINTR) return NULL;
    FILE *file = REAL(fopen)(path, mode), *stream = NULL;
    if (!plan || !file || *mode != 'r' || !ours(CALLER, FAULT_READ)) return file;
    stream = fopencookie(file, "r", (cookie_io_functions_t){.read = take, .close = end_of});
    if (!stream) fclose(file);
    return stream;
}

/* ---- other calls ---- */

/* Each reading of the clock is a millisecond after the previous one, so files that contain
 * times can be compared. */
EXPORT int clock_gettime(clockid_t which, struct timespec *now)
{
    static atomic_long readings;
    static void *real_clock_gettime;
    if (!plan) return REAL(clock_gettime)(which, now);
    const long n = atomic_fetch_add(&readings, 1);
    *now = (struct timespec){.tv_sec = 1000000000 + n / 1000, .tv_nsec = n % 1000 * 1000000};
    return 0;
}

EXPORT time_t time(time_t *at)
{
    static void *real_time;
    if (!plan) return REAL(time)(at);
    if (at) *at = 1000000000;
    return 1000000000;
}

static void *real_mmap;
EXPORT void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (fails(FAULT_MMAP, CALLER)) return MAP_FAILED;
    return REAL(mmap)(at, n, protection, flags, fd, offset);
}

static void *real_fcntl;
EXPORT int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    if ((command == F_OFD_SETLK || command == F_OFD_SETLKW) && fails(FAULT_LOCK, CALLER))
        return -1;
    return REAL(fcntl)(fd, command, arg);
}

static void *real_pthread_create;
EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict how,
                          void *(*body)(void *), void *restrict arg)
{
    if (fails(FAULT_THREAD, CALLER)) return errno;
    return REAL(pthread_create)(thread, how, body, arg);
}

static void *real_posix_spawn;
EXPORT int posix_spawn(pid_t *child, const char *program,
                       const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
                       char *const *args, char *const *environment)
{
    if (fails(FAULT_THREAD, CALLER)) return errno;
    return REAL(posix_spawn)(child, program, actions, how, args, environment);
}

static void *real_pthread_getattr_np;
EXPORT int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
    foreign = true;
    const int rc = REAL(pthread_getattr_np)(thread, attr);
    foreign = false;
    return rc;
}

/* ---- start of the process ---- */

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("MOEFW_FAULT_PLAN"), *to = getenv("MOEFW_FAULT_RECORD");
    root = getenv("MOEFW_FAULT_ROOT");
    fatal = getenv("MOEFW_FAULT_KILL");
    dl_iterate_phdr(add_range, NULL);
    if (path) {
        const int fd = open(path, O_RDWR | O_CLOEXEC);
        void *at = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        stand_before_streams();
        if (at != MAP_FAILED) plan = at;
    }
    if (to && root) {
        const int fd = open(to, O_WRONLY | O_APPEND | O_CLOEXEC);
        record = fcntl(fd, F_DUPFD_CLOEXEC, 900);
        close(fd);
    }
}
