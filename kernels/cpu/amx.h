/* amx.h: Intel's tiles, whose instructions fault unless the system was asked. */
#ifndef MF_CPU_AMX_H
#define MF_CPU_AMX_H

#include <stdbool.h>

/* They are there, and every thread may use them from now on. */
bool mf_amx_permitted(void);

#endif
