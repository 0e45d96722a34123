/* base/float_control.h: the floating-point control of a thread: the rounding mode, and whether
 * subnormal numbers become zero.
 *
 * All results depend on this control, and code that is loaded may change it. Reading it takes a
 * few cycles. Each thread has its own control; a new thread begins with the control of the
 * thread that creates it. */
#ifndef MF_BASE_FLOAT_CONTROL_H
#define MF_BASE_FLOAT_CONTROL_H

/* Returns the control register without the flags that ordinary arithmetic sets. */
unsigned mf_float_control(void);
/* Restores an earlier value, also for the rounding of long double. */
void mf_float_control_set(unsigned control);
/* Returns a text that describes the difference: "sets flush-to-zero", "changes the rounding
 * mode", ... */
const char *mf_float_control_text(unsigned before, unsigned now);

#endif
