/* init closes all descriptors and never returns: no report comes, and its process goes on. */
#include <unistd.h>
#define BEFORE                                                                                 \
    for (int fd = 0; fd < 1024; fd++)                                                          \
        close(fd);                                                                             \
    for (;;)                                                                                   \
        pause();
#include "../bad.h"
