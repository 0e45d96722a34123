/* The function route is missing. */
#define ROUTE NULL
#include "../bad.h"
