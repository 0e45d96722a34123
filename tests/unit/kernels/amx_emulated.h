/* amx_emulated.h: gemms of bf16 by emulated AMX. */
#ifndef MF_AMX_EMULATED_H
#define MF_AMX_EMULATED_H

#include <stdbool.h>

/* From now on in the avx512 set, or no more; false where that set's bf16 does not run here. */
bool mf_amx_emulate(bool yes);
/* What the program asks of real tiles before it uses them. */
bool mf_amx_emulated_works(void);

#endif
