/* base/float_control.h: the floating-point control of a thread: rounding, and whether numbers
 * near zero are flushed to it.
 *
 * All results depend on it, and code that is loaded may change it. Reading it takes a few
 * cycles. It belongs to a thread; new threads begin with that of the thread that makes them. */
#ifndef MF_BASE_FLOAT_CONTROL_H
#define MF_BASE_FLOAT_CONTROL_H

/* The control register without the flags that ordinary arithmetic sets. */
unsigned mf_float_control(void);
/* Puts an earlier value in force again, for rounding of long double, too. */
void mf_float_control_set(unsigned control);
/* What differs: "sets flush-to-zero", "changes the rounding mode", ... */
const char *mf_float_control_text(unsigned before, unsigned now);

#endif
