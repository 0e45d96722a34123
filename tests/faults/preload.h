/* preload.h: memory that a test shares with the processes under test.
 *
 * faults.so is loaded into the program by LD_PRELOAD. It replaces the calls of libc that
 * allocate, open, read, write and so on. It counts calls from moefw and from the libraries that
 * parse its files, and the transfers of their streams. Calls from OpenMP, OpenBLAS and the
 * dynamic linker are not counted, because the first two end the process themselves. The n-th
 * call of one kind fails, once or from then on. The same object writes a record of operations
 * on files, which is used to simulate a loss of power.
 *
 *   MOEFW_FAULT_PLAN    path of a file that contains a fault_plan, mapped by all processes
 *   MOEFW_FAULT_RECORD  path of the file to which operations are appended
 *   MOEFW_FAULT_ROOT    only operations on paths below this folder are recorded
 *   MOEFW_FAULT_KILL    the process that creates this folder is killed before it can sync it */
#ifndef MF_TESTS_PRELOAD_H
#define MF_TESTS_PRELOAD_H

#include <stdatomic.h>
#include <stdint.h>

enum fault_kind {
    FAULT_ALLOC,
    FAULT_OPEN,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_FSYNC,
    FAULT_RENAME,
    FAULT_MMAP,
    FAULT_LOCK,
    FAULT_THREAD, /* creation of threads and processes */
    FAULT_STAT,   /* also access, readlink, realpath */
    FAULT_DIR,    /* mkdir, rmdir, unlink, ftruncate */
    FAULT_CLOSE,
    FAULT_STDOUT, /* a transfer of the stream stdout */
    FAULT_STDERR,
    FAULT_KINDS
};

/* as the error of a read or write: a part of the bytes is transferred, one byte or half */
enum { FAULT_SHORT = -1 };
enum { FAULT_NONE = -2, FAULT_NOTE = -1 };
enum { FAULT_CALLS = 1 << 16 };

typedef struct fault_plan {
    atomic_long calls[FAULT_KINDS]; /* calls of all processes since the plan was made */
    atomic_long hits;
    /* a fault_kind whose calls fail. FAULT_NONE: no call fails; FAULT_NOTE: no call fails, and
     * the hashes of call stacks are recorded in `stacks` */
    int kind;
    long nth;   /* number of the failing call, from 1 */
    int always; /* every later call of the kind fails, too */
    int error;  /* errno of the failing call, or FAULT_SHORT */
    /* A hash of the functions that led to each call, never 0. It is the same in all processes,
     * regardless of their load addresses. */
    uint32_t stacks[FAULT_KINDS][FAULT_CALLS];
} fault_plan;

/* A record is a sequence of these structures. Each is followed by the bytes of both paths and
 * by the data. */
enum record_op {
    RECORD_OPEN, /* creates or truncates: arg is the flags of open */
    RECORD_WRITE,
    RECORD_TRUNCATE,
    RECORD_FSYNC,
    RECORD_RENAME,
    RECORD_UNLINK,
    RECORD_MKDIR,
    RECORD_RMDIR
};

typedef struct record_head {
    uint32_t op, path, other; /* path, other: lengths of the paths */
    int32_t arg;
    uint64_t at, data; /* at: offset in the file; data: number of bytes */
} record_head;

#endif
