/* The same in init. */
#include <unistd.h>
#define BEFORE                                                                                 \
    for (int fd = 0; fd < 1024; fd++)                                                          \
        close(fd);                                                                             \
    for (;;)                                                                                   \
        pause();
#include "../bad.h"
