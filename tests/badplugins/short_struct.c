/* A descriptor that says it is shorter than any was. */
#define SIZE 40
#include "bad.h"
