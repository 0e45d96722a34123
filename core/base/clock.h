/* base/clock.h: a clock that never goes backwards. */
#ifndef MF_BASE_CLOCK_H
#define MF_BASE_CLOCK_H

double mf_clock(void); /* seconds since some fixed point (CLOCK_MONOTONIC) */

#endif
