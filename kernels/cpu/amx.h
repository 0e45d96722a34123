/* amx.h: Intel AMX. Its instructions fault unless the process has asked the system
 * for permission. */
#ifndef MF_CPU_AMX_H
#define MF_CPU_AMX_H

#include <stdbool.h>

/* Whether AMX is available; if so, every thread may use it from now on. */
bool mf_amx_permitted(void);

#endif
