/* init changes the working directory of the program. */
int chdir(const char *);
#define BEFORE                                                                                 \
    if (chdir("/") != 0) return MF_EIO;
#include "../bad.h"
