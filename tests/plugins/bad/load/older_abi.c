/* The plugin was built for an earlier ABI. */
#define ABI 0
#include "../bad.h"
