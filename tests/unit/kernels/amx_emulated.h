/* amx_emulated.h: bf16 gemms by emulated AMX. */
#ifndef MF_AMX_EMULATED_H
#define MF_AMX_EMULATED_H

#include <stdbool.h>

/* Switches the emulation in the avx512 set on or off. Returns false if this processor cannot
 * run that set's bf16 kernels. */
bool mf_amx_emulate(bool yes);
/* The self-test that the program runs before it uses real AMX. */
bool mf_amx_emulated_works(void);

#endif
