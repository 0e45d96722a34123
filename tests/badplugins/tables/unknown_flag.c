/* A flag of the function table that no moefw knows. */
#define FLAGS 0x40
#include "../bad.h"
