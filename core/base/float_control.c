/* base/float_control.c: reads and writes the control register of the processor. The flags that
 * arithmetic sets are removed from the value, so two reads of the same setting are equal. */
#include "base/float_control.h"

#include <fenv.h>

#if defined(__x86_64__)
#define STATUS_FLAGS 0x3fu /* flags that ordinary arithmetic sets */
#define DENORMAL_OFF 0x8040u
#define ROUNDING     0x6000u

unsigned mf_float_control(void)
{
    return __builtin_ia32_stmxcsr() & ~STATUS_FLAGS;
}

void mf_float_control_set(unsigned control)
{
    fesetround((int)((control & ROUNDING) >> 3)); /* sets the rounding of the x87 unit, too */
    __builtin_ia32_ldmxcsr(control);
}
#elif defined(__aarch64__)
#define DENORMAL_OFF (1u << 24)
#define ROUNDING     (3u << 22)

unsigned mf_float_control(void)
{
    unsigned long v;
    __asm__ volatile("mrs %0, fpcr" : "=r"(v));
    return (unsigned)v;
}

void mf_float_control_set(unsigned control)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((unsigned long)control));
}
#else
#define DENORMAL_OFF 0u
#define ROUNDING     ~0u

unsigned mf_float_control(void)
{
    return (unsigned)fegetround();
}

void mf_float_control_set(unsigned control)
{
    fesetround((int)control);
}
#endif

const char *mf_float_control_text(unsigned before, unsigned now)
{
    const unsigned changed = before ^ now;
    return changed & DENORMAL_OFF ? "sets flush-to-zero"
           : changed & ROUNDING   ? "changes the rounding mode"
                                  : "changes floating-point control";
}
