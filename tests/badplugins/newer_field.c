/* From a newer moefw, and it needs what is new. */
#define NEWER 7
#include "newer_struct.c"
