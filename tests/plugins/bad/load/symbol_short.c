/* The name of the descriptor is the name of a number here. */
#include <moefw/types.h>

extern __attribute__((visibility("default"))) const uint32_t moefw_plugin;
const uint32_t moefw_plugin = 0x6d6f6566u;
