/* The plugin's name contains characters other than [a-z0-9_]. */
#define NAME "Bad Name"
#include "../bad.h"
