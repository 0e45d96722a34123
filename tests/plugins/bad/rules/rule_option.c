/* init crashes with one of the values that the option's own bounds allow. */
#define BEFORE                                                                                 \
    if (((const conf *)c)->scale == 10) *(volatile int *)8 = 1;
#include "../bad.h"
