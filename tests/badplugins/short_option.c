/* Options that are shorter than any were. */
#define OPTION_SIZE 16
#include "bad.h"
