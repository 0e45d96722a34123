/* amx_emulated.h: bf16 gemms, also for stored weights, and attention with an emulation
 * of AMX. */
#ifndef MF_AMX_EMULATED_H
#define MF_AMX_EMULATED_H

#include <stdbool.h>

/* Switches the emulation in the avx512 set on or off. Returns false, and does nothing, if the
 * build or this processor has no instructions for bf16 in AVX-512. */
bool mf_amx_emulate(bool yes);
/* Runs the self-test that the program runs before it uses real AMX, but with the emulation.
 * Call it only if mf_amx_emulate returns true. */
bool mf_amx_emulated_works(void);

#endif
