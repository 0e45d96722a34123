/* The function table has a flag that no moefw knows. */
#define FLAGS 0x40
#include "../bad.h"
