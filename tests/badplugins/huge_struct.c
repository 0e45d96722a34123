/* A size that no struct has. */
#define SIZE 0x7fffffff
#include "bad.h"
