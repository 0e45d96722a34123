/* A name that an INI file cannot contain. */
#define NAME "Bad Name"
#include "../bad.h"
