/* The options are shorter than in any version. */
#define OPTION_SIZE 16
#include "../bad.h"
