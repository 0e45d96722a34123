/* The plugin was built for a later ABI. */
#define ABI 2
#include "../bad.h"
