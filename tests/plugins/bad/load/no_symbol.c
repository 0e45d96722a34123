/* The file is a shared object but not a plugin: it exports no descriptor. */
#define NO_DESCRIPTOR
#include "../bad.h"
