/* The plugin's kind does not exist. */
#define KIND 9
#include "../bad.h"
