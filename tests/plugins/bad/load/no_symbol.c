/* The file is a shared object, but no plugin: it exports no descriptor. */
#define NO_DESCRIPTOR
#include "../bad.h"
