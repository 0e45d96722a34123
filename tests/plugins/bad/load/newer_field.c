/* The plugin was built for a newer moefw, and its descriptor uses a new field. */
#define NEWER 7
#include "newer_struct.c"
