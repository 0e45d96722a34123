/* The file is built with -Ofast, so its start-up code changes the arithmetic of the
 * whole process. */
#include "../bad.h"
