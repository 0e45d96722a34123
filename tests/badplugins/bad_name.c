/* A name that no INI could say. */
#define NAME "Bad Name"
#include "bad.h"
