/* Tables for allocation and IO that count calls and make the n-th call fail. fault.h describes
 * them. Unless a fault is armed, every call reaches the real function. */
#include "tests/lib/fault.h"

#include "base/file/io.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct plan {
    long nth;
    fault_form form;
} plan;

static plan alloc_plan, io_plan;
static int io_error, exit_status;
static bool io_exits, io_crumbs;
static atomic_long alloc_calls, alloc_live, io_calls, io_open;
static atomic_bool hit;
static const char *_Atomic hit_call = "";

static bool is_due(const plan *p, long call, const char *name)
{
    if (p->nth == 0 || call < p->nth) return false;
    if (p->form == FAULT_ONCE && call != p->nth) return false;
    if (!hit) hit_call = name;
    hit = true;
    return true;
}

static void *alloc(size_t bytes)
{
    void *block;
    if (is_due(&alloc_plan, ++alloc_calls, "alloc")) return NULL;
    block = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (block) alloc_live++;
    return block;
}

static void release(void *block)
{
    alloc_live--;
    free(block);
}

/* Returns true, with errno set, if this call must fail. Does not return if the process must
 * end here. */
static bool io_fails(const char *name)
{
    if (!is_due(&io_plan, ++io_calls, name)) return false;
    if (io_exits) _exit(exit_status);
    errno = io_error;
    return true;
}

static bool io_interrupts(void)
{
    static atomic_long turn;
    if (!io_crumbs || ++turn % 2 == 0) return false;
    errno = EINTR;
    return true;
}

static size_t portion(size_t n)
{
    enum { CRUMB = 7 };
    return io_crumbs && n > CRUMB ? CRUMB : n;
}

static int fault_open(const char *path, int flags, int mode)
{
    int fd;
    if (io_fails("open")) return -1;
    fd = mf_io_default()->open(path, flags, mode);
    if (fd >= 0 && !(flags & O_DIRECTORY)) io_open++;
    return fd;
}

static ssize_t fault_pread(int fd, void *buf, size_t n, off_t offset)
{
    if (io_fails("pread") || io_interrupts()) return -1;
    return mf_io_default()->pread(fd, buf, portion(n), offset);
}

static ssize_t fault_write(int fd, const void *buf, size_t n)
{
    long next = io_calls + 1;
    if (io_exits && io_plan.nth == next && n > 1) {
        ssize_t put = mf_io_default()->write(fd, buf, n / 2);
        (void)put;
    }
    if (io_fails("write") || io_interrupts()) return -1;
    return mf_io_default()->write(fd, buf, portion(n));
}

static int fault_fsync(int fd)
{
    return io_fails("fsync") || io_interrupts() ? -1 : mf_io_default()->fsync(fd);
}

static int fault_ftruncate(int fd, off_t size)
{
    return io_fails("ftruncate") ? -1 : mf_io_default()->ftruncate(fd, size);
}

static int fault_close(int fd)
{
    bool fails = io_fails("close");
    int error = errno, rc;
    if (!(fcntl(fd, F_GETFL) & O_DIRECTORY)) io_open--;
    rc = mf_io_default()->close(fd);
    if (!fails) return rc;
    errno = error;
    return -1;
}

static int fault_rename(const char *from, const char *to)
{
    return io_fails("rename") ? -1 : mf_io_default()->rename(from, to);
}

static int fault_rename_new(const char *from, const char *to)
{
    return io_fails("rename_new") ? -1 : mf_io_default()->rename_new(from, to);
}

static int fault_unlink(const char *path)
{
    return io_fails("unlink") ? -1 : mf_io_default()->unlink(path);
}

static int fault_mkdir(const char *path, int mode)
{
    return io_fails("mkdir") ? -1 : mf_io_default()->mkdir(path, mode);
}

static int fault_rmdir(const char *path)
{
    return io_fails("rmdir") ? -1 : mf_io_default()->rmdir(path);
}

static const mf_mem_table mem_table = {alloc, release};
static const mf_io_table io_table = {
    .open = fault_open,
    .pread = fault_pread,
    .write = fault_write,
    .fsync = fault_fsync,
    .ftruncate = fault_ftruncate,
    .close = fault_close,
    .rename = fault_rename,
    .rename_new = fault_rename_new,
    .unlink = fault_unlink,
    .mkdir = fault_mkdir,
    .rmdir = fault_rmdir,
};

static void forget_hit(void)
{
    hit = false;
    hit_call = "";
}

void fault_alloc(long nth, fault_form form)
{
    forget_hit();
    alloc_plan = (plan){nth, form};
    alloc_calls = alloc_live = 0;
    mf_mem_set_table(&mem_table);
}

static void arm_io(long nth, fault_form form)
{
    forget_hit();
    io_plan = (plan){nth, form};
    io_exits = io_crumbs = false;
    io_calls = io_open = 0;
    mf_io_set_table(&io_table);
}

void fault_io(long nth, fault_form form, int error)
{
    arm_io(nth, form);
    io_error = error;
}

void fault_io_exit(long nth, int status)
{
    arm_io(nth, FAULT_ONCE);
    io_exits = true;
    exit_status = status;
}

void fault_io_crumbs(void)
{
    arm_io(0, FAULT_ONCE);
    io_crumbs = true;
}

bool fault_hit(void)
{
    return hit;
}

const char *fault_hit_call(void)
{
    return hit_call;
}

long fault_alloc_calls(void)
{
    return alloc_calls;
}

long fault_io_calls(void)
{
    return io_calls;
}

long fault_alloc_live(void)
{
    return alloc_live;
}

long fault_io_open(void)
{
    return io_open;
}

void fault_off(void)
{
    /* Blocks from this table may be freed later, because both tables use free(). */
    mf_mem_set_table(NULL);
    mf_io_set_table(NULL);
}
