/* A number has the descriptor's name. */
#include <moefw/types.h>

extern __attribute__((visibility("default"))) const uint32_t moefw_plugin;
const uint32_t moefw_plugin = 0x6d6f6566u;
