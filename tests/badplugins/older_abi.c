/* Built for an ABI before this one. */
#define ABI 0
#include "bad.h"
