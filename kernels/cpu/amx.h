/* amx.h: Intel AMX, whose instructions fault unless the system was asked for permission. */
#ifndef MF_CPU_AMX_H
#define MF_CPU_AMX_H

#include <stdbool.h>

/* Whether it is there; every thread may use it from now on. */
bool mf_amx_permitted(void);

#endif
