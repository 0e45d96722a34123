/* amx.h: Intel AMX. Its instructions fault unless the system has permitted them to
 * this process. */
#ifndef MF_CPU_AMX_H
#define MF_CPU_AMX_H

#include <stdbool.h>

/* Requests permission from the system. Returns whether AMX is available; if so, every thread
 * may use AMX after this call. */
bool mf_amx_permitted(void);

#endif
