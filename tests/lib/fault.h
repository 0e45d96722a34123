/* fault.h: allocation and IO tables that fail on purpose, for tests.
 *
 * Calls through the tables of base/mem.h and base/file/io.h are counted from 1. The n-th call
 * fails, either alone (FAULT_ONCE) or with all calls after it (FAULT_FROM), or the process ends
 * at this call. The usual loop runs the same work for n = 1, 2, ... until a run makes fewer
 * than n calls:
 *
 *     for (long n = 1;; n++) {
 *         fault_io(n, FAULT_ONCE, ENOSPC);
 *         rc = work();
 *         bool hit = fault_hit();
 *         fault_off();
 *         ... check rc and the files on disk ...
 *         if (!hit) break;
 *     }
 *
 * A fault of allocation and a fault of IO can be armed together. Arming again restarts
 * the count. */
#ifndef MF_TESTS_FAULT_H
#define MF_TESTS_FAULT_H

#include <stdbool.h>

typedef enum fault_form { FAULT_ONCE, FAULT_FROM } fault_form;

/* nth 0: calls are only counted. error: errno of the failing IO call. Do not use EINTR with
 * FAULT_FROM: callers repeat a call after EINTR without a limit. A failing close still closes
 * the descriptor, as on Linux. */
void fault_alloc(long nth, fault_form form);
void fault_io(long nth, fault_form form, int error);
/* Calls _exit(status) instead of the nth IO call. If that call is a write, half of it is
 * done first. */
void fault_io_exit(long nth, int status);
/* Every read and write transfers at most 7 bytes, and every second call of pread, write and
 * fsync fails with EINTR. */
void fault_io_crumbs(void);

/* fault_hit: whether a call has failed. fault_hit_call: the first call that failed ("write",
 * "alloc", ...). */
bool fault_hit(void);
const char *fault_hit_call(void);
long fault_alloc_calls(void);
long fault_io_calls(void);
/* Number of allocated blocks minus number of released blocks since fault_alloc. */
long fault_alloc_live(void);
/* Number of opened descriptors minus number of closed ones since fault_io, fault_io_exit or
 * fault_io_crumbs. Listed directories do not count, because libc closes them. */
long fault_io_open(void);

void fault_off(void); /* restores the default tables; the counts can still be read */

#endif
