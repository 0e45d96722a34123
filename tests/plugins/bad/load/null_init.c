/* The function init is missing. */
#define INIT NULL
#include "../bad.h"
