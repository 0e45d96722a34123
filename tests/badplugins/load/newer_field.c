/* From a newer moefw, and it uses a new field. */
#define NEWER 7
#include "newer_struct.c"
