/* base/coverage.h: writes the counters of gcov before a process ends by _exit or by a signal,
 * or executes another program. In these cases gcov does not write its counters itself.
 * MF_LAST(call) writes the counters before such a call, in a build that has them. */
#ifndef MF_COVERAGE_H
#define MF_COVERAGE_H

#ifdef MF_COVERAGE
void __gcov_dump(void);
#define MF_LAST(call) (__gcov_dump(), (call))
#else
#define MF_LAST(call) (call)
#endif

#endif
