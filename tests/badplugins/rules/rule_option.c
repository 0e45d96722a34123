/* Crashes with one of the values that its own table allows. */
#define BEFORE                                                                                 \
    if (((const conf *)c)->scale == 10) *(volatile int *)8 = 1;
#include "../bad.h"
