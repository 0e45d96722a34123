/* base/coverage.h: a process that ends by _exit or by a signal, or goes on as another
 * program, writes no counters of gcov by itself. MF_LAST(call) writes them before such a
 * call, in a build that has them. */
#ifndef MF_COVERAGE_H
#define MF_COVERAGE_H

#ifdef MF_COVERAGE
void __gcov_dump(void);
#define MF_LAST(call) (__gcov_dump(), (call))
#else
#define MF_LAST(call) (call)
#endif

#endif
