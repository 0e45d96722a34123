/* The host slot is in memory that cannot be written. */
#include <moefw/moefw.h>
static const mf_host *const fixed = 0;
#define SLOT (const mf_host **)(uintptr_t)&fixed
#include "../bad.h"
