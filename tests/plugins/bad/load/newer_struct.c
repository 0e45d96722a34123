/* The plugin was built for a newer moefw. Its descriptor is longer, but the new fields
 * are 0. */
#define NO_DESCRIPTOR
#include "../bad.h"

#ifndef NEWER
#define NEWER 0
#endif

typedef struct {
    mf_plugin known;
    uint64_t newer[4];
} longer;

extern MF_VISIBLE const longer moefw_plugin;
const longer moefw_plugin = {.known = {.magic = MAGIC,
                                       .abi = ABI,
                                       .size = sizeof(longer),
                                       .host_size = HOST_SIZE + 64,
                                       .option_size = OPTION_SIZE,
                                       .vtable_size = VTABLE_SIZE,
                                       .kind = KIND,
                                       .name = NAME,
                                       .version = "1",
                                       .license = "MIT",
                                       .brief = BRIEF,
                                       .options = options,
                                       .conf_size = sizeof(conf),
                                       .self_size = 8,
                                       .vtable = VTABLE,
                                       .host = SLOT},
                             .newer = {0, NEWER, 0, 0}};
