/* init closes all descriptors and never returns. So no report arrives, while its process
 * still runs. */
#include <unistd.h>
#define BEFORE                                                                                 \
    for (int fd = 0; fd < 1024; fd++)                                                          \
        close(fd);                                                                             \
    for (;;)                                                                                   \
        pause();
#include "../bad.h"
