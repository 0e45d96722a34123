/* tiles_emulated.h: products of bf16 by emulated tiles. */
#ifndef MF_TILES_EMULATED_H
#define MF_TILES_EMULATED_H

#include <stdbool.h>

/* From now on in the avx512 set, or no more; false where that set's bf16 does not run here. */
bool mf_tiles_emulate(bool yes);
/* What the program asks of real tiles before it uses them. */
bool mf_tiles_emulated_work(void);

#endif
