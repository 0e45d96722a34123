/* amx.h: Intel AMX. Its instructions fault unless the system has permitted them to
 * this process. */
#ifndef MF_CPU_AMX_H
#define MF_CPU_AMX_H

#include <stdbool.h>

/* Asks the system for permission. Returns whether AMX is available; if so, every thread may use
 * it from now on. */
bool mf_amx_permitted(void);

#endif
