/* Built for an ABI after this one. */
#define ABI 2
#include "bad.h"
