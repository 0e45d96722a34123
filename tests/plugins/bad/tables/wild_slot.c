/* The host slot is in read-only memory. */
#include <moefw/moefw.h>
static const mf_host *const fixed = 0;
#define SLOT (const mf_host **)(uintptr_t)&fixed
#include "../bad.h"
